package etcd

import (
	"context"
	"net"
	"sync"
)

// clientPort is where etcd takes clients.
const clientPort = "2379"

// Members asks the members of several hosts for themselves. It keeps one client
// for each address.
type Members struct {
	Identity Identity

	mu      sync.Mutex
	clients map[string]*Client // by address
}

// Look asks all hosts at once, whose addresses are given by their names. One
// that does not answer is not in the result.
func (m *Members) Look(ctx context.Context, addresses map[string]string) map[string]Look {
	var mu sync.Mutex
	var group sync.WaitGroup
	out := map[string]Look{}
	for name, address := range addresses {
		group.Go(func() {
			look, err := m.look(ctx, address)
			if err != nil {
				return // unknown is not in the result
			}
			mu.Lock()
			defer mu.Unlock()
			out[name] = look
		})
	}
	group.Wait()
	return out
}

func (m *Members) look(ctx context.Context, address string) (Look, error) {
	c, err := m.client(address)
	if err != nil {
		return Look{}, err
	}
	return c.Look(ctx)
}

func (m *Members) client(address string) (*Client, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.clients[address]; c != nil {
		return c, nil
	}
	c, err := Open(Config{ClientURL: "https://" + net.JoinHostPort(address, clientPort), Identity: m.Identity})
	if err != nil {
		return nil, err
	}
	if m.clients == nil {
		m.clients = map[string]*Client{}
	}
	m.clients[address] = c
	return c, nil
}
