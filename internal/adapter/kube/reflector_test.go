package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// turning is client-go's view of the servers: after a request that failed, the
// next request goes to the next server.
type turning struct {
	*Servers
	limits bool
	mu     sync.Mutex
	failed int
}

func (s *turning) next(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed++; err == nil {
		s.failed = 0
	}
}

func (s *turning) at() (*Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.Addresses()
	return s.client(a[s.failed%len(a)])
}

func (s *turning) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	c, err := s.at()
	if err != nil {
		return nil, err
	}
	if s.limits {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, opening)
		defer stop()
	}
	l, err := c.set.CoreV1().Nodes().List(ctx, o)
	s.next(err)
	return l, err
}

func (s *turning) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	c, err := s.at()
	if err != nil {
		return nil, err
	}
	if !s.limits {
		w, err := c.set.CoreV1().Nodes().Watch(ctx, o)
		s.next(err)
		return w, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	idle := time.AfterFunc(opening, func() { stop(errors.New("it says nothing")) })
	w, err := c.set.CoreV1().Nodes().Watch(ctx, o)
	if err != nil {
		idle.Stop()
		stop(nil)
		s.next(err)
		return nil, err
	}
	if o.SendInitialEvents == nil {
		idle.Reset(silence)
	}
	return s.bounded(ctx, stop, w, idle), nil
}

// bounded ends a silent watch.
func (s *turning) bounded(ctx context.Context, stop context.CancelCauseFunc, w watch.Interface, idle *time.Timer) watch.Interface {
	out, in := make(chan watch.Event), w.ResultChan()
	go func() {
		defer close(out)
		defer idle.Stop()
		heard := false
		for e := range in {
			idle.Reset(silence)
			heard = heard || e.Type != watch.Error
			select {
			case out <- e:
			case <-ctx.Done():
			}
		}
		if !heard {
			s.next(errors.New("it told nothing"))
		} else if ctx.Err() == nil {
			s.next(nil)
		} else {
			s.next(context.Cause(ctx))
		}
	}()
	return &boundedWatch{w, out, stop}
}

type boundedWatch struct {
	watch.Interface
	out  chan watch.Event
	stop context.CancelCauseFunc
}

func (b *boundedWatch) ResultChan() <-chan watch.Event { return b.out }
func (b *boundedWatch) Stop()                          { b.stop(nil); b.Interface.Stop() }

func (s *turning) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.TODO(), o)
}

func (s *turning) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.TODO(), o)
}

// kept is a store of client-go that reports each change.
type kept struct {
	items map[string]bool
	told  func([]string)
}

func (k *kept) change(o any, there bool) error {
	n, ok := o.(*corev1.Node)
	if !ok {
		return fmt.Errorf("%T", o)
	}
	delete(k.items, n.Name)
	if there {
		k.items[n.Name] = true
	}
	k.told(slices.Sorted(maps.Keys(k.items)))
	return nil
}

func (k *kept) Add(o any) error    { return k.change(o, true) }
func (k *kept) Update(o any) error { return k.change(o, true) }
func (k *kept) Delete(o any) error { return k.change(o, false) }
func (k *kept) Resync() error      { return nil }
func (k *kept) Replace(list []any, _ string) error {
	k.items = map[string]bool{}
	for _, o := range list {
		k.items[o.(*corev1.Node).Name] = true
	}
	k.told(slices.Sorted(maps.Keys(k.items)))
	return nil
}

func reflected(limits bool) way {
	return func(ctx context.Context, s *Servers, _ func(string, ...any), told func([]string)) {
		quiet := logr.Discard()
		o := cache.ReflectorOptions{Logger: &quiet}
		if limits {
			o.Backoff = &wait.Backoff{Duration: 200 * time.Millisecond, Cap: 2 * time.Second, Steps: 4, Factor: 2, Jitter: 1}
		}
		cache.NewReflectorWithOptions(&turning{Servers: s, limits: limits}, &corev1.Node{}, &kept{told: told}, o).
			RunWithContext(klog.NewContext(ctx, quiet))
	}
}

// TestTheReflectorOfClientGoIsSlowerOrBlind is the evidence for ADR 0044, which
// explains why Follow is our own. It fails when a release of client-go does
// better: then read the ADR again.
func TestTheReflectorOfClientGoIsSlowerOrBlind(t *testing.T) {
	for _, name := range []string{saysNothing, halfAListIsTold, hostIsGone} {
		for _, running := range []bool{false, true} {
			if got := measure(t, faults[name], reflected(false), running); got.took >= 0 {
				t.Errorf("%s, follows: %t: the reflector as it is takes %s, and was blind", name, running, got)
			}
		}
	}
	ours, limited := measure(t, faults[hostIsGone], followed, true), measure(t, faults[hostIsGone], reflected(true), true)
	t.Logf("%s: the reflector with limits of ours takes %s, Follow %s", hostIsGone, limited, ours)
	if limited.took < 2*ours.took || limited.lists == 0 {
		t.Errorf("%s: the reflector with limits of ours takes %s, Follow %s", hostIsGone, limited, ours)
	}
}

// TestAllMeasures prints the table of ADR 0044: go test -run TestAllMeasures
// -v.
func TestAllMeasures(t *testing.T) {
	if !testing.Verbose() {
		t.Skip("it writes a table and checks nothing")
	}
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		for _, running := range []bool{false, true} {
			t.Logf("| %s | %t | %s | %s | %s |", name, running, measure(t, faults[name], followed, running),
				measure(t, faults[name], reflected(false), running), measure(t, faults[name], reflected(true), running))
		}
	}
}
