package controlplane

import (
	"context"
	"os"
	"time"

	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/state"
)

// etcdAuthorities is the file with the authorities of etcd's certificates.
const etcdAuthorities = state.EtcdPKIDir + "/ca.crt"

const (
	// authoritiesEvery is the pause between two reads of the file, which is
	// small.
	authoritiesEvery = 10 * time.Second
	// tellAnew is the number of looks after which it is published again: a node
	// may have been deleted and be back without its annotations.
	tellAnew = 30
)

// authoritiesTask publishes the digest of etcd's authorities on this host in its
// node, on a control plane of two. So each host's etcd is restarted for its own
// file, wherever the operator runs.
func (r *Agent) authoritiesTask() loop.Task {
	said := saying{}
	return loop.Task{Name: "etcd authorities", First: authoritiesEvery, Every: authoritiesEvery, Limit: aRequest, NotYet: notSetUp, Step: func(ctx context.Context) (loop.Result, error) {
		return loop.Result{}, said.tell(etcdAuthorities, func(digest string) error {
			client, err := r.open()
			if err != nil {
				return err
			}
			return client.Annotate(ctx, r.facts.NodeName, state.AnnotationAuthorities, digest)
		})
	}}
}

// saying holds the digest that was published last, and how many looks ago.
type saying struct {
	digest string
	looks  int
}

// tell publishes the digest of a file when it changed, and again every tellAnew
// looks.
func (s *saying) tell(path string, annotate func(digest string) error) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	digest := etcdpod.DigestOf(text)
	if s.looks++; digest == s.digest && s.looks < tellAnew {
		return nil
	}
	if err := annotate(digest); err != nil {
		return err
	}
	s.digest, s.looks = digest, 0
	return nil
}
