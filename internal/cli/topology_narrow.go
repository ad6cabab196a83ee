package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	decide "github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/install/grow"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// These are the parts of `holdfast topology` by which three control planes become two (docs/adr/0102).
// The agents of both hosts that stay carry the plan out.

// planeFacts is what the cluster knows of one control plane.
type planeFacts struct {
	Name, Address, UID string
	Machine            state.Machine
	Member             state.MemberID
	Created            time.Time // its Node
}

// pairOfThree is what a file makes of a site of three control planes.
type pairOfThree struct {
	want    *site.Site
	changes []manifests.Change
	devices []state.FencingDevice
	// here carries the plan, peer stays beside it, old goes.
	here, peer, old planeFacts
}

// two reports whether a file makes a site of three one of two.
func (g *growth) two(file *config.InstallConfig) (bool, error) {
	have, err := g.effects.here()
	return err == nil && have.Topology().ControlPlanes == 3 && file.ControlPlaneReplicas() == 2, err
}

// pair compares the file with this site and its hosts. The file names the two that stay, by their BMCs.
func (g *growth) pair(ctx context.Context, file *config.InstallConfig) (pairOfThree, error) {
	var w pairOfThree
	have, err := g.effects.here()
	if err != nil {
		return w, err
	}
	name, err := g.effects.name()
	if err != nil {
		return w, err
	}
	all, err := g.effects.planes(ctx)
	if err != nil {
		return w, err
	}
	if err := w.place(name, all, file); err != nil {
		return w, err
	}
	if w.want, err = decide.Narrowed(have, file, [2]string{w.here.Name, w.peer.Name}); err != nil {
		return w, &UsageError{Err: fmt.Errorf("%s: %w", g.file, err)}
	}
	if w.changes, err = grow.Objects(have, w.want); err != nil {
		return w, err
	}
	for _, c := range w.want.Config.ControlPlane.Fencing.Credentials {
		dev := deviceOf(c)
		of := w.here
		if c.HostName == w.peer.Name {
			of = w.peer
		}
		dev.UUID, dev.Serial, dev.Delay = of.Machine.UUID, of.Machine.Serial, fencing.DelayOf(c.HostName, []string{w.here.Name, w.peer.Name})
		w.devices = append(w.devices, dev)
	}
	return w, nil
}

// place finds out who stays and who goes.
func (w *pairOfThree) place(here string, all []planeFacts, file *config.InstallConfig) error {
	if len(all) != 3 {
		return coded(command.ExitRefused, "refused: the cluster has %d control planes with a Node and a member of etcd, and three are needed: holdfast status", len(all))
	}
	var stay []string
	if f := file.ControlPlane.Fencing; f != nil {
		for _, c := range f.Credentials {
			stay = append(stay, c.HostName)
		}
	}
	var gone []planeFacts
	for _, p := range all {
		switch {
		case p.Name == here:
			w.here = p
		case slices.Contains(stay, p.Name):
			w.peer = p
		default:
			gone = append(gone, p)
		}
	}
	if !slices.Contains(stay, here) || len(gone) != 1 || w.here.Name == "" {
		return &UsageError{Err: fmt.Errorf("controlPlane.fencing.credentials: name the BMCs of the two control planes that stay, this host, %s, among them (the file names %s): the third one goes. "+
			"If this host is to go, type the command on another one", here, strings.Join(stay, " and "))}
	}
	w.old = gone[0]
	return nil
}

// planes reads the control planes of this site from the API and from etcd of this host.
func planes(ctx context.Context) ([]planeFacts, error) {
	c, err := kube.Open(state.AdminKubeconfig)
	if err != nil {
		return nil, err
	}
	own, err := etcd.Open(etcd.Config{})
	if err != nil {
		return nil, err
	}
	status, err := own.Status(ctx)
	if err := errors.Join(err, own.Close()); err != nil {
		return nil, fmt.Errorf("ask etcd of this host for its members: %w", err)
	}
	var out []planeFacts
	for _, m := range status.Members {
		if m.Learner || m.Name == "" {
			continue
		}
		n, err := c.Node(ctx, m.Name)
		if err != nil {
			return nil, err
		}
		if n == nil {
			continue
		}
		p := planeFacts{Name: m.Name, Member: m.ID, UID: string(n.UID), Created: n.CreationTimestamp.Time}
		p.Machine, _ = state.ParseMachine(n.Annotations[state.AnnotationMachine])
		if is := kube.NodeOf(n); len(is.Addresses) > 0 {
			p.Address = is.Addresses[0].String()
		}
		out = append(out, p)
	}
	return out, nil
}

