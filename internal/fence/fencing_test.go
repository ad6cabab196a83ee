package fence

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/lab/bmc"
	"github.com/holdfast/holdfast/internal/lab/bmc/bmctest"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestTheDelayIsNotWaitedForAHostThatIsOff(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.machine.On.Store(false)
	b.dev.Delay = time.Minute
	b.write(t)
	begin := time.Now()
	if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK || time.Since(begin) > 5*time.Second || b.resets() != "[]" {
		t.Errorf("exit %d after %s and %s: %s", code, time.Since(begin), b.resets(), b.err.String())
	}
}

func TestTheDelayEndsWhenTheHostGoesOff(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.dev.Delay = time.Minute
	b.write(t)
	timer := time.AfterFunc(300*time.Millisecond, func() {
		if err := b.bmc.Cut(context.Background()); err != nil {
			t.Error(err)
		}
	})
	defer timer.Stop()
	begin := time.Now()
	if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK || time.Since(begin) > 10*time.Second || b.resets() != "[]" {
		t.Errorf("exit %d after %s and %s: %s", code, time.Since(begin), b.resets(), b.err.String())
	}
}

func TestAHostThatRunsIsFencedOnlyAfterTheDelay(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.dev.Delay = 1500 * time.Millisecond
	b.write(t)
	begin := time.Now()
	if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	if resets := b.bmc.Resets(); len(resets) != 1 || resets[0].At.Sub(begin) < b.dev.Delay {
		t.Errorf("resets %+v, begun at %s", resets, begin)
	}
}

// scripted replaces an agent's driver with a shell script.
func scripted(t *testing.T, b *bench, script string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "driver")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.Driver = []string{path}
}

func TestADriverIsNeverBelieved(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, script string
		within       time.Duration
	}{
		{"it fails", "cat >/dev/null; echo no; exit 1", 4 * time.Second},
		{"it is not there", "", 4 * time.Second},
		{"it claims success and did nothing", "cat >/dev/null; echo 'Success: Powered OFF'", 15 * time.Second},
		{"it hangs", "cat >/dev/null; exec sleep 1000", 15 * time.Second},
		{"it does not read", "exec sleep 1000", 15 * time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, testPassword)
			b.retryAfter = 0
			b.Driver = []string{"/nowhere/fence_redfish"}
			if c.script != "" {
				scripted(t, b, c.script)
			}
			begin := time.Now()
			if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK || time.Since(begin) > c.within {
				t.Errorf("exit %d after %s: %s", code, time.Since(begin), b.err.String())
			}
			if b.machine.On.Load() || b.resets() != "[ForceOff]" {
				t.Errorf("the host runs: %v, after %s", b.machine.On.Load(), b.resets())
			}
		})
	}
}

func TestTheDriverGetsTheAccountOnItsInputOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	seen := filepath.Join(t.TempDir(), "seen")
	scripted(t, b, "echo \"$0 $*\" >"+seen+"; env >>"+seen+"; cat >"+seen+".stdin; exit 1")
	if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	open, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := os.ReadFile(seen + ".stdin")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(open), "S3cr3t") || strings.Contains(string(open), testUser) {
		t.Errorf("arguments or environment hold the account:\n%s", open)
	}
	for _, want := range []string{"action=\"off\"\n", "systems_uri=\"/redfish/v1/Systems/1\"\n", "password=\"" + testPassword + "\"\n"} {
		if !strings.Contains(string(stdin), want) {
			t.Errorf("the input lacks %q:\n%s", want, stdin)
		}
	}
}

func TestAccountsThatTheDriverCannotTakeAreNotGivenToIt(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"two\nlines", "tab\tbed", "pässwörd", "пароль", strings.Repeat("x", 256)} {
		b := newBench(t, password)
		scripted(t, b, "touch "+b.Files.Path("ran")+"; cat >/dev/null; exit 1")
		if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK || b.machine.On.Load() {
			t.Errorf("%.10q: exit %d: %s", password, code, b.err.String())
		}
		_, err := os.Stat(b.Files.Path("ran"))
		if ran := err == nil; ran != (len(password) == 256) {
			t.Errorf("%.10q: the driver ran: %v", password, ran)
		}
	}
}

func TestEachPasswordOfOneLineReachesTheBMCThroughTheDriver(t *testing.T) {
	t.Parallel()
	for _, password := range []string{`"quoted"`, `""`, ` blank`, `blank `, `#hash`, `a=b=`, `$(reboot)`, "`id`", `it's`, `back\slash`, strings.Repeat("x", 256)} {
		t.Run(password[:min(len(password), 10)], func(t *testing.T) {
			t.Parallel()
			b := newBench(t, password)
			if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK || b.resets() != "[ForceOff]" {
				t.Fatalf("exit %d after %s: %s", code, b.resets(), b.err.String())
			}
			// A second request would mean that the driver's was refused.
			if r := b.records(t); r[0].Requests != 1 {
				t.Errorf("%d requests were needed", r[0].Requests)
			}
		})
	}
}

