package loss_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/backup/objects"
	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/decide/restore"
	"github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/test/labsite"
)

// TestASiteIsRestoredOnBlankHosts takes a backup, loses all hosts of a site with their
// disks, addresses of their BMCs and identities, and restores the site on others.
func TestASiteIsRestoredOnBlankHosts(t *testing.T) {
	s := up(t, *planes)
	dir := t.TempDir()
	before := s.fill()
	before.file = s.backup(dir)
	before.late()
	if err := s.Down(t.Context()); err != nil {
		t.Fatal(err)
	}

	lost := time.Now()
	again := filepath.Join(dir, "site")
	out, err := host.Run(t.Context(), host.Command(*program, "restore", "--from", before.file, "--dir", again))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", out)
	before.restored(t, again, lost, func(site) {})
}

// before is what a site had before it was lost.
type before struct {
	site
	app        labsite.App
	kubeconfig []byte
	file       string // the backup on this machine; empty if nobody can read it here
}

// fill gives a site an application, a secret and a job.
func (s site) fill() before {
	s.Helper()
	app := labsite.App{Name: "shop", Host: "shop.apps." + s.Lab.Layout.ClusterDomain(), Controller: ingress.DefaultName, Replicas: 2, Graceful: true}
	s.Leave(s.T, app)
	s.create(secretOf("till", "before"), payments())
	kubeconfig, err := os.ReadFile(s.Lab.Kubeconfig())
	if err != nil {
		s.Fatal(err)
	}
	return before{site: s, app: app, kubeconfig: kubeconfig}
}

// late writes what no backup has.
func (b before) late() {
	b.Helper()
	b.create(secretOf("late", "after"))
}

// restored installs the restored site on blank hosts, and checks that it is the one of before. found is
// called once it is up: what is outside of the site is there again.
func (b before) restored(t *testing.T, dir string, lost time.Time, found func(site)) {
	t.Helper()
	r := up(t, cmp.Or(*after, *planes), "--restored="+dir)
	found(r)
	t.Logf("restored %.0f s after the hosts were lost", time.Since(lost).Seconds())
	r.eventually(5*time.Minute, "the site is whole", func() error { return r.Whole(t.Context()) })
	r.has("till", "before")
	if err := r.API.Get(t.Context(), key("late"), &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was written after the backup: %v, want that it is not there", err)
	}
	r.eventually(3*time.Minute, "the application runs", func() error {
		return r.RolledOut(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: b.app.Name})
	})
	var job batchv1.CronJob
	if err := r.API.Get(t.Context(), key("payments"), &job); err != nil || !*job.Spec.Suspend || job.Annotations[restore.SuspendedOf] == "" {
		t.Errorf("payments runs for the time that was missed: %+v, %v", job.Spec, err)
	}
	first := r.Lab.Layout.Hosts[0].Name
	var report struct{ restore.Found }
	if err := json.Unmarshal([]byte(r.on(first, "cat /var/lib/etcd/holdfast-restore/report.json")), &report); err != nil || len(report.Suspended) == 0 {
		t.Errorf("the report names no suspended job: %+v, %v", report, err)
	}
	r.eventually(3*time.Minute, "the site says that it is healthy", func() error {
		out, err := r.Sh(t.Context(), first, "holdfast status")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	r.knows(b.kubeconfig)
	if b.file != "" {
		b.everything(r)
	}
}

// everything compares each object of the backup with the restored site. What is about its hosts differs;
// of all else, only the job that waits for a person does.
func (b before) everything(r site) {
	r.Helper()
	out, err := r.Holdfast(r.Context(), "backup", "diff", b.file, "--lab", r.LabName(), "-o", "json")
	var found struct {
		Differences []objects.Difference
		NotCompared []objects.NotCompared
		Unread      []objects.Unread
	}
	if unread := json.Unmarshal([]byte(out), &found); unread != nil {
		r.Fatalf("backup diff: %v, %v", err, unread)
	}
	if len(found.NotCompared)+len(found.Unread) > 0 {
		r.Errorf("not compared: %v, %v", found.NotCompared, found.Unread)
	}
	suspended := 0
	for _, d := range found.Differences {
		at := path.Join(d.Resource, d.Namespace, d.Name)
		r.Logf("%s %s", d.Change, at)
		switch {
		case at == "cronjobs/default/payments":
			suspended++
		case !ofHosts(at):
			r.Errorf("%s is %s after the restore", at, d.Change)
		}
	}
	if suspended != 1 {
		r.Error("the job that waits for a person does not differ")
	}
}

// ofHosts reports whether an object is about the hosts of a site, their set-up or plans for them, so that a
// restored site has another one, or none.
func ofHosts(at string) bool {
	return slices.ContainsFunc([]string{
		"nodes/", "jobs/openshift-etcd/two-node-", "secrets/openshift-etcd/two-node-input-", "secrets/openshift-etcd/fencing-credentials-", "secrets/openshift-etcd/pacemaker-auth",
		"secrets/kube-system/bootstrap-token-", "secrets/kube-system/holdfast-join-key", "configmaps/kube-system/holdfast-incidents-", "configmaps/kube-system/holdfast-upgrade",
	}, func(prefix string) bool { return strings.HasPrefix(at, prefix) })
}

// key names an object of the tests.
func key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}
}

