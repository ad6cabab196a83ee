// Package outside measures whether a host without the API VIP can write through
// it. No host can tell that of itself: in a cut, the one with the VIP may be the
// one that nobody reaches.
//
// It owns one annotation of the host's own Lease in kube-node-lease, which
// kubelet's account may write. Package decide/incident decides what it means.
package outside

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/loop"
	decide "github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// attemptTimeout bounds one attempt, from the first packet to the answer. A client that
// waits longer takes the API for gone. A hanging attempt would also hide the
// moment in which the API comes back.
const attemptTimeout = time.Second

// limit bounds a step: an attempt, and its waits for the host.
const limit = 20 * time.Second

// answerSize bounds how much of an answer is read. It is read so that its
// connection can be reused.
const answerSize = 64 << 10

// errOwn reports a connection that never left this host.
var errOwn = errors.New("the virtual IP is this host's own")

// errUnknown reports that the API server does not know who asks, which says nothing of writes. It
// judges each request by the certificate that its connection began with: one that is kept outlives
// kubelet's.
var errUnknown = errors.New("the API does not know this host's account")

// Options holds the inputs of a host's probe.
type Options struct {
	// View returns what the host knows of its network.
	View func() state.NetworkView
	// TLS returns the verification of the API server, and this host's account.
	TLS func() (*tls.Config, error)
	Log *slog.Logger
	Now func() time.Time
}

// Probe asks the API through the VIP while another host holds it.
type Probe struct {
	Options
	port   uint16
	known  decide.Outside
	client *http.Client // nil if the next attempt is to make a new connection
}

// New returns the probe of a host. It does nothing before Run.
func New(o Options) *Probe { return &Probe{Options: o, port: site.APIPort} }

// Run measures until the context ends.
func (p *Probe) Run(ctx context.Context, loops *loop.Loops) {
	loops.Run(ctx, loop.Task{Name: "writes through the API VIP", Every: decide.Quiet, Limit: limit, Step: func(ctx context.Context) (loop.Result, error) {
		if p.Step(ctx); p.known.Writes(p.Now()) {
			return loop.Result{Again: decide.Lively}, nil
		}
		return loop.Result{}, nil
	}})
	p.drop()
}

// Step makes one attempt.
func (p *Probe) Step(ctx context.Context) {
	was := len(p.known.Gaps)
	a := p.attempt(ctx)
	if ctx.Err() != nil {
		return // the attempt was cancelled, which says nothing of the API
	}
	if p.known = p.known.Next(a); len(p.known.Gaps) != was {
		g := p.known.Gaps[len(p.known.Gaps)-1]
		p.Log.Info("writes through the virtual IP succeed again from here", "vip", g.VIP, "without", g.Long.Round(time.Millisecond))
	}
}

func (p *Probe) attempt(ctx context.Context) decide.Attempt {
	a := decide.Attempt{Began: p.Now()}
	a.Write = p.known.Writes(a.Began)
	node, vip, ok := target(p.View())
	if !ok {
		p.drop()
		a.Ended = p.Now()
		return a
	}
	if a.Write {
		p.drop() // as a new client would
	}
	got, err := p.ask(ctx, node, vip, a.Write)
	if err != nil {
		p.drop()
	}
	a.VIP, a.Ended = vip.String(), p.Now()
	a.Outside, a.OK = got.asked && !errors.Is(err, errOwn) && !errors.Is(err, errUnknown), err == nil
	if !got.date.IsZero() {
		a.Ahead = got.date.Sub(a.Ended)
	}
	return a
}

// target returns the node whose Lease is written and the VIP to write through, or
// false if this host cannot measure. One VIP stands for those of both families,
// because one host holds them both.
func target(v state.NetworkView) (node string, vip netip.Addr, ok bool) {
	s := v.Settings
	if !s.Fencing || !s.ManagedVIPs || len(s.APIVIPs) == 0 || v.Stage != state.StageInstalled || v.Host.NodeName == "" {
		return "", vip, false
	}
	for _, a := range v.Addresses {
		if slices.Contains(s.APIVIPs, a.Prefix.Addr()) {
			return "", vip, false
		}
	}
	return v.Host.NodeName, s.APIVIPs[0], true
}

// answer is the result of an attempt: whether there was one at all, and the time
// by the server's clock.
type answer struct {
	asked bool
	date  time.Time
}

// ask reads this host's Lease, or writes its annotation. A read is enough to
// notice that etcd has no quorum, but it proves no write.
func (p *Probe) ask(ctx context.Context, node string, vip netip.Addr, write bool) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	if p.client == nil {
		config, err := p.TLS()
		if err != nil {
			return answer{}, err // no account yet, or none any more
		}
		p.client = &http.Client{Transport: transport(config)}
	}
	request, err := p.request(ctx, node, vip, write)
	if err != nil {
		return answer{}, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return answer{asked: true}, err
	}
	got := answer{asked: true}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		got.date = date
	}
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, answerSize))
	err = errors.Join(err, response.Body.Close())
	switch {
	case response.StatusCode == http.StatusUnauthorized:
		err = errUnknown
	case err == nil && response.StatusCode != http.StatusOK:
		err = fmt.Errorf("the API answers %s", response.Status)
	}
	return got, err
}

func (p *Probe) request(ctx context.Context, node string, vip netip.Addr, write bool) (*http.Request, error) {
	where := url.URL{
		Scheme: "https", Host: site.HostPort(vip.String(), p.port),
		Path: "/apis/coordination.k8s.io/v1/namespaces/" + kube.NodeLeases + "/leases/" + node,
	}
	if !write {
		return http.NewRequestWithContext(ctx, http.MethodGet, where.String(), nil)
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		decide.OutsideAnnotation: p.known.Text(p.Now()),
	}}})
	if err != nil {
		return nil, err
	}
	where.RawQuery = "fieldManager=holdfast"
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, where.String(), bytes.NewReader(body))
	if err == nil {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	return request, err
}

// transport keeps one connection, and refuses one that does not leave this host:
// the VIP may have come a moment ago, before the view shows it.
func transport(config *tls.Config) *http.Transport {
	dialer := &net.Dialer{Timeout: attemptTimeout}
	return &http.Transport{
		TLSClientConfig: config, MaxIdleConns: 1, DisableCompression: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			if own(conn.LocalAddr(), conn.RemoteAddr()) {
				return nil, errors.Join(errOwn, conn.Close())
			}
			return conn, nil
		},
	}
}

// own reports whether both ends have the same address: to one of its own
// addresses a host sends from that same address.
func own(here, there net.Addr) bool {
	a, aErr := netip.ParseAddrPort(here.String())
	b, bErr := netip.ParseAddrPort(there.String())
	return aErr == nil && bErr == nil && a.Addr() == b.Addr()
}

// drop makes the next attempt open a new connection.
func (p *Probe) drop() {
	if p.client != nil {
		p.client.CloseIdleConnections()
	}
	p.client = nil
}
