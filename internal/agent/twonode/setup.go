package twonode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/decide/twonode"
)

// work is the folder in which the CIB is changed before it is pushed.
const work = "/run/holdfast/two-node"

// pushes is the number of tries of a push: somebody else may change the CIB
// between reading and pushing.
const pushes = 3

// setup makes Pacemaker's configuration, from one host for both.
func (h *Host) setup(ctx context.Context, in twonode.Input) error {
	want := twonode.Wanted(in)
	if err := h.joined(want.Corosync); err != nil {
		return err
	}
	if err := h.start(ctx, in); err != nil {
		return err
	}
	if err := h.configure(ctx, want); err != nil {
		return err
	}
	return h.until(ctx, "kubelet, etcd and the fence devices run", func(ctx context.Context) (string, error) {
		s, err := h.Status(ctx)
		return strings.Join(s.Missing(placement(want)), "; "), err
	})
}

// placement returns where each resource runs when all is well.
func placement(want twonode.Config) map[string][]string {
	out := map[string][]string{}
	for _, r := range want.Resources {
		for _, n := range want.Corosync.Nodes {
			if r.ID != twonode.DeviceOf(n.Name) {
				out[r.ID] = append(out[r.ID], n.Name)
			}
		}
	}
	return out
}

// joined returns an error if the step auth has not put this host into the
// cluster.
func (h *Host) joined(want twonode.Corosync) error {
	have, err := h.corosync()
	if err != nil {
		return err
	}
	if _, err := twonode.CorosyncSteps(have, want); err != nil {
		return err
	}
	if have.Name == "" && !h.DryRun {
		return errors.New("this host is in no cluster: run the step auth on both hosts first")
	}
	return nil
}

// start starts the cluster on this host, now and at each boot, and waits until
// both hosts see each other. From here on a host can be fenced: one that came
// back without Corosync would never meet its peer again. On the peer, its own
// step auth did the same.
func (h *Host) start(ctx context.Context, in twonode.Input) error {
	both := func(ctx context.Context) (string, error) {
		s, err := h.Status(ctx)
		if err != nil {
			return "", err
		}
		var absent []string
		for _, n := range in.Nodes {
			if !slices.Contains(s.Online, n.Name) {
				absent = append(absent, n.Name+" is not online in Pacemaker")
			}
		}
		return strings.Join(absent, "; "), nil
	}
	if missing, err := both(ctx); missing == "" && err == nil {
		return h.meet(ctx)
	}
	if err := h.run(ctx); err != nil {
		return err
	}
	return h.until(ctx, "both hosts are online in Pacemaker", both)
}

// configure brings Pacemaker's configuration to the wanted one, all of it at
// once: Pacemaker must not act on half of it, and a step that is cut off leaves
// nothing half done.
func (h *Host) configure(ctx context.Context, want twonode.Config) error {
	var last error
	for range pushes {
		steps, cib, err := h.steps(ctx, want)
		if err != nil || len(steps) == 0 {
			return err
		}
		if h.DryRun {
			for _, s := range steps {
				h.say("%s    # %s", pacemaker.CommandLine(s.Args...), s.Why)
			}
			return nil
		}
		if last = h.push(ctx, work, steps, cib); last != nil && ctx.Err() != nil {
			return last
		}
	}
	steps, _, err := h.steps(ctx, want)
	switch {
	case err != nil:
		return err
	case len(steps) == 0:
		return nil
	case last != nil:
		return last
	}
	return fmt.Errorf("the configuration was pushed but still needs: pcs %s", strings.Join(steps[0].Args, " "))
}

// steps returns the commands that change the CIB to the wanted one, and the CIB.
func (h *Host) steps(ctx context.Context, want twonode.Config) ([]twonode.Command, []byte, error) {
	cib, err := h.Run(ctx, pacemaker.Configuration())
	switch {
	case err == nil:
	case h.DryRun: // the cluster does not run yet
		cib = []byte("<cib/>")
	default:
		return nil, nil, err
	}
	have, err := twonode.ParseCIB(cib)
	if err != nil {
		return nil, nil, err
	}
	steps, err := twonode.Steps(have, want)
	return steps, cib, err
}

// push makes the changes in a copy of the CIB and lets Pacemaker apply the
// difference.
func (h *Host) push(ctx context.Context, dir string, steps []twonode.Command, cib []byte) error {
	return h.apply(ctx, dir, cib, func(after string) error {
		if err := host.WriteFileAtomic(after, cib, 0o600); err != nil {
			return err
		}
		for _, s := range steps {
			c, err := pacemaker.EditCIB(after, s.Args...)
			if err != nil {
				return err
			}
			if err := h.do(ctx, s.Why, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// apply has Pacemaker apply the difference between the CIB and a changed copy in one step.
// change writes the changed copy to the path that it is given.
func (h *Host) apply(ctx context.Context, dir string, cib []byte, change func(after string) error) (err error) {
	before, after := filepath.Join(h.path(dir), "before.xml"), filepath.Join(h.path(dir), "after.xml")
	if err := host.WriteFileAtomic(before, cib, 0o600); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(before), host.RemoveFile(after)) }()
	if err := change(after); err != nil {
		return err
	}
	return h.do(ctx, "Pacemaker applies all changes at once", pacemaker.ApplyCIB(before, after))
}

// Fences brings Pacemaker's configuration to two hosts of which one is new, and removes the
// devices in drop, whose host was replaced. It is the set-up without waiting, because the new
// host is not there yet.
func (h *Host) Fences(ctx context.Context, in twonode.Input, drop []string) error {
	alone := h.withoutSecrets()
	if len(drop) > 0 {
		cib, err := alone.Run(ctx, pacemaker.Configuration())
		if err != nil {
			return err
		}
		var steps []twonode.Command
		for _, id := range drop {
			steps = append(steps, twonode.Command{Args: []string{"stonith", "delete", id, "--force"}, Why: "its host was replaced"})
		}
		if err := alone.push(ctx, setBackWork, steps, cib); err != nil {
			return err
		}
	}
	return alone.configure(ctx, twonode.Wanted(in))
}
