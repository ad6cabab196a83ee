package operator

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/render/manifests"
	render "github.com/holdfast/holdfast/internal/render/operator"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// theNamespaceIsDeleted plays docs/facts/loss.md#hard-cases-of-loss, L36: somebody deletes the
// namespace of the operator, which ends with it. Agents make the namespace again, and a person
// the accounts of the BMCs.
func (c *cluster) theNamespaceIsDeleted() {
	c.t.Helper()
	c.t.Log("the namespace is deleted, with all Jobs, Secrets and the operator")
	must(c.t, c.admin.Delete(c.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: render.Namespace}}))
	c.until(func() bool {
		return apierrors.IsNotFound(c.admin.Get(c.t.Context(), client.ObjectKey{Name: render.Namespace}, &corev1.Namespace{}))
	}, func() string { return "the namespace does not end" })
	c.past()
	parsed, err := config.Parse([]byte(sitetest.TwoDual))
	must(c.t, err)
	files, err := manifests.Render(parsed, topology.Of(parsed))
	must(c.t, err)
	dir := c.t.TempDir()
	for i, f := range files {
		var o metav1.PartialObjectMetadata
		must(c.t, yaml.Unmarshal(f.Data, &o))
		if path.Dir(f.Path) == manifests.Objects && (o.Namespace == render.Namespace || o.Kind == "Namespace" && o.Name == render.Namespace) {
			// kubectl applies files in the order of their names.
			must(c.t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d.yaml", i)), f.Data, 0o600))
		}
	}
	c.api.Kubectl(c.t, "apply", "--server-side", "--force-conflicts", "--filename", dir)
}

// theWayIsGoneAgain waits for the operator that was made again: it has the hosts take each
// step once more, which they find done, and etcd's object says all the while who runs etcd.
func (c *cluster) theWayIsGoneAgain() {
	c.t.Helper()
	before := c.etcdObject()
	c.eventually(handover.SetupDegraded, "False")
	c.eventually(handover.SetupProgressing, "False AsExpected")
	if got := stepsOf(c.past()); got != wholeWay {
		c.t.Errorf("ran %s, want %s", got, wholeWay)
	}
	after := c.etcdObject()
	if after.UID != before.UID || after.Generation != before.Generation {
		c.t.Errorf("etcd's object was written: generation %d, before %d", after.Generation, before.Generation)
	}
	for _, kind := range []string{handover.ReadyForTransition, handover.CompletedTransition} {
		since := func(list []string) string { return strings.Join(list, " ") }
		var was, is []string
		for _, cond := range before.Status.Conditions {
			if cond.Type == kind {
				was = append(was, string(cond.Status), cond.LastTransitionTime.UTC().String())
			}
		}
		for _, cond := range after.Status.Conditions {
			if cond.Type == kind {
				is = append(is, string(cond.Status), cond.LastTransitionTime.UTC().String())
			}
		}
		if since(was) != since(is) || len(is) == 0 {
			c.t.Errorf("%s was %v and is %v: the hand-over began anew", kind, was, is)
		}
	}
	c.theManifestsArePublished()
}
