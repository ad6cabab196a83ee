package restore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/decide/restore"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/guards"
	"github.com/holdfast/holdfast/internal/testkit/builttest"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// programs puts the etcd of a release that was built on this machine first in the path.
func programs(t testing.TB) {
	t.Helper()
	t.Setenv("PATH", filepath.Dir(builttest.Program(t, "etcdutl"))+":"+os.Getenv("PATH"))
}

// stored is an object as the API server stores it.
func stored(t testing.TB, o runtime.Object, kind, version string) []byte {
	t.Helper()
	group, v, found := strings.Cut(version, "/")
	if !found {
		group, v = "", version
	}
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: v, Kind: kind})
	data, err := encode(o)
	must(t, err)
	return data
}

// living starts an etcd over dir/data.
func living(t testing.TB, dir string) *etcd.Alone {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o700))
	e, err := etcd.OpenScratch(t.Context(), etcd.Scratch{
		DataDir: filepath.Join(dir, "data"), Name: "cp-1", PeerURL: "https://192.0.2.11:2380", Log: io.Discard,
	})
	must(t, err)
	return e
}

// backup makes a cluster's data and a snapshot of them, and returns its path and digest.
func backup(t testing.TB) (path, sum string) {
	t.Helper()
	dir := t.TempDir()
	s := living(t, filepath.Join(dir, "etcd"))
	owner := []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: new(true)}}
	for key, value := range map[string][]byte{
		"minions/cp-1": stored(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "cp-1", Labels: map[string]string{"kubernetes.io/hostname": "cp-1", "shelf": "left", "node-role.kubernetes.io/till": ""},
		}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "till", Value: "only", Effect: corev1.TaintEffectNoSchedule}}}}, "Node", "v1"),
		"pods/shop/web-1":        stored(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: "shop", OwnerReferences: owner}}, "Pod", "v1"),
		"pods/shop/by-hand":      stored(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "by-hand", Namespace: "shop"}}, "Pod", "v1"),
		"cronjobs/shop/payments": stored(t, &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "payments", Namespace: "shop"}}, "CronJob", "batch/v1"),
		"cronjobs/shop/paused":   stored(t, &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "paused", Namespace: "shop"}, Spec: batchv1.CronJobSpec{Suspend: new(true)}}, "CronJob", "batch/v1"),
		"jobs/shop/pay-1": stored(t, &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "pay-1", Namespace: "shop"}, Spec: batchv1.JobSpec{Completions: new(int32(3))}, Status: batchv1.JobStatus{Active: 1, Succeeded: 1},
		}, "Job", "batch/v1"),
		"jobs/shop/pay-0": stored(t, &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "pay-0", Namespace: "shop"},
			Status:     batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}},
		}, "Job", "batch/v1"),
		"persistentvolumes/till": stored(t, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "till"}, Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}},
		}}, "PersistentVolume", "v1"),
		"configmaps/kube-system/holdfast-retired": stored(t, &corev1.ConfigMap{Data: takenOut(t)}, "ConfigMap", "v1"),
		"validatingadmissionpolicies/holdfast-retired-hosts": stored(t,
			guards.RetiredHosts(takenOut(t)).Policy, "ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1"),
		"validatingadmissionpolicybindings/holdfast-retired-hosts":  []byte("x"),
		"clusterrolebindings/holdfast-administrator-alice-1a2b3c4d": stored(t, administrator("alice", restoredAt.Add(time.Hour)), "ClusterRoleBinding", "rbac.authorization.k8s.io/v1"),
		"clusterrolebindings/holdfast-administrator-bob-1a2b3c4d":   stored(t, administrator("bob", restoredAt.Add(-time.Hour)), "ClusterRoleBinding", "rbac.authorization.k8s.io/v1"),
		"config.openshift.io/clusterversions/version":               []byte(`{"kind":"ClusterVersion","spec":{"clusterID":"x","desiredUpdate":{"image":"y"}}}`),
		"secrets/shop/password":                                     []byte("k8s:enc:aescbc:v1:1:not to be read"),
		"secrets/kube-system/holdfast-join-key":                     []byte("k8s:enc:aescbc:v1:1:of another life"),
		"secrets/openshift-etcd/pacemaker-auth":                     []byte("k8s:enc:aescbc:v1:1:of another life"),
		"masterleases/192.0.2.11":                                   []byte("x"),
		"leases/shop/their-leader":                                  []byte("x"),
		"leases/kube-system/kube-scheduler":                         []byte("x"),
		"jobs/openshift-etcd/setup-cp-1":                            []byte("x"),
	} {
		must(t, s.Put(t.Context(), restore.Root+key, value))
	}
	return snapshotOf(t, s, filepath.Join(dir, "etcd"))
}

