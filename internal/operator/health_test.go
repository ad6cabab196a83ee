package operator

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/clusterhealth"
	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

// judge runs the controller of health and what gives the alerts, with the operator's
// account, until stop is called.
func (c *cluster) judge() (stop func()) {
	c.t.Helper()
	manager, err := newManager(c.asOperator(), managing{health: "127.0.0.1:0", metrics: "0", twoNode: true}, logOf(c.t))
	must(c.t, err)
	must(c.t, addHealth(manager))
	must(c.t, addAlerts(manager, true))
	return c.run(manager)
}

// saw writes the status of a recorded state, as a host does. Given addresses
// replace the recorded ones.
func (c *cluster) saw(name string, at time.Time, addresses ...string) {
	c.t.Helper()
	dir := filepath.Join("../../test/corpus/pacemaker/cases", name, "cp-1")
	text, err := os.ReadFile(filepath.Join(dir, "crm_mon.xml"))
	must(c.t, err)
	parsed, err := crmmon.Parse(text, time.UTC)
	must(c.t, err)
	text, err = os.ReadFile(filepath.Join(dir, "corosync.conf"))
	must(c.t, err)
	conf, err := corosync.Parse(text)
	must(c.t, err)
	for i, a := range addresses {
		conf.Nodes[i].Addresses = []string{a}
	}
	s := pacemakerstatus.Status(pacemakerstatus.Input{Host: "cp-1", Cluster: state.Known(parsed), Corosync: state.Known(conf)})
	o := &etcdv1.PacemakerCluster{}
	must(c.t, c.admin.Get(c.t.Context(), client.ObjectKey{Name: "cluster"}, o))
	patch, err := json.Marshal(map[string]json.RawMessage{"status": pacemakerstatus.JSON(pacemakerstatus.Timed(s, &o.Status, at))})
	must(c.t, err)
	must(c.t, c.admin.Status().Patch(c.t.Context(), o, client.RawPatch(types.MergePatchType, patch)))
}

// handOver writes that Pacemaker runs etcd, beside a condition of somebody else.
func (c *cluster) handOver() {
	c.t.Helper()
	o := c.etcdObject()
	at := metav1.NewTime(time.Now().Add(-time.Hour))
	o.Status.Conditions = []operatorv1.OperatorCondition{
		{Type: "SomebodyElses", Status: operatorv1.ConditionTrue, LastTransitionTime: at},
		{Type: handover.CompletedTransition, Status: operatorv1.ConditionTrue, Reason: "HandedOver", LastTransitionTime: at},
	}
	must(c.t, c.admin.Status().Update(c.t.Context(), o))
}

// prometheus plays a cluster's operator of Prometheus, as far as alerts go.
func (c *cluster) prometheus() {
	c.t.Helper()
	crd := filepath.Join(c.t.TempDir(), "crd.yaml")
	must(c.t, os.WriteFile(crd, []byte(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: prometheusrules.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  names: {kind: PrometheusRule, listKind: PrometheusRuleList, plural: prometheusrules, singular: prometheusrule}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`), 0o600))
	c.api.Kubectl(c.t, "apply", "--filename", crd)
	c.api.Kubectl(c.t, "wait", "--for=condition=Established", "--timeout=60s", "--filename", crd)
}

func (c *cluster) reasons() map[string]int {
	c.t.Helper()
	var list corev1.EventList
	must(c.t, c.admin.List(c.t.Context(), &list, client.InNamespace("default")))
	out := map[string]int{}
	for _, e := range list.Items {
		if e.InvolvedObject.Kind == "PacemakerCluster" {
			out[e.Reason]++
		}
	}
	return out
}

func TestTheHealthOfTheHostsIsJudged(t *testing.T) {
	c := newCluster(t)
	c.prometheus()
	stop := c.judge()
	c.eventually(clusterhealth.Degraded, "False "+clusterhealth.ReasonPending)
	if o := (&etcdv1.PacemakerCluster{}); c.admin.Get(t.Context(), client.ObjectKey{Name: "cluster"}, o) == nil {
		t.Error("there is an object before the hand-over")
	}
	c.handOver()
	c.eventually(clusterhealth.Degraded, "False Waiting")
	begin := time.Now()
	c.saw("healthy", begin)
	c.eventually(clusterhealth.Degraded, "False AsExpected")
	c.saw("lost-fenced", begin.Add(time.Second))
	c.eventually(clusterhealth.Degraded, "True PacemakerUnhealthy cp-2 is offline")
	if got := c.condition("SomebodyElses"); got == "" {
		t.Error("a condition of somebody else is gone")
	}
	c.until(func() bool {
		return c.reasons()["PacemakerNodeOffline"] == 1 && c.reasons()["PacemakerResourceStopped"] == 2
	},
		func() string { return "events" })
	for name, alert := range map[string]string{"holdfast-two-node": "HoldfastNodeOffline", "holdfast-site": "HoldfastDrainLate"} {
		got := ""
		c.until(func() bool {
			got, _ = c.api.TryKubectl(t, "get", "--namespace", "openshift-etcd", "prometheusrules", name, "--output", "yaml")
			return strings.Contains(got, "alert: "+alert)
		}, func() string { return "the alerts " + name + " are not given: " + got })
	}
	stop()

	// The next operator judges alike and makes no event twice.
	before := c.reasons()
	stop = c.judge()
	c.saw("lost-fenced", begin.Add(2*time.Second))
	c.saw("etcd-failed", begin.Add(3*time.Second))
	c.eventually(clusterhealth.Degraded, "True PacemakerUnhealthy etcd on cp-1 is unhealthy")
	after := c.reasons()
	if after["PacemakerNodeOffline"] != before["PacemakerNodeOffline"] {
		t.Errorf("told again: %v, then %v", before, after)
	}
	c.saw("nine-devices", begin.Add(4*time.Second))
	c.eventually(clusterhealth.Degraded, "False AsExpected")
	if got := c.condition(clusterhealth.Degraded); !strings.Contains(got, "warning: not every way to fence cp-2") {
		t.Errorf("no warning: %s", got)
	}

	// An object that an administrator deletes comes back, and silence is noticed.
	must(t, c.admin.Delete(t.Context(), &etcdv1.PacemakerCluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}))
	c.until(func() bool {
		return c.admin.Get(t.Context(), client.ObjectKey{Name: "cluster"}, &etcdv1.PacemakerCluster{}) == nil
	}, func() string { return "the object does not come back" })
	stop()
	c.saw("healthy", time.Now().Add(-time.Hour)) // nobody has written for an hour
	stop = c.judge()
	c.eventually(clusterhealth.Degraded, "True "+clusterhealth.ReasonStale)
	stop()
}
