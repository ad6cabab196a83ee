package twonode

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Difference is a deviation of the configuration from the wanted one.
type Difference struct {
	// Words describe the deviation and why it matters, for a person.
	Words string
	// Ours is true for an entry of our table of settings, which is set back. Other
	// deviations were made by a person and are only reported.
	Ours bool
	// Own is true for a setting in a file of this host alone. The host sets it back
	// itself, whichever host decides for Pacemaker.
	Own bool
}

// Drift compares a whole configuration with the wanted one. It ignores what a
// person does to work on the cluster (maintenance mode, standby, a resource that
// is disabled or not managed), because the table does not hold it. It tells of a
// fenced host that is to stay off, which the table has otherwise, as of a person's act.
func Drift(have, want Config) []Difference {
	var out []Difference
	if is, ok := have.hosts(); ok && want.Corosync.Name != "" {
		if should, _ := want.hosts(); is != should {
			out = append(out, Difference{Words: fmt.Sprintf("etcd: node_ip_map is %s, but the hosts are %s (to set it back: kubectl -n openshift-etcd delete job two-node-setup)", is, should)})
		}
	}
	want = want.Of(have)
	out = append(out, differing("", have.Properties, want.Properties, true)...)
	for _, r := range want.Resources {
		out = append(out, r.drift(have.Resources)...)
	}
	for _, c := range want.Constraints {
		out = append(out, c.drift(have.Constraints)...)
	}
	if have.Corosync.Name != "" {
		for _, d := range differing("corosync.conf: ", have.Corosync.Totem, want.Corosync.Totem, true) {
			d.Own = true
			out = append(out, d)
		}
		if plain := have.Corosync.Plain(); plain != "" {
			out = append(out, Difference{Words: "corosync.conf: " + plain + " is not set: anyone on the hosts' network can forge a membership (set it on both hosts with the cluster stopped)"})
		}
		out = append(out, differing("corosync.conf: knet_", have.Corosync.Link, want.Corosync.Link, false)...)
	}
	return append(out, strange(have, want)...)
}

// SetUp reports whether the set-up made this configuration: it has something of
// ours.
func (c Config) SetUp() bool {
	ours := []string{Kubelet, Etcd}
	return slices.ContainsFunc(c.Resources, func(r Resource) bool {
		return slices.Contains(ours, r.ID) || strings.HasSuffix(r.Agent, ":"+FenceAgent)
	})
}

// Of returns the wanted configuration with what is not to be set back: the names
// and addresses of the hosts that have already holds, and a stonith-action with
// which a person ended a loop of fences. Names and addresses are no setting but input
// of the set-up, and another value would restart etcd on both hosts at once.
func (c Config) Of(have Config) Config {
	c.Corosync.Name = have.Corosync.Name
	c.Properties = slices.Clone(c.Properties)
	for i, p := range c.Properties {
		if p.Name == stonithAction && have.leavesOff() {
			c.Properties[i].Value = leaveOff
		}
	}
	c.Resources = slices.Clone(c.Resources)
	for i, r := range c.Resources {
		if hosts, ok := have.hosts(); ok && r.ID == Etcd {
			c.Resources[i].Parameters = []Setting{{"node_ip_map", hosts, "the two hosts"}}
		}
	}
	return c
}

// The property, and its value, by which a fenced host stays off. Pacemaker has no other
// way to end a loop in which a host is fenced, comes back and is fenced again.
const (
	stonithAction = "stonith-action"
	leaveOff      = "off"
)

// leavesOff reports whether a fenced host stays off.
func (c Config) leavesOff() bool {
	v, _ := value(c.Properties, stonithAction)
	return v == leaveOff
}

// hosts returns the names and addresses of the two hosts in etcd's parameters.
func (c Config) hosts() (string, bool) {
	for _, r := range c.Resources {
		if r.ID == Etcd {
			return value(r.Parameters, "node_ip_map")
		}
	}
	return "", false
}

// differing lists the settings that are not as wanted.
func differing(of string, have, want []Setting, ours bool) []Difference {
	var out []Difference
	for _, w := range missing(have, want) {
		is, ok := value(have, w.Name)
		if !ok {
			is = "not set"
		}
		out = append(out, Difference{Words: fmt.Sprintf("%s%s is %s, not %s (%s)", of, w.Name, cmp.Or(is, "empty"), w.Value, w.Why), Ours: ours})
	}
	return out
}

