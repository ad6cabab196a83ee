package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/decide/removal"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// workerReplacement is one run of host replace for a worker: host remove and host add, one after the
// other. The cluster alone says how far it is, so the command may be cut off anywhere and typed again.
type workerReplacement struct {
	replaceFlags
	old     hostRemoval
	new     addition
	streams Streams
	// joined follows the new host until its Node is Ready.
	joined func(context.Context, *site.Site) error
	began  time.Time
}

// newWorkerReplacement returns a run for a worker.
func (f *replaceFlags) newWorkerReplacement(ctx context.Context, name string, streams Streams) (*workerReplacement, error) {
	c, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	w := &workerReplacement{
		replaceFlags: *f, streams: streams, began: time.Now(),
		old: hostRemoval{
			removeFlags: removeFlags{hostFlags: f.hostFlags, isOff: f.gone, timeout: f.timeout},
			name:        name, cluster: c, streams: streams, now: time.Now, answers: kubeletAnswers, by: f.by,
		},
		new: addition{
			addFlags: addFlags{hostFlags: f.hostFlags, role: string(state.RoleWorker), dir: f.dir, out: f.joinFile, life: f.joinLife, timeout: f.timeout},
			name:     cmp.Or(f.newName, name), cluster: c, streams: streams, now: time.Now, root: "/",
		},
	}
	w.old.again, w.old.keeps = w.again(), w.new.name == w.old.name
	w.joined = w.new.follow
	return w, nil
}

// again is the command that goes on.
func (w *workerReplacement) again() string {
	out := "holdfast host replace " + w.old.name
	if w.newName != "" {
		out += " --new-name " + w.newName
	}
	if w.gone != "" {
		out += " --is-gone " + w.gone
	}
	if w.dir != "" {
		out += " --dir " + w.dir
	}
	return out
}

// place says how far the replacement is, with the facts that say so.
func (w *workerReplacement) place(ctx context.Context) (removal.Place, removal.Facts, error) {
	f, err := w.old.gather(ctx)
	if err != nil {
		return "", f, err
	}
	node := f.Node
	if w.new.name != w.old.name {
		node = nil
		if i := slices.IndexFunc(f.Others, func(n corev1.Node) bool { return n.Name == w.new.name }); i >= 0 {
			node = &f.Others[i]
		}
	}
	return removal.Successor(f, w.new.name, node), f, nil
}

func (w *workerReplacement) run(ctx context.Context) error {
	place, f, err := w.place(ctx)
	if err != nil {
		return err
	}
	switch {
	case f.OneOfThree():
		if err := w.asPlane(); err != nil {
			return err
		}
		if place, f, err = w.place(ctx); err != nil { // a person's word is another one there
			return err
		}
	case !f.ControlPlane() && (w.noBackup || w.gone != "" && w.gone != w.old.name):
		return &UsageError{Err: fmt.Errorf("--is-gone, --without-backup: %s is a worker: it is named by its name once more (--is-gone %[1]s), and needs no backup", w.old.name)}
	}
	if place == removal.Given && !w.dryRun && w.old.plane != nil {
		return errors.Join(w.votes(ctx), w.ended())
	}
	if place == removal.Given {
		return w.ended()
	}
	s, err := w.new.site(ctx) // who cannot make a join file takes nothing out
	if err != nil {
		return err
	}
	if place == removal.Held {
		if err := w.takeOut(ctx, s, f); err != nil || w.dryRun {
			return err
		}
	} else if w.dryRun {
		return w.print("nothing is left of %s: the next run makes the join file of %s", w.old.name, w.new.name)
	}
	if err := w.silent(ctx, f); err != nil {
		return err
	}
	if err := w.admit(ctx, s); err != nil {
		return err
	}
	w.new.timeout = w.left()
	if err := w.joined(ctx, s); err != nil {
		return err
	}
	if w.old.plane != nil {
		if err := w.votes(ctx); err != nil {
			return err
		}
	}
	return w.ended()
}

// asPlane makes the run that of a control plane of three.
func (w *workerReplacement) asPlane() error {
	w.new.role = string(state.RoleMaster)
	if w.old.plane != nil {
		return nil
	}
	var err error
	w.old.plane, err = w.newPlaneMember()
	return err
}

