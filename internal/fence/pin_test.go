package fence

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

// wire is the network to a BMC. An attacker on it answers at the BMC's address
// with a certificate of his own, passes on the answers that identify the BMC,
// and says Off.
type wire struct {
	*httptest.Server
	between atomic.Bool
	// told counts the requests that reached the attacker.
	told atomic.Int32
}

// tap puts a wire before the BMC of a bench. No authority vouches for the
// certificate of its device.
func tap(t *testing.T, b *bench) *wire {
	t.Helper()
	own, err := bmc.NewCertificate("somebody", []string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{}
	w.Server = httptest.NewUnstartedServer(w.answer(b.bmc.Handler()))
	right := b.bmc.TLSConfig()
	w.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if w.between.Load() {
			return &tls.Config{Certificates: []tls.Certificate{own}}, nil
		}
		return right, nil
	}}
	w.StartTLS()
	t.Cleanup(w.Close)
	b.RootCAs = nil
	b.dev.Address, b.dev.Insecure = w.URL+b.bmc.SystemPath(), true
	b.write(t)
	scripted(t, b, "touch "+b.Files.Path("driven")+"; cat >/dev/null; exit 1")
	return w
}

func (w *wire) answer(right http.Handler) http.HandlerFunc {
	return func(out http.ResponseWriter, r *http.Request) {
		if !w.between.Load() {
			right.ServeHTTP(out, r)
			return
		}
		w.told.Add(1)
		_, _ = out.Write([]byte(`{"@odata.id":"` + r.URL.Path + `","Id":"1","UUID":"` + testUUID + `","SerialNumber":"` + testSerial +
			`","PowerState":"Off","Actions":{"#ComputerSystem.Reset":{"target":"/reset"}}}`))
	}
}

// sits puts an attacker on the wire from now on. He takes over open connections
// too.
func (w *wire) sits() {
	w.between.Store(true)
	w.CloseClientConnections()
}

func (b *bench) device(t *testing.T) state.FencingDevice {
	t.Helper()
	dev, err := b.Files.Device("cp-1")
	if err != nil {
		t.Fatal(err)
	}
	return dev
}

// provesNothing checks that the attacker got nothing, and that no action
// reports the running host as off.
func (w *wire) provesNothing(t *testing.T, b *bench, says string) {
	t.Helper()
	b.hears = silence // as after a cut
	for _, action := range []string{"off", "reboot", "status", "on", "monitor"} {
		if code := b.call(t, "action="+action, "plug=cp-1", "power_timeout=3"); code != exitFailed || !strings.Contains(b.err.String(), says) {
			t.Errorf("%s: exit %d: %s", action, code, b.err.String())
		}
	}
	if power, err := b.read(t.Context(), "cp-1"); err == nil {
		t.Errorf("it is said to be %s", power.State)
	}
	if err := b.confirmOff(t.Context(), "cp-1"); err == nil {
		t.Error("its Off is confirmed")
	}
	_, err := os.Stat(b.Files.Path("driven"))
	if w.told.Load() != 0 || b.evidence(t) != nil || err == nil || !b.machine.On.Load() {
		t.Errorf("who sits between was asked %d times, evidence %v, driver %v, the host runs: %v", w.told.Load(), b.evidence(t), err, b.machine.On.Load())
	}
}

// TestWhoStandsBetweenProvesNothing plays docs/attacks.md, F7: a man in the middle
// showed a certificate that nobody vouches for and answered Off. The agent believed
// him and sent him the account.
func TestWhoStandsBetweenProvesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	w := tap(t, b)
	if code := b.call(t, "action=monitor", "plug=cp-1"); code != exitOK {
		t.Fatalf("the BMC itself: exit %d: %s", code, b.err.String())
	}
	pinned := b.device(t).Fingerprint
	w.sits()
	w.provesNothing(t, b, "holdfast fencing pin cp-1")
	if !strings.Contains(b.err.String(), pinned) || !strings.Contains(b.told, pinned) || strings.Contains(b.told, "127.0.0.1") {
		t.Errorf("what is said of it: %s\n%s", b.err.String(), b.told)
	}
	if b.device(t).Fingerprint != pinned {
		t.Error("it was pinned")
	}
	w.between.Store(false)
	if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK || b.machine.On.Load() || b.evidence(t) == nil {
		t.Errorf("with the BMC again: exit %d: %s", code, b.err.String())
	}
}

