package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast/holdfast/internal/model/state"
)

// next returns the hosts of a pool that get its configuration now, and for what
// the others wait.
func (t turn) next(earlier, later []turn) (set []Assignment, wait string) {
	candidates := t.candidates()
	if back := t.takenBack(); len(back) > 0 {
		return t.give(back), ""
	}
	switch {
	case t.pool.Target == "":
		return nil, t.pool.Problem
	case len(candidates) == 0:
		return nil, t.remaining()
	case t.site.Upgrade != "":
		return nil, t.site.Upgrade
	case t.plan() != "" && !candidates[0].failing(): // one that failed may be what the plan waits for
		return nil, t.plan()
	case t.pool.Paused:
		return nil, "the pool is paused"
	case t.pool.Closed != "":
		return nil, t.pool.Closed
	case t.pool.Settling:
		return nil, "its MachineConfigs have just changed"
	}
	if wait := cmp.Or(others(earlier, later), t.waitsOutside()); wait != "" {
		return nil, wait
	}
	limit, err := t.limit()
	if err != nil {
		return nil, err.Error()
	}
	t, candidates = t.relieved(candidates)
	free := max(limit-len(t.unavailable()), 0)
	if candidates[0].failing() && len(t.rejected()) == 0 {
		return t.again(candidates, free)
	}
	if failed := t.failed(); len(failed) > 0 {
		return nil, "it failed on " + strings.Join(failed, ", ") + ", and no other host is given it"
	}
	if wait := t.gate(); wait != "" {
		return nil, wait
	}
	if free == 0 {
		return nil, tooMany(limit, t.unavailable())
	}
	return t.give(candidates[:min(free, len(candidates))]), ""
}

// plan says which plan keeps the control planes there; empty if none does. A host that the plan does not
// expect to be away would stop it, or the writes of the site.
func (t turn) plan() string {
	if !t.controlPlanes() || t.site.Plan == "" {
		return ""
	}
	return "the control planes are changed: " + t.site.Plan
}

func tooMany(limit int, away []string) string {
	return fmt.Sprintf("%d of its hosts may be away, and away are: %s", limit, strings.Join(away, ", "))
}

func (t turn) give(hosts []Host) []Assignment {
	var out []Assignment
	for _, h := range hosts {
		out = append(out, Assignment{Host: h.Name, Config: t.pool.Target})
	}
	return out
}

// zone is the label by which hosts are taken one zone after the other.
const zone = corev1.LabelTopologyZone

