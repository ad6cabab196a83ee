package redirect

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/model/state"
)

// fake is a table in memory.
type fake struct {
	mu   sync.Mutex
	is   apilb.Redirect
	sets int
	err  error
	// touched tells the watch.
	touched chan struct{}
}

func newFake() *fake { return &fake{touched: make(chan struct{}, 8)} }

func (f *fake) Set(r apilb.Redirect) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil || reflect.DeepEqual(f.is, r) {
		return false, f.err
	}
	f.is, f.sets = r, f.sets+1
	return true, nil
}

func (f *fake) Matches(r apilb.Redirect) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return reflect.DeepEqual(f.is, r), f.err
}

func (f *fake) Watch(ctx context.Context, changed func()) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.touched:
			changed()
		}
	}
}

// flush empties the table, as somebody else would.
func (f *fake) flush() {
	f.mu.Lock()
	f.is = apilb.Redirect{}
	f.mu.Unlock()
	f.touched <- struct{}{}
}

func (f *fake) content() apilb.Redirect {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.is
}

func view(live bool) state.NetworkView {
	return state.NetworkView{
		Role:     state.RoleMaster,
		Settings: state.NetworkSettings{Cluster: "shop", ManagedVIPs: true, APIVIPs: []netip.Addr{netip.MustParseAddr("10.98.0.5")}},
		Balancer: state.Known(state.Balancer{Backends: map[string]bool{"cp-1": live}}),
	}
}

// running runs the reconciler and returns what it told, one value per change.
func running(t *testing.T, p *Reconciler) <-chan bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	told, done := make(chan bool, 16), make(chan struct{})
	go func() {
		defer close(done)
		_ = p.Run(ctx, func(change func(*state.NetworkView)) {
			var v state.NetworkView
			change(&v)
			told <- v.Redirected
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return told
}

func reconcile(t *testing.T, p *Reconciler, v state.NetworkView) string {
	t.Helper()
	said, err := p.Reconcile(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	return said
}

func await[T comparable](t *testing.T, from <-chan T, want T) {
	t.Helper()
	select {
	case got := <-from:
		if got != want {
			t.Fatalf("told %v, want %v", got, want)
		}
	case <-time.After(5 * time.Second):
		t.Fatalf("never told %v", want)
	}
}

func TestAFlushIsMendedWithoutAWordToTheRestOfTheHost(t *testing.T) {
	table := newFake()
	p := New(table, time.Now)
	told := running(t, p)
	if said := reconcile(t, p, view(true)); said != "10.98.0.5:6443 to :9445" {
		t.Errorf("said %q", said)
	}
	await(t, told, true)
	table.flush()
	for deadline := time.Now().Add(5 * time.Second); len(table.content().VIPs) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not mended")
		}
	}
	if len(told) > 0 {
		t.Error("the view saw the redirect gone: a VIP would have moved")
	}
	if said := reconcile(t, p, view(true)); said != "10.98.0.5:6443 to :9445, which had been changed by another program or by hand" {
		t.Errorf("a person should read of it: %q", said)
	}
	if said := reconcile(t, p, view(true)); said != "" || table.sets != 2 {
		t.Errorf("it is not quiet: %q, %d writes", said, table.sets)
	}
}

// B38: a table that cannot be read is neither there nor gone.
func TestB38_AnErrorIsNoAnswer(t *testing.T) {
	table := newFake()
	p := New(table, time.Now)
	told := running(t, p)
	reconcile(t, p, view(true))
	await(t, told, true)
	table.mu.Lock()
	table.err = errors.New("netlink: no buffer space")
	table.mu.Unlock()
	if _, err := p.Reconcile(t.Context(), view(true)); err == nil {
		t.Error("the error is not told")
	}
	if len(told) > 0 {
		t.Error("an error counts as gone")
	}
	gone := view(true)
	gone.Balancer = state.Fact[state.Balancer]{}
	_, _ = p.Reconcile(t.Context(), gone)
	await(t, told, false) // haproxy is dead: whatever the table does, it does not lead to it
}

func TestTheAgentsRestartTakesNothingAway(t *testing.T) {
	table := newFake()
	table.is = apilb.To([]netip.Addr{netip.MustParseAddr("10.98.0.5")})
	p := New(table, time.Now)
	told := running(t, p)
	early := view(true)
	early.Balancer = state.Fact[state.Balancer]{}
	reconcile(t, p, early)
	await(t, told, true)
	reconcile(t, p, view(true))
	if table.sets != 0 || len(told) > 0 {
		t.Errorf("%d writes, %d words", table.sets, len(told))
	}
}

func TestTheDecisionIsMadeAgainWhenItsTimeComes(t *testing.T) {
	table := newFake()
	p := New(table, time.Now)
	told := running(t, p)
	reconcile(t, p, view(true))
	await(t, told, true)
	began := time.Now()
	reconcile(t, p, view(false)) // no API server lives, and nothing else happens
	await(t, told, false)
	if took := time.Since(began); took < apilb.Fruitless || took > apilb.Fruitless+2*time.Second {
		t.Errorf("off after %v", took)
	}
}
