package upgrade

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Prover gathers what a release shows on this host, one criterion after the other.
type Prover struct {
	Self     string
	Kind     parachute.Kind
	Releases Releases
	Now      func() time.Time
	View     func() state.NetworkView
	// Members asks members of etcd, by the names of their hosts and their addresses.
	Members func(ctx context.Context, addresses map[string]string) map[string]etcd.MemberStatus
	// Kubelet reports whether kubelet is healthy, NodeReady whether the API has this
	// host's node as ready.
	Kubelet   func(ctx context.Context) bool
	NodeReady func(ctx context.Context, node string) (bool, error)
	// Pacemaker is the report of this host; nil on a host without it.
	Pacemaker func() pacemakerstatus.Report
	// Daemons, Serves and PeerServes are those of Host.
	Daemons            func(ctx context.Context, release string) (bool, error)
	Serves, PeerServes func(ctx context.Context) state.Fact[bool]
	// Service is the address of the API's Service, DNS that of the cluster's name
	// server, and Name a name of the cluster that the latter knows.
	Service, DNS netip.Addr
	Name         string
	// Root asks a name server of the root of all names.
	Root func(ctx context.Context, server netip.AddrPort) error
	// Keepalived reports whether keepalived runs; nil on a site without virtual IPs.
	Keepalived func() (bool, error)
	// Servers returns the processes of this host's API server.
	Servers func() ([]int, error)
	// Well asks a program of this host, at a port of its loopback address, whether it is
	// well.
	Well func(ctx context.Context, port string) state.Fact[bool]
	// Version returns the version of this host's API server, and as which it behaves. Held
	// is the release whose kubelet this host starts, if that is not the one that runs.
	Version func(ctx context.Context) (is, emulates state.Fact[gate.Version])
	Held    func() (string, error)

	mu    sync.Mutex
	since time.Time // since when the API server serves
	pids  []int
}

// steady is for how long an API server is to be ready without a restart.
const steady = 10 * time.Second

// Ports of the loopback address at which they say whether they are well.
const (
	controllersPort = "10257"
	schedulerPort   = "10259"
)

// Prove asks for all that a host of this kind shows.
func (p *Prover) Prove(ctx context.Context, release string) parachute.Proof {
	ready := p.nodeReady(ctx)
	out := parachute.Proof{"kubelet": p.kubelet(ctx, release, ready), "pods": p.pods(ctx), "names": p.outside(ctx), "router": p.router()}
	if p.Kind == parachute.Worker {
		return out
	}
	out["etcd"] = p.etcd(ctx, release)
	out["api-server"] = all(p.server(ctx), p.behaves(ctx, release))
	out["controllers"] = all(p.Well(ctx, controllersPort), p.Well(ctx, schedulerPort))
	out["vip"] = p.vip()
	if p.Kind == parachute.OfTwo {
		out["pacemaker"] = p.pacemaker()
	}
	if p.Kind != parachute.Alone {
		out["peer-view"] = p.peer(ctx, ready)
	}
	return out
}

// all is true if all facts are, false if one is false, and otherwise unknown.
func all(facts ...state.Fact[bool]) state.Fact[bool] {
	for _, f := range facts {
		if state.Is(f, false) {
			return f
		}
	}
	for _, f := range facts {
		if !f.Known {
			return f
		}
	}
	return state.Known(true)
}

func (p *Prover) nodeReady(ctx context.Context) state.Fact[bool] {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return known(p.NodeReady(ctx, p.Self))
}

func (p *Prover) kubelet(ctx context.Context, release string, ready state.Fact[bool]) state.Fact[bool] {
	return all(state.Known(p.Kubelet(ctx)), known(p.Daemons(ctx, release)), ready)
}

// etcd: this host's member serves as a voter, is of the release, knows the cluster
// that others know, and is not behind them.
func (p *Prover) etcd(ctx context.Context, release string) state.Fact[bool] {
	members := p.Members(ctx, p.addresses())
	own, answers := members[p.Self]
	if !answers || !own.Votes() {
		return state.Known(false)
	}
	about, err := p.Releases.About(release)
	if err != nil {
		return state.Fact[bool]{}
	}
	if is, err := gate.ParseVersion(own.Version); err != nil || is != about.Etcd {
		return state.Known(false)
	}
	for name, other := range members {
		if name != p.Self && (other.Cluster != own.Cluster || other.RaftIndex > own.RaftIndex+behind) {
			return state.Known(false)
		}
	}
	return state.Known(true)
}

// behind is the number of entries by which a member may be behind at one look.
const behind = 1000

// addresses returns those of the control planes, by name.
func (p *Prover) addresses() map[string]string { return ControlPlanes(p.View()) }

