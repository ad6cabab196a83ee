package install

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/twonode"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/state"
)

// third is a host that may come as the third control plane of a living site of two (docs/adr/0097).
type third struct {
	// enter asks the configuration server. prepare makes certificates, static pods and kubelet's
	// configuration. give gives kubelet the file of etcd, and has reports whether it was given.
	// votes asks this host's own etcd.
	enter   func(context.Context) (configserver.Entry, error)
	prepare func(context.Context) error
	give    func(context.Context, []byte) error
	has     func() (bool, error)
	votes   func(context.Context) bool
	now     func() time.Time

	prepared time.Time
	needed   bool
}

// comeAsThird lets this host come as the third control plane, if the configuration server says that it
// has to. Its etcd begins as a learner that the plan has listed, and kubeadm adds no member: the two
// others must give up their right to go on alone before a third one votes. It ends when this host's
// etcd votes, since an API server needs that.
func (r *run) comeAsThird(ctx context.Context) error {
	if host.Exists(placePath) {
		return nil
	}
	// The step is repeated: a full disk may have room later.
	if _, err := ownInstallation(r.root); err != nil {
		return err
	}
	request, err := r.ownMachine()
	if err != nil {
		// A site of three may be of machines that nobody can name. Only a plan asks who this is.
		request = []byte("{}")
	}
	steps := twonode.NewHost(r.Log)
	t := third{
		enter:   func(ctx context.Context) (configserver.Entry, error) { return r.server.enter(ctx, request) },
		prepare: r.prepareThird, has: steps.KubeletHasEtcd, votes: r.votes, now: r.Now,
		give: func(ctx context.Context, pod []byte) error {
			if err := steps.PutPod(pod); err != nil {
				return err
			}
			return steps.GivePod(ctx)
		},
	}
	if err := r.poll(ctx, placeInterval, t.step); err != nil || !t.needed {
		return err
	}
	return host.WriteFileAtomic(placePath, nil, state.DefaultFileMode)
}

// prepareThird is prepare for a host whose etcd was not given to kubelet yet. That etcd would go on
// with data that it finds.
func (r *run) prepareThird(ctx context.Context) error {
	if err := r.blank(beganJoin); err != nil {
		return err
	}
	return r.prepare(ctx)
}

// step does the next thing, and reports whether this host has come, or need not come so.
func (t *third) step(ctx context.Context) (done bool, waiting string, err error) {
	given, err := t.has()
	if err != nil {
		return false, "", err
	}
	if t.needed = t.needed || given; given && t.votes(ctx) {
		return true, "", nil
	}
	entry, err := t.enter(ctx)
	switch {
	case given && err != nil:
		return false, fmt.Sprintf("etcd of this host waits for its vote (%v)", err), nil
	case given:
		return false, "etcd of this host waits for its vote: " + entry.Waits, nil
	case err != nil || !entry.Needed:
		return err == nil, "", err
	}
	t.needed = true
	if t.now().Sub(t.prepared).Abs() > prepareAnew {
		if err := t.prepare(ctx); err != nil {
			return false, "", err
		}
		t.prepared = t.now()
		return false, entry.Waits, nil // the answer is too old by now: ask again
	}
	if len(entry.Pod) == 0 {
		return false, entry.Waits, nil
	}
	return false, entry.Waits, t.give(ctx, entry.Pod)
}

// votes reports whether the etcd of this host is a voter that knows its leader.
func (r *run) votes(ctx context.Context) bool {
	own := r.facts.Addresses[0]
	c, err := etcd.Open(etcd.Config{ClientURL: etcdpod.LocalURL(own), PeerURL: etcdpod.PeerURL(own)})
	if err != nil {
		return false
	}
	defer c.Close() //nolint:errcheck // nothing was written
	s, err := c.Status(ctx)
	return err == nil && s.Votes()
}
