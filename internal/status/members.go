package status

import (
	"context"
	"net"
	"os"
	"sync"

	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/etcd"
	"github.com/holdfast/holdfast/internal/state"
)

// etcdPort is where etcd takes clients.
const etcdPort = "2379"

// Members asks etcd on each control plane for itself, with the certificates of
// a host.
type Members struct {
	Identity etcd.Identity

	mu      sync.Mutex
	clients map[string]*etcd.Client // by address
}

// MembersHere are those of the host that this runs on; false for whoever may
// not read its certificates.
func MembersHere() (*Members, bool) {
	const pki = "/etc/kubernetes/pki/etcd/"
	m := &Members{Identity: etcd.Identity{CA: pki + "ca.crt", Cert: pki + "healthcheck-client.crt", Key: pki + "healthcheck-client.key"}}
	f, err := os.Open(m.Identity.Key)
	if err != nil {
		return nil, false
	}
	return m, f.Close() == nil
}

// Ask asks all control planes at once. One that does not answer is not in the
// result: that is known of it already, or not.
func (m *Members) Ask(ctx context.Context, f standing.Facts) map[string]standing.Member {
	looks := map[string]etcd.Look{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, h := range f.Hosts {
		if !h.ControlPlane || len(h.Addresses) == 0 {
			continue
		}
		group.Go(func() {
			look, err := m.look(ctx, h.Addresses[0].String())
			if err != nil {
				return // unknown is not in the result
			}
			mu.Lock()
			defer mu.Unlock()
			looks[h.Name] = look
		})
	}
	group.Wait()
	return compared(looks)
}

// compared says by how much each is behind the one that is ahead.
func compared(looks map[string]etcd.Look) map[string]standing.Member {
	var ahead uint64
	for _, l := range looks {
		ahead = max(ahead, l.RaftIndex)
	}
	out := map[string]standing.Member{}
	for name, l := range looks {
		m := standing.Member{
			Running: state.Known(true), Learner: l.Learner, Leader: l.Leader != 0 && l.Leader == l.Member,
			Healthy: state.Known(l.Serves && l.Leader != 0 && len(l.Errors) == 0),
		}
		if l.Serves && len(looks) > 1 {
			m.Behind = state.Known(ahead - l.RaftIndex)
		}
		m.Listed = state.Known(true)
		out[name] = m
	}
	return out
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
