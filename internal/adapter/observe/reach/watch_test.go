package reach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/holdfast/holdfast/internal/decide/reach"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
)

// watched is a host that watches its own reach, with a clock that a test can
// advance.
type watched struct {
	*Prober
	ahead time.Duration
	there bool
	hurry chan struct{}
	told  []state.Reach
}

// watch passes each change to the next step, and ends after the last step.
func (w *watched) watch(t *testing.T, steps ...func(state.Reach)) {
	t.Helper()
	begin := time.Now().Add(-time.Hour)
	w.Uptime = func() time.Duration { return time.Since(begin) + w.ahead }
	w.hurry = make(chan struct{}, 1)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	err := Watch(ctx, w.Prober, func() (bool, time.Duration) { return w.there, 0 }, w.hurry, func(r state.Reach) {
		w.told = append(w.told, r)
		if steps[0](r); len(steps) == 1 {
			stop()
		}
		steps = steps[min(1, len(steps)-1):]
	}, func(err error) { t.Error(err) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, after %+v", err, w.told)
	}
}

// reachable returns a host whose gateway is the other host of a pair.
func reachable(t *testing.T) (*watched, netns.NsHandle) {
	t.Helper()
	there := netnstest.Pair(t, []string{"10.98.0.11/24"}, []string{"10.98.0.1/24"})
	route(t, "10.98.0.1")
	return &watched{Prober: newProber("10.98.0.11", "10.98.0.12"), there: true}, there
}

func TestACableThatIsOutIsToldWithinASecond(t *testing.T) {
	w, there := reachable(t)
	var out time.Time
	w.watch(t,
		func(r state.Reach) {
			if r.State != state.ReachYes {
				t.Errorf("%+v", r)
			}
			netnstest.In(t, there, func() { down(t) })
			w.hurry <- struct{}{} // Corosync lost the peer
			out = time.Now()
		},
		func(r state.Reach) {
			if took := time.Since(out); r.State != state.ReachNo || !strings.Contains(r.Why, "no signal") || took > time.Second {
				t.Errorf("%+v after %s", r, took)
			}
		},
	)
}

func TestAGatewayThatIsGoneBesideItsPeerSaysNothingAfterTenSeconds(t *testing.T) {
	w, there := reachable(t)
	w.watch(t,
		func(r state.Reach) {
			if r.State != state.ReachYes {
				t.Errorf("%+v", r)
			}
			drop(t, there)
		},
		func(r state.Reach) {
			if r.State != state.ReachYes || !r.Doubt {
				t.Errorf("an answer is late, and it is no doubt: %+v", r)
			}
		},
		func(r state.Reach) {
			if r.State != state.ReachNo || r.Doubt || !strings.Contains(r.Why, "gateway 10.98.0.1") {
				t.Errorf("%+v", r)
			}
			w.ahead += reach.Together
		},
		func(r state.Reach) {
			if r.State != state.ReachUnknown {
				t.Errorf("%+v", r)
			}
		},
	)
}

func TestAFailureOfItsKindIsToldOnce(t *testing.T) {
	p := newProber("192.0.2.77", "192.0.2.78") // no interface has this address
	ctx, stop := context.WithCancel(t.Context())
	hurry := make(chan struct{}, 8)
	rounds, told := 0, 0
	contact := func() (bool, time.Duration) {
		if rounds++; rounds == 4 {
			stop()
		}
		hurry <- struct{}{}
		return false, 0
	}
	err := Watch(ctx, p, contact, hurry, func(r state.Reach) { t.Errorf("told %+v", r) }, func(error) { told++ })
	if !errors.Is(err, context.Canceled) || told != 1 {
		t.Errorf("told %d times in %d rounds, %v", told, rounds, err)
	}
}

func TestNeighboursAreAskedOftenWhileSomebodyIsLate(t *testing.T) {
	for missed, calm := range []bool{true, false, false, false, true, true} {
		if got := allWell([]reach.Neighbour{{}, {Missed: missed}}); got != calm {
			t.Errorf("%d of %d missed: %t", missed, reach.Missed, got)
		}
	}
}

func TestAHostTellsTheAddressesOfItsNetworksOnly(t *testing.T) {
	here, there := netnstest.New(t, ""), netnstest.New(t, "")
	for _, nic := range []string{"eth0", "stor0", "cni0"} {
		netnstest.Join(t, here, nic, there, nic)
	}
	netnstest.Give(t, here, "stor0", "10.99.0.11/24")
	netnstest.Give(t, here, "eth0", "fd98::11/64", "10.98.0.11/24", "10.98.0.5/32") // the last is a virtual IP
	netnstest.Give(t, here, "cni0", "10.42.0.1/24")
	netnstest.Enter(t, here)
	got, _, err := Own()
	if want := "[10.98.0.11 10.99.0.11 fd98::11]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v, %v, want %s", got, err, want)
	}
	hardware := func(want int) {
		t.Helper()
		_, list, err := Own()
		own := hardwareOf(t, here).String()
		if err != nil || len(list) != want || want > 0 && (!slices.Contains(list, own) || !slices.IsSorted(list)) {
			t.Errorf("%v, %v: want %d with %s", list, err, want, own)
		}
	}
	hardware(2)
	for n := range mostHardware - 2 {
		netnstest.Join(t, here, fmt.Sprintf("eth%d", n+1), there, fmt.Sprintf("eth%d", n+1))
	}
	hardware(mostHardware)
	netnstest.Join(t, here, "eth99", there, "eth99")
	hardware(0) // a list that lacks one would make this host pass for another
}