func (r Resource) drift(have []Resource) []Difference {
	if _, err := r.steps(have); err != nil {
		return []Difference{{Words: err.Error()}}
	}
	i := slices.IndexFunc(have, func(h Resource) bool { return h.ID == r.ID })
	if i < 0 {
		return []Difference{{Words: "there is no resource " + r.ID, Ours: true}}
	}
	h := have[i]
	out := differing(r.ID+": ", h.Parameters, r.Parameters, true)
	out = append(out, differing(r.ID+": ", h.Meta, r.Meta, true)...)
	for _, op := range r.Operations {
		of := r.ID + ": " + op.Name + " "
		out = append(out, differing(of, h.operation(op.Name), op.Settings, true)...)
		if v, _ := value(h.operation(op.Name), "enabled"); v == "false" {
			out = append(out, Difference{Words: of + "is not enabled: a failure goes unnoticed"})
		}
	}
	switch {
	case r.Clone == nil:
	case h.Clone == nil:
		out = append(out, Difference{Words: r.ID + " is not cloned: it runs on only one host", Ours: true})
	default:
		out = append(out, differing(r.Clone.ID+": ", h.Clone.Meta, r.Clone.Meta, true)...)
	}
	return out
}

func (c Constraint) drift(have []Constraint) []Difference {
	cmds, err := c.steps(have)
	switch {
	case err != nil:
		return []Difference{{Words: err.Error()}}
	case len(cmds) > 0:
		return []Difference{{Words: "constraint " + c.ID + " is missing or differs (" + c.Why + ")", Ours: true}}
	}
	return nil
}

// endangers lists properties outside of the table, with their harmless values
// and the effect of any other.
var endangers = []struct{ name, harmless, why string }{
	{"symmetric-cluster", "true", "nothing runs on a host unless a constraint allows it"},
	{"enable-startup-probes", "true", "resources that already run on a booted host are not detected"},
	{"fence-reaction", "stop", "a host that is notified of its own fence panics"},
	{"priority-fencing-delay", "0 0s", "a fence is delayed in addition to the fence agent's own delay"},
	{"stonith-watchdog-timeout", "0 0s", "a host counts as off although nothing has read its power as off"},
	{"shutdown-lock", "false", "the resources of a host that shuts down do not run elsewhere"},
	{"node-health-strategy", "none", "a host's health attributes move kubelet and etcd away"},
}

// strange lists a person's additions that change the effect of our settings.
func strange(have, want Config) []Difference {
	var out []Difference
	tell := func(format string, args ...any) {
		out = append(out, Difference{Words: fmt.Sprintf(format, args...)})
	}
	for _, e := range endangers {
		if v, ok := value(have.Properties, e.name); ok && !slices.Contains(strings.Fields(e.harmless), v) {
			tell("%s is %s: %s", e.name, v, e.why)
		}
	}
	if have.leavesOff() {
		tell("stonith-action is off: a fenced host stays off until somebody switches it on (when its cause is mended: pcs property set stonith-action=reboot)")
	}
	for _, r := range have.Resources {
		for _, name := range []string{"pcmk_delay_base", "pcmk_delay_max"} {
			if v, ok := value(r.Parameters, name); ok && want.has(r.ID) && strings.Trim(v, "0sm") != "" {
				tell("%s: %s is %s: a fence is delayed in addition to the fence agent's own delay", r.ID, name, v)
			}
		}
	}
	for _, c := range have.Constraints {
		if words := c.binds(want); words != "" {
			tell("constraint %s is not Holdfast's and %s (pcs constraint delete %s)", c.ID, words, c.ID)
		}
	}
	for _, s := range slices.Concat(have.ResourceDefaults, have.OperationDefaults) {
		if slices.Contains([]string{"is-managed", "target-role", "maintenance", "on-fail", "enabled", "allow-unhealthy-nodes"}, s.Name) {
			tell("the default %s=%s also applies to kubelet, etcd and the fence devices", s.Name, s.Value)
		}
	}
	return out
}

// has reports whether a resource or a clone is ours.
func (c Config) has(id string) bool {
	return slices.ContainsFunc(c.Resources, func(r Resource) bool { return r.ID == id || r.Clone != nil && r.Clone.ID == id })
}

// binds describes what a constraint that is not ours does to a resource of ours,
// empty if it does no harm.
func (c Constraint) binds(want Config) string {
	v := func(name string) string { s, _ := value(c.Settings, name); return s }
	if slices.ContainsFunc(want.Constraints, func(w Constraint) bool { return w.ID == c.ID }) {
		return ""
	}
	score := v("score")
	switch {
	case c.Kind == Location && want.has(v("rsc")) && (score == "" || score[0] == '-'):
		return "keeps " + v("rsc") + " from " + cmp.Or(v("node"), "some node")
	case c.Kind == Order && want.has(v("then")) && v("kind") != "Optional":
		return "stops " + v("then") + " when " + v("first") + " stops"
	case c.Kind == Colocation && want.has(v("rsc")) && strings.HasSuffix(score, "INFINITY"):
		return "stops " + v("rsc") + " unless " + v("with-rsc") + " runs as the constraint demands"
	}
	return ""
}
