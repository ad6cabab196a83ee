package deleted

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/deleted"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/staticpod"
)

const (
	etcdLog  = state.EtcdDataDir + "/member/wal/0000000000000000-0000000000000000.wal"
	onTheWay = "/var/lib/holdfast/upgrade/pods/0123" + etcdPod
)

// three is one of three control planes, whose etcd runs under kubelet.
type three struct {
	*rig
	runs bool
	proc error // of the look for processes
}

func newThree(t *testing.T) *three {
	t.Helper()
	h := &three{rig: newRig(t), runs: true}
	h.Kind, h.Pair = deleted.Kind{ControlPlane: true, Three: true}, func() bool { return false }
	h.EtcdRuns = func() (bool, error) { return h.runs, h.proc }
	made, err := os.ReadFile("../../render/kubeadm/testdata/made/etcd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	h.file(etcdPod, string(made))
	h.file(onTheWay, string(made))
	h.file(etcdLog, "log")
	h.looks(every)
	return h
}

func (h *three) boots() {
	h.t.Helper()
	if _, err := (Etcd{Root: h.Root, Runs: h.EtcdRuns}).BeforeKubelet(); err != nil {
		h.t.Error(err)
	}
}

// sealed reports whether a manifest of etcd is sealed.
func (h *three) sealed(path string) bool {
	h.t.Helper()
	data, err := os.ReadFile(filepath.Join(h.Root, path))
	if err != nil {
		h.t.Fatal(err)
	}
	return staticpod.Sealed(data)
}

// TestABootStartsEtcdOfThreeOnlyWithItsData: docs/adr/0109.
func TestABootStartsEtcdOfThreeOnlyWithItsData(t *testing.T) {
	for name, lost := range map[string]bool{"with its data": false, "the disk came up empty": true} {
		h := newThree(t)
		if h.sealed(etcdPod) || len(h.told()) > 0 {
			t.Fatalf("%s: sealed while it runs, or told: %+v", name, h.told())
		}
		h.runs = false
		if lost {
			h.remove(state.EtcdDataDir)
		}
		h.boots()
		for _, path := range []string{etcdPod, onTheWay, Dir + etcdPod} {
			if !h.sealed(path) {
				t.Errorf("%s: %s would start it from nothing", name, path)
			}
		}
		before, _ := os.Stat(filepath.Join(h.Root, etcdPod))
		h.boots()
		if after, _ := os.Stat(filepath.Join(h.Root, etcdPod)); !os.SameFile(before, after) {
			t.Errorf("%s: it was written again", name)
		}
		h.looks(9 * time.Second)
		if told := h.told(); lost != (len(told) == 1 && told[0].What == state.EtcdDataDir && strings.Contains(h.note, "findmnt")) {
			t.Errorf("%s: %+v, %s", name, told, h.note)
		}
	}
}

func TestAnEtcdThatRunsOrOfWhichNothingIsKnownIsNotSealed(t *testing.T) {
	for name, change := range map[string]func(*three){
		"it runs":                      func(*three) {},
		"nobody knows whether it runs": func(h *three) { h.runs, h.proc = false, errors.New("no /proc") },
	} {
		h := newThree(t)
		change(h)
		_, err := Etcd{Root: h.Root, Runs: h.EtcdRuns}.BeforeKubelet()
		if h.sealed(etcdPod) || !errors.Is(err, h.proc) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestABootSealsEtcdThoughItsDiskCannotBeRead, and does not wait for that disk: kubelet and the agent start
// after it.
func TestABootSealsEtcdThoughItsDiskCannotBeRead(t *testing.T) {
	h := newThree(t)
	h.runs = false
	h.remove(state.EtcdDataDir + "/member/wal")
	h.file(state.EtcdDataDir+"/member/wal", "no directory")
	if _, err := (Etcd{Root: h.Root}).log(); err == nil {
		t.Fatal("it can be read")
	}
	if h.boots(); !h.sealed(etcdPod) {
		t.Error("it is not sealed")
	}
}

// TestAnEtcdThatRunsIsLeftAloneWhateverBecameOfItsAuthority: with the data somebody deleted or replaced the
// file by which its processes are told from others.
func TestAnEtcdThatRunsIsLeftAloneWhateverBecameOfItsAuthority(t *testing.T) {
	const ca = state.EtcdPKIDir + "/ca.crt"
	for name, replaced := range map[string]bool{"its file is missing": false, "its folder is another one": true} {
		t.Run(name, func(t *testing.T) {
			h := newThree(t)
			h.EtcdRuns = func() (bool, error) { return etcdRuns(h.Root) }
			h.file(ca, "ca")
			has := "" // the folder that the container has, if it is no longer that of the host
			if replaced {
				h.file("/former/ca.crt", "ca")
				has = "/former"
			}
			ends := h.startsEtcd("--trusted-ca-file="+filepath.Join(h.Root, ca), has)
			if !replaced {
				h.remove(ca)
			}
			h.remove(state.EtcdDataDir + "/member")
			h.looks(9 * time.Second)
			if told := h.told(); h.sealed(etcdPod) || len(told) == 0 || told[len(told)-1].Command != "sudo holdfast backup now" {
				t.Errorf("the last one with the data is ended: %+v", told)
			}
			ends()
			if h.looks(every); !h.sealed(etcdPod) {
				t.Error("it ended, and starts from nothing")
			}
		})
	}
}

// startsEtcd starts a process of that name, which reads its input until it is ended. In place of the folder
// of etcd's authority it has the folder has, empty for that of the host.
func (h *three) startsEtcd(flag, has string) (end func()) {
	h.t.Helper()
	script, pki := "echo; read it", filepath.Join(h.Root, state.EtcdPKIDir)
	if has != "" {
		script = `mount --bind "$2" "$3" && ` + script
	}
	cmd := exec.CommandContext(h.t.Context(), "sh", "-c", script, "name", flag, filepath.Join(h.Root, has), pki)
	cmd.Args[0] = "etcd"
	if has != "" {
		if os.Geteuid() != 0 {
			h.t.Skip("NOT TESTED: mounts need root")
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.t.Skipf("NOT TESTED: %v", err)
	}
	end = func() { _ = in.Close(); _ = cmd.Wait() }
	if _, err := out.Read(make([]byte, 1)); err != nil {
		end()
		h.t.Skipf("NOT TESTED: no mount: %v", err)
	}
	return end
}

func TestDataOfEtcdThatVanishWhileAHostRunsAreToldAndEtcdDoesNotStartFromNothing(t *testing.T) {
	h := newThree(t)
	h.remove(state.EtcdDataDir + "/member")
	h.looks(9 * time.Second)
	if told := h.told(); h.sealed(etcdPod) || len(told) != 1 || told[0].Command != "sudo holdfast backup now" {
		t.Errorf("while it runs on: %+v", told)
	}
	h.runs = false
	if h.looks(every); !h.sealed(etcdPod) {
		t.Error("it ended, and starts from nothing")
	}
	h.file(state.EtcdDataDir+"/member/snap/db", "what a refused start leaves")
	if h.looks(every); len(h.told()) != 1 {
		t.Errorf("%+v", h.told())
	}
	h.file(etcdLog, "log")
	if h.looks(every); len(h.told()) > 0 || h.note != "" {
		t.Errorf("the disk is back: %+v, %s", h.told(), h.note)
	}
}

func TestAManifestOfEtcdThatIsPutBackWhereTheDataAreGoneIsSealed(t *testing.T) {
	h := newThree(t)
	h.runs = false
	h.remove(state.EtcdDataDir + "/member")
	h.remove(etcdPod)
	if h.looks(12 * time.Second); !h.sealed(etcdPod) {
		t.Error("it starts from nothing")
	}
}

func TestAHostThatIsBeingInstalledStartsEtcdFromNothing(t *testing.T) {
	h := newThree(t)
	h.runs, h.Installed, h.installed = false, func() bool { return false }, false
	h.remove(state.EtcdDataDir + "/member")
	if h.looks(time.Minute); h.sealed(etcdPod) {
		t.Error("a host that joins cannot start etcd")
	}
}