// tryBoth tests from here that each BMC is part of the machine that it is meant for.
func (g *growth) tryBoth(ctx context.Context, w *pairOfThree) error {
	var bad []error
	for i := range w.devices {
		dev, err := g.sight(ctx, w.devices[i])
		if err != nil {
			bad = append(bad, fmt.Errorf("BMC of %s: %w", dev.Target, err))
			continue
		}
		w.devices[i] = dev
		r := g.effects.test(ctx, dev)
		if r.Err() != nil || r.Identity != fence.IdentityMatches && r.Identity != fence.IdentityNamed {
			bad = append(bad, fmt.Errorf("BMC of %s at %s is not known to be part of its machine: %s", dev.Target, dev.Address, strings.Join(r.Problems, "; ")))
		}
	}
	if len(bad) > 0 {
		return coded(command.ExitRefused, "refused, nothing was changed:\n%w", errors.Join(bad...))
	}
	return nil
}

// beginTwo shows what will be done, asks, writes target and wish, and follows the plan.
func (g *growth) beginTwo(ctx context.Context, file *config.InstallConfig) error {
	w, err := g.pair(ctx, file)
	if err != nil {
		return err
	}
	g.name = w.old.Name
	if err := g.tryBoth(ctx, &w); err != nil {
		return err
	}
	if err := g.showTwo(w); err != nil {
		return err
	}
	if err := g.agreed(ctx, "leaving"); err != nil {
		return err
	}
	wish, err := g.putTwo(w, false)
	if err != nil {
		return err
	}
	return g.followTwo(ctx, wish)
}

// putTwo writes the target, and then the wish, whose ID it returns.
func (g *growth) putTwo(w pairOfThree, dry bool) (string, error) {
	wish := narrow.Wish{
		ID: newPlanID(), Old: replace.Old{Name: w.old.Name, Address: w.old.Address, Machine: w.old.Machine, UID: w.old.UID}, Third: w.old.Member,
		By: g.by, Why: g.reason, Accepts: narrow.Accepts{NoBackup: g.noBackup}, Dry: dry, At: g.now().UTC(),
	}
	if err := g.store.PutNarrowTarget(replacement.NarrowTarget{Plan: wish.ID, Site: w.want, Devices: w.devices}); err != nil {
		return "", err
	}
	return wish.ID, g.store.PutNarrowWish(wish)
}

// planTwo shows what will be done, and has the agent look at the gates.
func (g *growth) planTwo(ctx context.Context, file *config.InstallConfig) error {
	if plan, err := g.store.NarrowPlan(); err != nil || plan != nil && !plan.Stage.Over() {
		if err == nil {
			err = coded(command.ExitRefused, "refused: the plan by which %s goes has begun; to follow it, on %s: %s", plan.Old.Name, plan.Carrier(), g.again())
		}
		return err
	}
	w, err := g.pair(ctx, file)
	if err != nil {
		return err
	}
	g.name = w.old.Name
	if err := g.tryBoth(ctx, &w); err != nil {
		return err
	}
	if err := g.showTwo(w); err != nil {
		return err
	}
	wish, err := g.putTwo(w, true)
	if err != nil {
		return err
	}
	return g.gatesOf(ctx, wish, g.doingTwo, func() error { _, err := g.dropTwo(); return err })
}

// doingTwo returns the last decision of this host's agent, nil for none.
func (g *growth) doingTwo() (*replacement.Doing, error) {
	d, err := g.store.NarrowDoing()
	if err != nil || d == nil {
		return nil, err
	}
	return &replacement.Doing{Step: d.Step, Rule: d.Rule, Words: d.Words, Way: d.Way, Wish: d.Wish, Gates: d.Gates, Problem: d.Problem}, nil
}