// takenOut is the list of hosts that somebody took out; the name of one was given again.
func takenOut(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{"w-9": "{"}
	for _, h := range []retired.Host{{Name: "worker-3"}, {Name: "worker-4", Again: restoredAt.Add(-time.Hour)}, {Name: "till-2", ControlPlane: true}} {
		h.When = restoredAt.Add(-2 * time.Hour)
		text, err := h.Marshal()
		must(t, err)
		out[h.Name] = text
	}
	return out
}

func administrator(name string, ends time.Time) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{
		Name: site.AdministratorBinding + name + "-1a2b3c4d", Annotations: map[string]string{state.AnnotationExpires: ends.Format(time.RFC3339)},
	}}
}

// snapshotOf ends an etcd over dir/data and makes a snapshot of it. Nothing else writes to it: its data
// directory, once it has ended, is a snapshot.
func snapshotOf(t testing.TB, s *etcd.Alone, dir string) (path, sum string) {
	t.Helper()
	must(t, s.Close())
	path = filepath.Join(dir, "snapshot.db")
	copied, err := os.ReadFile(filepath.Join(dir, "data/member/snap/db"))
	must(t, err)
	sumOf := sha256.Sum256(copied)
	must(t, os.WriteFile(path, append(copied, sumOf[:]...), 0o600))
	whole := sha256.Sum256(append(copied, sumOf[:]...))
	return path, hex.EncodeToString(whole[:])
}

// restoredAt is the time of restores in tests.
var restoredAt = time.Date(2026, 11, 25, 2, 0, 0, 0, time.UTC)

// TestARestoredEtcdHasAllThatOutlivesItsHosts restores a snapshot twice: the second time
// changes nothing.
func TestARestoredEtcdHasAllThatOutlivesItsHosts(t *testing.T) {
	programs(t)
	path, sum := backup(t)
	o := Options{
		Snapshot: path, SHA256: sum, DataDir: filepath.Join(t.TempDir(), "etcd"),
		Name: "till-1", PeerURL: "https://198.51.100.7:2380", Token: "another-life", Log: io.Discard, Bump: restore.Bump(1, restoredAt),
		ControlPlanes: []string{"till-2", "till-1"}, Now: restoredAt,
	}
	report, err := Run(t.Context(), o)
	must(t, err)
	again, err := Run(t.Context(), o)
	must(t, err)
	if fmt.Sprint(again) != fmt.Sprint(report) {
		t.Errorf("the second restore reports %+v, the first %+v", again, report)
	}
	s := living(t, movedInto(t, o.DataDir))
	defer func() { must(t, s.Close()) }()
	keys := map[string]string{}
	revision, err := s.Each(t.Context(), "/", func(key string, value []byte) error {
		keys[key] = string(value)
		return nil
	})
	must(t, err)
	if revision <= 1000*restoredAt.Unix() {
		t.Errorf("the revision is %d: whoever remembers one of before goes on with what is gone", revision)
	}
	if !s.Compacted(t.Context(), revision-1000) {
		t.Error("a revision of before can be read: a watch would go on from there")
	}
	var names []string
	for key := range keys {
		names = append(names, key)
	}
	slices.Sort(names)
	report.SHA256, report.Token = "", ""
	golden.Check(t, "restored.txt", fmt.Appendf(nil, "%s\n\ndropped %v\nchanged %v\nkept %d\n%+v\n\nversion %s\n",
		strings.Join(names, "\n"), report.Dropped, report.Changed, report.Kept, report.Found, keys[restore.Root+"config.openshift.io/clusterversions/version"]))
	job, err := decode([]byte(keys[restore.Root+"cronjobs/shop/payments"]))
	must(t, err)
	if c, ok := job.(*batchv1.CronJob); !ok || !*c.Spec.Suspend || c.Annotations[restore.SuspendedOf] != "false" {
		t.Errorf("payments runs for the time that was missed: %+v", job)
	}
	job, err = decode([]byte(keys[restore.Root+"jobs/shop/pay-1"]))
	must(t, err)
	if j, ok := job.(*batchv1.Job); !ok || !*j.Spec.Suspend || j.Annotations[restore.SuspendedOf] != "false" || *j.Spec.Completions != 3 || j.Status.Succeeded != 1 {
		t.Errorf("a Job that had not ended at the backup starts a second time: %+v", job)
	}
	whoIsOut(t, keys)
}