// secretOf is written to etcd encrypted: the restored site needs the keys of before.
func secretOf(name, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: meta(name), StringData: map[string]string{"value": value}}
}

// payments is a job that runs each day.
func payments() *batchv1.CronJob {
	return &batchv1.CronJob{ObjectMeta: meta("payments"), Spec: batchv1.CronJobSpec{
		Schedule: "0 3 * * *",
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "pay", Image: "example.com/pay"}},
		}}}},
	}}
}

func (s site) create(objects ...client.Object) {
	s.Helper()
	for _, o := range objects {
		if err := s.API.Create(s.Context(), o); err != nil {
			s.Fatal(err)
		}
	}
}

func (s site) has(name, value string) {
	s.Helper()
	var got corev1.Secret
	if err := s.API.Get(s.Context(), key(name), &got); err != nil || string(got.Data["value"]) != value {
		s.Errorf("Secret %s has %q, %v, want %q", name, got.Data["value"], err, value)
	}
}

// backup has the first control plane take a backup, and copies it to the machine.
func (s site) backup(dir string) string {
	s.Helper()
	cp := s.ControlPlanes()[0]
	began := time.Now()
	s.on(cp, "holdfast backup now --host "+cp+" --reason test")
	s.Logf("a backup was taken in %.0f s", time.Since(began).Seconds())
	return s.fetches(cp, dir)
}

// fetches copies the newest backup of a host to the machine.
func (s site) fetches(cp, dir string) string {
	s.Helper()
	taken := s.on(cp, "ls -1t "+backup.Dir+"/*/*"+backup.ArchiveSuffix+" | head -1")
	data, err := s.ReadFile(s.Context(), cp, taken)
	if err != nil {
		s.Fatal(err)
	}
	file := filepath.Join(dir, path.Base(taken))
	if err := os.WriteFile(file, data, 0o600); err != nil {
		s.Fatal(err)
	}
	s.Logf("%s has %.1f MB", file, float64(len(data))/1e6)
	return file
}

// knows checks that a kubeconfig of before opens the API: the authorities are the same.
func (s site) knows(kubeconfig []byte) {
	s.Helper()
	first := s.ControlPlanes()[0]
	root, err := s.Lab.Root(s.Context(), s.Power, first)
	if err != nil {
		s.Fatal(err)
	}
	const at = "/run/person.kubeconfig"
	if err := os.WriteFile(filepath.Join(root, at), kubeconfig, 0o600); err != nil {
		s.Fatal(err)
	}
	s.eventually(time.Minute, "a kubeconfig of before works", func() error {
		_, err := s.Sh(s.Context(), first, "kubectl --kubeconfig "+at+" get secret till")
		return err
	})
}
