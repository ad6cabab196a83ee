package labcli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// growingLab is the directory of a lab of one control plane with a spare one, of which no
// host runs.
func growingLab(t *testing.T) *lab.Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: without it the commands say only that")
	}
	root := t.TempDir()
	t.Setenv("HOLDFAST_LABS", root)
	b, err := lab.New(root, lab.Options{Spec: lab.Spec{Name: "edge", ControlPlanes: 1, SpareControlPlanes: 1}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(b.Options)
	own, ownErr := b.Layout.InstallConfig()
	if err := errors.Join(err, ownErr, os.MkdirAll(b.SiteDir(), 0o700), os.WriteFile(filepath.Join(b.Dir, "lab.json"), data, 0o600),
		os.WriteFile(filepath.Join(b.SiteDir(), "install-config.yaml"), own, 0o600)); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheConfigOfAGrownSiteGoesToAFileOfItsOwnerAlone(t *testing.T) {
	growingLab(t)
	file := filepath.Join(t.TempDir(), "two.yaml")
	if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errs := runLine(t, "install-config", "--name", "edge", "--control-planes", "2", "--out", file)
	if code != command.ExitOK || out != "" || errs != file+" has the install-config of lab edge, with controlPlane.replicas 2\n" {
		t.Fatalf("exit %d, %q, %q", code, out, errs)
	}
	text, err := os.ReadFile(file)
	info, statErr := os.Stat(file)
	c, parseErr := config.Parse(text)
	if err := errors.Join(err, statErr, parseErr); err != nil || info.Mode().Perm() != 0o600 || c.ControlPlaneReplicas() != 2 {
		t.Errorf("%v, mode %s:\n%s", err, info.Mode(), text)
	}
	code, out, errs = runLine(t, "install-config", "--name", "edge", "--control-planes", "2", "--out", "-")
	if code != command.ExitOK || out != string(text) || errs != "" {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	code, out, errs = runLine(t, "install-config", "--name", "edge", "--control-planes", "3", "--out", "-")
	if code != command.ExitUsage || out != "" || !strings.Contains(errs, "control planes: 3: must be 1 to 2: lab edge has 1, and 1 spare") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

func TestAMachineIsToldWithoutItsPassword(t *testing.T) {
	b := growingLab(t)
	h, _ := b.Layout.Host("cp-2")
	code, out, errs := runLine(t, "machine", "--name", "edge", "cp-2")
	want := "cp-2\n  uuid          " + h.UUID + "\n  serial        " + h.Serial + "\n  mac           " + h.Machine.MAC +
		"\n  address       10.98.0.12\n  bmc           https://10.99.0.112/redfish/v1/Systems/cp-2\n" +
		"  bmc username  admin\n  bmc password  in " + filepath.Join(b.Dir, "bmc", "cp-2.password") + "\n"
	if diff := cmp.Diff(want, out); diff != "" || code != command.ExitOK || errs != "" {
		t.Errorf("exit %d, %s, %s", code, errs, diff)
	}
	code, text, errs := runLine(t, "machine", "--name", "edge", "cp-2", "-o", "json")
	var m machine
	if err := json.Unmarshal([]byte(text), &m); err != nil || code != command.ExitOK || m.UUID != h.UUID || m.Addresses[0].String() != "10.98.0.12" {
		t.Fatalf("exit %d, %v, %s: %s", code, err, errs, text)
	}
	password, err := os.ReadFile(m.Password)
	info, statErr := os.Stat(m.Password)
	if err := errors.Join(err, statErr); err != nil || string(password) != h.BMC.Password+"\n" || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the password: %q, %v", password, err)
	}
	if _, offered, _ := runLine(t, "__complete", "machine", "--name", "edge", ""); !strings.HasPrefix(offered, "cp-1\ncp-2\n:") {
		t.Errorf("offered are %q", offered)
	}
	if strings.Contains(out+text, h.BMC.Password) {
		t.Errorf("the password is shown: %s%s", out, text)
	}
}

func TestThePlaceNamesASpareControlPlaneOnceTheSiteHasIt(t *testing.T) {
	b, err := lab.New(t.TempDir(), lab.Options{Spec: lab.Spec{Name: "edge", ControlPlanes: 1, SpareControlPlanes: 1, Workers: 1}})
	if err != nil {
		t.Fatal(err)
	}
	planes := func() string {
		var out []string
		for _, h := range placeFrom(b, lab.DaemonStatus{}, "holdfast-lab").Hosts {
			mark := ""
			if h.ControlPlane {
				mark = "*"
			}
			out = append(out, h.Name+mark)
		}
		return strings.Join(out, " ")
	}
	if got := planes(); got != "cp-1* cp-2 worker-1" {
		t.Errorf("before it has its join file: %s", got)
	}
	if err := b.GiveIgnition("cp-2", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if got := planes(); got != "cp-1* cp-2* worker-1" {
		t.Errorf("after: %s", got)
	}
}

func TestHostsThatMayBecomeTwoHaveThePackagesOfTwo(t *testing.T) {
	two := len(payload.HostPackages(payload.ExtensionTwoNodeHA))
	for _, tt := range []struct {
		planes, spare int
		want          bool
	}{{1, 0, false}, {1, 1, true}, {1, 2, true}, {2, 0, true}, {2, 1, true}, {3, 0, true}} {
		if got := len(hostPackages(lab.Spec{ControlPlanes: tt.planes, SpareControlPlanes: tt.spare})) == two; got != tt.want {
			t.Errorf("%d and %d spare: packages of two %t, want %t", tt.planes, tt.spare, got, tt.want)
		}
	}
}