// whoIsOut checks what a restored site does about hosts that were taken out before the backup, whose
// certificates are as good as before.
func whoIsOut(t *testing.T, keys map[string]string) {
	t.Helper()
	object, err := decode([]byte(keys[restore.Root+"configmaps/kube-system/holdfast-retired"]))
	must(t, err)
	m, ok := object.(*corev1.ConfigMap)
	if !ok {
		t.Fatalf("the list is %T", object)
	}
	list, err := retired.Read(m.Data)
	if err == nil {
		t.Error("the entry that cannot be read is gone")
	}
	for name, refusal := range map[string]string{"worker-3": "was taken out of the cluster", "worker-4": "was taken out of the cluster", "worker-5": ""} {
		ended := joining.Expired{Node: name, Issued: restoredAt.AddDate(-1, 0, 0), Ended: restoredAt.Add(-time.Hour)}
		nodes := []state.Node{{Name: name, Created: ended.Issued}}
		verdict, err := joining.Renew(joining.Site{ControlPlanes: 2, Named: []string{"till-1", "till-2"}}, ended, nodes, list, ended.Ended, restoredAt)
		if refusal == "" && (err != nil || verdict.Action != joining.Approve) || refusal != "" && (err == nil || !strings.Contains(err.Error(), refusal)) {
			t.Errorf("a certificate of %s: %+v, %v", name, verdict, err)
		}
	}
	object, err = decode([]byte(keys[restore.Root+"validatingadmissionpolicies/holdfast-retired-hosts"]))
	must(t, err)
	guard, ok := object.(*admissionv1.ValidatingAdmissionPolicy)
	if !ok {
		t.Fatalf("the guard is %T", object)
	}
	want := guards.RetiredHosts(m.Data).Policy.Spec
	if !reflect.DeepEqual(guard.Spec.Validations, want.Validations) || !reflect.DeepEqual(guard.Spec.Variables, want.Variables) {
		t.Errorf("until the operator runs, these are out: %+v, want %+v", guard.Spec.Variables, want.Variables)
	}
}

// TestWhatFillsAnEtcdIsLeftOutInAFewStepsAndItsSpaceIsGivenBack: with one step for each Event, each
// of which waits for the disk, the restore of a full etcd would not end in its time.
func TestWhatFillsAnEtcdIsLeftOutInAFewStepsAndItsSpaceIsGivenBack(t *testing.T) {
	programs(t)
	const events, each = maxRun + 200, 8 << 10
	source := filepath.Join(t.TempDir(), "etcd")
	s := living(t, source)
	keep := []string{restore.Root + "eventsources/a", restore.Root + "leases/shop/their-leader"} // beside what is left out
	for _, key := range keep {
		must(t, s.Put(t.Context(), key, []byte("x")))
	}
	for i := range events {
		must(t, s.Put(t.Context(), fmt.Sprintf("%sevents/shop/%06d", restore.Root, i), make([]byte, each)))
	}
	must(t, s.Put(t.Context(), restore.Root+"masterleases/192.0.2.11", []byte("x")))
	path, sum := snapshotOf(t, s, source)
	o := Options{
		Snapshot: path, SHA256: sum, DataDir: filepath.Join(t.TempDir(), "etcd"),
		Name: "till-1", PeerURL: "https://198.51.100.7:2380", Token: "another-life", Log: io.Discard, Bump: restore.Bump(1, restoredAt),
	}
	report, err := Run(t.Context(), o)
	must(t, err)
	if report.Dropped["events"] != events || report.Dropped["api-servers"] != 1 || report.Kept != len(keep) {
		t.Errorf("%+v", report)
	}
	info, err := os.Stat(filepath.Join(o.DataDir, memberName, "snap", "db"))
	must(t, err)
	if info.Size() > events*each/4 {
		t.Errorf("the data have %d bytes, of which %d were left out", info.Size(), events*each)
	}
	left := living(t, movedInto(t, o.DataDir))
	defer func() { must(t, left.Close()) }()
	var keys []string
	revision, err := left.Each(t.Context(), "/", func(key string, _ []byte) error { keys = append(keys, key); return nil })
	must(t, err)
	if !slices.Equal(keys, keep) {
		t.Errorf("left are %q", keys)
	}
	if steps := revision - (events + 4) - o.Bump; steps > 10 {
		t.Errorf("%d steps for %d keys", steps, events)
	}
}

