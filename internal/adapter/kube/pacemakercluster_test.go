package kube

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// seen returns the status for a recorded state, with addresses for those hosts
// that its corosync.conf does not name.
func seen(t *testing.T, dir string) etcdv1.PacemakerClusterStatus {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "crm_mon.xml"))
	if err != nil {
		t.Fatal(err)
	}
	in := pacemakerstatus.Input{Host: "cp-1", Addresses: map[string][]string{}}
	c, err := crmmon.Parse(text, time.UTC)
	if err != nil && !errors.Is(err, crmmon.ErrNotRunning) {
		t.Fatal(err)
	}
	in.Cluster = state.Fact[crmmon.Cluster]{Known: err == nil, Value: c}
	for i, n := range c.Nodes {
		in.Addresses[n.Name] = []string{"2001:DB8::" + string(rune('a'+i))}
	}
	if filepath.Base(filepath.Dir(dir)) != "no-nodes" {
		text, err = os.ReadFile(filepath.Join(dir, "corosync.conf"))
		if err != nil {
			t.Fatal(err)
		}
		conf, err := corosync.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		in.Corosync = state.Known(conf)
	}
	return pacemakerstatus.Status(in)
}

func TestARealAPITakesTheStatusOfEveryRecordedState(t *testing.T) {
	api := apitest.Need(t, server)
	crd, err := filepath.Abs("../../render/manifests/crds/pacemakerclusters.yaml")
	if err != nil {
		t.Fatal(err)
	}
	api.Kubectl(t, "apply", "--server-side", "--filename", crd)
	api.Kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "--filename", crd)
	set, err := kubernetes.NewForConfig(api.Config)
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{set: set}
	if o, err := c.PacemakerCluster(t.Context()); o != nil || err != nil {
		t.Fatalf("before there is one: %+v, %v", o, err)
	}
	object := filepath.Join(t.TempDir(), "object.json")
	if err := os.WriteFile(object, []byte(`{"apiVersion":"etcd.openshift.io/v1","kind":"PacemakerCluster","metadata":{"name":"cluster"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	api.Kubectl(t, "create", "--filename", object)
	dirs, err := filepath.Glob("../../../test/corpus/pacemaker/cases/*/*")
	if err != nil || len(dirs) < 40 {
		t.Fatalf("%d states, %v", len(dirs), err)
	}
	var before *etcdv1.PacemakerClusterStatus
	now := time.Now()
	for i, dir := range dirs {
		o, err := c.PacemakerCluster(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := pacemakerstatus.Timed(seen(t, dir), before, now.Add(time.Duration(i)*time.Second))
		if _, err := c.WritePacemakerStatus(t.Context(), o.ResourceVersion, pacemakerstatus.JSON(s)); err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		back, err := c.PacemakerCluster(t.Context())
		if err != nil || !pacemakerstatus.Same(back.Status, s) {
			t.Errorf("%s: the API keeps something else, %v", dir, err)
		}
		before = &s
	}
	refusals(t, c, *before)
}

// refusals makes writes that must fail, and checks how they fail.
func refusals(t *testing.T, c *Client, s etcdv1.PacemakerClusterStatus) {
	t.Helper()
	o, err := c.PacemakerCluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	beat := func(at time.Time) json.RawMessage {
		data, err := json.Marshal(map[string]any{"lastUpdated": metav1.NewTime(at)})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	version, err := c.WritePacemakerStatus(t.Context(), o.ResourceVersion, beat(s.LastUpdated.Add(time.Minute)))
	if err != nil {
		t.Errorf("a sign of life: %v", err)
	}
	if _, err := c.WritePacemakerStatus(t.Context(), o.ResourceVersion, beat(s.LastUpdated.Add(time.Hour))); !apierrors.IsConflict(err) {
		t.Errorf("of an older version: %v", err)
	}
	if _, err := c.WritePacemakerStatus(t.Context(), version, beat(s.LastUpdated.Add(-time.Hour))); !apierrors.IsInvalid(err) {
		t.Errorf("a time that goes back: %v", err)
	}
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "pacemaker.0123"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "etcd.openshift.io/v1", Kind: "PacemakerCluster", Name: "cluster"},
		Type:           corev1.EventTypeWarning, Reason: "PacemakerFencingEvent", Message: "m",
	}
	for range 2 {
		if err := c.CreateEvent(t.Context(), e.DeepCopy()); err != nil {
			t.Errorf("an event: %v", err)
		}
	}
}
