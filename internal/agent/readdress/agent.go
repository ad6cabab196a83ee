// Package readdress takes a host to the place of a plan at which it finds itself
// (docs/adr/0095). decide/readdress says what comes next. This package looks, does one act,
// and looks again. It owns the plan, the journal and the copies below
// /var/lib/holdfast/readdress, so it may be killed at any line.
package readdress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/nodeaddress"
	decide "github.com/holdfast/holdfast/internal/decide/readdress"
	install "github.com/holdfast/holdfast/internal/install/readdress"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The pauses between two looks, and the limit of one run.
const (
	often = 2 * time.Second
	limit = 5 * time.Minute
	// seldom is the pause between two looks at what a move needs.
	seldom = 30 * time.Second
	// asks bounds one question to etcd.
	asks = 3 * time.Second
)

// Etcd is what the agent has of the host's own etcd.
type Etcd interface {
	PeerURLs(ctx context.Context) (state.MemberID, map[state.MemberID][]string, error)
	Relocate(ctx context.Context, id state.MemberID, peerURL string) error
	io.Closer
}

// World has the effects of a move on this host and its cluster.
type World struct {
	// Kernel returns the addresses and routes of the host.
	Kernel func() ([]nodeaddress.Address, []state.HostRoute, error)
	// Boot names this boot of the host.
	Boot func() (string, error)
	// Able says why Move cannot end, nil if it can. Keep copies the files of the host that Move
	// changes; Trim and Forget take what is left of the former place.
	Able   func(p decide.Plan, to decide.Side, j decide.Journal) error
	Keep   func() error
	Move   func(p decide.Plan, to decide.Side, j decide.Journal) error
	Trim   func(p decide.Plan, at decide.Side, j decide.Journal) error
	Forget func() error
	// Reboot boots the host.
	Reboot func(ctx context.Context) error
	// Etcd opens the host's own etcd. Only a control plane asks for it.
	Etcd func() (Etcd, error)
	// Cluster gives the objects of the cluster the addresses of a side.
	Cluster func(ctx context.Context, p decide.Plan, to decide.Side, j decide.Journal) error
	// Lead leads connections to where etcd's members were to where they are.
	Lead func(map[netip.Addr]netip.Addr) error
	// Quiet stops Pacemaker, and with it kubelet and etcd, on a host that Pacemaker runs.
	Quiet func(ctx context.Context) error
	// Withdraw takes the announcement of the move of an id, which is over, out of the cluster.
	Withdraw func(ctx context.Context, id string) error
	// Tell publishes what the host says of the plan, for its Node.
	Tell func(ctx context.Context, node, value string) error
}

// Agent follows the plan of one host.
type Agent struct {
	World
	Store        install.Store
	Host         func() string // the name of its node
	ControlPlane bool
	Now          func() time.Time

	mu       sync.Mutex
	objects  *kube.Infrastructure // as the API last said
	nodes    []state.Node         // nil until the API has listed them
	seen     []nodeaddress.Address
	since    time.Time
	told     string
	announce string // the plan that the API shows
	unled    bool   // nothing leads anywhere
	// unable says why the host cannot move, as it was seen at ableAt for the plan and the side
	// ableOf.
	unable, ableOf string
	ableAt         time.Time
}

// Task returns the task that follows the plan. Without a plan it reads one file and ends.
func (a *Agent) Task() loop.Task {
	return loop.Task{Name: "addresses of the site", Every: often, Retry: often, MaxRetry: 30 * time.Second, Limit: limit, Step: a.step}
}

// Nodes hears the API's list of nodes.
func (a *Agent) Nodes(list []state.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nodes = list
}

// Infrastructure hears the API's word on the network, and reports whether the network of
// this host may follow it. Until the cluster's objects have the addresses of the place to which
// this host has moved, it goes by its own files.
func (a *Agent) Infrastructure(in kube.Infrastructure) bool {
	a.mu.Lock()
	a.objects, a.announce = &in, in.Readdress
	a.mu.Unlock()
	plan, journal, err := a.Store.Load()
	return err != nil || plan == nil || journal.Follows(sideOf(*plan, in))
}

// Here returns the nodes of the API with the addresses at which the network of this host finds them.
func (a *Agent) Here(listed []state.Node) []state.Node {
	plan, journal, err := a.Store.Load()
	if err != nil || plan == nil {
		return listed
	}
	return decide.Nodes(*plan, journal, a.Host(), listed)
}

// Announced says that the API announces a move, empty if it does not.
func (a *Agent) Announced() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.announce == "" {
		return ""
	}
	return "a move of the site is announced; to follow it: holdfast site readdress show"
}

func (a *Agent) step(ctx context.Context) (loop.Result, error) {
	plan, journal, err := a.Store.Load()
	if err == nil {
		plan, journal, err = a.hear(plan, journal)
	}
	if err != nil {
		return loop.Result{}, err
	}
	if plan == nil {
		return loop.Result{}, errors.Join(a.lead(nil), a.ended(ctx, nil))
	}
	f, err := a.facts(ctx, plan, journal)
	if err != nil {
		return loop.Result{}, err
	}
	led := a.lead(decide.Leads(f))
	s := decide.Decide(f)
	if f.Lacks = a.lacks(f, s); f.Lacks != "" {
		s = decide.Decide(f)
	}
	if s.Act == decide.Idle {
		return loop.Result{}, errors.Join(led, a.ended(ctx, plan), a.drop(ctx, f))
	}
	changed, err := a.act(ctx, f, s)
	return loop.Result{Changed: changed}, errors.Join(led, err, a.tell(ctx, f, s, err))
}