// TestAFenceNeverTrustsAtFirstSight uses a device of an older release whose BMC
// has had no good test since.
func TestAFenceNeverTrustsAtFirstSight(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	w := tap(t, b)
	w.sits()
	for _, action := range []string{"off", "reboot", "status", "on"} {
		begin := time.Now()
		if code := b.call(t, "action="+action, "plug=cp-1"); code != exitFailed || time.Since(begin) > 5*time.Second || !strings.Contains(b.err.String(), "holdfast fencing pin cp-1") {
			t.Errorf("%s: exit %d after %s: %s", action, code, time.Since(begin), b.err.String())
		}
	}
	if w.told.Load() != 0 || b.evidence(t) != nil || b.device(t).Fingerprint != "" {
		t.Errorf("asked %d times, evidence %v, device %+v", w.told.Load(), b.evidence(t), b.device(t).Fingerprint)
	}
}

// TestWhoStepsInBetweenDuringAFenceProvesNothing cuts the connection to the BMC
// after the power-off request.
func TestWhoStepsInBetweenDuringAFenceProvesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	w := tap(t, b)
	if code := b.call(t, "action=monitor", "plug=cp-1"); code != exitOK {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	b.bmc.SetQuirks(bmc.Quirks{AcceptAndIgnore: true})
	b.hears = func(context.Context, string) state.Fact[bool] { return state.Known(false) }
	timer := time.AfterFunc(500*time.Millisecond, w.sits)
	defer timer.Stop()
	if code := b.call(t, "action=off", "plug=cp-1", "power_timeout=3"); code != exitFailed || b.evidence(t) != nil || w.told.Load() != 0 {
		t.Errorf("exit %d, asked %d times: %s", code, w.told.Load(), b.err.String())
	}
	if b.resets() == "[]" {
		t.Error("the fence had not begun")
	}
}