// showTwo prints what will be done.
func (g *growth) showTwo(w pairOfThree) error {
	var out strings.Builder
	line := func(format string, a ...any) { _, _ = fmt.Fprintf(&out, format+"\n", a...) }
	line("%s goes for good, and %s and %s are the two control planes of this site, which fence each other.", w.old.Name, w.here.Name, w.peer.Name)
	line("  by the agents of %s and %s, while three members of etcd vote:", w.here.Name, w.peer.Name)
	line("    both get packages, files and units of one of two, and test the BMCs of both")
	line("    the objects of the cluster and the files of both become those of two")
	line("    Corosync, Pacemaker and the etcd keepers begin, and change nothing yet")
	line("    etcd of %s, then of %s, goes from kubelet to its etcd keeper, while the other two members serve", w.peer.Name, w.here.Name)
	line("      from then on the plan only goes forward")
	line("    Pacemaker watches kubelet and etcd of both, and starts kubelet at boot")
	line("    %s is emptied, and its member of etcd leaves:", w.old.Name)
	line("      for about a second the loss of %s or %s stops writes until it is back; nothing is lost", w.here.Name, w.peer.Name)
	line("    the cluster forgets %s once its API server and etcd answer no more: switch it off then, and wipe its disk", w.old.Name)
	line("  the cluster:")
	guards := 0
	for _, c := range w.changes {
		if strings.HasPrefix(c.Kind, "ValidatingAdmissionPolicy") {
			guards++
			continue
		}
		line("    %s%s", c.ObjectRef, map[bool]string{true: ", its status"}[c.Status])
	}
	line("    %d admission policies and their bindings, which guard two control planes", guards)
	line("  afterwards either host may be lost: the other one has it fenced, and goes on alone")
	for _, d := range w.devices {
		if d.FirstSight {
			line("  the certificate of the BMC of %s, pinned at first sight: compare %s with the BMC's own page", d.Target, redfish.PlainFingerprint(d.Fingerprint))
		}
	}
	_, err := fmt.Fprint(g.streams.Out, out.String())
	return err
}

// dropTwo drops a wish whose gates are closed, with the accounts of BMCs, and reports whether there was
// one.
func (g *growth) dropTwo() (bool, error) {
	wish, err := g.store.NarrowWish()
	if err != nil || wish == nil {
		return false, err
	}
	return true, errors.Join(g.store.DropNarrowWish(), g.store.DropNarrowTarget())
}

// followTwo shows what the agent does until the plan is over, a person is needed, or the time is up.
func (g *growth) followTwo(ctx context.Context, id string) error {
	began := g.now()
	return g.followPlan(ctx, id, followed{
		doing: g.doingTwo,
		there: func() (bool, error) {
			wish, err := g.store.NarrowWish()
			plan, unread := g.store.NarrowPlan()
			return wish != nil && wish.ID == id || plan != nil && plan.ID == id, errors.Join(err, unread)
		},
		ended: func() (bool, error) { return g.overTwo(ctx, id, began) },
		drop:  func() error { _, err := g.dropTwo(); return err },
	})
}

// overTwo reports whether there is nothing to wait for any more, and prints why. began is when the command
// began to follow.
func (g *growth) overTwo(ctx context.Context, id string, began time.Time) (bool, error) {
	wish, err := g.store.NarrowWish() // before the plan: the agent takes a plan over before it drops the wish
	plan, unread := g.store.NarrowPlan()
	now, mute := g.doingTwo()
	if err := errors.Join(err, unread, mute); err != nil || plan == nil || plan.ID != id {
		return false, err
	}
	switch {
	case g.takes && now != nil && now.Rule == narrow.ServesRule && g.now().Sub(began) > gatesTime:
		return true, errors.Join(g.store.DropNarrowWish(), coded(command.ExitRefused, "refused: %s", now.Words))
	case plan.Stage.Over() && g.lockGone(now) && (!g.takes || !g.holds(ctx, plan)):
		return true, g.endedTwo(plan)
	case plan.Stage.Over() && g.takes && g.lockUnread(ctx): // the word is gone since the plan is over
		return false, nil
	case g.takes && plan.Taken == "" && (wish == nil || !wish.Lost):
		return true, coded(command.ExitRefused, "refused: the word that %s is lost counts no more: its etcd serves, or a quarter of an hour is over. If it serves, type the command there, without --is-gone, and else type this one once more", plan.Carrier())
	}
	return false, nil
}

func (g *growth) lockUnread(ctx context.Context) bool {
	_, err := g.effects.locked(ctx)
	return err != nil
}

func (g *growth) endedTwo(plan *narrow.Plan) error {
	back := plan.Stage == narrow.Aborted
	words := fmt.Sprintf("%s and %s are the two control planes: either host may be lost; wipe the disk of %s before it gets to a network again", plan.Survivor, plan.Peer, plan.Old.Name)
	if back {
		words = "taken back: " + plan.Ended + "; the site has three control planes as before"
	}
	return g.over(plan, back, words, "the plan by which "+plan.Old.Name+" goes")
}
