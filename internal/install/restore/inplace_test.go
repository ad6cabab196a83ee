package restore

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/restore"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// hasWishes is a snapshot of a site on which much was under way.
func hasWishes(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "etcd")
	s := living(t, dir)
	pod := func(p corev1.RestartPolicy) []byte {
		return stored(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "shop"}, Spec: corev1.PodSpec{RestartPolicy: p}}, "Pod", "v1")
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1", Annotations: map[string]string{rollout.RebootWanted: "2026-11-01T00:00:00Z", "shelf": "left"}}}
	for key, value := range map[string][]byte{
		"minions/cp-1":                                    stored(t, node, "Node", "v1"),
		"minions/cp-2":                                    stored(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-2"}}, "Node", "v1"),
		"pods/shop/pay-1":                                 pod(corev1.RestartPolicyNever),
		"pods/shop/web-1":                                 pod(corev1.RestartPolicyAlways),
		"cronjobs/shop/payments":                          stored(t, &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "payments", Namespace: "shop"}}, "CronJob", "batch/v1"),
		"jobs/openshift-etcd/two-node-setup":              stored(t, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "two-node-setup"}}, "Job", "batch/v1"),
		"config.openshift.io/clusterversions/version":     []byte(`{"kind":"ClusterVersion","metadata":{"generation":2},"spec":{"desiredUpdate":{"image":"y"}}}`),
		"config.openshift.io/infrastructures/cluster":     []byte(`{"metadata":{"annotations":{"holdfast.io/dual-stack":"{\"id\":\"p\",\"machines\":\"m\"}"}}}`),
		"configmaps/kube-system/holdfast-replace":         []byte("x"),
		"configmaps/kube-system/holdfast-upgrade":         []byte("x"),
		"configmaps/kube-system/holdfast-retired":         []byte("x"),
		"secrets/kube-system/holdfast-join-key":           []byte("k8s:enc:secretbox:v1:x"),
		"secrets/openshift-etcd/pacemaker-auth":           []byte("k8s:enc:secretbox:v1:x"),
		"operator.openshift.io/etcds/cluster":             []byte("{}"),
		"services/endpoints/default/kubernetes":           []byte("x"),
		"masterleases/192.0.2.11":                         []byte("x"),
		"secrets/kube-system/holdfast-two-control-planes": []byte("k8s:enc:secretbox:v1:x"),
	} {
		must(t, s.Put(t.Context(), restore.Root+key, value))
	}
	path, _ := snapshotOf(t, s, dir)
	return path
}

// TestWhatIsRestoredInPlaceBeginsNothing: a snapshot is prepared, restored as the page of a restore in place
// says, and read.
func TestWhatIsRestoredInPlaceBeginsNothing(t *testing.T) {
	programs(t)
	from := hasWishes(t)
	to := filepath.Join(t.TempDir(), "prepared.db")
	t.Chdir(filepath.Dir(to))
	report, err := Prepare(t.Context(), Preparation{From: from, To: filepath.Base(to), Now: restoredAt, Log: io.Discard})
	must(t, err)
	wishes := []string{"cp-1: " + rollout.RebootWanted + "=2026-11-01T00:00:00Z", "second family: m", "upgrade: y"}
	slices.Sort(report.Wishes)
	if !slices.Equal(report.Wishes, wishes) || !slices.Equal(report.Suspended, []string{"shop/payments"}) || !slices.Equal(report.LonePods, []string{"shop/a"}) || len(report.Nodes) > 0 {
		t.Errorf("told is %+v", report.Found)
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	dir := t.TempDir()
	_, err = host.Run(t.Context(), host.Command("etcdutl", "snapshot", "restore", to, "--data-dir", filepath.Join(dir, "data"), "--name", "cp-1",
		"--initial-advertise-peer-urls", "https://192.0.2.11:2380", "--initial-cluster", "cp-1=https://192.0.2.11:2380",
		"--initial-cluster-token", "t", "--bump-revision", "1000000", "--mark-compacted"))
	must(t, err)
	s := living(t, dir)
	defer func() { must(t, s.Close()) }()
	values := map[string]string{}
	_, err = s.Each(t.Context(), restore.Root, func(key string, value []byte) error {
		values[strings.TrimPrefix(key, restore.Root)] = string(value)
		return nil
	})
	must(t, err)
	var keys []string
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	if want := []string{
		"config.openshift.io/clusterversions/version", "config.openshift.io/infrastructures/cluster", "configmaps/kube-system/holdfast-retired",
		"cronjobs/shop/payments", "masterleases/192.0.2.11", "minions/cp-1", "minions/cp-2", "operator.openshift.io/etcds/cluster", "pods/shop/web-1",
		"secrets/kube-system/holdfast-join-key", "secrets/openshift-etcd/pacemaker-auth", "services/endpoints/default/kubernetes",
	}; !slices.Equal(keys, want) {
		t.Errorf("there are\n%q\nwant\n%q", keys, want)
	}
	object, err := decode([]byte(values["minions/cp-1"]))
	must(t, err)
	if n, is := object.(*corev1.Node); !is || n.Annotations["shelf"] != "left" || len(n.Annotations) != 1 {
		t.Errorf("%+v", object)
	}
	if v := values["config.openshift.io/clusterversions/version"]; strings.Contains(v, "desiredUpdate") || strings.Contains(values["config.openshift.io/infrastructures/cluster"], "dual-stack") {
		t.Errorf("%v", values)
	}
}

// TestAPreparationOverwritesNothingAndLeavesNothingIfItFails.
func TestAPreparationOverwritesNothingAndLeavesNothingIfItFails(t *testing.T) {
	programs(t)
	dir := t.TempDir()
	there, bad := filepath.Join(dir, "there.db"), filepath.Join(dir, "bad.db")
	must(t, os.WriteFile(there, []byte("x"), 0o600))
	must(t, os.WriteFile(bad, []byte("no snapshot"), 0o600))
	if _, err := Prepare(t.Context(), Preparation{From: bad, To: there, Now: restoredAt, Log: io.Discard}); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("a file that was there: %v", err)
	}
	if _, err := Prepare(t.Context(), Preparation{From: bad, To: filepath.Join(dir, "new.db"), Now: restoredAt, Log: io.Discard}); err == nil {
		t.Error("a file that is no snapshot was prepared")
	}
	empty := filepath.Join(t.TempDir(), "etcd")
	s := living(t, empty)
	must(t, s.Put(t.Context(), "/another/program", []byte("x")))
	path, _ := snapshotOf(t, s, empty)
	if _, err := Prepare(t.Context(), Preparation{From: path, To: filepath.Join(dir, "new.db"), Now: restoredAt, Log: io.Discard}); err == nil || !strings.Contains(err.Error(), "no object of a cluster") {
		t.Errorf("an etcd without a site: %v", err)
	}
	left, err := os.ReadDir(dir)
	must(t, err)
	if len(left) != 2 {
		t.Errorf("left are %v", left)
	}
}
