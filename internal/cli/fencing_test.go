package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/hostreport"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/fence/rehearsal"
	"github.com/holdfast/holdfast/internal/model/state"
)

// twoHosts simulates two hosts with shell scripts.
type twoHosts struct{ dir string }

func newTwoHosts(t *testing.T) twoHosts { return twoHosts{t.TempDir()} }

// answers sets a host's output of verify, and its identity.
func (s twoHosts) answers(t *testing.T, name string, v verifiedBMCs, uuid string) {
	t.Helper()
	script := "case \"$2 $3\" in\n"
	report := hostreport.Report{Host: name, Identity: state.See(hostreport.Identity{UUID: uuid}, name, time.Time{})}
	for verb, value := range map[string]any{"fencing verify": v, "report -o": report} {
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(s.dir, name+"."+verb[:6])
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		script += "\"" + verb + "\") cat " + path + ";;\n"
	}
	script += "*) echo \"" + name + ": $*\" >>" + s.dir + "/log;;\nesac\n"
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s twoHosts) verify(t *testing.T, more ...string) (code int, out, errs string) {
	t.Helper()
	args := append([]string{"fencing", "verify", "--hosts", "cp-1,cp-2", "--exec", "sh " + s.dir + "/{}"}, more...)
	return runLine(t, args...)
}

func goodReport(target, uuid string) fence.Report {
	return fence.Report{
		Target: target, Address: "https://10.99.0.111", Power: "On", Identity: fence.IdentityMatches, UUID: uuid,
		ForceOff: true, On: true, Certificate: "verified", Connect: 30 * time.Millisecond, Reads: []time.Duration{time.Millisecond},
	}
}

const uuid1, uuid2 = "4c4c4544-0051-3310-8051-b7c04f4e3131", "4c4c4544-0051-3310-8051-b7c04f4e3132"

