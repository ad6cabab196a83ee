package fence

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/lab/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAHostThatIsHeardIsNotConfirmedToBeOff(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.bmc.SetQuirks(bmc.Quirks{Says: "Off"}) // the host runs
	if err := b.confirmOff(t.Context(), "cp-1"); err == nil || !strings.Contains(err.Error(), "still answers") || b.evidence(t) != nil {
		t.Errorf("%v, evidence %v", err, b.evidence(t))
	}
	b.machine.On.Store(false)
	if err := b.confirmOff(t.Context(), "cp-1"); err != nil || b.evidence(t) == nil {
		t.Errorf("%v, evidence %v", err, b.evidence(t))
	}
}

// TestAnOffThatNobodyCouldConfirmIsNoProofForALoneHost: beside a dead switch a host that
// starts alone has the power cut itself, and only an Off that lasts after that counts. A
// peer that gets its power meanwhile is left alone.
func TestAnOffThatNobodyCouldConfirmIsNoProofForALoneHost(t *testing.T) {
	lasts(t)
	unknown := func(context.Context, string) state.Fact[bool] { return state.Fact[bool]{} }
	t.Run("it lasts", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, testPassword)
		b.hears, b.turnOf = unknown, nil
		b.machine.On.Store(false)
		begin := time.Now()
		err := b.confirmOff(t.Context(), "cp-1")
		if took := time.Since(begin); err != nil || took < 2*fencing.OffLasts || b.evidence(t) == nil || b.resets() != "[ForceOff]" {
			t.Errorf("%v after %s, evidence %v, resets %s", err, took, b.evidence(t), b.resets())
		}
		if list, err := b.Files.Fences(); err != nil || len(list) != 1 || !list[0].Off || list[0].Requests != 1 {
			t.Errorf("the history: %+v, %v", list, err)
		}
	})
	t.Run("it gets its power", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, testPassword)
		b.hears, b.turnOf = unknown, nil
		b.machine.On.Store(false)
		time.AfterFunc(time.Second, func() { b.machine.On.Store(true) })
		if err := b.confirmOff(t.Context(), "cp-1"); err == nil || !strings.Contains(err.Error(), `the BMC reads "On"`) || b.evidence(t) != nil || b.resets() != "[]" {
			t.Errorf("%v, evidence %v, resets %s", err, b.evidence(t), b.resets())
		}
	})
	t.Run("it is a member again", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, testPassword)
		b.hears = unknown
		b.turnOf = func(_ context.Context, q state.RaceRequest) (state.FenceRace, error) {
			if q.Cut {
				t.Error("it takes part in a race")
			}
			return state.FenceRace{Turn: state.RaceOrder, There: state.Known(q.Readable)}, nil
		}
		b.machine.On.Store(false)
		if err := b.confirmOff(t.Context(), "cp-1"); err == nil || !strings.Contains(err.Error(), "a member of the cluster again") || b.evidence(t) != nil || b.resets() != "[]" {
			t.Errorf("%v, evidence %v, resets %s", err, b.evidence(t), b.resets())
		}
	})
}

// TestAWatchTellsARefusedAccountSeldom uses a BMC that names no way to log in, and later
// takes the account in a session only. After the first question each tells the account
// once, and soon they are half a minute apart: iDRACs lock an account that is refused
// three times in a minute.
func TestAWatchTellsARefusedAccountSeldom(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	var told atomic.Int32
	var takes atomic.Bool
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case takes.Load() && r.Method == http.MethodPost:
			w.Header().Set("X-Auth-Token", "a token")
			w.Header().Set("Location", "/redfish/v1/SessionService/Sessions/1")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "{}")
		case takes.Load() && r.Header.Get("X-Auth-Token") != "":
			_, _ = io.WriteString(w, `{"@odata.id":"/redfish/v1/Systems/1","PowerState":"On","UUID":"`+testUUID+`","Actions":{"#ComputerSystem.Reset":{"target":"/x"}}}`)
		default:
			told.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(s.Close)
	b.at(t, s.URL+"/redfish/v1/Systems/1")
	b.write(t)
	w := Watch{agent: b.Agent}
	for i, want := range []int32{2, 1, 1, 1} {
		told.Store(0)
		if _, wait, err := w.Power(t.Context(), "cp-1"); err == nil || wait != fencing.RefusedAgain || told.Load() != want {
			t.Errorf("question %d: it told the account %d times, the next waits %s: %v", i+1, told.Load(), wait, err)
		}
	}
	takes.Store(true)
	for range 3 {
		told.Store(0)
		power, wait, err := w.Power(t.Context(), "cp-1")
		if err != nil {
			continue // it tried the other way
		}
		if power != "On" || wait != 0 || told.Load() != 0 {
			t.Errorf("%s, waits %s, refused %d times", power, wait, told.Load())
		}
	}
	if w.refused.told != 0 {
		t.Error("it was never taken")
	}
	s.Close()
	if _, wait, err := w.Power(t.Context(), "cp-1"); err == nil || wait != 0 {
		t.Errorf("a BMC that is silent locks nothing: waits %s, %v", wait, err)
	}
}

func TestOneReadingIsDatedAndSwitchesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	proof, err := b.read(t.Context(), "cp-1")
	if err != nil || proof.State != "On" || proof.Boot != "boot-1" || proof.At == 0 {
		t.Errorf("%+v, %v", proof, err)
	}
	b.bmc.SetQuirks(bmc.Quirks{OtherIdentity: true, Says: "Off"})
	if proof, err := b.read(t.Context(), "cp-1"); err == nil {
		t.Errorf("another machine's BMC is read: %+v", proof)
	}
	if b.resets() != "[]" || b.evidence(t) != nil {
		t.Errorf("resets %s, evidence %v", b.resets(), b.evidence(t))
	}
}