func TestTheFirstGoodTestPinsWhatTheBMCShows(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	tap(t, b)
	store := Store{Files: b.Files}
	b.bmc.SetQuirks(bmc.Quirks{AuthStatus: 401})
	if code := b.call(t, "action=monitor", "plug=cp-1"); code != exitFailed || b.device(t).Fingerprint != "" {
		t.Errorf("a test that failed: exit %d, %+v", code, b.device(t).Fingerprint)
	}
	b.bmc.SetQuirks(bmc.Quirks{})
	if code := b.call(t, "action=monitor", "plug=cp-1"); code != exitOK {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	dev := b.device(t)
	if !strings.Contains(b.err.String(), "SHA-256 "+dev.Fingerprint) || len(dev.Fingerprint) != 64 || !dev.FirstSight || dev.Password != testPassword {
		t.Errorf("it says %s, and has %q", b.err.String(), dev.Fingerprint)
	}
	c := &cloud{secrets: map[string]map[string][]byte{}}
	if store.IsPending("cp-1") {
		t.Error("the account is held to be newer than that of the Secret")
	}
	if pushed, err := store.Push(t.Context(), c); err != nil || len(pushed) != 1 {
		t.Fatalf("%v, %v", pushed, err)
	}
	secret := c.secrets["openshift-etcd/fencing-credentials-cp-1"]
	if len(secret) != 1 || string(secret[state.FencingFirstPinKey]) != dev.Fingerprint {
		t.Errorf("the Secret gets %q", secret)
	}
	if code := b.call(t, "action=monitor", "plug=cp-1"); code != exitOK || b.err.Len() != 0 {
		t.Errorf("again: exit %d: %s", code, b.err.String())
	}
	if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK || b.evidence(t) == nil {
		t.Errorf("a fence: exit %d: %s", code, b.err.String())
	}
}

// TestARenewedCertificateIsToldBeforeAFenceNeedsIt lets the BMC create a new
// certificate, as after a firmware update.
func TestARenewedCertificateIsToldBeforeAFenceNeedsIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	tap(t, b)
	if code := b.call(t, "action=monitor", "plug=cp-1"); code != exitOK || b.told != `{"target":"cp-1"}` {
		t.Fatalf("exit %d, told %s: %s", code, b.told, b.err.String())
	}
	before := b.device(t)
	b.bmc.SetQuirks(bmc.Quirks{Certificate: bmc.CertificateRenewed})
	if code := b.call(t, "action=monitor", "plug=cp-1"); code != exitFailed {
		t.Fatalf("exit %d", code)
	}
	problem := Problems(map[string]string{"cp-2": b.told, "cp-1": "not ours"})["cp-1"]
	if problem.Repair != state.PinCertificate {
		t.Errorf("it is repaired by %q", problem.Repair)
	}
	after, err := b.sight(t.Context(), state.FencingDevice{Target: "cp-1", Address: b.dev.Address, Insecure: true})
	if err != nil || after.Fingerprint == before.Fingerprint {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{before.Fingerprint, after.Fingerprint, "holdfast fencing pin cp-1"} {
		if !strings.Contains(problem.Words, want) {
			t.Errorf("%s is not in %q", want, problem.Words)
		}
	}
	r := b.test(t.Context(), before, 0)
	if r.Fingerprint != before.Fingerprint || r.Shown != after.Fingerprint || r.Certificate != CertificateFirstSight {
		t.Errorf("%+v", r)
	}
}

// TestAChangeOfTheDeviceGoesBeforeWhatATestHasSeen: during the test of a BMC an
// administrator rotated its account, named a certificate, or changed its
// address.
func TestAChangeOfTheDeviceGoesBeforeWhatATestHasSeen(t *testing.T) {
	seen := exampleDevice()
	seen.Insecure, seen.FirstSight, seen.Fingerprint = true, true, strings.Repeat("ab", 32)
	for name, c := range map[string]struct {
		change func(*state.FencingDevice)
		pinned string
	}{
		"nothing":      {func(*state.FencingDevice) {}, seen.Fingerprint},
		"a password":   {func(d *state.FencingDevice) { d.Password = "new" }, seen.Fingerprint},
		"a pin":        {func(d *state.FencingDevice) { d.Fingerprint = strings.Repeat("cd", 32) }, strings.Repeat("cd", 32)},
		"an address":   {func(d *state.FencingDevice) { d.Address = "https://10.99.0.112" }, ""},
		"a system":     {func(d *state.FencingDevice) { d.Address = "https://10.99.0.111:443" }, seen.Fingerprint},
		"an authority": {func(d *state.FencingDevice) { d.Insecure = false }, ""},
	} {
		s := store(t, "hush", "new")
		dev := exampleDevice()
		dev.Insecure = true
		c.change(&dev)
		if _, err := s.Files.WriteDevice(dev); err != nil {
			t.Fatal(err)
		}
		if err := s.keepPin(t.Context(), seen); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := mustRead(t, s); got.Fingerprint != c.pinned || got.Password != dev.Password {
			t.Errorf("%s: %+v", name, got)
		}
	}
	s := store(t, "hush")
	if _, err := s.Files.WriteDevice(seen); err != nil {
		t.Fatal(err)
	}
	release, err := s.lock(t.Context(), "cp-1")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if err := s.keepPin(t.Context(), seen); err == nil {
		t.Error("a change that is under way is not waited for, nor told")
	}
}

// TestAPinOutlivesWhatTheClusterBrings: the Secret may be older than the BMC's
// certificate, or have no pin.
func TestAPinOutlivesWhatTheClusterBrings(t *testing.T) {
	own, other := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	old := exampleDevice()
	old.Insecure, old.Fingerprint = true, own
	for name, c := range map[string]struct {
		brings func(*state.FencingDevice)
		want   string
	}{
		"no pin":                                   {func(*state.FencingDevice) {}, own},
		"another password and no pin":              {func(d *state.FencingDevice) { d.Password = "new" }, own},
		"the path of a system":                     {func(d *state.FencingDevice) { d.Address = "https://10.99.0.111:443/redfish/v1/Systems/2" }, own},
		"what was seen first, on another day":      {func(d *state.FencingDevice) { d.Fingerprint, d.FirstSight = other, true }, own},
		"what a person named":                      {func(d *state.FencingDevice) { d.Fingerprint = other }, other},
		"another address":                          {func(d *state.FencingDevice) { d.Address = "https://10.99.0.112" }, ""},
		"another address, and what it is known by": {func(d *state.FencingDevice) { d.Address, d.Fingerprint = "https://10.99.0.112", other }, other},
		"an authority":                             {func(d *state.FencingDevice) { d.Insecure = false }, ""},
	} {
		dev := exampleDevice()
		dev.Insecure = true
		c.brings(&dev)
		if got := Merge(old, dev); got.Fingerprint != c.want {
			t.Errorf("%s: pinned %q, want %q", name, got.Fingerprint, c.want)
		}
	}
}

// seeing returns a store whose BMC shows a given certificate and accepts the
// given passwords only.
func seeing(t *testing.T, shows *string, takes ...string) Store {
	s := store(t, takes...)
	s.Sight = func(_ context.Context, dev state.FencingDevice) (state.FencingDevice, error) {
		if unpinned(dev) {
			dev.Fingerprint, dev.FirstSight = *shows, true
		}
		return dev, nil
	}
	test := s.Test
	s.Test = func(ctx context.Context, dev state.FencingDevice) Report {
		r := test(ctx, dev)
		if dev.Fingerprint != *shows {
			r.problem("another certificate")
		}
		return r
	}
	return s
}

func TestAPinAndARotationDoNotUndoEachOther(t *testing.T) {
	shows := strings.Repeat("ab", 32)
	s := seeing(t, &shows, "hush", "new")
	c := &cloud{secrets: map[string]map[string][]byte{}}
	fromSecret := exampleDevice()
	fromSecret.Insecure = true
	if r, err := s.Write(t.Context(), []state.FencingDevice{fromSecret}); err != nil || !r[0].Wrote || mustRead(t, s).Fingerprint != shows {
		t.Fatalf("%+v, %v", r, err)
	}
	rotate := func(change func(*state.FencingDevice)) error {
		_, _, err := s.Change(t.Context(), "cp-1", func(dev state.FencingDevice) (state.FencingDevice, error) {
			change(&dev)
			return dev, nil
		}, c)
		return err
	}
	if err := rotate(func(d *state.FencingDevice) { d.Password = "new" }); err != nil {
		t.Fatal(err)
	}
	secret := c.secrets["openshift-etcd/fencing-credentials-cp-1"]
	if got := mustRead(t, s); got.Fingerprint != shows || !got.FirstSight || string(secret[state.FencingFirstPinKey]) != shows || secret[state.FencingPinKey] != nil {
		t.Errorf("after a rotation: %+v, Secret %q", got, secret)
	}
	shows = strings.Repeat("cd", 32) // the BMC made a new one
	if err := rotate(func(d *state.FencingDevice) { d.Password = "hush" }); err == nil || mustRead(t, s).Password != "new" {
		t.Errorf("a rotation at a BMC that shows another certificate: %v", err)
	}
	if _, err := s.Write(t.Context(), []state.FencingDevice{fromSecret}); err == nil {
		t.Error("the cluster's Job takes another certificate for that of the BMC")
	}
	c.away = os.ErrDeadlineExceeded // an administrator accepts it while the API is away
	if err := rotate(func(d *state.FencingDevice) { d.Fingerprint, d.FirstSight = shows, false }); err != nil {
		t.Fatal(err)
	}
	stale := fromSecret
	stale.Fingerprint, stale.FirstSight = strings.Repeat("ab", 32), true
	if r, err := s.Write(t.Context(), []state.FencingDevice{stale}); err != nil || !r[0].Kept || mustRead(t, s).Fingerprint != shows {
		t.Errorf("the cluster hands out what it had: %+v, %v", r, err)
	}
	c.away = nil
	if _, err := s.Push(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	secret = c.secrets["openshift-etcd/fencing-credentials-cp-1"]
	if string(secret[state.FencingPinKey]) != shows || secret[state.FencingFirstPinKey] != nil || string(secret["password"]) != "new" {
		t.Errorf("the Secret has %q", secret)
	}
}

// TestAnAccountOfAnOlderReleaseThatWasToFollowIsKeptAndPinned: the account's
// Secret is older, and its device has no pin.
func TestAnAccountOfAnOlderReleaseThatWasToFollowIsKeptAndPinned(t *testing.T) {
	shows := strings.Repeat("ab", 32)
	s := seeing(t, &shows, "new")
	old := exampleDevice()
	old.Insecure, old.Password = true, "new"
	if _, err := s.Files.WriteDevice(old); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(s.pendingPath(""), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.pendingPath("cp-1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fromSecret := exampleDevice()
	fromSecret.Insecure = true
	r, err := s.Write(t.Context(), []state.FencingDevice{fromSecret})
	if got := mustRead(t, s); err != nil || !r[0].Kept || got.Password != "new" || got.Fingerprint != shows {
		t.Errorf("%+v, %v: %+v", r, err, got)
	}
	c := &cloud{secrets: map[string]map[string][]byte{}}
	if _, err := s.Push(t.Context(), c); err != nil || string(c.secrets["openshift-etcd/fencing-credentials-cp-1"][state.FencingFirstPinKey]) != shows {
		t.Errorf("%v, %q", err, c.secrets)
	}
}
