package fence

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/model/state"
)

func exampleDevice() state.FencingDevice {
	return state.FencingDevice{
		Target: "cp-1", Address: "https://10.99.0.111/redfish/v1/Systems/1", Username: "admin", Password: "hush",
		UUID: testUUID, Serial: testSerial, Delay: fencing.DefaultDelay,
	}
}

func TestAllMistakesOfADeviceAreToldAtOnceAndNoSecret(t *testing.T) {
	err := CheckDevice(state.FencingDevice{
		Target: "CP 1", Address: "https://admin:hush@10.0.0.1", Fingerprint: "zz", Delay: -time.Second,
	})
	if err == nil {
		t.Fatal("it is taken")
	}
	for _, field := range []string{"target", "address", "username", "password", "fingerprint", "delay"} {
		if !strings.Contains(err.Error(), ": "+field+": ") {
			t.Errorf("no word of %s: %v", field, err)
		}
	}
	if strings.Contains(err.Error(), "hush") {
		t.Errorf("the password is shown: %v", err)
	}
}

// store returns a store whose BMC accepts the given passwords only.
func store(t *testing.T, takes ...string) Store {
	t.Helper()
	dir := t.TempDir()
	return Store{
		Files: records.Files{Root: dir},
		Test: func(_ context.Context, dev state.FencingDevice) Report {
			r := Report{Target: dev.Target}
			if !slices.Contains(takes, dev.Password) {
				r.problem("401")
			}
			return r
		},
	}
}

func mustRead(t *testing.T, s Store) state.FencingDevice {
	t.Helper()
	dev, err := ReadDevice(s.Files, "cp-1")
	if err != nil {
		t.Fatal(err)
	}
	return dev
}

func TestADeviceThatCouldNotFenceReplacesNothing(t *testing.T) {
	s := store(t, "hush")
	if r, err := s.Write(t.Context(), []state.FencingDevice{exampleDevice()}); err != nil || !r[0].Wrote {
		t.Fatalf("%+v, %v", r, err)
	}
	bad := exampleDevice()
	bad.Password = "wrong"
	if _, err := s.Write(t.Context(), []state.FencingDevice{bad}); err == nil || !strings.Contains(err.Error(), "the previous device was kept") {
		t.Errorf("a wrong password: %v", err)
	}
	if got := mustRead(t, s); got != exampleDevice() {
		t.Errorf("the device is %+v", got)
	}
	if r, err := s.Write(t.Context(), []state.FencingDevice{exampleDevice()}); err != nil || r[0].Wrote {
		t.Errorf("the same device again: %+v, %v", r, err)
	}
	insecure := exampleDevice()
	insecure.Insecure = true
	for _, dev := range []state.FencingDevice{insecure, exampleDevice()} {
		if r, err := s.Write(t.Context(), []state.FencingDevice{dev}); err != nil || !r[0].Wrote || mustRead(t, s).Insecure != dev.Insecure {
			t.Errorf("verification %v: %+v, %v", !dev.Insecure, r, err)
		}
	}
}

func TestOneBadDeviceDoesNotKeepAnotherFromBeingWritten(t *testing.T) {
	s := store(t, "hush")
	bad := exampleDevice()
	bad.Target, bad.Password = "cp-0", "wrong"
	if _, err := s.Write(t.Context(), []state.FencingDevice{bad, exampleDevice()}); err == nil || !strings.Contains(err.Error(), "cp-0") {
		t.Errorf("got %v", err)
	}
	mustRead(t, s)
}

func TestWhatWasLearnedOutlivesNewCredentials(t *testing.T) {
	s := store(t, "hush", "new")
	learned := exampleDevice()
	learned.Delay = 5 * time.Second // calibrated
	if _, err := s.Write(t.Context(), []state.FencingDevice{learned}); err != nil {
		t.Fatal(err)
	}
	fromSecret := exampleDevice()
	fromSecret.Password, fromSecret.UUID, fromSecret.Serial = "new", "", ""
	if _, err := s.Write(t.Context(), []state.FencingDevice{fromSecret}); err != nil {
		t.Fatal(err)
	}
	got := mustRead(t, s)
	if got.Password != "new" || got.UUID != testUUID || got.Serial != testSerial || got.Delay != learned.Delay {
		t.Errorf("got %+v", got)
	}
}

