package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	configv1alpha1 "github.com/openshift/api/config/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/backup"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

const (
	backupRecipient = "age1e5m0yl3l2duek29zelehdfrjtp2txzp02mm40n0h8m2u02yg0ussgrwkl4"
	backupFile      = "schedule: 0 3 * * *\nkeep: 5\nrecipients: [" + backupRecipient + "]\ntargets:\n- name: nas\n  s3: {endpoint: \"https://s3.example.com\", bucket: backups, accessKey: AK, secretKey: S3cr3t-x}\n"
)

// playedHost is a control plane whose agent answers each wish.
type playedHost struct {
	c    client.Client
	name string
	// failed is how it answers, and unsent why its target lacks the copy; cut is true if it was cut
	// off before it sent anything. refused is why it does not follow the configuration.
	failed, unsent, refused string
	cut                     bool
	// to identifies the recipients of its copy, where it says them.
	to string
}

// answer writes the summary of a host that has answered the wish at its node.
func (h playedHost) answer(ctx context.Context, wish string) error {
	now := time.Now().UTC()
	s := backup.Summary{At: now, Schedule: "0 3 * * * UTC", Period: 24 * time.Hour, Keep: 5, Since: now.Add(-time.Hour), Targets: []string{"nas"}, Recipients: []string{backupRecipient}, Asked: wish}
	b := backup.Brief{ID: "20261125T090000Z-" + h.name, Taken: now, Good: true, Revision: 4711, Size: 12 << 20, Copies: []backup.Copy{{Target: "nas", Failed: h.unsent, To: h.to}}}
	if h.unsent == "" {
		b.Copies[0].Verified = now
	}
	if h.cut {
		b.Copies = nil
	}
	if h.refused != "" {
		s.Refused = []string{h.refused}
	}
	s.Kept, s.Answer.ID = []backup.Brief{b}, b.ID
	if h.failed != "" {
		s.Kept, s.Answer = nil, backup.Answer{Failed: h.failed}
	}
	text, err := s.Text()
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{backup.Annotation: text}}})
	if err != nil {
		return err
	}
	return h.c.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, client.RawPatch("application/merge-patch+json", patch))
}

// play answers the next wish at its node.
func (h playedHost) play(t *testing.T) {
	t.Helper()
	before := h.wish(t)
	go func() {
		for t.Context().Err() == nil {
			var n corev1.Node
			if h.c.Get(t.Context(), client.ObjectKey{Name: h.name}, &n) != nil {
				continue
			}
			if wish := n.Annotations[backup.WantedOf]; wish != before {
				_ = h.answer(t.Context(), wish)
				return
			}
		}
	}()
}

func (h playedHost) wish(t *testing.T) string {
	t.Helper()
	var n corev1.Node
	if err := h.c.Get(t.Context(), client.ObjectKey{Name: h.name}, &n); err != nil {
		t.Fatal(err)
	}
	return n.Annotations[backup.WantedOf]
}

