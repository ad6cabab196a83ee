package restore_test

import (
	"fmt"
	"maps"
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

	"github.com/holdfast/holdfast/internal/decide/restore"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// TestTheRulesOfARestoreAreApproved prints the table as a person reads it: the fate in a new life, and in place.
func TestTheRulesOfARestoreAreApproved(t *testing.T) {
	var out strings.Builder
	for _, r := range restore.Rules() {
		fmt.Fprintf(&out, "%-5s %-5s %-20s %s: %s\n", r.Fate, r.InPlace, r.Name, r.Key, r.Why)
	}
	golden.Check(t, "rules.txt", []byte(out.String()))
}

// TestWhatARestoreLeavesOut names a key of each kind, and keys beside them that stay.
func TestWhatARestoreLeavesOut(t *testing.T) {
	for key, want := range map[string]restore.Fate{
		"minions/cp-1":                                                     restore.Drop,
		"leases/kube-node-lease/cp-1":                                      restore.Drop,
		"leases/kube-system/scheduler":                                     restore.Drop,
		"leases/shop/their-leader":                                         restore.Keep,
		"masterleases/192.0.2.11":                                          restore.Drop,
		"services/endpoints/shop/web":                                      restore.Keep,
		"services/specs/default/web":                                       restore.Keep,
		"endpointslices/shop/kubernetes":                                   restore.Keep,
		"pods/shop/web-1":                                                  restore.Look,
		"jobs/shop/payments-1":                                             restore.Look,
		"jobs/openshift-etcd/setup-cp-1":                                   restore.Drop,
		"secrets/shop/password":                                            restore.Keep,
		"secrets/openshift-etcd/fencing-credentials-cp-1":                  restore.Drop,
		"secrets/openshift-etcd/pacemaker-auth":                            restore.Drop,
		"secrets/openshift-etcd/pacemaker-auth-of-somebody":                restore.Keep,
		"secrets/openshift-etcd/two-node-input-cp-1":                       restore.Drop,
		"secrets/openshift-etcd/holdfast-backup":                           restore.Keep,
		"secrets/kube-system/bootstrap-token-abcdef":                       restore.Drop,
		"configmaps/kube-system/holdfast-replace":                          restore.Drop,
		"secrets/kube-system/holdfast-two-control-planes":                  restore.Drop,
		"configmaps/kube-system/holdfast-incidents-cp-1":                   restore.Drop,
		"configmaps/kube-system/bootstrap":                                 restore.Drop,
		"configmaps/kube-system/bootstrapper":                              restore.Keep,
		"validatingadmissionpolicies/holdfast-topology":                    restore.Drop,
		"validatingadmissionpolicies/holdfast-retired-hosts":               restore.Look,
		"validatingadmissionpolicybindings/holdfast-retired-hosts":         restore.Keep,
		"configmaps/kube-system/holdfast-retired":                          restore.Look,
		"clusterrolebindings/holdfast-administrator-alice-1a2b3c4d":        restore.Look,
		"clusterrolebindings/holdfast-administrators":                      restore.Keep,
		"validatingadmissionpolicies/their-own":                            restore.Keep,
		"config.openshift.io/infrastructures/cluster":                      restore.Drop,
		"config.openshift.io/clusterversions/version":                      restore.Look,
		"operator.openshift.io/ingresscontrollers/openshift-ingress/a":     restore.Keep,
		"example.com/tills/shop/1":                                         restore.Keep,
		"apiextensions.k8s.io/customresourcedefinitions/tills.example.com": restore.Keep,
		"machineconfiguration.openshift.io/machineconfigs/rendered-x":      restore.Keep,
		"operator.openshift.io/etcds/cluster":                              restore.Drop,
		"validatingadmissionpolicybindings/holdfast-etcd-hand-over":        restore.Drop,
		"configmaps/openshift-etcd/external-etcd-pod":                      restore.Drop,
		"configmaps/openshift-etcd/external-etcd-pod-of-somebody":          restore.Keep,
		"serviceaccounts/openshift-etcd/holdfast-operator":                 restore.Keep,
		"rolebindings/openshift-etcd/holdfast-operator":                    restore.Keep,
		"etcd.openshift.io/pacemakerclusters/cluster":                      restore.Drop,
	} {
		if got := restore.Of(restore.Root + key).Fate; got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	if got := restore.Of("compact_rev_key").Fate; got != restore.Keep {
		t.Errorf("a key of another writer: %s, want %s", got, restore.Keep)
	}
}

// TestEveryRuleIsReached: a rule behind one that takes its keys would say nothing.
func TestEveryRuleIsReached(t *testing.T) {
	for _, r := range restore.Rules() {
		if got := restore.Of(restore.Root + r.Key + "x"); r.Starts && got.Name != r.Name || strings.HasSuffix(r.Key, "/") && got.Name != r.Name {
			t.Errorf("%s is decided by %s", r.Name, got.Name)
		}
		if got := restore.Of(restore.Root + strings.TrimSuffix(r.Key, "/")); !r.Starts && !strings.HasSuffix(r.Key, "/") && got.Name != r.Name {
			t.Errorf("%s is decided by %s", r.Name, got.Name)
		}
	}
}

// TestAPersonIsToldWhatNothingMakesAgain looks at pods.
func TestAPersonIsToldWhatNothingMakesAgain(t *testing.T) {
	var f restore.Found
	for name, p := range map[string]corev1.Pod{
		"owned":  {ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Controller: new(true)}}}},
		"mirror": {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}}},
		"over":   {Status: corev1.PodStatus{Phase: corev1.PodSucceeded}},
		"alone":  {},
	} {
		p.Name, p.Namespace = name, "shop"
		f.Pod(&p)
	}
	if want := []string{"shop/alone"}; !slices.Equal(f.LonePods, want) {
		t.Errorf("told of %v, want %v", f.LonePods, want)
	}
}