func TestAPinnedBMCIsFencedWithoutTheDriver(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.at(t, b.dev.Address)
	b.RootCAs, b.dev.Insecure, b.dev.FirstSight = nil, false, false
	b.write(t)
	b.Driver = []string{"/nowhere/fence_redfish"}
	if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK || b.resets() != "[ForceOff]" {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
	b.bmc.SetQuirks(bmc.Quirks{Certificate: bmc.CertificateOtherHost})
	if code := b.call(t, "action=off", "plug=cp-1"); code != exitFailed || !strings.Contains(b.err.String(), "than the pinned one") {
		t.Errorf("another certificate: exit %d: %s", code, b.err.String())
	}
}

func TestAVerifiedCertificateIsVerifiedByTheDriverToo(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK || b.records(t)[0].Requests != 1 {
		t.Errorf("exit %d, %d requests: %s", code, b.records(t)[0].Requests, b.err.String())
	}
	b.machine.On.Store(true)
	b.DriverEnv = nil // by default it does not trust this BMC
	b.retryAfter = 0
	if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK || b.records(t)[1].Requests != 2 {
		t.Errorf("without the authority: exit %d, %d requests: %s", code, b.records(t)[1].Requests, b.err.String())
	}
}

func TestABMCMayHaveAnIPv6Address(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.dev.Address = "https://" + bmctest.Serve(t, b.bmc, "[::1]:0") + "/redfish/v1/Systems/1"
	b.write(t)
	if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK || b.records(t)[0].Requests != 1 {
		t.Errorf("exit %d, %d requests: %s", code, b.records(t)[0].Requests, b.err.String())
	}
}

func TestATargetWhoseIdentityWasNeverLearned(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.dev.UUID, b.dev.Serial = "", ""
	b.write(t)
	b.bmc.SetQuirks(bmc.Quirks{ExtraSystems: 1})
	if code := b.call(t, "action=off", "plug=cp-1"); code != exitFailed || b.resets() != "[]" || !strings.Contains(b.err.String(), "lists 2 systems") {
		t.Errorf("several systems: exit %d after %s: %s", code, b.resets(), b.err.String())
	}
	b.bmc.SetQuirks(bmc.Quirks{})
	if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK || !strings.Contains(b.err.String(), "warning: it is not certain that this BMC belongs to cp-1") {
		t.Errorf("one system: exit %d: %s", code, b.err.String())
	}
}

func TestAnEndedCallLeavesNoEvidence(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.bmc.SetQuirks(bmc.Quirks{SlowOff: bmc.Duration(time.Hour)})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	begin := time.Now()
	if code := b.run(ctx, options{action: "off", target: "cp-1", powerTimeout: time.Hour}); code != exitFailed || time.Since(begin) > 5*time.Second {
		t.Errorf("exit %d after %s", code, time.Since(begin))
	}
	if b.evidence(t) != nil || len(b.records(t)) != 1 {
		t.Errorf("evidence %v, history %+v", b.evidence(t), b.records(t))
	}
}

// obstruct puts a file where a folder belongs.
func (b *bench) obstruct(t *testing.T, folder string) {
	t.Helper()
	if err := host.WriteFileAtomic(b.Files.Path(folder), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAFenceWhoseEvidenceCannotBeWrittenHasFailed(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.obstruct(t, state.FencedDir)
	if code := b.call(t, "plug=cp-1"); code != exitFailed || b.resets() != "[ForceOff]" {
		t.Errorf("exit %d after %s: %s", code, b.resets(), b.err.String())
	}
}

func TestAFenceWhoseHistoryCannotBeWrittenHasNotFailed(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.obstruct(t, filepath.Dir(state.FencingHistoryPath))
	o := options{action: "off", target: "cp-1", powerTimeout: time.Minute}
	if code := b.run(t.Context(), o); code != exitOK || b.evidence(t) == nil || !strings.Contains(b.err.String(), "history of fences") {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
}

// refusing simulates a BMC that cuts power and never switches it on again.
func refusing(t *testing.T) string {
	t.Helper()
	var off atomic.Bool
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		power := "On"
		if off.Load() {
			power = "Off"
		}
		switch {
		case r.Method == http.MethodPost && power == "On":
			off.Store(true)
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			_, _ = w.Write([]byte(`{"@odata.id":"` + r.URL.Path + `","Id":"1","UUID":"` + testUUID + `","PowerState":"` + power +
				`","Actions":{"#ComputerSystem.Reset":{"target":"/reset"}}}`))
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// lasts marks a test that takes many seconds of real time, with real programs.
func lasts(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT TESTED, since -short has no time for it")
	}
}

func TestARebootThatStaysOffIsAFenceAllTheSame(t *testing.T) {
	lasts(t)
	t.Parallel()
	b := newBench(t, testPassword)
	b.at(t, refusing(t)+"/redfish/v1/Systems/1")
	b.hears = silence
	b.write(t)
	if code := b.call(t, "action=reboot", "plug=cp-1"); code != exitOK || b.evidence(t) == nil || !strings.Contains(b.err.String(), "could not be switched on again") {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
}

// TestABMCThatRefusesToSwitchOnForAWhileIsAskedOn uses a BMC that is busy with
// the power-off for longer than a request takes.
func TestABMCThatRefusesToSwitchOnForAWhileIsAskedOn(t *testing.T) {
	lasts(t)
	t.Parallel()
	const busy = 12 * time.Second
	b := newBench(t, "пароль") // not through the driver
	var off, on atomic.Int64
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := off.Load()
		switch {
		case r.Method == http.MethodPost && at == 0:
			off.Store(time.Now().UnixNano())
		case r.Method == http.MethodPost && time.Since(time.Unix(0, at)) < busy:
			w.WriteHeader(http.StatusConflict)
		case r.Method == http.MethodPost:
			on.Add(1)
		default:
			power := map[bool]string{true: "On", false: "Off"}[at == 0 || on.Load() > 0]
			_, _ = w.Write([]byte(`{"@odata.id":"` + r.URL.Path + `","Id":"1","UUID":"` + testUUID + `","PowerState":"` + power +
				`","Actions":{"#ComputerSystem.Reset":{"target":"/reset"}}}`))
		}
	}))
	t.Cleanup(s.Close)
	b.at(t, s.URL+"/redfish/v1/Systems/1")
	b.hears, b.onBudget = silence, defaultOnBudget
	b.write(t)
	if code := b.call(t, "action=reboot", "plug=cp-1"); code != exitOK || on.Load() != 1 || strings.Contains(b.err.String(), "could not be switched on") {
		t.Errorf("exit %d, switched on %d times: %s", code, on.Load(), b.err.String())
	}
}

func TestStatusMonitorAndOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	if code := b.call(t, "action=status", "plug=cp-1"); code != exitOK || b.out.String() != "Status: ON\n" {
		t.Errorf("status: exit %d, %s", code, b.out.String())
	}
	b.machine.On.Store(false)
	if code := b.call(t, "action=status", "plug=cp-1"); code != exitOff {
		t.Errorf("status of a host that is off: exit %d", code)
	}
	if code := b.call(t, "action=monitor", "plug=cp-1"); code != exitOK {
		t.Errorf("monitor: exit %d: %s", code, b.err.String())
	}
	if code := b.call(t, "action=on", "plug=cp-1"); code != exitOK || !b.runs(true) {
		t.Errorf("on: exit %d: %s", code, b.err.String())
	}
	b.bmc.SetQuirks(bmc.Quirks{Says: "PoweringOff"})
	if code := b.call(t, "action=status", "plug=cp-1"); code != exitOK {
		t.Errorf("a host on its way off is not off: exit %d", code)
	}
	// The BMC that cannot be reached comes last: its port takes a while to be back.
	for _, q := range []bmc.Quirks{{OtherIdentity: true}, {AuthStatus: 401}, {Says: bmc.SaysNothing}, {Unreachable: true}} {
		b.bmc.SetQuirks(q)
		for _, action := range []string{"monitor", "status"} {
			if code := b.call(t, "action="+action, "plug=cp-1"); code != exitFailed {
				t.Errorf("%s under %+v: exit %d", action, q, code)
			}
		}
	}
}

// late simulates a BMC that carries out a power-off at once and answers late,
// as if it were still working on it.
func late(t *testing.T, answers chan<- string) string {
	t.Helper()
	var off atomic.Bool
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		power := "On"
		if off.Load() {
			power = "Off"
		}
		if r.Method != http.MethodPost {
			_, _ = w.Write([]byte(`{"@odata.id":"` + r.URL.Path + `","Id":"1","UUID":"` + testUUID + `","PowerState":"` + power +
				`","Actions":{"#ComputerSystem.Reset":{"target":"/reset"}}}`))
			return
		}
		asked := "On"
		if off.CompareAndSwap(false, true) {
			asked = "ForceOff"
			time.Sleep(700 * time.Millisecond)
		}
		answers <- asked
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestARequestUnderWayIsAnsweredBeforeTheHostIsSwitchedOn(t *testing.T) {
	lasts(t)
	t.Parallel()
	b := newBench(t, "пароль") // not through the driver
	answers := make(chan string, 4)
	b.at(t, late(t, answers)+"/redfish/v1/Systems/1")
	b.hears = silence
	b.write(t)
	if code := b.call(t, "action=reboot", "plug=cp-1"); code != exitOK {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	if first, second := <-answers, <-answers; first != "ForceOff" || second != "On" {
		t.Errorf("answered %s, then %s", first, second)
	}
}
