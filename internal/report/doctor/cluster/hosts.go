package cluster

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/model/state"
)

// hosts returns the control planes as their agents published them, with the
// offset of their clocks to this machine's.
func (c *Cluster) hosts(ctx context.Context, nodes []corev1.Node) []decide.Host {
	out := []decide.Host{}
	for i := range nodes {
		n := &nodes[i]
		if !controlPlane(n) {
			continue
		}
		h := published(n)
		h.Offset = c.offset(ctx, n)
		out = append(out, h)
	}
	return sorted(out)
}

// published reads the facts that an agent published, if they can be parsed.
func published(n *corev1.Node) decide.Host {
	var h decide.Host
	text, ok := n.Annotations[decide.Annotation]
	if !ok || json.Unmarshal([]byte(text), &h) != nil || h.Name != n.Name {
		return decide.Host{Name: n.Name}
	}
	h.Source, h.Offset = decide.Published, state.Fact[decide.Offset]{}
	return h
}

// apiPort is the port on which each API server listens on its own host.
const apiPort = "6443"

// clockTime bounds one request for the time.
const clockTime = 4 * time.Second

// offset asks a host's API server for the time, which each answer contains in
// whole seconds. The server's certificate proves its identity.
func (c *Cluster) offset(ctx context.Context, n *corev1.Node) state.Fact[decide.Offset] {
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if o, err := c.askTime(ctx, net.JoinHostPort(a.Address, apiPort)); err == nil {
			return state.Known(o)
		}
	}
	return state.Fact[decide.Offset]{}
}

func (c *Cluster) askTime(ctx context.Context, at string) (decide.Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, clockTime)
	defer cancel()
	// The request for the time needs no account.
	h, err := rest.HTTPClientFor(rest.AnonymousClientConfig(c.config))
	if err != nil {
		return decide.Offset{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, "https://"+at+"/livez", nil)
	if err != nil {
		return decide.Offset{}, err
	}
	begin := time.Now()
	res, err := h.Do(req)
	end := time.Now()
	if err != nil {
		return decide.Offset{}, err
	}
	_ = res.Body.Close()
	return told(res.Header.Get("Date"), begin, end)
}

// told returns the bounds of an offset from a time in whole seconds that a
// server wrote between two instants.
func told(date string, begin, end time.Time) (decide.Offset, error) {
	at, err := http.ParseTime(date)
	if err != nil {
		return decide.Offset{}, err
	}
	return decide.Offset{Low: at.Sub(end), High: at.Add(time.Second).Sub(begin)}, nil
}

// Between returns the bounds of the offset of a host that gathered its facts
// between two instants.
func Between(h decide.Host, begin, end time.Time) decide.Offset {
	return decide.Offset{Low: h.To.Sub(end), High: h.From.Sub(begin)}
}
