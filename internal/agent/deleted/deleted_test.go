package deleted

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/agent/twonode"
	"github.com/holdfast/holdfast/internal/decide/deleted"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	scheduler = "/etc/kubernetes/manifests/kube-scheduler.yaml"
	pod       = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: kube-scheduler\n"
	pairConf  = "totem {\n  cluster_name: s\n}\nnodelist {\n  node {\n    name: cp-1\n    ring0_addr: 10.0.0.1\n  }\n  node {\n    name: cp-2\n    ring0_addr: 10.0.0.2\n  }\n}\nquorum {\n  provider: corosync_votequorum\n  two_node: 1\n}\n"
	loneConf  = "totem {\n  cluster_name: s\n}\nnodelist {\n  node {\n    name: cp-1\n    ring0_addr: 10.0.0.1\n  }\n}\nquorum {\n  provider: corosync_votequorum\n}\n"
)

// rig is one of two control planes with all of its files.
type rig struct {
	*Keeper
	t     *testing.T
	now   time.Time
	note  string
	asked int
	down  error // of the API
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, now: time.Now().Add(time.Hour)}
	kind := deleted.Kind{ControlPlane: true, Pacemaker: true}
	r.Keeper = New(Options{
		Root: t.TempDir(), Kind: kind, EncryptionRoot: []byte("root"), Now: func() time.Time { return r.now },
		Installed: func() bool { return true }, Pair: func() bool { return true },
		View: func() state.NetworkView {
			cp := map[string]string{state.LabelControlPlane: ""}
			return state.NetworkView{Host: state.HostFacts{NodeName: "cp-1"}, Nodes: state.Known([]state.Node{
				{Name: "cp-1", Labels: cp, Annotations: map[string]string{state.AnnotationDeleted: r.note}}, {Name: "cp-2", Labels: cp},
			})}
		},
		Tell: func(_ context.Context, node, value string) error {
			if node != "cp-1" {
				t.Errorf("told of %s", node)
			}
			if r.asked++; r.down == nil {
				r.note = value
			}
			return r.down
		},
	})
	for _, s := range deleted.Specs(kind) {
		r.file(s.Path, whole(t, s.Path))
	}
	r.file(corosync.Path, pairConf)
	r.file(twonode.CorosyncKey, "key")
	r.file(twonode.CIBFile, "<cib/>")
	return r
}

func (r *rig) file(path, text string) {
	r.t.Helper()
	path = filepath.Join(r.Root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) remove(path string) {
	r.t.Helper()
	if err := os.RemoveAll(filepath.Join(r.Root, path)); err != nil {
		r.t.Fatal(err)
	}
}

// looks looks for some time, and returns what was done.
func (r *rig) looks(d time.Duration) string {
	r.t.Helper()
	var done []string
	for end := r.now.Add(d); !r.now.After(end); r.now = r.now.Add(every) {
		said, err := r.step(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		if said != "" {
			done = append(done, said)
		}
	}
	return strings.Join(done, "\n")
}

func (r *rig) told() []state.Deleted {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.Root, state.DeletedStatusPath))
	if err != nil {
		r.t.Fatal(err)
	}
	var s state.DeletedStatus
	if err := json.Unmarshal(data, &s); err != nil {
		r.t.Fatal(err)
	}
	return s.Lost
}

// L35.
func TestManifestsThatSomebodyMovedAreBackWithinTenSecondsAsTheyWere(t *testing.T) {
	r := newRig(t)
	r.looks(every)
	r.remove("/etc/kubernetes/manifests")
	said := r.looks(10*time.Second - every)
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		got, err := os.ReadFile(filepath.Join(r.Root, "/etc/kubernetes/manifests", name+".yaml"))
		if err != nil || string(got) != strings.ReplaceAll(pod, "kube-scheduler", name) || !strings.Contains(said, name) {
			t.Errorf("%s: %v %q, said %q", name, err, got, said)
		}
	}
	if len(r.told()) > 0 || r.note != "" {
		t.Errorf("%+v %s", r.told(), r.note)
	}
}

func TestAnAgentThatWasStartedAnewHasTheCopies(t *testing.T) {
	r := newRig(t)
	r.looks(every)
	r.Keeper = New(r.Options)
	r.remove(scheduler)
	if said := r.looks(12 * time.Second); !strings.Contains(said, scheduler) {
		t.Errorf("%q", said)
	}
}

