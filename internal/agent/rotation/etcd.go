package rotation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast/holdfast/internal/decide/rotation"
)

// etcdReads returns nil once everybody on this host knows etcd by the present files.
// Leaf certificates are read at each handshake. What is trusted is read by the API
// server and by etcd only when they start (docs/adr/0066).
//
// An etcd under kubelet is restarted here, together with the API server that uses
// it: while both are away no request meets an API server without etcd. An etcd under
// the etcd keeper is restarted by that, for it alone knows when etcd may be away.
func (k *Keeper) etcdReads(ctx context.Context, cluster Cluster, now files) error {
	follows, err := k.operator()
	if err != nil {
		return err
	}
	if !follows {
		return waiting{errors.New("the agent brings the operator's files for etcd up to date within half a minute")}
	}
	var programs []program
	if slices.Contains(now.unread, markTrusts) {
		programs = append(programs, etcdsClient)
	}
	switch err := k.etcdTakes(ctx); {
	case errors.Is(err, errAccepts) && !k.Kept:
		programs = append(programs, etcdPod)
	case errors.Is(err, errAccepts):
		return waiting{fmt.Errorf("%w: the operator has it restarted while the other host's etcd is healthy (kubectl describe etcds.operator.openshift.io cluster)", err)}
	case err != nil:
		return err
	}
	if len(programs) == 0 {
		return nil
	}
	if err := k.spared(ctx, cluster); err != nil {
		return err
	}
	if err := k.restart(ctx, programs...); err != nil {
		return err
	}
	return k.serves(ctx)
}

// etcdTakes returns nil if the host's etcd accepts clients of the authorities in its
// file and of no others.
func (k *Keeper) etcdTakes(ctx context.Context) error {
	return k.takes(ctx, "etcd", k.Etcd, places[rotation.EtcdCA].trusts)
}

// serves waits until etcd has read its file and the API server is ready, which it is
// only with etcd.
func (k *Keeper) serves(ctx context.Context) error {
	server, err := k.OpenAt(k.Endpoint)
	if err != nil {
		return err
	}
	return k.await(ctx, func(ctx context.Context) error {
		if err := k.etcdTakes(ctx); err != nil {
			return err
		}
		return server.APIReady(ctx)
	})
}
