package fence

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/lab/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

// quirkCases lists faults of a BMC that has to switch its host off within the
// time.
var quirkCases = []struct {
	name   string
	quirks bmc.Quirks
	on     bool // the host runs before
	fenced bool // the agent reports success and leaves evidence
	alive  bool // the host runs afterwards
	resets int  // requests that reach the BMC, -1 for any number
	says   string
}{
	{"no quirk", bmc.Quirks{}, true, true, false, 1, ""},
	{"a host that is off is not asked for anything", bmc.Quirks{ConflictWhenOff: true}, false, true, false, 0, ""},
	{"202 and nothing is not off", bmc.Quirks{AcceptAndIgnore: true}, true, false, true, 1, `BMC said "On"`},
	{"an error that acts is off", bmc.Quirks{ErrorYetActs: true}, true, true, false, 1, ""},
	{"PoweringOff that sticks is not off", bmc.Quirks{PoweringOffSticks: true}, true, false, true, -1, `BMC said "PoweringOff"`},
	{"a slow power-off is waited for", bmc.Quirks{SlowOff: bmc.Duration(time.Second)}, true, true, false, 1, ""},
	{"a power-off slower than the time is not off", bmc.Quirks{SlowOff: bmc.Duration(time.Hour)}, true, false, true, 1, `BMC said "PoweringOff"`},
	{"a dead host whose BMC says On is not off", bmc.Quirks{Says: "On"}, false, false, false, -1, `BMC said "On"`},
	{"Paused is not off", bmc.Quirks{Says: "Paused"}, false, false, false, -1, `BMC said "Paused"`},
	{"null is not off", bmc.Quirks{Says: bmc.SaysNull}, false, false, false, -1, `BMC said "unknown"`},
	{"no power state is not off", bmc.Quirks{Says: bmc.SaysNothing}, false, false, false, -1, `BMC said "unknown"`},
	{"a host that is heard although its BMC says Off is cut", bmc.Quirks{Says: "Off"}, true, true, false, 1, ""},
	{"an Off that leads the power cut is waited out", bmc.Quirks{OffLeads: bmc.Duration(2 * time.Second)}, true, true, false, 1, ""},
	{"a host that goes on to be heard is not off", bmc.Quirks{OffLeads: bmc.Duration(time.Hour)}, true, false, true, 1, `BMC said "Off"`},
	{"reset types only in ActionInfo", bmc.Quirks{ActionInfoOnly: true}, true, true, false, 1, ""},
	{"one system among several", bmc.Quirks{ExtraSystems: 2}, true, true, false, 1, ""},
	{"another machine's BMC is left alone", bmc.Quirks{OtherIdentity: true}, true, false, true, 0, "another machine"},
	{"sessions that are all taken do not matter", bmc.Quirks{SessionsHeld: 8}, true, true, false, 1, ""},
	{"a power-off that begins late is waited for", bmc.Quirks{LateReset: bmc.Duration(time.Second)}, true, true, false, 1, ""},
	{"a power state from a cache is waited for", bmc.Quirks{Stale: bmc.Duration(2 * time.Second)}, true, true, false, 1, ""},
	{"400 where it is off already", bmc.Quirks{StatusWhenOff: 400}, false, true, false, -1, ""},
	{"a BMC that boots refuses the account once", bmc.Quirks{AuthStatus: 401, Refusals: 1}, true, true, false, 1, ""},
	{"a BMC that boots forbids once", bmc.Quirks{AuthStatus: 403, Refusals: 1}, true, true, false, 1, ""},
	{"a BMC that boots has no system at first", bmc.Quirks{AuthStatus: 404, Refusals: 4}, true, true, false, 1, ""},
	{"a BMC that boots is busy at first", bmc.Quirks{AuthStatus: 503, Refusals: 4}, true, true, false, 1, ""},
	{"401", bmc.Quirks{AuthStatus: 401}, true, false, true, 0, "check user name and password"},
	{"403", bmc.Quirks{AuthStatus: 403}, true, false, true, 0, "the account may operate"},
	{"500", bmc.Quirks{AuthStatus: 500}, true, false, true, 0, "it answers 500"},
	{"503", bmc.Quirks{AuthStatus: 503}, true, false, true, 0, "it answers 503"},
	{"answers that take 30 s", bmc.Quirks{Delay: bmc.Duration(30 * time.Second)}, true, false, true, 0, "no answer"},
	{"answers that take 100 ms", bmc.Quirks{Delay: bmc.Duration(100 * time.Millisecond)}, true, true, false, 1, ""},
	{"mute", bmc.Quirks{Mute: true}, true, false, true, 0, "check that the BMC is alive"},
	{"half-open", bmc.Quirks{HalfOpen: true}, true, false, true, 0, "no answer"},
	{"cut answers", bmc.Quirks{CutAnswer: true}, true, false, true, 0, "answer was cut off"},
	{"no mains power for the BMC", bmc.Quirks{Unreachable: true}, false, false, false, 0, "connection refused"},
}

