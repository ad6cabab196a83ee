package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/install/grow"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// fewer reports whether a file asks for one control plane.
func fewer(file *config.InstallConfig) bool { return file.ControlPlaneReplicas() == 1 }

// narrowing is what a file makes of a site of two control planes.
type narrowing struct {
	want    *site.Site
	changes []manifests.Change
	// stays and goes are the names of the hosts.
	stays, goes string
}

func (g *growth) narrowing(file *config.InstallConfig) (narrowing, error) {
	var w narrowing
	have, err := g.effects.here()
	if err != nil {
		return w, err
	}
	if w.want, err = decide.Lone(have, file); err != nil {
		return w, &UsageError{Err: fmt.Errorf("%s: %w", g.file, err)}
	}
	if w.changes, err = grow.Fewer(have, w.want); err != nil {
		return w, err
	}
	if w.stays, err = g.effects.name(); err != nil {
		return w, err
	}
	w.goes, err = g.effects.peer()
	return w, err
}

// shrink shows what will be done, asks, writes the order and follows it. The plan is the last one,
// nil for none.
func (g *growth) shrink(ctx context.Context, plan *replace.Plan, file *config.InstallConfig) error {
	w, err := g.narrowing(file)
	if err != nil {
		return err
	}
	g.name = w.goes
	if err := g.showNarrowing(w); err != nil {
		return err
	}
	if err := g.agreed(ctx, "leaving"); err != nil {
		return err
	}
	order := replacement.Order{Wish: replace.Wish{
		ID: planOf(plan), Shrinks: true, Old: w.goes, By: g.by, Why: g.reason, At: g.now().UTC(), Accepts: g.accepts(),
	}}
	if order.Own, err = g.own(); err != nil {
		return err
	}
	if err := errors.Join(g.effects.keep(w.want), g.store.PutOrder(order)); err != nil {
		return err
	}
	return g.follow(ctx, order.Wish.ID)
}

// showNarrowing prints what will be done.
func (g *growth) showNarrowing(w narrowing) error {
	var out strings.Builder
	line := func(format string, a ...any) { _, _ = fmt.Fprintf(&out, format+"\n", a...) }
	line("%s goes for good, and %s is the only control plane of this site.", w.goes, w.stays)
	line("  by the agent of this host:")
	line("    %s must be off, and stays off. Its Node, its pods, its place in Corosync and Pacemaker are taken away", w.goes)
	line("    it stays inert if it wakes up: Corosync's key and the key of join secrets are replaced")
	line("    etcd goes from Pacemaker to kubelet: the API is away for some seconds")
	line("    Corosync, Pacemaker and the etcd keeper of this host end; their packages stay")
	line("  the cluster:")
	showUndressing(line, w.changes)
	line("  afterwards nothing takes over for %s, and its disk holds everything: see that backups go to another machine", w.stays)
	_, err := fmt.Fprint(g.streams.Out, out.String())
	return err
}

// showUndressing prints what a cluster loses and changes that has no longer two control planes. The
// guards are many, so it counts them.
func showUndressing(line func(format string, a ...any), changes []manifests.Change) {
	guards := 0
	for _, c := range changes {
		if c.Way == manifests.Remove && strings.HasPrefix(c.Kind, "ValidatingAdmissionPolicy") {
			guards++
			continue
		}
		line("    %s%s%s", c.ObjectRef, map[bool]string{true: ", its status"}[c.Status], map[bool]string{true: ": is deleted"}[c.Way == manifests.Remove])
	}
	line("    %d admission policies and their bindings, which guard two control planes: are deleted", guards)
}

// keepTarget writes down which site this host becomes.
func keepTarget(want *site.Site) error {
	data, err := decide.Kept(want).Marshal()
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(replacement.TargetSitePath, data, state.SecretFileMode)
}

// peerOfThisHost returns the name of the other host in corosync.conf.
func peerOfThisHost() (string, error) {
	own, err := host.Name()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(corosync.Path)
	if err != nil {
		return "", err
	}
	conf, err := corosync.Parse(text)
	if err != nil {
		return "", err
	}
	return peerIn(conf, own)
}

func peerIn(conf corosync.Conf, own string) (string, error) {
	others := slices.DeleteFunc(slices.Clone(conf.Nodes), func(n corosync.Node) bool { return n.Name == own })
	if len(conf.Nodes) != 2 || len(others) != 1 {
		return "", coded(command.ExitRefused, "refused: %s does not list this host, %s, and one other: %s", corosync.Path, cmp.Or(own, "without a name"), "sudo holdfast explain etcd")
	}
	return others[0].Name, nil
}
