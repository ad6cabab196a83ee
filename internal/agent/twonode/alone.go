package twonode

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/state"
)

// A site that grows from one control plane to two (docs/adr/0092) has these steps before the
// newcomer is there. Each takes the input that both hosts will have later, and can be done again.

// EnterAlone makes this host the only one in a new cluster of Corosync, and starts Corosync and
// Pacemaker, now and at each boot.
func (h *Host) EnterAlone(ctx context.Context, in twonode.Input) error {
	discreet := *h
	discreet.hide = hiding(in)
	if err := discreet.enterAlone(ctx, in); err != nil {
		return &hidden{err, discreet.hide}
	}
	return nil
}

func (h *Host) enterAlone(ctx context.Context, in twonode.Input) error {
	if err := h.checkAccount(); err != nil {
		return err
	}
	have, err := h.corosync()
	if err != nil {
		return err
	}
	switch example := have.Example(); {
	case example || have.Name == "":
		err = h.makeAlone(ctx, in, example)
	case len(have.Nodes) != 1 || have.Nodes[0].Name != in.Self:
		err = fmt.Errorf("this host is in the Corosync cluster %q with other hosts; nothing was changed", have.Name)
	}
	if err != nil {
		return err
	}
	return h.run(ctx)
}

// makeAlone makes a corosync.conf as for two hosts, and leaves the peer out.
func (h *Host) makeAlone(ctx context.Context, in twonode.Input, example bool) error {
	steps, err := twonode.CorosyncSteps(twonode.Corosync{}, twonode.Wanted(in).Corosync)
	if err != nil {
		return err
	}
	if err := h.silencePCSD(ctx, in.Token); err != nil {
		return err
	}
	if err := h.clean(ctx, example); err != nil {
		return err
	}
	if err := h.write(CorosyncKey, twonode.CorosyncKey(in), 0o400); err != nil {
		return err
	}
	return h.make(ctx, steps, func(conf []byte) ([]byte, error) { return twonode.Leave(conf, in.Peer().Name) })
}

// ConfigureAlone brings Pacemaker's configuration to that of a host without a peer.
func (h *Host) ConfigureAlone(ctx context.Context, in twonode.Input) error {
	return h.withoutSecrets().configure(ctx, twonode.Alone(in))
}

// WriteManifest writes the file from which the etcd keeper runs etcd.
func (h *Host) WriteManifest(manifest []byte) error {
	return h.withoutSecrets().write(state.EtcdPodManifest, manifest, 0o600)
}

// KubeletHasEtcd reports whether kubelet runs etcd on this host.
func (h *Host) KubeletHasEtcd() (bool, error) { return h.exists(staticPod) }

// endTime is how long kubelet's etcd gets to end by itself. kubelet asks it to within that time.
// etcd then closes its port and waits up to 7 s for clients that never hang up, above all the API server.
const endTime = 2 * time.Second

// etcdServer is where this host's etcd listens.
const etcdServer = "127.0.0.1:2379"

// TakeEtcd takes etcd from kubelet, and ends an etcd that does not end by itself: it is the only
// member, so nobody can write until its successor runs. What it acknowledged is on its disk, as
// it must be for a power cut. One that has closed its port has been asked to end, so kubelet does not
// start it again: it is killed at once. With the whole endTime the API server's next try to reach
// etcd came before the successor listened, and the one after that 5.5 s after the loss (2026-11-30).
// The etcd keeper starts the successor.
func (h *Host) TakeEtcd(ctx context.Context) error {
	quiet := h.withoutSecrets()
	if there, err := h.exists(staticPod); err != nil {
		return err
	} else if there {
		if err := quiet.move(staticPod, keptPod); err != nil {
			return err
		}
	}
	etcd := ending{asked: h.Now()}
	return quiet.untilEvery(ctx, pollAway, "kubelet's etcd has ended", func(ctx context.Context) (string, error) {
		pid, held, err := h.holder()
		if err != nil || !held {
			return "", err
		}
		if p, err := h.Container(ctx); err == nil && p.Running && pid == strconv.Itoa(p.PID) {
			return "", nil // the successor runs
		}
		return etcd.look(ctx, quiet, pid)
	})
}

// ending is an etcd that is the only member and is asked to end.
type ending struct {
	// asked is the earliest moment at which somebody asked it.
	asked  time.Time
	killed bool
}

// look says how far the end of the process is. It kills the process once, when it has closed its
// port or was asked endTime ago.
func (e *ending) look(ctx context.Context, h *Host, pid string) (missing string, err error) {
	if e.killed || h.Now().Sub(e.asked) < endTime && h.Listens(ctx, etcdServer) {
		return "it still has the data", nil
	}
	e.killed = true
	return "it was killed", h.do(ctx, "it waits for clients that do not hang up", host.Command("kill", "-KILL", pid))
}

// PodmanHasEtcd reports whether podman runs etcd on this host, with etcd's data.
func (h *Host) PodmanHasEtcd(ctx context.Context) (bool, error) {
	p, err := h.Container(ctx)
	if err != nil || !p.Running {
		return false, err
	}
	return h.holds(p.PID)
}