// takeOut shows what will be done, asks, and takes the old host out.
func (w *workerReplacement) takeOut(ctx context.Context, s *site.Site, f removal.Facts) error {
	if err := w.refused(ctx, s, f); err != nil {
		return err
	}
	if removal.Next(f).Action == removal.Unknown {
		return &UsageError{Err: fmt.Errorf("host %q: there is none; see: holdfast host list; to add one: holdfast host add", w.old.name)}
	}
	p := removal.Foresee(f)
	if w.old.plane != nil {
		p.Steps = append(removal.PlaneSteps(f, w.old.plane.look(ctx, f)), p.Steps...)
	}
	text := w.text(removalReport{Host: w.old.name, Steps: p.Steps, Moves: p.Moves, InTheWay: p.InTheWay, Lost: p.Lost, After: p.After})
	if w.dryRun {
		if err := w.print("%s", text); err != nil || p.InTheWay == "" {
			return err
		}
		return exitWith(command.ExitAttention)
	}
	if !w.yes {
		if err := command.Agreed(ctx, w.streams, text+"To continue, type the name of the host that goes: ", w.old.name); err != nil {
			return err
		}
	}
	if err := w.backUp(ctx); err != nil {
		return err
	}
	_, err := w.old.carryOut(ctx)
	if w.new.name != w.old.name { // else a note of the new host says so
		for _, pod := range w.old.bound {
			w.say("still bound to the name %s: %s", w.old.name, pod)
		}
	}
	return err
}

// backUp has the site take a backup before a member of etcd goes, if it has no good one that is young enough.
func (w *workerReplacement) backUp(ctx context.Context) error {
	m := w.old.plane
	if m == nil {
		return nil
	}
	return m.backup.unless(ctx, func() (string, error) {
		f, err := w.old.gather(ctx)
		return m.lacksBackup(f), err
	})
}

// text is what a person confirms.
func (w *workerReplacement) text(p removalReport) string {
	out := fmt.Sprintf("%s is replaced by another machine of the same name.\n", w.old.name)
	if w.new.name != w.old.name {
		out = fmt.Sprintf("%s is replaced by another machine, %s. The name %[1]s stays retired.\n", w.old.name, w.new.name)
	}
	return out + p.text("would") + fmt.Sprintf("then, with its join file, %s joins and is waited for until its Node is Ready\n", w.new.name)
}

// refused returns all reasons against the replacement, before anything is changed.
func (w *workerReplacement) refused(ctx context.Context, s *site.Site, f removal.Facts) error {
	var reasons []error
	shut := removal.Gates(f)
	if w.old.plane != nil {
		shut, _ = w.old.plane.judge(ctx, f)
	}
	for _, g := range shut {
		if g.Name == removal.BackupGate && !w.dryRun {
			continue // one is taken once a person has agreed
		}
		reasons = append(reasons, errors.New(g.String()))
	}
	lost := slices.DeleteFunc(f.LostVolumes(), func(v string) bool { return slices.Contains(w.lost, v) })
	if len(lost) > 0 {
		reasons = append(reasons, fmt.Errorf("volumes: the data of these volumes lie on %s alone and are lost with it: %s. Type: --accept-lost %s",
			w.old.name, strings.Join(lost, ", "), strings.Join(lost, ",")))
	}
	wanted, err := w.new.gather(ctx, s)
	if err != nil {
		return err
	}
	wanted.Nodes = slices.DeleteFunc(wanted.Nodes, func(n state.Node) bool { return n.Name == w.old.name }) // it is out by then
	if w.old.plane != nil {
		wanted.Upgrade = "" // it is asked by the gates of the one that goes, and before the join file
	}
	if w.new.name == w.old.name {
		wanted.Pods = 0
	} else if h, listed := wanted.Retired.Of(w.new.name); listed && h.Open() {
		reasons = append(reasons, fmt.Errorf("name: a host of the name %s was %s, and the name stays retired: give the new host another one. Type: --new-name", w.new.name, h))
	}
	no, _ := joining.Add(joining.Of(s.Config), wanted)
	reasons = append(reasons, no...)
	if len(reasons) == 0 {
		return nil
	}
	return coded(command.ExitRefused, "refused, nothing was changed:\n%w", errors.Join(reasons...))
}

