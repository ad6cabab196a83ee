package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/outofservice"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The pauses between two looks at the taints: taintSoon growing to taintSlowly
// while something is to be done, and taintResync as a safety net beside the
// events.
const (
	taintOpen   = time.Second // between two attempts to have access to the API
	taintSoon   = 100 * time.Millisecond
	taintSlowly = 2 * time.Second
	taintResync = 30 * time.Second
)

// nodeAPI is the part of the API that taints needs.
type nodeAPI interface {
	NodeService(ctx context.Context, name string) (outofservice.Node, error)
	PatchNode(ctx context.Context, name string, ops []outofservice.Operation) error
	MarkUnready(ctx context.Context, name, message string, now time.Time) error
}

// taints keeps the taints of this cluster's nodes in step with the proofs.
type taints struct {
	host     string
	open     func() (nodeAPI, error)
	api      nodeAPI // nil until it could be opened
	boot     func() (id string, uptime time.Duration, err error)
	now      func() time.Time
	log      *slog.Logger
	event    func(state.Event) // does not wait
	evidence func() ([]state.EtcdFenced, error)
	// word reports whether an administrator has confirmed anything in this boot.
	word   func() bool
	report func(context.Context) (state.EtcdReport, error)

	mu     sync.Mutex
	marked []string // nodes that carried our mark when they last changed
}

// task looks soon again while something is to be done, and quickly after each
// event.
func (t *taints) task(wake loop.Kick) loop.Task {
	return loop.Task{
		Name: "taints", Wake: wake, Every: taintResync, Retry: taintSoon, MaxRetry: taintSlowly, RetryAnew: true,
		Limit: aRequest, Step: t.step,
	}
}

// step looks at each node that may need a change. Evidence that cannot be read
// does not change by itself.
func (t *taints) step(ctx context.Context) (loop.Result, error) {
	if t.api == nil {
		api, err := t.open()
		if errors.Is(err, fs.ErrNotExist) { // the host is not set up yet
			return loop.Result{Again: taintOpen}, nil
		}
		if err != nil {
			return loop.Result{Again: taintOpen}, err
		}
		t.api = api
	}
	pending, err := t.look(ctx)
	if err != nil && !pending {
		return loop.Result{Again: taintResync}, err
	}
	return loop.Result{Soon: pending}, err
}

func (t *taints) look(ctx context.Context) (pending bool, err error) {
	evidence, torn := t.evidence()
	marked := t.markedNodes()
	if len(evidence) == 0 && len(marked) == 0 && !t.word() {
		return false, torn
	}
	in, peer, err := t.known(ctx)
	if err != nil {
		return true, errors.Join(torn, err)
	}
	errs := []error{torn}
	for _, name := range concerned(in, peer, marked, evidence) {
		again, err := t.node(ctx, of(in, name, peer, evidence))
		errs = append(errs, err)
		pending = pending || again
	}
	return pending, errors.Join(errs...)
}

// concerned returns the nodes to look at, each once.
func concerned(in outofservice.Input, peer string, marked []string, evidence []state.EtcdFenced) []string {
	names := slices.Clone(marked)
	for _, f := range evidence {
		names = append(names, f.Target)
	}
	if in.Human.Known && peer != "" {
		names = append(names, peer)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// known returns what the etcd keeper knows about the peer, and the peer's name.
func (t *taints) known(ctx context.Context) (outofservice.Input, string, error) {
	in := outofservice.Input{Host: t.host, Now: t.now()}
	r, err := t.report(ctx)
	if err != nil {
		return in, "", err
	}
	if in.Boot, in.Uptime, err = t.boot(); err != nil {
		return in, "", err
	}
	s := r.Snapshot
	in.Contact, in.Joined, in.Human = s.Pacemaker.Contact, s.Pacemaker.Joined, s.Proofs.Human
	return in, s.Peer, nil
}

// of adds the facts about one node to in. The membership and an administrator's
// confirmation are about the peer alone.
func of(in outofservice.Input, name, peer string, evidence []state.EtcdFenced) outofservice.Input {
	in.Node.Name = name
	if name != peer {
		in.Contact, in.Human = state.Fact[bool]{}, state.Fact[state.Confirmation]{}
	}
	for _, f := range evidence {
		if f.Target == name {
			in.Fenced = state.Known(f)
		}
	}
	return in
}

// node brings one node in step. It asks for another look while the API answers
// errors, and while there is a proof that only lacks the end of contact.
func (t *taints) node(ctx context.Context, in outofservice.Input) (again bool, err error) {
	if in.Node, err = t.api.NodeService(ctx, in.Node.Name); err != nil {
		return true, err
	}
	v := outofservice.Decide(in)
	if v.Action != outofservice.Leave {
		if err := t.api.PatchNode(ctx, in.Node.Name, outofservice.Patch(in.Node, v)); err != nil {
			return true, err
		}
		t.log.Info("taint of a node", "node", in.Node.Name, "taint", outofservice.Key, "decided", fmt.Sprintf("%s, %s", v.Action, v.Reason))
		t.event(state.TaintEvent(in.Node.Name, v.Action == outofservice.Add, v.Reason))
		t.note(in.Node.Name, v.Action == outofservice.Add)
	}
	if v.Unready {
		if err := t.api.MarkUnready(ctx, in.Node.Name, "switched off, reported by "+t.host, t.now()); err != nil {
			return true, err
		}
	}
	return outofservice.Fresh(in) && v.Action == outofservice.Leave, nil
}

func (t *taints) markedNodes() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.marked)
}

// note remembers at once what the watch will report later.
func (t *taints) note(name string, marked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.marked = slices.DeleteFunc(t.marked, func(n string) bool { return n == name })
	if marked {
		t.marked = append(t.marked, name)
	}
}

// noteMarked remembers which nodes carry our mark, and reports whether any does.
func (t *taints) noteMarked(nodes []outofservice.Node) bool {
	var marked []string
	for _, n := range nodes {
		if outofservice.Ours(n) {
			marked = append(marked, n.Name)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.marked = marked
	return len(marked) > 0
}