// TestARealAPITakesWhatASiteWantsOfItsBackups: the file is checked, written, tried and
// replaced, and a backup is asked for, listed and proven, by command lines with a control plane
// that is played.
func TestARealAPITakesWhatASiteWantsOfItsBackups(t *testing.T) {
	server := apitest.Need(t, realServer)
	const crd = "../render/manifests/crds/backups.yaml"
	server.Kubectl(t, "apply", "--server-side", "--force-conflicts", "--filename", crd)
	server.Kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "--filename", crd)
	scheme, err := kube.NewScheme(configv1alpha1.Install)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(server.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	ready := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "backup-cp-1", Labels: map[string]string{state.LabelControlPlane: ""}}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: backup.SecretNamespace}}
	if err := client.IgnoreAlreadyExists(c.Create(t.Context(), namespace)); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	node.Status = ready
	if err := c.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, o := range []client.Object{
			node, &configv1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: backup.ObjectName}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: backup.SecretNamespace, Name: backup.SecretName}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: backup.ProofNamespace, Name: backup.ProofName}},
		} {
			_ = c.Delete(ctx, o)
		}
	})
	line := func(code int, says string, args ...string) string {
		t.Helper()
		got, out, errs := runLine(t, append(append([]string{"backup"}, args...), "--kubeconfig", server.Kubeconfig())...)
		if got != code || !strings.Contains(out+errs, says) {
			t.Fatalf("%v: exit code %d, want %d and %q: %s%s", args, got, code, says, out, errs)
		}
		if strings.Contains(out+errs, "S3cr3t") {
			t.Errorf("%v prints a password", args)
		}
		return out
	}
	file := func(text string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "backups.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	wished := func() backup.Inputs {
		t.Helper()
		var o configv1alpha1.Backup
		var s corev1.Secret
		in := backup.Inputs{}
		if c.Get(t.Context(), client.ObjectKey{Name: backup.ObjectName}, &o) == nil {
			in.Spec = &o.Spec.EtcdBackupSpec
		}
		if c.Get(t.Context(), client.ObjectKey{Namespace: backup.SecretNamespace, Name: backup.SecretName}, &s) == nil {
			in.Config = string(s.Data[backup.SecretKey])
		}
		return in
	}
	host := playedHost{c: c, name: node.Name}

	line(command.ExitUnknown, "has reported nothing", "list")
	line(command.ExitRefused, "no control plane can take one", "now")
	if err := host.answer(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	line(command.ExitAttention, "20261125T090000Z-backup-cp-1", "list") // nobody has opened it

	// The file.
	line(command.ExitUsage, "targets[0].name", "configure", "-f", file("targets: [{name: A}]\nschedule: nonsense\n"))
	if in := wished(); in.Spec != nil || in.Config != "" {
		t.Fatalf("a file with mistakes was written: %+v", in.Spec)
	}
	line(command.ExitOK, "at 0 3 * * * UTC, 5 kept, on the control planes and at nas", "configure", "-f", file(backupFile), "--dry-run")
	line(command.ExitOK, `"after": "at 0 3 * * * UTC, 5 kept, on the control planes and at nas"`, "configure", "-f", file(backupFile), "--dry-run", "-o", "json")
	if in := wished(); in.Spec != nil || in.Config != "" {
		t.Fatal("a dry run wrote")
	}
	host.play(t)
	line(command.ExitOK, "read back there", "configure", "-f", file(backupFile), "--yes")
	in := wished()
	if w, mistakes := backup.ReadWish(in, "", time.LoadLocation); len(mistakes) > 0 || w.Words() != "at 0 3 * * * UTC, 5 kept, on the control planes and at nas" || w.Targets[0].S3.SecretKey.Reveal() != "S3cr3t-x" {
		t.Fatalf("%s, %q", w.Words(), mistakes)
	}
	line(command.ExitOK, "before: at 0 3 * * * UTC, 5 kept", "configure", "-f", file("timeZone: Europe/Berlin\nschedule: '@daily'\n"), "--yes", "--no-wait")
	line(command.ExitOK, "written: true\n", "configure", "-f", file("timeZone: Europe/Berlin\nschedule: '@daily'\n"), "--yes", "--no-wait", "-o", "yaml")
	if w, mistakes := backup.ReadWish(wished(), "", time.LoadLocation); len(mistakes) > 0 || w.Words() != "at @daily Europe/Berlin, 7 kept, on the control planes alone" {
		t.Fatalf("a file does not replace the former wish: %s, %q", w.Words(), mistakes)
	}

	// Backups.
	line(command.ExitOK, "would take a backup now", "now", "--dry-run")
	host.unsent = "no route to host"
	host.play(t)
	line(command.ExitAttention, "a target lacks it: nas: no route to host", "now", "--reason", "before the move")
	if !strings.HasSuffix(host.wish(t), " before the move") {
		t.Errorf("the wish is %q", host.wish(t))
	}
	line(command.ExitRefused, "no target has a copy", "prove", "20261125T090000Z-backup-cp-1")
	host.unsent, host.cut = "", true
	for _, args := range [][]string{{"now"}, {"configure", "-f", file(backupFile), "--yes"}} {
		host.play(t)
		line(command.ExitAttention, "a target lacks it: nas: it was not sent to the end yet", args...)
	}
	host.cut, host.refused = false, "Secret openshift-etcd/holdfast-backup: targets[0].tape: unknown field"
	host.play(t)
	line(command.ExitAttention, "does not follow the configuration: Secret openshift-etcd/holdfast-backup: targets[0].tape", "configure", "-f", file(backupFile), "--yes")
	host.refused = ""
	host.unsent, host.failed = "", "no room: 1 of 5 GiB are free"
	host.play(t)
	line(command.ExitFailed, "made no good backup: no room", "now")
	host.failed = ""
	host.play(t)
	line(command.ExitOK, "read back there", "now", "--host", node.Name)
	line(command.ExitUsage, "no such control plane", "now", "--host", "worker-1")
	line(command.ExitOK, `"revision": 4711`, "show", "20261125T090000Z", "-o", "json")
	line(command.ExitFailed, "no control plane reports it", "show", "x")

	// The proof.
	line(command.ExitAttention, "never-proven", "list")
	line(command.ExitOK, "would be proven", "prove", "20261125T090000Z", "--by", "Ann", "--dry-run")
	line(command.ExitAttention, "never-proven", "list")
	line(command.ExitOK, "proven by Ann", "prove", "20261125T090000Z", "--by", "Ann")
	line(command.ExitOK, "opened by Ann", "list")
	line(command.ExitOK, "proven by Ben", "prove", "20261125T090000Z", "--by", "Ben")
	for to, code := range map[string]int{"of former ones": command.ExitRefused, backup.Briefs([]model.Entry{{Copies: []model.Copy{{Recipients: []string{backupRecipient}}}}})[0].Copies[0].To: command.ExitOK} {
		host.to = to
		if err := host.answer(t.Context(), host.wish(t)); err != nil {
			t.Fatal(err)
		}
		says := map[int]string{command.ExitRefused: "encrypted to other recipients than those of today", command.ExitOK: "proven by Ben, for 1 recipients"}[code]
		line(code, says, "prove", "20261125T090000Z", "--by", "Ben")
	}
}