func TestAFileThatIsEmptyIsPutBackAndSoIsOneWithAFolderInItsPlace(t *testing.T) {
	r := newRig(t)
	r.looks(every)
	const conf, crt, key, own = "/etc/kubernetes/scheduler.conf", "/etc/kubernetes/pki/apiserver.crt", "/etc/kubernetes/pki/ca.key", "/etc/kubernetes/kubelet.conf"
	r.remove(conf)
	if err := os.Mkdir(filepath.Join(r.Root, conf), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{crt, key, own} {
		r.file(p, "")
	}
	said := r.looks(10 * time.Second)
	for _, p := range []string{conf, crt} {
		if got, err := os.ReadFile(filepath.Join(r.Root, p)); err != nil || string(got) != whole(t, p) || !strings.Contains(said, p) {
			t.Errorf("%s: %v %q, said %q", p, err, got, said)
		}
	}
	if lost := r.told(); len(lost) != 1 || lost[0].Problem != key+" is empty" {
		t.Errorf("told of %+v", lost)
	}
}

func TestAFolderWithFilesInAFilesPlaceIsLeftAlone(t *testing.T) {
	r := newRig(t)
	r.looks(every)
	const conf = "/etc/kubernetes/scheduler.conf"
	r.remove(conf)
	r.file(conf+"/of-a-person", "x")
	for end := r.now.Add(time.Minute); !r.now.After(end); r.now = r.now.Add(every) {
		if said, err := r.step(t.Context()); err == nil || !strings.Contains(err.Error(), conf) || said != "" {
			t.Errorf("said %q, %v", said, err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(r.Root, conf, "of-a-person")); err != nil || string(got) != "x" {
		t.Errorf("%v %q", err, got)
	}
}

func TestAManifestThatIsNoPodIsNoCopy(t *testing.T) {
	r := newRig(t)
	r.looks(every)
	r.file(scheduler, "garbage: [")
	r.now = r.now.Add(time.Hour)
	r.looks(every)
	r.remove(scheduler)
	r.looks(12 * time.Second)
	if got, err := os.ReadFile(filepath.Join(r.Root, scheduler)); err != nil || string(got) != pod {
		t.Errorf("%v %q", err, got)
	}
}

func TestWhatIsDeletedAgainAndAgainIsToldAndLeft(t *testing.T) {
	r := newRig(t)
	r.looks(every)
	for range 5 {
		r.remove(scheduler)
		r.looks(12 * time.Second)
	}
	if told := r.told(); len(told) != 1 || told[0].What != scheduler {
		t.Errorf("%+v", told)
	}
	r.file(deleted.LeavePath, scheduler+"\n")
	if r.looks(every); len(r.told()) > 0 || r.note != "" {
		t.Errorf("an administrator said so: %+v %s", r.told(), r.note)
	}
}

// L34.
func TestAKeyOfAnAuthorityIsToldOnTheHostAndInTheAPIUntilItIsBack(t *testing.T) {
	r := newRig(t)
	r.looks(every)
	r.remove("/etc/kubernetes/pki/ca.key")
	r.looks(9 * time.Second)
	if told := r.told(); len(told) != 1 || !strings.Contains(told[0].Command, "ssh cp-2 sudo cat /etc/kubernetes/pki/ca.key") || !strings.Contains(r.note, "ca.key") {
		t.Fatalf("%+v %s", told, r.note)
	}
	if _, err := os.Stat(filepath.Join(r.Root, Dir, "/etc/kubernetes/pki/ca.key")); err == nil {
		t.Error("a copy of the key lies on the host")
	}
	r.file("/etc/kubernetes/pki/ca.key", "key")
	if r.looks(every); len(r.told()) > 0 || r.note != "" {
		t.Errorf("%+v %s", r.told(), r.note)
	}
}

func TestAHostThatIsTakenApartIsLeftAlone(t *testing.T) {
	r := newRig(t)
	r.looks(every)
	r.remove("/etc/kubernetes") // kubeadm reset
	if said := r.looks(time.Minute); said != "" || len(r.told()) != 1 {
		t.Errorf("%q %+v", said, r.told())
	}
}

func TestAHostThatIsBeingInstalledLacksNothing(t *testing.T) {
	r := newRig(t)
	r.Installed = func() bool { return false }
	r.remove("/etc/kubernetes")
	if said := r.looks(time.Minute); said != "" || r.note != "" {
		t.Errorf("%q %s", said, r.note)
	}
}

func TestACorosyncThatForgotAHostIsToldWithinTenSecondsAndNotChanged(t *testing.T) {
	r := newRig(t)
	r.looks(every)
	r.file(corosync.Path, loneConf)
	r.looks(every)
	told := r.told()
	if len(told) != 1 || told[0].Problem != "corosync.conf lists cp-1; it had cp-1 and cp-2" || told[0].Command != deleted.PutBack || !strings.Contains(r.note, "put-back") {
		t.Fatalf("%+v %s", told, r.note)
	}
	r.now = r.now.Add(time.Hour)
	r.looks(every)
	if got, _ := os.ReadFile(filepath.Join(r.Root, corosync.Path)); string(got) != loneConf {
		t.Error("it was changed")
	}
	r.remove("/etc/corosync")
	r.looks(every)
	if told := r.told(); len(told) != 1 || !strings.Contains(told[0].Problem, "is gone") {
		t.Errorf("%+v", told)
	}
	if err := r.store.Put(corosync.Path); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(r.Root, corosync.Path)); string(got) != pairConf {
		t.Errorf("another one was kept: %s", got)
	}
}

func TestOnlyRootReadsTheCopies(t *testing.T) {
	r := newRig(t)
	r.looks(every)
	info, err := os.Stat(filepath.Join(r.Root, Dir))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", err, info)
	}
	copied, err := os.Stat(filepath.Join(r.Root, Dir, twonode.CorosyncKey))
	if err != nil || copied.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", err, copied)
	}
}

// L35: on both hosts there is no API.
func TestAnAPIThatIsDownKeepsNothingFromBeingPutBack(t *testing.T) {
	r := newRig(t)
	r.looks(every)
	r.down = errors.New("refused")
	r.remove("/etc/kubernetes/pki/ca.key") // is told
	r.remove(scheduler)
	failed := 0
	for end := r.now.Add(20 * time.Second); r.now.Before(end); r.now = r.now.Add(every) {
		if _, err := r.step(t.Context()); err != nil {
			failed++
		}
	}
	if _, err := os.Stat(filepath.Join(r.Root, scheduler)); err != nil || failed != 1 || r.asked != 1 {
		t.Errorf("%v, failed %d times, asked %d times", err, failed, r.asked)
	}
	r.down, r.now = nil, r.now.Add(tellAgain)
	if r.looks(every); !strings.Contains(r.note, "ca.key") {
		t.Errorf("afterwards nobody is told: %q", r.note)
	}
}
