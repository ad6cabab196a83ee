package kube

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// way is a way of following nodes: it reports their names after each change.
type way func(ctx context.Context, s *Servers, logf func(string, ...any), told func([]string))

func followed(ctx context.Context, s *Servers, logf func(string, ...any), told func([]string)) {
	_ = FollowNodes(ctx, s, logf, func(nodes []state.Node) {
		var names []string
		for _, n := range nodes {
			names = append(names, n.Name)
		}
		told(names)
	})
}

// measured is how long a way took, and how many whole lists it requested.
type measured struct {
	took  time.Duration
	lists int
}

func (m measured) String() string {
	if m.took < 0 {
		return "not within " + blind.String()
	}
	return fmt.Sprintf("%s, %d lists", m.took.Round(10*time.Millisecond), m.lists)
}

// blind is the time after which a way will not report any more.
const blind = time.Hour

// measure lets the fault strike, before or while a way follows, and returns how long it
// takes until the way reports the state after it.
func measure(t *testing.T, f fault, follow way, running bool) (out measured) {
	pair := pairOfServers(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, f, pair)
		ctx, stop := context.WithCancel(t.Context())
		told, done := make(chan []string, 10000), make(chan struct{})
		if !running {
			close(r.first.struck)
		}
		began := time.Now()
		go func() {
			defer close(done)
			follow(ctx, r.servers, func(string, ...any) {}, func(names []string) { told <- names })
		}()
		defer func() { stop(); <-done; time.Sleep(2 * dialTimeout) }() // dials go on after their request has ended
		if running {
			if !waits(told, "[a b]") {
				t.Fatal("nothing was told of good servers")
			}
			time.Sleep(10*time.Minute + 30*time.Second)
			r.first.lists, r.next.lists = 0, 0
			close(r.first.struck)
			began = time.Now()
			r.cluster.add("c")
		}
		out.took = -1
		if waits(told, map[bool]string{true: "[a b c]", false: "[a b]"}[running]) {
			out.took = time.Since(began)
		}
		for _, n := range []*node{r.first, r.next} {
			n.mu.Lock()
			out.lists += n.lists
			n.mu.Unlock()
		}
	})
	return out
}

func waits(told <-chan []string, want string) bool {
	end := time.After(blind)
	for {
		select {
		case got := <-told:
			if fmt.Sprint(got) == want {
				return true
			}
		case <-end:
			return false
		}
	}
}

// TestAFaultyServerIsLeftForTheNextOne has a line for each fault: how soon a new
// follower reports the list nevertheless, and how soon a running one reports a change.
func TestAFaultyServerIsLeftForTheNextOne(t *testing.T) {
	const atOnce = 650 * time.Millisecond // two pauses after a first failure
	limits := map[string]struct{ begins, follows time.Duration }{
		saysNothing:      {opening + atOnce, silence + atOnce},
		halfAListIsTold:  {opening + atOnce, silence + atOnce},
		hostIsGone:       {dialTimeout + atOnce, silentFor + answerWithin + atOnce},
		addressHasMoved:  {atOnce, silentFor + answerWithin + atOnce},
		refusesToConnect: {atOnce, atOnce},
		answers500:       {atOnce, atOnce},
		answers503:       {atOnce, atOnce},
		answers429:       {atOnce, atOnce},
		answers403:       {atOnce, atOnce},
		forgotInAnAnswer: {atOnce, atOnce},
		forgotInAWatch:   {atOnce, atOnce},
	}
	for name, f := range faults {
		for running, limit := range map[bool]time.Duration{false: limits[name].begins, true: limits[name].follows} {
			t.Run(fmt.Sprintf("%s, follows: %t", name, running), func(t *testing.T) {
				got := measure(t, f, followed, running)
				t.Log(got)
				if got.took < 0 || got.took > limit {
					t.Errorf("it took %s, want at most %s", got, limit)
				}
				// A new follower needs the list. A running one continues where it was,
				// unless the server has forgotten that.
				want := 1
				if running && name != forgotInAnAnswer && name != forgotInAWatch {
					want = 0
				}
				if got.lists != want {
					t.Errorf("%d whole lists were told, want %d", got.lists, want)
				}
			})
		}
	}
}
