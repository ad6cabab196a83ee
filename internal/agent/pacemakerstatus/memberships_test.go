package pacemakerstatus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/state"
)

// pair plays a host of two: an etcd keeper and Corosync, which both know the same
// ring.
type pair struct {
	mu sync.Mutex
	pairState
}

type pairState struct {
	ring     uint64
	down     bool // nobody listens on the socket
	hangs    bool
	deaf     bool // the keeper's version knows no mark
	asked    int
	children int // of this process
	most     int
}

func (p *pair) now() pairState { return p.set(func(*pairState) {}) }

func (p *pair) set(change func(*pairState)) pairState {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.pairState)
	return p.pairState
}

func (s pairState) membership() state.Fact[state.Membership] {
	return state.Known(state.Membership{Ring: s.ring, Members: []string{"cp-1"}, Quorate: true})
}

func (p *pair) keeper(ctx context.Context, known string) (state.Fact[state.Membership], error) {
	p.set(func(s *pairState) { s.asked++ })
	for range 1000 {
		switch s := p.now(); {
		case s.down:
			return state.Fact[state.Membership]{}, keeperclient.ErrNotRunning
		case s.hangs:
			<-ctx.Done()
			return state.Fact[state.Membership]{}, ctx.Err()
		case s.deaf || keeperclient.MembershipMark(s.membership()) != known:
			return s.membership(), nil
		}
		time.Sleep(time.Millisecond)
	}
	return p.now().membership(), nil
}

func (p *pair) corosync(ctx context.Context, changed func(state.Fact[state.Membership])) error {
	p.set(func(s *pairState) { s.children++; s.most = max(s.most, s.children) })
	defer p.set(func(s *pairState) { s.children-- })
	for last := uint64(0); ctx.Err() == nil; time.Sleep(time.Millisecond) {
		if s := p.now(); s.ring != last {
			last = s.ring
			changed(s.membership())
		}
	}
	return ctx.Err()
}

func TestTheMembershipIsToldWhateverTheKeeperDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pair{pairState: pairState{ring: 1, down: true}}
		var told []uint64
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			memberships{p.keeper, p.corosync, slog.New(slog.DiscardHandler)}.watch(ctx, func(m state.Fact[state.Membership]) {
				p.set(func(*pairState) { told = append(told, m.Value.Ring) })
			})
		}()
		// step changes the ring, which must be reported before latest is over.
		step := func(name string, children int, latest time.Duration) {
			t.Helper()
			p.set(func(s *pairState) { s.ring++ })
			time.Sleep(latest)
			p.set(func(s *pairState) {
				if len(told) == 0 || told[len(told)-1] != s.ring || !slices.IsSorted(told) || len(slices.Compact(slices.Clone(told))) != len(told) {
					t.Errorf("%s: ring %d, told %v", name, s.ring, told)
				}
				if s.children != children {
					t.Errorf("%s: %d children", name, s.children)
				}
			})
		}
		const soon, later = 10 * time.Millisecond, keeperApart + 10*time.Millisecond
		step("there is no keeper", 1, soon)
		p.set(func(s *pairState) { s.down = false })
		time.Sleep(2 * time.Second)
		step("there is one", 0, later)
		time.Sleep(time.Minute)
		step("a minute later", 0, later)
		p.set(func(s *pairState) { s.hangs = true })
		step("it hangs", 1, keeperPatience+keeperApart+soon)
		step("it still does", 1, soon)
		p.set(func(s *pairState) { s.hangs = false })
		time.Sleep(2*keeperPatience + keeperBack)
		step("it is back", 0, later)
		p.set(func(s *pairState) { s.down = true })
		time.Sleep(time.Second)
		step("it has ended", 1, soon)
		p.set(func(s *pairState) { s.down, s.deaf, s.asked = false, true, 0 })
		time.Sleep(10 * time.Second)
		if n := p.now().asked; n > 150 {
			t.Errorf("one of another version was asked %d times in 10 s", n)
		}
		cancel()
		<-ended
		if s := p.now(); s.children != 0 || s.most != 1 {
			t.Errorf("%d children are left, %d at a time", s.children, s.most)
		}
	})
}

func TestAWatchOfCorosyncThatEndsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		memberships{
			(&pair{pairState: pairState{down: true}}).keeper,
			func(context.Context, func(state.Fact[state.Membership])) error { return errors.New("gone") },
			slog.New(slog.NewTextHandler(&said, nil)),
		}.watch(ctx, nil)
		if strings.Count(said.String(), "\n") != 1 || !strings.Contains(said.String(), "gone") {
			t.Error("it is not told once")
		}
	})
}
