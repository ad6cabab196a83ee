package twonode

import (
	"context"
	"net"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/etcd"
)

// etcdPort is where etcd takes clients.
const etcdPort = "2379"

// Members asks etcd on each host how its member is.
type Members struct {
	Identity etcd.Identity

	mu      sync.Mutex
	clients map[string]*etcd.Client // by address
}

// Ask asks all hosts at once. A host that does not answer is not in the result.
func (m *Members) Ask(ctx context.Context, hosts []Host) map[string]handover.Member {
	var mu sync.Mutex
	out := map[string]handover.Member{}
	var group errgroup.Group
	for _, h := range hosts {
		group.Go(func() error {
			look, err := m.look(ctx, h.Address)
			if err != nil {
				return nil // unknown is not in the result
			}
			mu.Lock()
			defer mu.Unlock()
			out[h.Name] = health(look)
			return nil
		})
	}
	_ = group.Wait() // its functions return none
	return out
}

// health judges what a member says of itself: whether the other one may be
// stopped.
func health(look etcd.Look) handover.Member {
	if look.Serves && look.Leader != 0 && !look.Learner && len(look.Errors) == 0 {
		return handover.MemberHealthy
	}
	return handover.MemberUnhealthy
}

func (m *Members) look(ctx context.Context, address string) (etcd.Look, error) {
	c, err := m.client(address)
	if err != nil {
		return etcd.Look{}, err
	}
	return c.Look(ctx)
}

func (m *Members) client(address string) (*etcd.Client, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.clients[address]; c != nil {
		return c, nil
	}
	c, err := etcd.Open(etcd.Config{ClientURL: "https://" + net.JoinHostPort(address, etcdPort), Identity: m.Identity})
	if err != nil {
		return nil, err
	}
	if m.clients == nil {
		m.clients = map[string]*etcd.Client{}
	}
	m.clients[address] = c
	return c, nil
}
