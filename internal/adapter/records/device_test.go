package records

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

var device = state.FencingDevice{Target: "cp-1", Address: "https://10.99.0.111/redfish/v1/Systems/1", Username: "admin", Password: "hush"}

// putMode writes a file where the device of cp-1 belongs.
func putMode(t *testing.T, files Files, dev any, mode os.FileMode) {
	t.Helper()
	data, err := json.Marshal(dev)
	if err != nil {
		t.Fatal(err)
	}
	put(t, files, state.FencingDir+"/cp-1.json", string(data))
	if err := os.Chmod(files.devicePath("cp-1"), mode); err != nil {
		t.Fatal(err)
	}
}

func TestADeviceThatOthersCouldReadIsRefused(t *testing.T) {
	for mode, ok := range map[int]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o644: false, 0o660: false} {
		files := Files{Root: t.TempDir()}
		putMode(t, files, device, os.FileMode(mode))
		if _, err := files.Device("cp-1"); (err == nil) != ok {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	if os.Geteuid() == 0 {
		files := Files{Root: t.TempDir()}
		putMode(t, files, device, 0o600)
		if err := os.Chown(files.devicePath("cp-1"), 1234, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Device("cp-1"); err == nil || !strings.Contains(err.Error(), "belongs to user 1234") {
			t.Errorf("another user's file: %v", err)
		}
	}
}

func TestAFileThatIsNotTheDeviceIsRefused(t *testing.T) {
	files := Files{Root: t.TempDir()}
	if _, err := files.Device("cp-1"); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("no file: %v", err)
	}
	other := device
	other.Target = "cp-2"
	putMode(t, files, other, 0o600)
	if _, err := files.Device("cp-1"); err == nil || !strings.Contains(err.Error(), `is the device of "cp-2"`) {
		t.Errorf("another target's: %v", err)
	}
	putMode(t, files, "hush: not a device", 0o600)
	if _, err := files.Device("cp-1"); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("no device, or its words are shown: %v", err)
	}
	if err := os.Symlink(files.devicePath("cp-1"), files.devicePath("cp-3")); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"cp-3", "../cp-1", "", "CP-1", "a/b", ".", strings.Repeat("a", 300)} {
		if _, err := files.Device(target); err == nil {
			t.Errorf("%q is read", target)
		}
	}
}

func TestADeviceThatIsTheSameIsNotWrittenAgain(t *testing.T) {
	files := Files{Root: t.TempDir()}
	for i, want := range []bool{true, false} {
		if wrote, err := files.WriteDevice(device); err != nil || wrote != want {
			t.Errorf("write %d: %t, %v", i, wrote, err)
		}
	}
	if err := os.Chmod(files.devicePath("cp-1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if wrote, err := files.WriteDevice(device); err != nil || !wrote {
		t.Errorf("a file that others can read stays: %t, %v", wrote, err)
	}
	if got, err := files.Device("cp-1"); err != nil || got != device {
		t.Errorf("%+v, %v", got, err)
	}
	if targets, err := files.Targets(); err != nil || len(targets) != 1 || targets[0] != "cp-1" {
		t.Errorf("%v, %v", targets, err)
	}
}

func TestTheBMCsByWhichAHostFencesAreNamedWithoutItsAccounts(t *testing.T) {
	files := Files{Root: t.TempDir()}
	if got := files.BMCs(); got != nil {
		t.Errorf("a host without devices names %v", got)
	}
	putMode(t, files, device, 0o600)
	put(t, files, state.FencingDir+"/cp-2.json", "half a fi")
	if got := files.BMCs(); len(got) != 1 || got[0] != "10.99.0.111" {
		t.Errorf("%v, want the host of the device that can be read", got)
	}
}