// L47: a host of before that wakes up is of another cluster, and so is one of another restore.
func TestTwoRestoresAndTheirSourceAreThreeClusters(t *testing.T) {
	programs(t)
	path, sum := backup(t)
	ids := map[string]string{}
	identify := func(what, dataDir string) {
		id := metadata(t, dataDir)
		if other := ids[id]; other != "" {
			t.Errorf("%s and %s are one cluster", what, other)
		}
		ids[id] = what
	}
	const name, url = "cp-1", "https://192.0.2.11:2380" // those of the source
	source := filepath.Join(t.TempDir(), "etcd")
	must(t, living(t, source).Close())
	identify("the source", filepath.Join(source, "data"))
	for _, token := range []string{"one-life", "another-life"} {
		o := Options{
			Snapshot: path, SHA256: sum, DataDir: filepath.Join(t.TempDir(), "etcd"),
			Name: name, PeerURL: url, Token: token, Log: io.Discard, Bump: restore.Bump(1, restoredAt),
		}
		_, err := Run(t.Context(), o)
		must(t, err)
		identify("a restore", o.DataDir)
	}
}

// metadata returns the ids of the member and its cluster as they stand at the beginning of etcd's log.
func metadata(t testing.TB, dataDir string) string {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dataDir, memberName, "wal", "*.wal"))
	must(t, err)
	if len(logs) == 0 {
		t.Fatalf("%s has no log", dataDir)
	}
	log, err := os.ReadFile(logs[0])
	must(t, err)
	// each record is preceded by its length; the first one has a sum, the second one the ids
	const head = 8
	sum := head + int(binary.LittleEndian.Uint64(log)&0xffffff)
	sum += -sum & (head - 1) // records end at a multiple of their head
	end := sum + head + int(binary.LittleEndian.Uint64(log[sum:])&0xffffff)
	return string(log[sum+head : end])
}

// movedInto returns a folder in which an etcd has the data of another folder.
func movedInto(t testing.TB, dataDir string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Rename(dataDir, filepath.Join(dir, "data")))
	must(t, os.RemoveAll(filepath.Join(dir, "data", workName)))
	return dir
}

// TestARestoreThatIsCutOffBeginsAnew ends a restore at moments of its way.
func TestARestoreThatIsCutOffBeginsAnew(t *testing.T) {
	programs(t)
	path, sum := backup(t)
	o := Options{
		Snapshot: path, SHA256: sum, DataDir: filepath.Join(t.TempDir(), "etcd"),
		Name: "till-1", PeerURL: "https://198.51.100.7:2380", Token: "another-life", Log: io.Discard, Bump: restore.Bump(1, restoredAt),
	}
	for _, after := range []int{0, 20, 80, 200, 400} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(after)*time.Millisecond)
		_, err := Run(ctx, o)
		cancel()
		if placed := host.Exists(filepath.Join(o.DataDir, memberName)); placed != (err == nil) {
			t.Fatalf("after %d ms: data are there: %v, and the restore says: %v", after, placed, err)
		}
	}
	if _, err := Run(t.Context(), o); err != nil {
		t.Errorf("the restore after them: %v", err)
	}
}

// TestARestoreOverwritesNothing begins where another etcd has been, and with another file.
func TestARestoreOverwritesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "snapshot.db")
	must(t, os.WriteFile(path, []byte("x"), 0o600))
	o := Options{Snapshot: path, SHA256: strings.Repeat("0", 64), DataDir: filepath.Join(dir, "etcd")}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "is not the snapshot of this restore") {
		t.Errorf("another file: %v", err)
	}
	must(t, os.MkdirAll(filepath.Join(o.DataDir, memberName), 0o700))
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "has data of another etcd") {
		t.Errorf("data of another etcd: %v", err)
	}
	must(t, os.MkdirAll(filepath.Join(o.DataDir, workName), 0o700))
	o.Token = "second-life"
	for token, want := range map[string]string{
		"first-life":  "has data of an earlier restore from the same backup",
		"":            "mv " + o.DataDir + "/member " + o.DataDir + "-before",
		"second-life": "",
	} {
		text := fmt.Sprintf(`{"sha256": %q, "token": %q, "kept": 1}`, o.SHA256, token)
		must(t, os.WriteFile(filepath.Join(o.DataDir, workName, reportName), []byte(text), 0o600))
		report, err := Run(t.Context(), o)
		if want == "" && (err != nil || report.Kept != 1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("data of a restore with the token %q: %+v, %v", token, report, err)
		}
	}
}
