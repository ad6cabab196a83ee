// Package dualstack takes a host to both address families by an announced plan (docs/adr/0104).
// decide/dualstack says what comes next. This package looks, does one act, and looks again. It
// owns the plan and the journal below /var/lib/holdfast/dualstack, so it may be killed at any
// line.
package dualstack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/loop"
	decide "github.com/holdfast/holdfast/internal/decide/dualstack"
	install "github.com/holdfast/holdfast/internal/install/dualstack"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The pauses between two looks, and the limit of one run.
const (
	often = 3 * time.Second
	limit = 2 * time.Minute
	// late is how late the API's list of nodes may tell of what this host has written.
	late = 10 * time.Second
)

// World has what a plan needs of this host and its cluster.
type World struct {
	// Boot names this boot of the host.
	Boot func() (string, error)
	// Fits returns the host's addresses of both families, or what it lacks.
	Fits func(p decide.Plan) (own []netip.Addr, lacks string)
	// Carried reports whether the cluster goes on without this control plane now, and why not.
	Carried func(ctx context.Context) (state.Fact[bool], string)
	// Retired reports whether the list of retired hosts has a name, and no host got it again.
	Retired func(ctx context.Context, name string) (bool, error)
	// Serves reports whether the API server and the controller manager of this host know both
	// families, and answer.
	Serves func(ctx context.Context, p decide.Plan) (bool, error)
	// Shares returns the shares of the pod networks that the Node of this host has now.
	Shares func(ctx context.Context) ([]string, error)
	// Serve and Change give the files of this host both families.
	Serve  func(p decide.Plan) error
	Change func(p decide.Plan, own []netip.Addr, shares []netip.Prefix) error
	// AskBoot asks for a planned reboot of this host, if nobody has.
	AskBoot func(ctx context.Context, why string) error
	// Cluster opens the cluster as the administrator. Only the carrier asks for it.
	Cluster func() (Cluster, error)
	// Tell publishes what the host says of the plan, for its Node.
	Tell func(ctx context.Context, node, value string) error
}

// Cluster is what the carrier does with the objects of the cluster.
type Cluster interface {
	// Shares returns how many shares of the pod networks each Node has. A Node that is not there
	// has none.
	Shares(ctx context.Context, p decide.Plan) (map[string]int, error)
	// Stands reports whether nobody needs the copy of a Node any more: it is there with both shares, or as it
	// was kept.
	Stands(ctx context.Context, kept *corev1.Node) (bool, error)
	// Work says what else changes hosts, empty for nothing. Others says which other plan has the lock.
	Work(ctx context.Context, p decide.Plan) (string, error)
	Others(ctx context.Context, p decide.Plan) (string, error)
	// Lock takes the lock of all plans, unless this one has it. If another one has it, the error says
	// which.
	Lock(ctx context.Context, p decide.Plan) error
	Noted(ctx context.Context, p decide.Plan) (bool, error)
	Routed(ctx context.Context, p decide.Plan) (bool, error)
	Begin(ctx context.Context, p decide.Plan) error
	Publish(ctx context.Context, p decide.Plan) error
	Note(ctx context.Context, p decide.Plan) error
	Share(ctx context.Context, p decide.Plan, host string) error
	Route(ctx context.Context, p decide.Plan) error
	Settle(ctx context.Context, p decide.Plan) error
	Withdraw(ctx context.Context, p decide.Plan) error
	Unlock(ctx context.Context, p decide.Plan) error
}

// Agent follows the plan of one host.
type Agent struct {
	World
	Store install.Store
	Host  func() string // the name of its node
	Now   func() time.Time

	mu        sync.Mutex
	heard     bool // the API has told of the announcement
	announced string
	nodes     []state.Node // nil until the API has listed them
	told      string
	toldAt    time.Time
	// problem is the error of the last act, failed the rule that asked for it.
	failed, problem string
}

// Task returns the task that follows the plan. Without a plan it reads one file and ends.
func (a *Agent) Task() loop.Task {
	return loop.Task{Name: "second address family", Every: often, Retry: often, MaxRetry: 30 * time.Second, Limit: limit, Step: a.step}
}

// Nodes hears the API's list of nodes.
func (a *Agent) Nodes(list []state.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nodes = list
}

// Infrastructure hears the API's word on the cluster.
func (a *Agent) Infrastructure(in kube.Infrastructure) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard, a.announced = true, in.DualStack
}

func (a *Agent) step(ctx context.Context) (loop.Result, error) {
	plan, journal, err := a.Store.Load()
	if err != nil {
		return loop.Result{}, err
	}
	announced, known, err := a.word()
	if err != nil {
		return loop.Result{}, err
	}
	if plan == nil && announced.ID == "" {
		return loop.Result{}, a.quiet(ctx)
	}
	if plan == nil {
		if bad := announced.Check(); len(bad) > 0 {
			return loop.Result{}, fmt.Errorf("annotation %s of the Infrastructure object: %w", kube.DualStackAnnotation, decide.Refused(bad...))
		}
		plan, journal = &announced, decide.Journal{Stage: decide.Kept}
		if err := a.Store.Put(*plan, journal); err != nil {
			return loop.Result{}, err
		}
	}
	f := decide.Facts{Host: a.Host(), Plan: plan, Journal: journal}
	if known {
		f.Announced = state.Known(decide.Announced{ID: announced.ID, Begun: announced.Begun})
	}
	own, lacks, err := a.facts(ctx, &f)
	if err != nil {
		return loop.Result{}, err
	}
	s := decide.Decide(f)
	if s.Act != decide.Drop {
		// before the act: who acts on this host's word must not be ahead of it
		a.tell(ctx, f, s, lacks)
	}
	changed, err := "", a.lock(ctx, f, s)
	if err == nil {
		changed, err = a.act(ctx, f, s, own)
	}
	if a.failed, a.problem = s.Rule, ""; err != nil {
		a.problem = err.Error()
	}
	return loop.Result{Changed: changed}, err
}

