package controlplane

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
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

// tellAuthorities publishes the digest of etcd's authorities on this host in its
// node, on a control plane of two. So each host's etcd is restarted for its own
// file, wherever the operator runs.
func (r *Agent) tellAuthorities(ctx context.Context) {
	if !r.Site.Topology().Fencing {
		return
	}
	trouble := r.trouble("etcd's authorities")
	said := saying{}
	for host.Sleep(ctx, authoritiesEvery) == nil {
		err := said.tell(etcdAuthorities, func(digest string) error {
			client, err := r.open()
			if err != nil {
				return err
			}
			return client.Annotate(ctx, r.facts.NodeName, state.AnnotationAuthorities, digest)
		})
		if !errors.Is(err, fs.ErrNotExist) { // the host is not set up yet
			trouble.Hear(err)
		}
	}
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