// cloud simulates a cluster that keeps Secrets, or is away.
type cloud struct {
	away    error
	secrets map[string]map[string][]byte
}

func (c *cloud) PutSecret(_ context.Context, namespace, name string, data map[string][]byte) error {
	if c.away != nil {
		return c.away
	}
	c.secrets[namespace+"/"+name] = data
	return nil
}

func TestARotationWithoutAPIIsNotUndoneByTheSecret(t *testing.T) {
	s := store(t, "hush", "new") // a BMC that still takes both
	c := &cloud{away: errors.New("connection refused"), secrets: map[string]map[string][]byte{}}
	if _, err := s.Write(t.Context(), []state.FencingDevice{exampleDevice()}); err != nil {
		t.Fatal(err)
	}
	dev := exampleDevice()
	dev.Password = "new"
	r, told, err := s.Rotate(t.Context(), dev, c)
	if err != nil || told == nil || !r.Wrote || !s.IsPending("cp-1") {
		t.Fatalf("%+v, %v, %v", r, told, err)
	}
	// The cluster comes back and distributes the account in its Secret.
	results, err := s.Write(t.Context(), []state.FencingDevice{exampleDevice()})
	if err != nil || !results[0].Kept || mustRead(t, s).Password != "new" {
		t.Errorf("%+v, %v", results, err)
	}
	c.away = nil
	if pushed, err := s.Push(t.Context(), c); err != nil || len(pushed) != 1 || s.IsPending("cp-1") {
		t.Errorf("pushed %v, %v", pushed, err)
	}
	if got := string(c.secrets["openshift-etcd/fencing-credentials-cp-1"]["password"]); got != "new" {
		t.Errorf("the Secret has %q", got)
	}
	if pushed, err := s.Push(t.Context(), c); err != nil || len(pushed) != 0 {
		t.Errorf("again: %v, %v", pushed, err)
	}
}

func TestARotationTellsTheClusterAtOnceWhereItCan(t *testing.T) {
	s := store(t, "new")
	c := &cloud{secrets: map[string]map[string][]byte{}}
	dev := exampleDevice()
	dev.Password, dev.Insecure = "new", true
	if _, told, err := s.Rotate(t.Context(), dev, c); err != nil || told != nil || s.IsPending("cp-1") {
		t.Fatalf("%v, %v", told, err)
	}
	if got := string(c.secrets["openshift-etcd/fencing-credentials-cp-1"]["certificateVerification"]); got != "Disabled" {
		t.Errorf("certificateVerification %q", got)
	}
	dev.Password = "wrong"
	if _, _, err := s.Rotate(t.Context(), dev, c); err == nil || mustRead(t, s).Password != "new" || s.IsPending("cp-1") {
		t.Errorf("a wrong password: %v", err)
	}
}

// TestAPersonsWordOutlivesTheNextJob: each Job of the cluster brings the SMBIOS
// identity, and an older Secret does not have the administrator's SystemID.
func TestAPersonsWordOutlivesTheNextJob(t *testing.T) {
	s := store(t, "hush")
	c := &cloud{secrets: map[string]map[string][]byte{}}
	named := exampleDevice()
	named.SystemID, named.LegacyTLS, named.Fingerprint = "CZJ123", true, strings.Repeat("ab", 32)
	if _, _, err := s.Rotate(t.Context(), named, c); err != nil {
		t.Fatal(err)
	}
	secret := c.secrets["openshift-etcd/fencing-credentials-cp-1"]
	if string(secret["systemID"]) != "CZJ123" || string(secret["tls"]) != "Legacy" || string(secret["fingerprint"]) != named.Fingerprint {
		t.Errorf("the Secret has %q", secret)
	}
	if _, err := s.Write(t.Context(), []state.FencingDevice{exampleDevice()}); err != nil {
		t.Fatal(err)
	}
	if got := mustRead(t, s); got.SystemID != "CZJ123" || got.UUID != testUUID {
		t.Errorf("after a Job: %+v", got)
	}
	fromSecret := exampleDevice()
	fromSecret.SystemID = "CZJ456"
	if _, err := s.Write(t.Context(), []state.FencingDevice{fromSecret}); err != nil || mustRead(t, s).SystemID != "CZJ456" {
		t.Errorf("a newer word in the Secret: %+v, %v", mustRead(t, s), err)
	}
}