// word returns the announcement of the API, empty for none.
func (a *Agent) word() (p decide.Plan, known bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.announced == "" {
		return p, a.heard, nil
	}
	p, err = install.Announced(a.announced)
	return p, err == nil, err
}

// quiet takes the host's word on a plan that is gone out of its Node.
func (a *Agent) quiet(ctx context.Context) error {
	a.mu.Lock()
	shown := false
	for _, n := range a.nodes {
		shown = shown || n.Name == a.Host() && n.Annotations[install.Annotation] != ""
	}
	a.mu.Unlock()
	a.told = ""
	if !shown {
		return nil
	}
	return a.Tell(ctx, a.Host(), "")
}

// facts looks at this host, and on the carrier at the cluster. lacks is what this host says of
// itself before the plan has begun.
func (a *Agent) facts(ctx context.Context, f *decide.Facts) (own []netip.Addr, lacks string, err error) {
	p := *f.Plan
	if f.Boot, err = a.Boot(); err != nil {
		return nil, "", err
	}
	own, lacks = a.Fits(p)
	why := ""
	if p.Hosts[f.Host].ControlPlane {
		if f.Carried, why = a.Carried(ctx); lacks == "" && !state.Is(f.Carried, true) {
			lacks = "the cluster does not go on without it: " + why
		}
		if is, err := a.Serves(ctx, p); err == nil {
			f.Serves = state.Known(is)
		}
	}
	f.Nodes = a.seen(p)
	if f.Retired = a.retired(ctx, *f); f.Carrier() == f.Host {
		a.carrier(ctx, f)
		if f.Carried.Known {
			f.Whole = state.Known(map[bool]string{false: why}[f.Carried.Value])
		}
	}
	return own, lacks, nil
}

// retired returns the hosts of the plan that were taken out. One whose Node is there is not, yet.
func (a *Agent) retired(ctx context.Context, f decide.Facts) []string {
	var out []string
	for _, name := range f.Plan.Order() {
		if _, there := f.Nodes.Value[name]; there || !f.Nodes.Known {
			continue
		}
		if is, err := a.Retired(ctx, name); err == nil && is {
			out = append(out, name)
		}
	}
	return out
}

// carrier asks the cluster what only the carrier needs to know.
func (a *Agent) carrier(ctx context.Context, f *decide.Facts) {
	c, err := a.Cluster()
	if err != nil {
		f.Nodes = state.Fact[map[string]decide.Seen]{}
		return
	}
	p := *f.Plan
	shares, err := c.Shares(ctx, p)
	if err != nil {
		f.Nodes = state.Fact[map[string]decide.Seen]{}
		return // it does not answer the first question: it is asked no other one
	}
	for _, name := range p.Order() {
		n, err := a.Store.Node(name)
		if err != nil || n == nil {
			continue
		}
		if _, there := shares[name]; !there {
			f.Kept = append(f.Kept, name)
		} else if is, err := c.Stands(ctx, n); err == nil && is {
			f.Stands = append(f.Stands, name)
		}
	}
	for name, s := range f.Nodes.Value {
		if s.Shares = shares[name]; s.Shares == 0 {
			delete(f.Nodes.Value, name)
			continue
		}
		f.Nodes.Value[name] = s
	}
	if !f.Journal.Begun {
		f.Work = fact(c.Work(ctx, p))
		if other := a.strangers(p); f.Work.Known && f.Work.Value == "" && other != "" {
			f.Work.Value = other + " joined after the plan was made: take it back (--abort), and make it anew"
		}
		return
	}
	f.Noted, f.Routed, f.Others = fact(c.Noted(ctx, p)), fact(c.Routed(ctx, p)), fact(c.Others(ctx, p))
}

// strangers returns the hosts of the cluster that the plan does not name.
func (a *Agent) strangers(p decide.Plan) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, n := range a.nodes {
		if _, named := p.Hosts[n.Name]; !named {
			out = append(out, n.Name)
		}
	}
	return strings.Join(out, ", ")
}

func fact[T any](value T, err error) state.Fact[T] {
	if err != nil {
		return state.Fact[T]{}
	}
	return state.Known(value)
}

// seen returns what the hosts tell in their Nodes.
func (a *Agent) seen(p decide.Plan) state.Fact[map[string]decide.Seen] {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nodes == nil {
		return state.Fact[map[string]decide.Seen]{}
	}
	out := map[string]decide.Seen{}
	for _, n := range a.nodes {
		if _, named := p.Hosts[n.Name]; !named || n.Absent {
			continue
		}
		var d install.Doing
		if text := n.Annotations[install.Annotation]; text != "" && json.Unmarshal([]byte(text), &d) != nil {
			return state.Fact[map[string]decide.Seen]{}
		}
		out[n.Name] = decide.Seen{
			Plan: d.Plan, Stage: d.Stage, Begun: d.Begun, Settled: d.Settled, Lacks: d.Lacks,
			Ready: n.Ready, Both: slices.ContainsFunc(n.Addresses, netip.Addr.Is4) && slices.ContainsFunc(n.Addresses, netip.Addr.Is6),
		}
	}
	return state.Known(out)
}