// ControlPlanes returns the addresses of the control planes in a view, by name.
func ControlPlanes(v state.NetworkView) map[string]string {
	out := map[string]string{}
	for _, n := range v.Nodes.Value {
		if n.ControlPlane() && len(n.Addresses) > 0 {
			out[n.Name] = n.Addresses[0].String()
		}
	}
	return out
}

// server: it is ready for steady, and the same processes all the time.
func (p *Prover) server(ctx context.Context) state.Fact[bool] {
	serves := p.Serves(ctx)
	pids, err := p.Servers()
	if err != nil {
		return state.Fact[bool]{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Now()
	if !state.Is(serves, true) || !slices.Equal(pids, p.pids) || now.Before(p.since) {
		p.since, p.pids = now, pids
	}
	if !state.Is(serves, true) {
		return serves
	}
	return state.Known(now.Sub(p.since) >= steady)
}

// pods: from this host, a Service and names of the cluster answer.
func (p *Prover) pods(ctx context.Context) state.Fact[bool] {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", netip.AddrPortFrom(p.Service, 443).String())
	if err != nil {
		return state.Known(false)
	}
	_ = conn.Close()
	names := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, netip.AddrPortFrom(p.DNS, 53).String())
	}}
	_, err = names.LookupHost(ctx, p.Name)
	return state.Known(err == nil)
}

// router: one that is here answers. A host whose pods have moved has none.
func (p *Prover) router() state.Fact[bool] {
	r := p.View().Router
	if !r.Known || r.Value == (state.Router{}) {
		return state.Known(true)
	}
	return state.Known(r.Value.Healthy)
}

// vip: keepalived runs, no other control plane has a virtual IP of the API beside this host, and
// the host's balancer leads to an API server. A balancer that does not answer is unknown: it may
// have taken no file of this release, and it may only start.
func (p *Prover) vip() state.Fact[bool] {
	if p.Keepalived == nil {
		return state.Known(true)
	}
	v := p.View()
	balancer := state.Known(true)
	if state.Is(apilb.Wanted(v), true) {
		balancer = state.Fact[bool]{Known: v.Balancer.Known, Value: v.Balancer.Value.Live() > 0}
	}
	return all(known(p.Keepalived()), state.Known(!vrrp.Shared(v)), state.Known(!state.Is(v.MayHold, false)), balancer)
}

// pacemaker: it has this host as a member, and the fence agent of it answers.
func (p *Prover) pacemaker() state.Fact[bool] {
	r := p.Pacemaker()
	if age := p.Now().Sub(r.At).Abs(); age > pacemakerstatus.Silence || r.Status.Nodes == nil {
		return state.Fact[bool]{}
	}
	for _, n := range *r.Status.Nodes {
		if n.NodeName == p.Self {
			return all(holds(n.Conditions, etcdv1.NodeOnlineConditionType), holds(n.Conditions, etcdv1.NodeMemberConditionType), holds(n.Conditions, etcdv1.NodeFencingAvailableConditionType))
		}
	}
	return state.Known(false)
}

func holds(list []metav1.Condition, kind string) state.Fact[bool] {
	status := pacemakerstatus.Find(list, kind).Status
	return state.Fact[bool]{Known: status == metav1.ConditionTrue || status == metav1.ConditionFalse, Value: status == metav1.ConditionTrue}
}

// peer: another control plane serves, has this host's node as ready, and has its
// member.
func (p *Prover) peer(ctx context.Context, ready state.Fact[bool]) state.Fact[bool] {
	serves := p.PeerServes(ctx)
	members := p.Members(ctx, p.addresses())
	own, answers := members[p.Self]
	if !answers {
		return state.Fact[bool]{}
	}
	for name, other := range members {
		if name == p.Self {
			continue
		}
		has := slices.ContainsFunc(other.Members, func(m state.EtcdMember) bool { return m.ID == own.Member && !m.Learner })
		return all(serves, ready, state.Known(has))
	}
	return state.Fact[bool]{}
}

// WellAt asks a program at a port of the loopback address whether it is well. Its
// certificate is its own, and nothing secret is sent.
func WellAt(ctx context.Context, port string) state.Fact[bool] {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1:"+port+"/healthz", http.NoBody)
	if err != nil {
		return state.Fact[bool]{}
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}} //nolint:gosec // see above
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return state.Known(false)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 4<<10))
	_ = res.Body.Close()
	return state.Known(res.StatusCode == http.StatusOK)
}

// ServerProcesses returns the processes of this host's API server.
func ServerProcesses() ([]int, error) { return servers[0].Processes() }

// KeepalivedRuns reports whether the process of a PID file runs.
func KeepalivedRuns(file string) func() (bool, error) {
	return func() (bool, error) { return host.RunsByPIDFile(file) }
}
