package twonode

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/report/explain"
)

// releaseEvery is the pause between two looks for an etcd of kubelet that the
// cluster goes on without. Such a host is back within seconds of its boot.
const releaseEvery = 5 * time.Second

// ReleaseTask returns the task that runs Release as long as the host is one of two.
func (h *Host) ReleaseTask() loop.Task {
	return loop.Task{
		Name: "kubelet's etcd", Every: releaseEvery, Limit: 2 * h.Wait,
		// The etcd keeper begins while the two hosts are set up.
		NotYet: func(err error) bool { return errors.Is(err, explain.ErrNoAgent) },
		Step: func(ctx context.Context) (out loop.Result, err error) {
			out.Changed, err = h.Release(ctx)
			return out, err
		},
	}
}

// Release takes etcd from a kubelet whose etcd the cluster goes on without: the
// host was lost between the set-up of the cluster manager and its hand-over. Its
// API server has no etcd and its kubelet asks no other one, so no Job can run here.
// Release needs no API. It returns what it did, empty for nothing.
func (h *Host) Release(ctx context.Context) (did string, err error) {
	if kubelets, err := h.exists(staticPod); err != nil || !kubelets {
		return "", err
	}
	r, err := h.Report(ctx)
	if err != nil || !handover.Superseded(r) {
		return "", err
	}
	if err := h.withoutSecrets().release(ctx); err != nil {
		return "", err
	}
	return "took etcd from kubelet: " + r.Snapshot.Peer + " goes on without this host's data, and etcd joins it anew", nil
}

// release moves the manifest away from a kubelet whose etcd ends again and again.
// If etcd started once more while the keeper empties the data, it would make a
// cluster of its own from them, and this host's API server would serve that. So
// kubelet is stopped meanwhile, and its last etcd ends first. Pods run on without
// kubelet, and Pacemaker starts it again if this is cut off.
func (h *Host) release(ctx context.Context) (err error) {
	if err := h.do(ctx, "it must not start etcd again: the peer goes on without the data of this host", host.Command("systemctl", "stop", "kubelet.service")); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, h.do(context.WithoutCancel(ctx), "kubelet no longer runs etcd", host.Command("systemctl", "start", "kubelet.service")))
	}()
	if err := h.until(ctx, "kubelet's etcd has ended", h.restful()); err != nil {
		return err
	}
	return h.move(staticPod, keptPod)
}

// restful returns a check that nobody holds etcd's data at two looks in a row: a
// container whose start kubelet asked for last may just begin.
func (h *Host) restful() func(context.Context) (string, error) {
	free := 0
	return func(context.Context) (string, error) {
		held, err := h.holds(anybody)
		if free++; err != nil || held {
			free = 0
		}
		if free < 2 {
			return "a process may still hold its data", err
		}
		return "", nil
	}
}
