package cli

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// TestARealAPITakesAnUpgradeThroughItsVerbs: it is begun, paused, resumed, taken back, begun
// again and committed by command lines, with hosts and an operator that are played.
func TestARealAPITakesAnUpgradeThroughItsVerbs(t *testing.T) {
	server := apitest.Need(t, realServer)
	dir, err := host.Run(t.Context(), host.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/openshift/api"))
	if err != nil {
		t.Fatal(err)
	}
	crd := filepath.Join(strings.TrimSpace(string(dir)), "config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusterversions-Default.crd.yaml")
	server.Kubectl(t, "apply", "--server-side", "--force-conflicts", "--filename", crd)
	server.Kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "--filename", crd)
	scheme, err := kube.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(server.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	v, nodes := upgradeObjects(t)
	objects := []client.Object{v}
	for _, n := range nodes {
		objects = append(objects, n)
	}
	for _, o := range objects {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), o) })
	}
	t.Cleanup(func() {
		_ = c.Delete(context.WithoutCancel(t.Context()), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: annotation.RecordNamespace, Name: annotation.RecordName}})
	})
	line := func(code int, says string, args ...string) string {
		t.Helper()
		got, out, errs := runLine(t, append(append([]string{"upgrade"}, args...), "--kubeconfig", server.Kubeconfig())...)
		if got != code || !strings.Contains(out+errs, says) {
			t.Fatalf("%v: exit code %d, want %d and %q: %s%s", args, got, code, says, out, errs)
		}
		return out
	}
	is := func(phase cluster.Phase, wayBack string) {
		t.Helper()
		_, out, _ := runLine(t, "upgrade", "status", "-o", "json", "--kubeconfig", server.Kubeconfig())
		var s people.Status
		if err := json.Unmarshal([]byte(out), &s); err != nil || s.Phase != phase || s.WayBack != wayBack {
			t.Fatalf("%s, way back %q, want %s, %q: %v %s", s.Phase, s.WayBack, phase, wayBack, err, out)
		}
	}
	p := player{t, c}
	p.step()

	is(cluster.Idle, "")
	line(command.ExitRefused, "no upgrade is under way", "rollback", "--yes")
	line(command.ExitNotConfirmed, "up-1", "start", releaseTwo) // standard input is empty
	line(ExitOK, "1. up-1", "start", releaseTwo, "--dry-run")
	if p.step().Phase != cluster.Idle {
		t.Fatal("what was not confirmed has begun")
	}
	line(ExitOK, "follow it", "start", "registry.example/release@"+releaseTwo, "--from-registry", "registry.example/release", "--skip", "backup=there is one", "--by", "ann", "--yes", "--no-wait")
	line(ExitOK, "already", "start", releaseTwo, "--yes", "--no-wait")
	for len(p.record().Turns) == 0 {
		p.step()
	}
	line(ExitOK, "no further host begins", "pause", "the shop is open")
	paused := p.until(cluster.Hosts)
	if paused.Do != cluster.Pause {
		t.Fatalf("%+v", paused)
	}
	line(command.ExitAttention, "paused: the shop is open", "status")
	line(command.ExitRefused, "another upgrade is under way", "start", "sha256:"+strings.Repeat("3", 64), "--yes")
	line(command.ExitRefused, "paused: the shop is open", "commit", "--yes")
	line(ExitOK, "the upgrade goes on", "resume")
	p.until(cluster.Proving)
	is(cluster.Proving, "open")

	line(ExitOK, "follow it", "rollback", "--yes", "--no-wait")
	p.until(cluster.Idle)
	is(cluster.Idle, "")
	line(ExitOK, "follow it", "start", releaseTwo, "--yes", "--no-wait")
	p.until(cluster.Proving)
	line(ExitOK, "follow it", "commit", "--yes", "--no-wait")
	p.until(cluster.Idle)
	is(cluster.Idle, "")
	line(command.ExitRefused, "no upgrade is under way", "rollback", "--yes")

	if err := c.Get(t.Context(), client.ObjectKeyFromObject(v), v); err != nil {
		t.Fatal(err)
	}
	var history []string
	for _, h := range v.Status.History {
		history = append(history, string(h.State)+" "+people.Digest(h.Image)[7:8])
	}
	if got := strings.Join(history, ", "); got != "Completed 2, Completed 1, Completed 2, Completed 1" {
		t.Errorf("the history is %s", got)
	}
	if v.Spec.DesiredUpdate == nil || v.Annotations[annotation.SourcesOf] == "" || v.Spec.ClusterID == "" {
		t.Errorf("%+v %v", v.Spec, v.Annotations)
	}
	if _, there := v.Annotations[annotation.OverridesOf]; there {
		t.Error("what was skipped for the first attempt is skipped still")
	}
}