// TestWhoWasTakenOutStaysOut: a certificate that was stolen is as good in the restored site.
func TestWhoWasTakenOutStaysOut(t *testing.T) {
	entry := func(name string, again time.Time) string {
		text, err := retired.Host{Name: name, When: time.Unix(1, 0), Again: again}.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	again := time.Unix(2, 0)
	for what, c := range map[string]struct {
		list, stays         map[string]string
		retired, givenAgain []string
	}{
		"nobody":                            {},
		"a stolen worker":                   {list: map[string]string{"w-3": entry("w-3", time.Time{})}, stays: map[string]string{"w-3": entry("w-3", time.Time{})}, retired: []string{"w-3"}},
		"one whose name was given again":    {list: map[string]string{"w-3": entry("w-3", again)}, stays: map[string]string{"w-3": entry("w-3", time.Time{})}, retired: []string{"w-3"}},
		"one that nobody can read":          {list: map[string]string{"w-3": "{"}, stays: map[string]string{"w-3": "{"}, retired: []string{"w-3"}},
		"a control plane's name of today":   {list: map[string]string{"cp-2": entry("cp-2", time.Time{})}, givenAgain: []string{"cp-2"}},
		"the same, and nobody can read it":  {list: map[string]string{"cp-2": "{"}, givenAgain: []string{"cp-2"}},
		"a control plane's name of earlier": {list: map[string]string{"cp-2": entry("cp-2", again)}, givenAgain: []string{"cp-2"}},
		"several": {
			list:    map[string]string{"w-3": entry("w-3", time.Time{}), "w-4": entry("w-4", again), "cp-1": entry("cp-1", time.Time{}), "cp-9": entry("cp-9", time.Time{})},
			stays:   map[string]string{"w-3": entry("w-3", time.Time{}), "w-4": entry("w-4", time.Time{}), "cp-9": entry("cp-9", time.Time{})},
			retired: []string{"cp-9", "w-3", "w-4"}, givenAgain: []string{"cp-1"},
		},
	} {
		var f restore.Found
		m := &corev1.ConfigMap{Data: maps.Clone(c.list)}
		changed := f.TakenOut(m, []string{"cp-1", "cp-2"})
		if !maps.Equal(m.Data, c.stays) || changed == maps.Equal(c.list, c.stays) {
			t.Errorf("%s: %v stays, changed %t", what, m.Data, changed)
		}
		if !slices.Equal(f.Retired, c.retired) || !slices.Equal(f.GivenAgain, c.givenAgain) {
			t.Errorf("%s: told of %v and %v", what, f.Retired, f.GivenAgain)
		}
	}
}

// TestBindingsOfAdministratorsAreTold: a person may have deleted one after the backup.
func TestBindingsOfAdministratorsAreTold(t *testing.T) {
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	var f restore.Found
	for _, b := range []struct{ name, expires string }{
		{"lasts", now.Add(time.Hour).Format(time.RFC3339)}, {"ended", now.Add(-time.Hour).Format(time.RFC3339)}, {"of-an-earlier-build", ""}, {"by-hand", "some day"},
	} {
		f.Administrator(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: b.name, Annotations: map[string]string{state.AnnotationExpires: b.expires}}}, now)
	}
	if want := []string{"lasts", "of-an-earlier-build", "by-hand"}; !slices.Equal(f.Administrators, want) {
		t.Errorf("told of %v, want %v", f.Administrators, want)
	}
}

