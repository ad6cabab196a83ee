package keepalived

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// looker is a bench whose looks hear what a test says.
type looker struct {
	*bench
	heard []vrrp.Frame
	err   error
	view  state.NetworkView
}

func newLooker(t *testing.T) *looker {
	l := &looker{bench: newBench(t, "")}
	l.Now, l.NoProbe = time.Now, false
	l.listen = func(context.Context, string, []netip.Addr, time.Duration) (string, []vrrp.Frame, error) {
		time.Sleep(firstLook)
		return "02:00:00:00:00:0b", l.heard, l.err
	}
	return l
}

// look makes one look, and returns the pause after it and whether the VIP is barred.
func (l *looker) look(ctx context.Context) (time.Duration, bool) {
	l.t.Helper()
	instances, _ := l.asking()
	began := time.Now()
	l.survey(ctx, instances, firstLook, func(change func(*state.NetworkView)) { change(&l.view) })
	return time.Since(began) - firstLook, l.track("shop_API_0") != "0"
}

func stranger() []vrrp.Frame {
	return []vrrp.Frame{{MAC: "02:00:00:00:00:63", Claims: netip.MustParseAddr("10.98.0.5")}}
}

// An interface that is down for a moment, as it is while netplan applies, hears nobody.
func TestALookThatFailedFreesNoVIP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooker(t)
		l.reconcile(viewOf(3))
		l.heard = stranger()
		if _, barred := l.look(t.Context()); !barred {
			t.Fatal("a stranger's VIP is taken")
		}
		l.heard, l.err = nil, unix.ENETDOWN
		if pause, barred := l.look(t.Context()); !barred || len(l.view.Claims) != 1 || pause > lookAgain+lookPause {
			t.Errorf("it failed: barred %t, claims %v, the next look comes after %s", barred, l.view.Claims, pause)
		}
		l.err = nil
		if _, barred := l.look(t.Context()); barred || len(l.view.Claims) != 0 {
			t.Errorf("the stranger is gone: barred %t, claims %v", barred, l.view.Claims)
		}
	})
}

func TestNoVIPIsTakenBeforeSomebodyWasAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooker(t)
		var log strings.Builder
		l.Logf = func(f string, _ ...any) { log.WriteString(f + "\n") }
		l.reconcile(viewOf(3))
		l.err = unix.ENETDOWN
		for began := time.Now(); time.Since(began) < lookInVain; {
			if _, barred := l.look(t.Context()); !barred {
				t.Fatalf("nobody was asked, and it is taken after %s", time.Since(began))
			}
		}
		if _, barred := l.look(t.Context()); barred {
			t.Error("an interface that cannot be listened on bars the VIP for good")
		}
		if n := strings.Count(log.String(), "looking again"); n != 1 {
			t.Errorf("the failure is told %d times", n)
		}
	})
}

// A failure of yesterday is none of a row of today.
func TestAHostWithoutVIPsForgetsWhatItCouldNotHear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooker(t)
		l.reconcile(viewOf(3))
		l.err = unix.ENETDOWN
		l.look(t.Context())
		none := viewOf(3)
		none.Settings.ManagedVIPs = false
		l.reconcile(none)
		l.asking()
		time.Sleep(time.Hour)
		l.reconcile(viewOf(3))
		if _, barred := l.look(t.Context()); !barred {
			t.Error("it is taken, and nobody was asked")
		}
	})
}

// The agent ends while it looks.
func TestALookThatIsCutOffFreesNoVIP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooker(t)
		l.reconcile(viewOf(3))
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(firstLook/2, stop)
		if _, barred := l.look(ctx); !barred {
			t.Error("it is taken")
		}
	})
}