// lacks says why the host cannot begin to move, empty if it can. Before it begins it looks each
// time; while it waits for that, it looks twice a minute, since a look signs certificates.
func (a *Agent) lacks(f decide.Facts, s decide.Step) string {
	if s.Act != decide.Begin && (s.Act != decide.Wait || f.Journal.Over) {
		return ""
	}
	to, now := f.Journal.At.Other(), a.Now()
	if of := f.Plan.ID + " " + string(to); s.Act == decide.Begin || a.ableOf != of || now.Sub(a.ableAt) >= seldom {
		a.ableOf, a.ableAt, a.unable = of, now, ""
		if err := a.Able(*f.Plan, to, f.Journal); err != nil {
			a.unable = err.Error()
		}
	}
	return a.unable
}

// lead keeps the way to members of etcd that have moved. A table of an earlier run is taken
// away once.
func (a *Agent) lead(to decide.Mapping) error {
	if len(to) == 0 && a.unled {
		return nil
	}
	if err := a.Lead(to); err != nil {
		return err
	}
	a.unled = len(to) == 0
	return nil
}

// hear keeps a plan that the API announces. A plan that this host is carrying out stays, and
// one that has changed nothing here is dropped once nobody announces it any more. It returns
// the plan that the host has then.
func (a *Agent) hear(have *decide.Plan, journal decide.Journal) (*decide.Plan, decide.Journal, error) {
	a.mu.Lock()
	text, heard := a.announce, a.objects != nil
	a.mu.Unlock()
	if !heard {
		return have, journal, nil
	}
	free := have == nil || journal.Free()
	if text == "" {
		if have != nil && free && !have.Local {
			return nil, decide.Journal{}, a.Store.Drop()
		}
		return have, journal, nil
	}
	var p decide.Plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return nil, journal, fmt.Errorf("annotation %s of the Infrastructure object: %w", kube.ReaddressAnnotation, err)
	}
	same := have != nil && have.Same(p)
	if have != nil && (have.ID == p.ID || !free && !same) {
		return have, journal, nil
	}
	if bad := p.Check(); len(bad) > 0 {
		return nil, journal, fmt.Errorf("annotation %s of the Infrastructure object: %w", kube.ReaddressAnnotation, decide.Refused(bad...))
	}
	if same { // the host goes on, and its word is about the plan that all have
		return &p, journal, a.Store.Put(p, journal)
	}
	begins, err := a.begins(p)
	if err != nil || !begins.Known {
		return have, journal, err
	}
	return &p, begins.Value, a.Store.Replace(p, begins.Value)
}

// begins returns the journal with which this host takes a plan.
func (a *Agent) begins(p decide.Plan) (state.Fact[decide.Journal], error) {
	f := decide.Facts{Host: a.Host(), Plan: &p}
	var err error
	if f.Addresses, f.Routes, err = a.Kernel(); err != nil {
		return state.Fact[decide.Journal]{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var node []netip.Addr
	if i := slices.IndexFunc(a.nodes, func(n state.Node) bool { return n.Name == f.Host }); i >= 0 {
		node = a.nodes[i].Addresses
	}
	return f.Heard(node), nil
}

func (a *Agent) facts(ctx context.Context, plan *decide.Plan, journal decide.Journal) (decide.Facts, error) {
	addresses, routes, err := a.Kernel()
	if err != nil {
		return decide.Facts{}, err
	}
	boot, err := a.Boot()
	if err != nil {
		return decide.Facts{}, err
	}
	f := decide.Facts{Host: a.Host(), ControlPlane: a.ControlPlane, Plan: plan, Journal: journal, Addresses: addresses, Routes: routes, Boot: boot}
	a.mu.Lock()
	if !reflect.DeepEqual(a.seen, addresses) || a.since.IsZero() {
		a.seen, a.since = addresses, a.Now()
	}
	f.Same = a.Now().Sub(a.since)
	if a.objects != nil {
		f.Objects = sideOf(*plan, *a.objects)
	}
	if a.nodes != nil {
		f.Hosts = state.Known(sidesOf(*plan, a.nodes))
	}
	a.mu.Unlock()
	if a.ControlPlane && journal.Moving == "" {
		a.members(ctx, &f)
	}
	return f, nil
}

// members asks etcd where its members look for one another.
func (a *Agent) members(ctx context.Context, f *decide.Facts) {
	ctx, stop := context.WithTimeout(ctx, asks)
	defer stop()
	e, err := a.Etcd()
	if err != nil {
		return
	}
	defer e.Close() //nolint:errcheck // nothing was written
	self, at, err := e.PeerURLs(ctx)
	if err != nil {
		return
	}
	urls := map[string]decide.Side{}
	for _, side := range []decide.Side{decide.From, decide.To} {
		for _, own := range slices.Concat(f.Plan.Own(f.Host, side, f.Journal), f.Plan.Place(side).All()) {
			urls[etcdpod.PeerURL(own)] = side
		}
	}
	var sides []decide.Side
	for id, list := range at {
		var side decide.Side
		for _, url := range list {
			if s, known := urls[url]; known {
				side = s
			} else if at, err := netip.ParseAddrPort(strings.TrimPrefix(url, "https://")); err == nil {
				side = f.Plan.Of("", []netip.Addr{at.Addr()}) // of a host that came later
			}
		}
		sides = append(sides, side)
		if id == self {
			f.Member = state.Known(side)
		}
	}
	slices.Sort(sides)
	f.Members = state.Known(sides)
}

// sideOf says at which place the API has the site.
func sideOf(p decide.Plan, in kube.Infrastructure) state.Fact[decide.Side] {
	return install.Object(in).SideOf(p)
}

// sidesOf says of each node at which place the API has it.
func sidesOf(p decide.Plan, nodes []state.Node) map[string]decide.Side {
	out := map[string]decide.Side{}
	for _, n := range nodes {
		out[n.Name] = p.Of(n.Name, n.Addresses)
	}
	return out
}