// TestAJobThatHadNotEndedWaitsForAPerson: it may have ended after the backup, and its controller would
// start it a second time.
func TestAJobThatHadNotEndedWaitsForAPerson(t *testing.T) {
	condition := func(kind batchv1.JobConditionType, is corev1.ConditionStatus) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: kind, Status: is})
		}
	}
	suspended := func(is bool) func(*batchv1.Job) { return func(j *batchv1.Job) { j.Spec.Suspend = &is } }
	for what, c := range map[string]struct {
		change func(*batchv1.Job)
		stops  bool
	}{
		"one that ran":                 {func(j *batchv1.Job) { j.Status.Active = 1 }, true},
		"one that had not begun":       {func(*batchv1.Job) {}, true},
		"one that was told to run":     {suspended(false), true},
		"one that ran again":           {condition(batchv1.JobSuspended, corev1.ConditionFalse), true},
		"one that was about to fail":   {condition(batchv1.JobFailureTarget, corev1.ConditionTrue), true},
		"one that is said not to have": {condition(batchv1.JobComplete, corev1.ConditionFalse), true},
		"one of a CronJob": {func(j *batchv1.Job) {
			j.OwnerReferences = []metav1.OwnerReference{{Kind: "CronJob", Controller: new(true)}}
		}, true},
		"one that had completed":        {condition(batchv1.JobComplete, corev1.ConditionTrue), false},
		"one that had failed":           {condition(batchv1.JobFailed, corev1.ConditionTrue), false},
		"one that a person had stopped": {suspended(true), false},
	} {
		var f restore.Found
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "pay-1", Namespace: "shop"}}
		c.change(j)
		before := j.DeepCopy()
		changed := f.Job(j)
		_, marked := j.Annotations[restore.SuspendedOf]
		if changed != c.stops || marked != c.stops || slices.Equal(f.SuspendedJobs, []string{"shop/pay-1"}) != c.stops || len(f.Suspended) > 0 {
			t.Errorf("%s: changed %t, marked %t, told of %v", what, changed, marked, f.SuspendedJobs)
		}
		if c.stops && (j.Spec.Suspend == nil || !*j.Spec.Suspend) || !c.stops && !reflect.DeepEqual(j, before) {
			t.Errorf("%s: %+v", what, j)
		}
	}
}

// TestWebhooksThatMayRefuseAreNamed: without a policy a webhook refuses.
func TestWebhooksThatMayRefuseAreNamed(t *testing.T) {
	ignore := admissionv1.Ignore
	var f restore.Found
	f.Validating(&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "strict"}, Webhooks: []admissionv1.ValidatingWebhook{{FailurePolicy: &ignore}, {}}})
	f.Mutating(&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "mild"}, Webhooks: []admissionv1.MutatingWebhook{{FailurePolicy: &ignore}}})
	if want := []string{"validating strict"}; !slices.Equal(f.Webhooks, want) {
		t.Errorf("told of %v, want %v", f.Webhooks, want)
	}
}

// TestLabelsAndTaintsThatPeopleGaveAreTold leaves out those of Kubernetes and Holdfast.
func TestLabelsAndTaintsThatPeopleGaveAreTold(t *testing.T) {
	var f restore.Found
	f.Node(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "w-1", Labels: map[string]string{
			"kubernetes.io/os": "linux", "node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/till": "", "shelf": "left", "example.com/zone": "a",
			"topology.kubernetes.io/zone": "b", "holdfast.io/x": "y", "node-restriction.kubernetes.io/pci": "yes",
		}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node.kubernetes.io/out-of-service", Effect: corev1.TaintEffectNoExecute}, {Key: "till", Effect: corev1.TaintEffectNoSchedule}}},
	})
	want := "[{w-1 map[example.com/zone:a node-restriction.kubernetes.io/pci:yes node-role.kubernetes.io/till: shelf:left] [till:NoSchedule]}]"
	if got := fmt.Sprint(f.Nodes); got != want {
		t.Errorf("told of %s, want %s", got, want)
	}
}