// candidates returns the hosts that do not have the target yet and can be given
// it, in their order. Those that failed on another one need it most, and then those
// that are under pressure, of which another one may be the end; all others
// follow by zone and age. The operator's own host is the last control plane,
// because its drain moves the operator. Hosts that have never answered follow all
// others, because nobody knows whether their agents do.
func (t turn) candidates() []Host {
	var out []Host
	for _, h := range t.hosts {
		if h.Desired != t.pool.Target && !h.rebooting() && (h.failing() || h.pressed() || !h.unavailable()) {
			out = append(out, h)
		}
	}
	last := func(h Host) int {
		switch {
		case h.failing():
			return 0
		case h.pressed():
			return 1
		case h.Current == "":
			return 4
		case t.controlPlanes() && h.Name == t.site.Operator:
			return 3
		default:
			return 2
		}
	}
	slices.SortStableFunc(out, func(a, b Host) int {
		return cmp.Or(cmp.Compare(last(a), last(b)), cmp.Compare(a.Labels[zone], b.Labels[zone]), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// relieved returns the turn without the pressures that do not count, and the candidates that have their turn.
// Where some of them failed or are under pressure it is theirs, and no pressure counts: where a configuration has
// kubelet end all pods on several hosts, none of them would ever be given another one. They run pods, so no more
// of them are taken at once than of well ones.
func (t turn) relieved(candidates []Host) (turn, []Host) {
	var first []Host
	for _, h := range candidates {
		if h.failing() || h.pressed() {
			first = append(first, h.relieved())
		}
	}
	if len(first) > 0 {
		return t.without(func(Host) bool { return true }), first
	}
	return t.without(func(h Host) bool { return !t.suspect(h, candidates) }), candidates
}

// without returns the turn without the pressures of some hosts.
func (t turn) without(pressures func(Host) bool) turn {
	t.hosts = slices.Clone(t.hosts)
	for i, h := range t.hosts {
		if pressures(h) {
			t.hosts[i] = h.relieved()
		}
	}
	return t
}

// suspect reports whether the target may be why a host is under pressure: the host was given it, and it changes such
// settings of kubelet, as a candidate shows. A host may be short of memory for years, and no other configuration
// waits for it.
func (t turn) suspect(h Host, candidates []Host) bool {
	return h.Desired == t.pool.Target && slices.ContainsFunc(candidates, func(c Host) bool { return !t.sameKubelet(c) })
}

// sameKubelet reports whether the target is known to leave those settings of a host as they are.
func (t turn) sameKubelet(h Host) bool {
	is, known := t.site.Kubelet[t.pool.Target]
	was, knew := t.site.Kubelet[h.Current]
	return known && is == was && (knew || h.Current == "")
}

// takenBack returns the hosts at work on a configuration that is no longer wanted,
// and that have the wanted one. They take no other host with them, and one that
// waits for a person to boot it goes back without that.
func (t turn) takenBack() []Host {
	var out []Host
	for _, h := range t.hosts {
		if h.working() && h.Desired != t.pool.Target && h.Current == t.pool.Target && t.pool.Target != "" && !t.pool.Paused && !t.pool.Settling {
			out = append(out, h)
		}
	}
	return out
}

// others returns why a pool waits for other pools: only the hosts of one pool
// are at work, and what fails on a worker does not reach a control plane.
func others(earlier, later []turn) string {
	for _, o := range slices.Concat(earlier, later) {
		for _, h := range o.hosts {
			if h.working() {
				return fmt.Sprintf("%s of the pool %s is at work", h.atWork(), o.pool.Name)
			}
		}
	}
	for _, o := range earlier {
		if failed := o.failed(); len(failed) > 0 {
			return fmt.Sprintf("the configuration of the pool %s failed on %s", o.pool.Name, strings.Join(failed, ", "))
		}
		if o.pool.Settling && !o.pool.Paused && len(o.candidates()) > 0 {
			return fmt.Sprintf("the MachineConfigs of the pool %s have just changed", o.pool.Name)
		}
	}
	return ""
}

// atWork names a host at work, and says what keeps it from going on.
func (h Host) atWork() string {
	if why := h.held(); why != "" {
		return h.Name + " (" + why + ")"
	}
	return h.Name
}

// held returns what a host at work does or waits for; empty if nothing is known.
// Its work cordons it, so a cordon is not a reason.
func (h Host) held() string {
	h.Unschedulable = false
	if h.State == Working {
		h = h.relieved() // its own reason says more
	}
	switch why := h.away(); {
	case why != "":
		return why
	case h.State == Working && h.InTheWay != "":
		return h.Reason + ". In the way: " + h.InTheWay
	case h.State == Working:
		return h.Reason
	default:
		return "its agent has not answered yet"
	}
}

// failed lists the hosts on which the target of the pool failed.
func (t turn) failed() []string {
	var out []string
	for _, h := range t.hosts {
		if h.failing() && h.Desired == t.pool.Target {
			out = append(out, h.Name)
		}
	}
	return out
}

// rejected lists those of them that went back from it. Of the others some had it, and somebody
// changed them since, which says nothing of the configuration; some refused it, which touched nothing.
func (t turn) rejected() []string {
	var out []string
	for _, h := range t.hosts {
		if h.State == Degraded && h.Desired == t.pool.Target && h.Current != t.pool.Target {
			out = append(out, h.Name)
		}
	}
	return out
}

// unavailable lists the hosts that count against maxUnavailable.
func (t turn) unavailable() []string {
	var out []string
	for _, h := range t.hosts {
		switch {
		case h.working() && h.held() != "":
			out = append(out, h.Name+" (at work; "+h.held()+")")
		case h.working():
			out = append(out, h.Name+" (at work)")
		case h.away() != "":
			out = append(out, h.Name+" ("+h.away()+")")
		}
	}
	return out
}

// again gives hosts that failed another configuration. Those that are away
// anyway take nothing with them; of the others as many as may be away.
func (t turn) again(candidates []Host, free int) ([]Assignment, string) {
	if t.controlPlanes() {
		return t.againControlPlane(candidates[0])
	}
	var now []Host
	for _, h := range candidates {
		switch {
		case !h.failing():
		case h.away() != "":
			now = append(now, h)
		case free > 0:
			now, free = append(now, h), free-1
		}
	}
	if len(now) == 0 {
		return nil, "hosts that failed wait for those that are away: " + strings.Join(t.unavailable(), ", ")
	}
	return t.give(now), ""
}

// againControlPlane gives a control plane that failed another configuration, as
// long as the cluster carries on without it. Redundancy may be missing because it
// failed.
func (t turn) againControlPlane(failed Host) ([]Assignment, string) {
	for _, h := range t.hosts {
		if h.working() {
			return nil, h.atWork() + " is at work"
		}
	}
	if wait := t.needed(failed); wait != "" {
		return nil, wait
	}
	return t.give([]Host{failed}), ""
}

// needed returns why the cluster may not carry on without a control plane; empty if
// it does.
func (t turn) needed(h Host) string {
	s := t.site.Spares[h.Name]
	if t.single() || state.Is(s.Carries, true) {
		return ""
	}
	name := h.Name
	if h.failing() {
		name += ", which failed"
	}
	return fmt.Sprintf("the cluster may not carry on without %s: %s", name, cmp.Or(s.Why, unknown))
}

const unknown = "nobody knows it"

// single reports whether the site has one control plane. Nobody carries on
// without it, so there is nothing to wait for.
func (t turn) single() bool { return t.site.ControlPlanes == 1 && len(t.hosts) == 1 }

// gate returns why no control plane may be taken away now; empty if one may. Each
// must be one that the others can do without: where only one of two could be
// lost, the other is not whole yet.
func (t turn) gate() string {
	if !t.controlPlanes() || t.single() {
		return ""
	}
	if t.site.ControlPlanes == 0 {
		return "nobody knows how many control planes the site has"
	}
	if len(t.hosts) < t.site.ControlPlanes {
		return fmt.Sprintf("of %d control planes %d have a node in the pool", t.site.ControlPlanes, len(t.hosts))
	}
	for _, h := range t.hosts {
		if why := h.away(); why != "" {
			return h.Name + " is away: " + why
		}
	}
	for _, h := range t.hosts {
		if why := t.needed(h); why != "" {
			return why
		}
	}
	return ""
}

// limit returns how many hosts of a pool may be away: maxUnavailable, rounded
// down, and at least one as upstream has it. Of control planes it is one
// (docs/facts/machine-config.md#order, O1).
func (t turn) limit() (int, error) {
	if t.controlPlanes() || t.pool.MaxUnavailable == nil {
		return 1, nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(t.pool.MaxUnavailable, len(t.hosts), false)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("spec.maxUnavailable: %q is not a number of hosts or a percentage", t.pool.MaxUnavailable.String())
	}
	return max(n, 1), nil
}

// remaining returns for what a pool waits if no host can be given the target.
func (t turn) remaining() string {
	var out []string
	for _, h := range t.hosts {
		switch {
		case h.done(t.pool.Target):
		case h.failing():
			out = append(out, h.Name+" failed: "+cmp.Or(h.Reason, "it gave no reason"))
		case h.working():
			out = append(out, h.atWork()+" is at work")
		default:
			out = append(out, h.Name+" is away: "+h.away())
		}
	}
	return strings.Join(out, "; ")
}