func TestBothHostsVerifyEachOther(t *testing.T) {
	s := newTwoHosts(t)
	s.answers(t, "cp-1", verifiedBMCs{Devices: []device{{"cp-1", goodReport("cp-2", uuid2)}}}, uuid1)
	s.answers(t, "cp-2", verifiedBMCs{Devices: []device{{"cp-2", goodReport("cp-1", uuid1)}}}, uuid2)
	code, out, errs := s.verify(t)
	if code != ExitOK || !strings.Contains(out, "cp-1    cp-2  https://10.99.0.111") || !strings.Contains(out, "matches") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

func TestTheBMCOfAnotherServerIsFoundWithoutACrash(t *testing.T) {
	s := newTwoHosts(t)
	unlearned := goodReport("cp-2", uuid1) // the credentials of cp-1's own server
	unlearned.Identity = fence.IdentityUnknown
	s.answers(t, "cp-1", verifiedBMCs{Devices: []device{{"cp-1", unlearned}}}, uuid1)
	s.answers(t, "cp-2", verifiedBMCs{Devices: []device{{"cp-2", goodReport("cp-1", uuid1)}}}, uuid2)
	code, out, _ := s.verify(t)
	if code != ExitFailed || !strings.Contains(out, "the BMC is not that of cp-2") || !strings.Contains(out, "differs") {
		t.Errorf("exit %d\n%s", code, out)
	}
	code, out, _ = s.verify(t, "--disruptive", "--yes")
	if _, err := os.Stat(s.dir + "/log"); code != ExitFailed || err == nil {
		t.Errorf("a host was crashed: exit %d\n%s", code, out)
	}
}

func TestAHostWithoutItsPeersDeviceIsAProblem(t *testing.T) {
	s := newTwoHosts(t)
	s.answers(t, "cp-1", verifiedBMCs{Devices: []device{{"cp-1", goodReport("cp-2", uuid2)}}}, uuid1)
	s.answers(t, "cp-2", verifiedBMCs{}, uuid2)
	code, out, _ := s.verify(t, "-o", "json")
	var v verification
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if code != ExitFailed || len(v.Problems) != 1 || !strings.Contains(v.Problems[0], "cp-2 cannot fence cp-1") {
		t.Errorf("exit %d, %+v", code, v)
	}
}

func TestAHostThatIsNotReachedIsAProblem(t *testing.T) {
	s := newTwoHosts(t)
	s.answers(t, "cp-1", verifiedBMCs{Devices: []device{{"cp-1", goodReport("cp-2", uuid2)}}}, uuid1)
	code, out, _ := s.verify(t)
	if code != ExitFailed || !strings.Contains(out, "verify on cp-2") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

func TestAClusterThatIsNotInFullHealthIsNotCrashed(t *testing.T) {
	s := newTwoHosts(t)
	s.answers(t, "cp-1", verifiedBMCs{Devices: []device{{"cp-1", goodReport("cp-2", uuid2)}}}, uuid1)
	s.answers(t, "cp-2", verifiedBMCs{Devices: []device{{"cp-2", goodReport("cp-1", uuid1)}}}, uuid2)
	code, _, errs := s.verify(t, "--disruptive", "--yes")
	if _, err := os.Stat(s.dir + "/log"); code != ExitFailed || err == nil || !strings.Contains(errs, "not in full health") {
		t.Errorf("exit %d: %s", code, errs)
	}
	code, _, errs = s.verify(t, "--disruptive") // nobody types yes
	if code != command.ExitNotConfirmed || !strings.Contains(errs, "nothing was changed") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestMistakesOfAVerificationAreToldAtOnce(t *testing.T) {
	code, _, errs := runLine(t, "fencing", "verify", "--hosts", "cp-1", "--exec", "ssh", "--calibrate", "--timeout", "-1s")
	if code != ExitUsage {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"--hosts", "--exec", "--calibrate", "--timeout"} {
		if !strings.Contains(errs, want) {
			t.Errorf("no word of %s: %s", want, errs)
		}
	}
}

// rotationOf returns a rotation whose BMC accepts only the password "new
// words".
func rotationOf(t *testing.T, in string, f rotateFlags) (*rotation, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	dir := t.TempDir()
	r := &rotation{
		rotateFlags: f, streams: Streams{In: strings.NewReader(in), Out: &out, Err: &out},
		store: fence.Store{
			Files: records.Files{Root: dir},
			Test: func(_ context.Context, dev state.FencingDevice) fence.Report {
				rep := fence.Report{Target: dev.Target, Identity: fence.IdentityMatches}
				if dev.Password != "new words" {
					rep.Problems = []string{"it answers 401"}
				}
				return rep
			},
		},
		cluster: func() (fence.Secrets, error) { return nil, errors.New("connection refused") },
		clear:   func(context.Context, string) error { return nil },
	}
	putDevice(t, r.store, deviceBefore())
	return r, &out
}

func deviceBefore() state.FencingDevice {
	return state.FencingDevice{Target: "cp-1", Address: "https://10.99.0.111", Username: "admin", Password: "old words", UUID: uuid1}
}

func putDevice(t *testing.T, s fence.Store, dev state.FencingDevice) {
	t.Helper()
	if _, err := s.Files.WriteDevice(dev); err != nil {
		t.Fatal(err)
	}
}

func TestANewPasswordThatTheBMCTakesIsWrittenAlsoWithoutAPI(t *testing.T) {
	r, out := rotationOf(t, "new words\n", rotateFlags{passwordFile: "-", username: "fencer"})
	if err := r.run(t.Context(), "cp-1"); err != nil {
		t.Fatal(err)
	}
	dev, err := fence.ReadDevice(r.store.Files, "cp-1")
	if err != nil || dev.Password != "new words" || dev.Username != "fencer" || dev.UUID != uuid1 {
		t.Errorf("%+v, %v", dev, err)
	}
	if !r.store.IsPending("cp-1") || !strings.Contains(out.String(), "pending: connection refused") || strings.Contains(out.String(), "words") {
		t.Errorf("it said %s", out)
	}
}

func TestANewPasswordThatTheBMCRefusesChangesNothing(t *testing.T) {
	r, _ := rotationOf(t, "bad words\n", rotateFlags{passwordFile: "-"})
	err := r.run(t.Context(), "cp-1")
	if err == nil || !strings.Contains(err.Error(), "nothing was changed") || strings.Contains(err.Error(), "words") {
		t.Errorf("got %v", err)
	}
	if dev, err := fence.ReadDevice(r.store.Files, "cp-1"); err != nil || dev.Password != "old words" || r.store.IsPending("cp-1") {
		t.Errorf("%+v, %v", dev, err)
	}
}

func TestAPasswordLosesOneLineBreakAndNothingElse(t *testing.T) {
	for in, want := range map[string]string{
		" new words \n": " new words ", "new\r\n": "new", "two\nlines\n": "two\nlines", "пароль": "пароль", "x": "x",
	} {
		if got, err := readPassword(strings.NewReader(in)); err != nil || got != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "\n", strings.Repeat("x", maxPassword+1)} {
		if got, err := readPassword(strings.NewReader(in)); err == nil {
			t.Errorf("%.10q: %q", in, got)
		}
	}
}

func TestAPasswordIsNotAskedForWhereNobodyCanType(t *testing.T) {
	r, _ := rotationOf(t, "new words\n", rotateFlags{})
	if err := r.run(t.Context(), "cp-1"); err == nil || !strings.Contains(err.Error(), "--password-file") {
		t.Errorf("got %v", err)
	}
}

func TestMistakesOfARotationAreToldAtOnce(t *testing.T) {
	code, _, errs := runLine(t, "fencing", "rotate", "--pin", "--fingerprint", "x", "--address", "http://u:hush@x", "--certificate-verification", "Maybe")
	if code != ExitUsage || strings.Contains(errs, "hush") {
		t.Errorf("exit %d: %s", code, errs)
	}
	for _, want := range []string{"NODE", "--pin", "--address", "--certificate-verification"} {
		if !strings.Contains(errs, want) {
			t.Errorf("no word of %s: %s", want, errs)
		}
	}
}

func TestAPersonsWordAboutTheBMCIsWrittenAndTakenAway(t *testing.T) {
	r, _ := rotationOf(t, "new words\n", rotateFlags{passwordFile: "-", uuid: uuid2, tls: "Legacy"})
	if err := r.run(t.Context(), "cp-1"); err != nil {
		t.Fatal(err)
	}
	dev, err := fence.ReadDevice(r.store.Files, "cp-1")
	if err != nil || dev.SystemID != uuid2 || dev.UUID != uuid1 || !dev.LegacyTLS {
		t.Errorf("%+v, %v", dev, err)
	}
	r.rotateFlags = rotateFlags{serial: "none", tls: "Default"}
	if err := r.run(t.Context(), "cp-1"); err != nil {
		t.Fatal(err)
	}
	if dev, err := fence.ReadDevice(r.store.Files, "cp-1"); err != nil || dev.SystemID != "" || dev.LegacyTLS {
		t.Errorf("%+v, %v", dev, err)
	}
	code, _, errs := runLine(t, "fencing", "rotate", "cp-1", "--tls", "1.0", "--uuid", uuid1, "--serial", "x")
	if code != ExitUsage || !strings.Contains(errs, "--tls") || !strings.Contains(errs, "--serial") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestADelayThatIsTooShortForTheBMCsIsTold(t *testing.T) {
	crash := func(target string, off time.Duration) rehearsal.Times {
		return rehearsal.Times{Target: target, Fence: &state.FenceEntry{Requests: 1, Phases: state.FencePhases{PowerOff: off}}, Cuts: []time.Duration{off}}
	}
	slow, quick := goodReport("cp-1", uuid1), goodReport("cp-2", uuid2)
	slow.Delay = 20 * time.Second
	v := &verification{verifiedBMCs: verifiedBMCs{Devices: []device{{"cp-2", slow}, {"cp-1", quick}}}}
	for _, c := range []struct {
		off  time.Duration
		says string
	}{{time.Second, ""}, {15 * time.Second, "should be 30s"}, {40 * time.Second, "make that BMC faster"}} {
		off, says := c.off, c.says
		var out bytes.Buffer
		v.Crashes = []rehearsal.Times{crash("cp-1", time.Second), crash("cp-2", off)}
		warnOfDelay(&out, v)
		if (out.Len() == 0) != (says == "") || !strings.Contains(out.String(), says) {
			t.Errorf("%s: it said %q", off, out.String())
		}
	}
}

func TestAHostWithoutADeviceShowsItsProblemAndNoEmptyTable(t *testing.T) {
	v := verification{verifiedBMCs: verifiedBMCs{Problems: []string{"cp-1 has no fencing device"}}}
	var out strings.Builder
	if err := v.table(&out); err != nil || out.String() != "problem: cp-1 has no fencing device\n" {
		t.Errorf("%v, %q", err, out.String())
	}
	if err := v.err(); err == nil || err.Error() != "fencing would not work: 1 problem" {
		t.Errorf("%v", err)
	}
	v.Problems = append(v.Problems, "cp-2 has none either")
	if err := v.err(); err == nil || err.Error() != "fencing would not work: 2 problems" {
		t.Errorf("%v", err)
	}
}
