package etcd

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// clientPort is the port at which etcd serves clients.
const clientPort = "2379"

// Members asks the etcd members of several hosts about themselves. It keeps one
// client for each address.
type Members struct {
	Identity Identity

	mu      sync.Mutex
	clients map[string]*Client // by address
	// newest and previous are the revisions of the last two compactions that Equal saw.
	newest, previous int64
}

// Statuses asks all hosts at once; addresses maps their names to their addresses.
// A host that does not answer is missing from the result.
func (m *Members) Statuses(ctx context.Context, addresses map[string]string) map[string]MemberStatus {
	return ask(m, addresses, func(c *Client) (MemberStatus, error) { return c.Status(ctx) })
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

// LeadGiven calls give, which is GiveLead of a member, until another member leads. It returns
// the last error and the context's cause if that ends first.
func LeadGiven(ctx context.Context, every time.Duration, give func(context.Context) (bool, error)) error {
	for {
		gave, err := give(ctx)
		if gave {
			return nil
		}
		if ended := host.Sleep(ctx, every); ended != nil {
			return errors.Join(err, ended)
		}
	}
}

// GiveLead moves the leadership from the member of a host to another one that serves
// as a voter, if it leads. It reports whether another one leads; without another voter
// it is to lead, and the answer is true too.
func (m *Members) GiveLead(ctx context.Context, self string, addresses map[string]string) (bool, error) {
	all := m.Statuses(ctx, addresses)
	own, known := all[self]
	if !known {
		return false, nil
	}
	if own.Leader != own.Member {
		return own.Leader != 0, nil
	}
	for name, other := range all {
		if name == self || !other.Votes() {
			continue
		}
		c, err := m.client(addresses[self])
		if err != nil {
			return false, err
		}
		return false, c.MoveLeader(ctx, other.Member) // the next look sees who leads
	}
	return len(own.Members) < 2, nil
}