func TestWhatIsTakenAwayLeavesTheSecret(t *testing.T) {
	s := store(t, "hush")
	c := &cloud{secrets: map[string]map[string][]byte{}}
	if _, _, err := s.Rotate(t.Context(), exampleDevice(), c); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"fingerprint", "systemID", "tls"} {
		if value, told := c.secrets["openshift-etcd/fencing-credentials-cp-1"][key]; !told || value != nil {
			t.Errorf("%s stays in the Secret: told %v, %q", key, told, value)
		}
	}
}

func TestAPendingAccountThatStoppedWorkingYieldsToTheSecrets(t *testing.T) {
	s := store(t, "hush", "new")
	dev := exampleDevice()
	dev.Password = "new"
	if _, _, err := s.Rotate(t.Context(), dev, &cloud{away: errors.New("away")}); err != nil {
		t.Fatal(err)
	}
	s.Test = store(t, "hush").Test // the old account was restored at the BMC
	if r, err := s.Write(t.Context(), []state.FencingDevice{exampleDevice()}); err != nil || r[0].Kept || mustRead(t, s).Password != "hush" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestOnlyTheDelayIsCalibrated(t *testing.T) {
	s := store(t, "hush")
	if _, err := s.Write(t.Context(), []state.FencingDevice{exampleDevice()}); err != nil {
		t.Fatal(err)
	}
	if wrote, err := s.SetDelay("cp-1", 4*time.Second); err != nil || !wrote {
		t.Fatalf("%v, %v", wrote, err)
	}
	want := exampleDevice()
	want.Delay = 4 * time.Second
	if got := mustRead(t, s); got != want {
		t.Errorf("got %+v", got)
	}
}

func TestTheIdentityOfAHostIsThatOfItsSMBIOS(t *testing.T) {
	cases := []struct{ name, uuid, serial, wantUUID, wantSerial string }{
		{"both", testUUID + "\n", testSerial + "\n", testUUID, testSerial},
		{"a serial number that a vendor left", testUUID, "To be filled by O.E.M.", testUUID, ""},
		{"a UUID that a vendor left", "03000200-0400-0500-0006-000700080009", testSerial, "", testSerial},
		{"nothing of its own", "00000000-0000-0000-0000-000000000000", "Default string", "", ""},
	}
	for _, c := range cases {
		dir := t.TempDir()
		for name, text := range map[string]string{"product_uuid": c.uuid, "product_serial": c.serial} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o400); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv(DMIDirVariable, dir)
		uuid, serial, err := OwnIdentity()
		if uuid != c.wantUUID || serial != c.wantSerial || (err != nil) != (c.wantUUID+c.wantSerial == "") {
			t.Errorf("%s: %q %q %v", c.name, uuid, serial, err)
		}
	}
}

func TestAHostWithoutSMBIOSHasItsIdentityInItsAgentsEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast-agent")
	if err := os.WriteFile(path, []byte("OTHER=1\nHOLDFAST_DMI_DIR=/usr/lib/holdfast/dmi\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := variableIn(path, DMIDirVariable); got != "/usr/lib/holdfast/dmi" {
		t.Errorf("got %q", got)
	}
	if got := variableIn(path+".missing", DMIDirVariable); got != "" {
		t.Errorf("got %q", got)
	}
}