func TestOnlyOffIsOff(t *testing.T) {
	t.Parallel()
	for _, c := range quirkCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "S3cr3t-battery-staple")
			b.machine.On.Store(c.on)
			b.bmc.SetQuirks(c.quirks)
			timeout := "power_timeout=20"
			if !c.fenced && c.resets == 0 {
				timeout = "power_timeout=2" // no driver has to start within it
			} else if !c.fenced {
				timeout = "power_timeout=4"
			}
			code := b.call(t, "action=off", "plug=cp-1", timeout)
			if fenced := code == exitOK; fenced != c.fenced {
				t.Errorf("exit %d: %s", code, b.err.String())
			}
			if got := b.evidence(t) != nil; got != c.fenced {
				t.Errorf("evidence is there: %v", got)
			}
			if got := b.machine.On.Load(); got != c.alive {
				t.Errorf("the host runs: %v", got)
			}
			if got := len(b.bmc.Resets()); got != c.resets && c.resets >= 0 {
				t.Errorf("resets %s, want %d", b.resets(), c.resets)
			}
			if !strings.Contains(b.err.String(), c.says) {
				t.Errorf("it does not say %q: %s", c.says, b.err.String())
			}
			if r := b.records(t); len(r) != 1 || r[0].Off != c.fenced {
				t.Errorf("history %+v", r)
			}
		})
	}
}

// TestAnOffThatNothingConfirmsHasToLast has nothing that can listen for the
// target, like a host whose networks are all cut.
func TestAnOffThatNothingConfirmsHasToLast(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]bool{"its host is off": false, "the BMC lost the host's power in a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, testPassword)
			b.hears = func(context.Context, string) state.Fact[bool] { return state.Fact[bool]{} }
			b.machine.On.Store(on)
			b.bmc.SetQuirks(bmc.Quirks{Says: "Off"})
			begin := time.Now()
			if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK || b.machine.On.Load() {
				t.Errorf("exit %d, the host runs: %v: %s", code, b.machine.On.Load(), b.err.String())
			}
			if took := time.Since(begin); took < fencing.OffLasts || len(b.bmc.Resets()) != 1 {
				t.Errorf("proven after %s, %d requests", took, len(b.bmc.Resets()))
			}
		})
	}
}

func TestWhatCannotSucceedIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for name, q := range map[string]bmc.Quirks{
		"another machine's": {OtherIdentity: true}, "a certificate that nobody vouches for": {},
	} {
		b := newBench(t, testPassword)
		b.dev.Delay = time.Minute
		if !q.OtherIdentity {
			b.RootCAs = nil
		}
		b.write(t)
		b.bmc.SetQuirks(q)
		begin := time.Now()
		if code := b.call(t, "action=off", "plug=cp-1"); code != exitFailed || time.Since(begin) > 5*time.Second {
			t.Errorf("%s: exit %d after %s", name, code, time.Since(begin))
		}
	}
}

func TestASecondRequestFollowsOneThatHadNoEffect(t *testing.T) {
	lasts(t)
	t.Parallel()
	b := newBench(t, testPassword)
	b.retryAfter = time.Second
	b.bmc.SetQuirks(bmc.Quirks{AcceptAndIgnore: true})
	if code := b.call(t, "action=off", "plug=cp-1", "power_timeout=5"); code != exitFailed || b.resets() != "[ForceOff ForceOff]" {
		t.Errorf("exit %d after %s", code, b.resets())
	}
}

func TestACertificateThatIsNotTrustedEndsTheFence(t *testing.T) {
	t.Parallel()
	for _, q := range []bmc.Quirks{{}, {Certificate: bmc.CertificateExpired}, {Certificate: bmc.CertificateOtherHost}} {
		b := newBench(t, testPassword)
		b.RootCAs = nil
		b.bmc.SetQuirks(q)
		if code := b.call(t, "action=off", "plug=cp-1"); code != exitFailed || b.resets() != "[]" || !strings.Contains(b.err.String(), "certificate is not trusted") {
			t.Errorf("%+v: exit %d after %s: %s", q, code, b.resets(), b.err.String())
		}
	}
}

// TestAWayOfAskingThatABMCWantsIsFound lets the agent send the requests itself,
// because the behaviour of fence_redfish is not ours.
func TestAWayOfAskingThatABMCWantsIsFound(t *testing.T) {
	t.Parallel()
	for name, q := range map[string]bmc.Quirks{
		"a state that is named":        {IfMatch: bmc.IfMatchNeeded},
		"no state that is named":       {IfMatch: bmc.IfMatchRefused},
		"a slash at the end":           {NeedsSlash: true},
		"a slash and a state":          {NeedsSlash: true, IfMatch: bmc.IfMatchNeeded},
		"its first answer is a hiccup": {AuthStatus: 503, Refusals: 1},
	} {
		b := newBench(t, "пароль") // which fence_redfish does not accept
		b.bmc.SetQuirks(q)
		if code := b.call(t, "action=off", "plug=cp-1", "power_timeout=10"); code != exitOK || b.machine.On.Load() {
			t.Errorf("%s: exit %d, the host runs: %v: %s", name, code, b.machine.On.Load(), b.err.String())
		}
	}
}

// TestAPersonsWordAboutABMCGoesBeforeItsHosts uses a BMC whose UUID and serial
// number differ from those in SMBIOS.
func TestAPersonsWordAboutABMCGoesBeforeItsHosts(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.dev.UUID, b.dev.Serial = "4c4c4544-0051-3310-8051-b7c04f4e9999", "another"
	b.write(t)
	if code := b.call(t, "action=off", "plug=cp-1", "power_timeout=5"); code != exitFailed || !b.machine.On.Load() {
		t.Fatalf("without a word: exit %d", code)
	}
	b.dev.SystemID = testSerial
	b.write(t)
	if code := b.call(t, "action=off", "plug=cp-1", "power_timeout=20"); code != exitOK || b.machine.On.Load() {
		t.Errorf("with it: exit %d: %s", code, b.err.String())
	}
}
