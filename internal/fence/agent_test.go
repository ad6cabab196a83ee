package fence

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/lab/bmc"
	"github.com/holdfast/holdfast/internal/lab/bmc/bmctest"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	testUser     = "fencer-account"
	testPassword = ` S3cr3t "pa$$word` + "`=x' "
	testUUID     = "4c4c4544-0051-3310-8051-b7c04f4e3132"
	testSerial   = "HF0001"
)

// bench is an agent with the simulated BMC of one target.
type bench struct {
	*Agent
	bmc      *bmc.Server
	machine  *bmctest.Machine
	dev      state.FencingDevice
	out, err bytes.Buffer
	// published is what the agent sent to its peer, told the test result that it
	// announced.
	published, told string
}

const (
	python     = "/usr/bin/python3"
	fenceAgent = "/usr/sbin/fence_redfish"
)

// newBench needs the real fence_redfish: hack/setup installs it.
func newBench(t testing.TB, password string) *bench {
	t.Helper()
	for _, path := range []string{python, fenceAgent} {
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("%v: run hack/setup, which installs fence-agents", err)
		}
	}
	b := &bench{machine: &bmctest.Machine{}}
	b.machine.On.Store(true)
	s, err := bmc.New(bmc.Config{
		Name: "cp-1", Username: testUser, Password: password, UUID: testUUID, Serial: testSerial,
	}, b.machine)
	if err != nil {
		t.Fatal(err)
	}
	b.bmc = s
	addr := bmctest.Serve(t, s, "127.0.0.1:0")
	dir := t.TempDir()
	b.Agent = &Agent{
		Files:  records.Files{Root: dir},
		Driver: []string{python, fenceAgent}, Now: time.Now, Out: &b.out, Err: &b.err, address: anyAddress, onBudget: time.Second, retryAfter: time.Minute,
		Boot: func() (string, time.Duration, error) { return "boot-1", 42 * time.Second, nil },
	}
	b.hears = func(context.Context, string) state.Fact[bool] { return state.Known(b.machine.On.Load()) }
	b.own = func() (string, string, error) { return "own", "", nil }
	b.publish = func(_ context.Context, value string) error { b.published = value; return nil }
	b.tell = func(_ context.Context, value string) error { b.told = value; return nil }
	b.peers(nil, nil)
	b.etcd = func(context.Context) (state.EtcdReport, error) {
		return state.EtcdReport{}, errors.New("nobody listens")
	}
	b.dev = state.FencingDevice{
		Target: "cp-1", Address: "https://" + addr + s.SystemPath(), Username: testUser, Password: password,
		UUID: strings.ToUpper(testUUID), Serial: testSerial,
	}
	b.vouched(t, dir)
	b.write(t)
	return b
}

// vouched makes the agent and its driver trust the simulator's certificate as
// one of an authority. The driver does not get pinned BMCs.
func (b *bench) vouched(t testing.TB, dir string) {
	t.Helper()
	bundle := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(bundle, b.bmc.CertificatePEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	b.RootCAs = x509.NewCertPool()
	b.RootCAs.AppendCertsFromPEM(b.bmc.CertificatePEM())
	b.DriverEnv = []string{"REQUESTS_CA_BUNDLE=" + bundle}
}

// at moves the device to a BMC at another address and pins the certificate that
// it shows now.
func (b *bench) at(t testing.TB, address string) {
	t.Helper()
	b.dev.Address, b.dev.Insecure, b.dev.Fingerprint = address, true, ""
	dev, err := b.sight(t.Context(), b.dev)
	if err != nil {
		t.Fatal(err)
	}
	b.dev = dev
}

// silence reports that a host does not answer, as one that is off.
func silence(context.Context, string) state.Fact[bool] { return state.Known(false) }

func (b *bench) write(t testing.TB) {
	t.Helper()
	if _, err := b.Files.WriteDevice(b.dev); err != nil {
		t.Fatal(err)
	}
}

// runs reports whether the machine runs. If it should run, runs waits up to 10 s:
// switching on ends at PoweringOn, and the machine has power a moment later.
func (b *bench) runs(should bool) bool {
	for end := time.Now().Add(10 * time.Second); should && !b.machine.On.Load() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return b.machine.On.Load()
}

// call runs the agent as Pacemaker does and checks that neither its output nor
// its files hold the password.
func (b *bench) call(t *testing.T, lines ...string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	b.out.Reset()
	b.err.Reset()
	o, err := parse(strings.NewReader(strings.Join(lines, "\n")+"\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	code := b.run(ctx, o)
	history, err := os.ReadFile(b.Files.Path(state.FencingHistoryPath))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"output": b.out.String(), "errors": b.err.String(), "history": string(history)} {
		if strings.Contains(text, strings.TrimSpace(b.dev.Password)) {
			t.Errorf("the password is in its %s:\n%s", what, text)
		}
	}
	return code
}

func (b *bench) evidence(t *testing.T) *state.EtcdFenced {
	t.Helper()
	data, err := os.ReadFile(b.Files.Path(state.FencedDir + "/cp-1.json"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var e state.EtcdFenced
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	return &e
}

func (b *bench) records(t *testing.T) []state.FenceEntry {
	t.Helper()
	records, err := b.Files.Fences()
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func (b *bench) resets() string {
	var types []string
	for _, r := range b.bmc.Resets() {
		types = append(types, string(r.Type))
	}
	return fmt.Sprint(types)
}

func TestAFencedHostIsOffAndTheEvidenceSaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	if code := b.call(t, "action=off", "plug=cp-1", "nodename=cp-1"); code != exitOK {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	if b.machine.On.Load() || b.resets() != "[ForceOff]" {
		t.Errorf("on %v after %s", b.machine.On.Load(), b.resets())
	}
	want := state.EtcdFenced{Target: "cp-1", State: "Off", Boot: "boot-1", At: 42 * time.Second}
	if got := b.evidence(t); got == nil || *got != want {
		t.Errorf("evidence %+v, want %+v", got, want)
	}
	r := b.records(t)
	if len(r) != 1 || !r[0].Off || r[0].Requests != 1 || r[0].Phases.PowerOff == 0 || r[0].BMC != b.dev.Address {
		t.Errorf("history %+v", r)
	}
}

func TestARebootSwitchesOnAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	if code := b.call(t, "plug=cp-1"); code != exitOK {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	if b.resets() != "[ForceOff On]" || b.evidence(t) == nil {
		t.Errorf("resets %s, evidence %v", b.resets(), b.evidence(t))
	}
}
