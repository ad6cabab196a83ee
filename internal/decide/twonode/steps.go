package twonode

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Command is one call of pcs.
type Command struct {
	// Args follow the program's name. They hold no secret.
	Args []string
	// Why is the reason, for people.
	Why string
}

// CorosyncSteps returns the commands that make this host's corosync.conf the
// wanted one. They contact no host: the caller gives them the file to work on
// (--corosync_conf). If the host is in another cluster, or in this one with
// other hosts, it returns an error.
func CorosyncSteps(have, want Corosync) ([]Command, error) {
	if have.Name == "" && len(have.Nodes) == 0 {
		return []Command{setup(want)}, nil
	}
	if err := have.check(want); err != nil {
		return nil, err
	}
	if differ := missing(have.Totem, want.Totem); len(differ) > 0 {
		return []Command{{
			Args: append([]string{"cluster", "config", "update", "totem"}, words(differ)...),
			Why:  reasons(differ),
		}}, nil
	}
	return nil, nil
}

// setup makes the file that puts a host into the cluster. Both hosts make the
// same file: nothing in it is random.
func setup(c Corosync) Command {
	args := []string{"cluster", "setup", c.Name}
	for _, n := range c.Nodes {
		args = append(args, n.Name, "addr="+n.Address)
	}
	args = append(append(args, "transport", "knet", "link"), words(c.Link)...)
	args = append(append(args, "crypto"), words(c.Crypto)...)
	args = append(append(args, "totem"), words(c.Totem)...)
	return Command{Args: append(args, "--no-cluster-uuid"), Why: "this host is not in a cluster yet: " + reasons(c.Totem)}
}

// ErrFinal marks an error that a retry cannot fix: the step waits until its input
// changes, or until an administrator has it run again.
var ErrFinal = errors.New("nothing was changed, and it is not tried again until the addresses change or the Job is deleted")

// check returns an error if the present cluster cannot become the wanted one
// without taking something away from somebody.
func (c Corosync) check(want Corosync) error {
	switch {
	case c.Name != want.Name:
		return fmt.Errorf("this host is in the Corosync cluster %q, not in %q: if that cluster is no longer needed, "+
			"run 'pcs cluster destroy' on the host; nothing was changed", c.Name, want.Name)
	case !sameNodes(c.Nodes, want.Nodes):
		return fmt.Errorf("the Corosync cluster %q consists of %s, not of %s: Corosync, etcd and its certificates depend on the names and addresses "+
			"with which two hosts were set up, and no command of this release changes them. Another machine takes the place of a lost host by `holdfast host replace NAME`; "+
			"a host that is there gets its old address back. Both hosts keep running as they were set up; %w",
			c.Name, listNodes(c.Nodes), listNodes(want.Nodes), ErrFinal)
	case !c.TwoNode || c.WaitsNot:
		return errors.New("corosync.conf lacks two_node: 1, or has wait_for_all: 0: a host that boots alone would start everything and fence its peer; " +
			"set both back on both hosts with the cluster stopped ('pcs cluster stop --force', /etc/corosync/corosync.conf, 'pcs cluster start'); nothing was changed")
	case c.Plain() != "":
		return fmt.Errorf("corosync.conf has no %s: anyone on the hosts' network can forge a membership and have a host fenced; "+
			"set crypto_cipher: aes256 and crypto_hash: sha256 in its section totem on both hosts with the cluster stopped "+
			"('pcs cluster stop --force', /etc/corosync/corosync.conf, 'pcs cluster start'); nothing was changed", c.Plain())
	default:
		return nil
	}
}

func sameNodes(a, b []Node) bool {
	sorted := func(nodes []Node) []Node { return Input{Nodes: nodes}.byName() }
	return slices.Equal(sorted(a), sorted(b))
}

func listNodes(nodes []Node) string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.Name+" ("+n.Address+")")
	}
	return strings.Join(out, " and ")
}

// Steps returns the commands that bring Pacemaker's configuration to the wanted
// one, none if it is so already. They add and change only what is Holdfast's,
// and neither change nor remove anything else. One error holds all problems of
// the present configuration.
func Steps(have, want Config) ([]Command, error) {
	var out []Command
	if differ := missing(have.Properties, want.Properties); len(differ) > 0 {
		out = append(out, Command{Args: append([]string{"property", "set"}, words(differ)...), Why: reasons(differ)})
	}
	var bad []error
	for _, r := range want.Resources {
		cmds, err := r.steps(have.Resources)
		out, bad = append(out, cmds...), append(bad, err)
	}
	for _, c := range want.Constraints {
		cmds, err := c.steps(have.Constraints)
		out, bad = append(out, cmds...), append(bad, err)
	}
	return out, errors.Join(bad...)
}

func (c Constraint) steps(have []Constraint) ([]Command, error) {
	i := slices.IndexFunc(have, func(h Constraint) bool { return h.ID == c.ID })
	if i < 0 {
		return []Command{c.create()}, nil
	}
	differ := missing(have[i].Settings, c.Settings)
	switch {
	case have[i].Kind != c.Kind:
		return nil, fmt.Errorf("constraint %s is a %s, not a %s: rename or remove it", c.ID, have[i].Kind, c.Kind)
	case len(differ) == 0 && !have[i].contradicts(c):
		return nil, nil
	}
	remove := Command{Args: []string{"constraint", "delete", c.ID}, Why: "Holdfast's own constraint differs"}
	return []Command{remove, c.create()}, nil
}

// contradicts reports whether a constraint has an additional setting that
// changes the meaning of the wanted one, for example symmetrical, or a rule's
// score.
func (c Constraint) contradicts(want Constraint) bool {
	return slices.ContainsFunc(c.Settings, func(s Setting) bool {
		_, wanted := value(want.Settings, s.Name)
		return !wanted
	})
}

func (c Constraint) create() Command {
	v := func(name string) string { s, _ := value(c.Settings, name); return s }
	var args []string
	switch c.Kind {
	case Order:
		args = []string{"constraint", "order", v("first-action"), v("first"), "then", v("then-action"), v("then"), "kind=" + v("kind"), "id=" + c.ID}
	case Colocation:
		args = []string{"constraint", "colocation", "add", v("rsc"), "with", v("with-rsc"), "score=" + v("score"), "id=" + c.ID}
	case Location:
		args = []string{"constraint", "location", "add", c.ID, v("rsc"), v("node"), v("score")}
	}
	// Without --force pcs refuses if a person has a constraint between the same
	// resources.
	return Command{Args: append(args, "--force"), Why: c.Why}
}

// words formats settings as arguments of pcs.
func words(settings []Setting) []string {
	var out []string
	for _, s := range settings {
		out = append(out, s.Name+"="+s.Value)
	}
	return out
}

func reasons(settings []Setting) string {
	var out []string
	for _, s := range settings {
		out = append(out, s.Name+": "+s.Why)
	}
	return strings.Join(out, "; ")
}