// silent waits until the old machine is off or wiped, if it still runs. Two kubelets of one name would
// speak for one Node. It comes after the removal, since a host is not wiped while it has its Node, and
// in each run: the one before may have ended while it waited.
func (w *workerReplacement) silent(ctx context.Context, f removal.Facts) error {
	addresses := removal.OldAddresses(f)
	if w.new.name != w.old.name || len(addresses) == 0 {
		return nil
	}
	says := "still runs: switch it off, or type there: sudo holdfast-agent wipe"
	return watch(ctx, w.streams.Err, w.left(), func(ctx context.Context) (looked, error) {
		if !w.old.alive(ctx, addresses) {
			return looked{over: true}, w.seen(ctx, f)
		}
		return looked{lines: []command.ViewLine{{Host: w.old.name, Doing: says}}}, nil
	}, func(cause error) error {
		if !errors.Is(cause, errNotYet) {
			return fmt.Errorf("interrupted: %s is out of the cluster, and %s; to go on: %s", w.old.name, says, w.again())
		}
		return coded(command.ExitAttention, "%s is out of the cluster, and %s; to go on: %s", w.old.name, says, w.again())
	})
}

// seen returns an error if the silence of the old machine says nothing, because this place reaches no
// kubelet of a control plane either, and nobody has said that the machine has no power.
func (w *workerReplacement) seen(ctx context.Context, f removal.Facts) error {
	var planes []string
	for _, n := range nodesOf(f) {
		if n.Name != w.old.name && n.ControlPlane() {
			for _, a := range n.Addresses {
				planes = append(planes, a.String())
			}
		}
	}
	if w.gone != "" || len(planes) == 0 || w.old.alive(ctx, planes) {
		return nil
	}
	return coded(command.ExitAttention, "%s is out of the cluster; from here no kubelet of a control plane takes connections, so nobody can see from here whether the old machine still runs. "+
		"Type the command on a control plane or, if you have seen yourself that the machine has no power: %s --is-gone %[1]s", w.old.name, w.again())
}

// admit makes the join file, unless the new host has joined with one.
func (w *workerReplacement) admit(ctx context.Context, s *site.Site) error {
	wanted, err := w.new.gather(ctx, s)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(wanted.Nodes, func(n state.Node) bool { return n.Name == w.new.name }) {
		if w.joinFile != "" {
			w.say("no join file is made: %s is a node already", w.new.name)
		}
		return nil // it joins
	}
	if w.old.plane != nil {
		if err := w.old.plane.insteadOf(ctx, &w.old, &wanted); err != nil {
			return err
		}
	}
	refused, notes := joining.Add(joining.Of(s.Config), wanted)
	if len(refused) > 0 {
		return coded(command.ExitRefused, "%s is out of the cluster, and %s has no place in it:\n%w", w.old.name, w.new.name, errors.Join(refused...))
	}
	for _, note := range notes {
		w.say("note: %s", note)
	}
	if w.joinFile == "" {
		w.say("no join file was wanted: %s --join-file FILE", w.again())
		return nil
	}
	path, until, err := w.new.write(s)
	if err != nil {
		return fmt.Errorf("make the join file: %w", err)
	}
	w.say("%s (valid until %s; it is a secret): install %s with it", path, until, w.new.name)
	return nil
}

// left is what is left of the time.
func (w *workerReplacement) left() time.Duration {
	return max(w.timeout-time.Since(w.began), time.Second)
}

func (w *workerReplacement) ended() error {
	if w.output == "json" || w.output == "yaml" {
		return printData(w.streams.Out, w.output, map[string]any{"old": w.old.name, "new": w.new.name, "ready": true})
	}
	if w.new.name == w.old.name {
		return w.print("%s was replaced: its Node is Ready", w.old.name)
	}
	return w.print("%s was replaced by %s: its Node is Ready", w.old.name, w.new.name)
}

func (w *workerReplacement) print(format string, a ...any) error {
	_, err := io.WriteString(w.streams.Out, strings.TrimRight(fmt.Sprintf(format, a...), "\n")+"\n")
	return err
}

func (w *workerReplacement) say(format string, a ...any) {
	_, _ = io.WriteString(w.streams.Err, fmt.Sprintf(format, a...)+"\n")
}
