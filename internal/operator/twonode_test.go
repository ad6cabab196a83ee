package operator

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/handover"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// wholeWay is the order of the steps. Steps that run together are in the order of
// their nodes only by chance.
const wholeWay = "auth auth fencing fencing manifest manifest setup hand-over hand-over finish finish"

// stepsOf leaves out the nodes.
func stepsOf(ran string) string {
	var out []string
	for entry := range strings.SplitSeq(ran, ", ") {
		step, _, _ := strings.Cut(entry, " ")
		out = append(out, step)
	}
	return strings.Join(out, " ")
}

// TestTwoHostsAreSetUpStepByStep plays one cluster from its first host to years
// later, with the API and the Job controller of the release.
func TestTwoHostsAreSetUpStepByStep(t *testing.T) {
	c := newCluster(t)
	ctx, stopKubelets := context.WithCancel(t.Context())
	defer stopKubelets()
	go c.kubelets(ctx)
	stop := c.operator()

	t.Log("one host: it waits for the other")
	c.join("cp-1", "10.98.0.11")
	c.eventually(handover.SetupProgressing, "True Waiting waiting: 1 of 2 control planes have joined")

	t.Log("two hosts, of which one's etcd has not started: it waits for that")
	c.setEtcd("cp-2", handover.MemberUnhealthy)
	c.steps(func(step, node string, attempt int) (string, bool, bool) {
		switch {
		case step == "fencing" && node == "cp-2" && attempt == 1:
			return "BMC says: 401 for admin with hush-2", true, true
		case step == "setup":
			return "", false, false
		}
		return "", false, true
	})
	c.join("cp-2", "10.98.0.12")
	c.setEtcd("cp-2", handover.MemberHealthy)

	t.Log("a step fails: its words are known, without the password, until it succeeds")
	c.eventually(handover.SetupDegraded, "True FencingFailed fencing on cp-2 failed (attempt 1): BMC says: 401 for admin with <redacted>")
	c.eventually(handover.SetupDegraded, "False")
	c.eventually(handover.SetupProgressing, "True Setup step 4 of 6 (setup) on cp-1")

	t.Log("the operator is restarted while a step runs: that step is not repeated")
	c.until(func() bool { // the condition comes before the Job
		return c.admin.Get(t.Context(), client.ObjectKey{Namespace: render.Namespace, Name: "two-node-setup"}, &batchv1.Job{}) == nil
	}, func() string { return "the Job of the setup is not made" })
	stop()
	before := c.job("two-node-setup")
	stop = c.operator()
	defer func() { stop() }()
	c.steps(func(string, string, int) (string, bool, bool) { return "", false, true })
	c.eventually(handover.SetupProgressing, "False AsExpected")
	if after := c.job("two-node-setup"); after.UID != before.UID {
		t.Error("the Job that ran was made again")
	}
	if got := stepsOf(c.past()); got != strings.Replace(wholeWay, "fencing fencing", "fencing fencing fencing", 1) {
		t.Errorf("ran %s", got)
	}
	for _, kind := range []string{handover.ReadyForTransition, handover.CompletedTransition, handover.SetupAvailable} {
		c.eventually(kind, "True")
	}

	c.noInputIsLeft()
	c.theHandOverIsOneWay()
	c.theManifestsArePublished()
	c.theQuotaMustBeKnown()
	c.anotherAddressIsRefused()
	c.changesAreCarriedOut()
	stop()
	c.theNamespaceIsDeleted()
	stop = c.operator()
	c.theWayIsGoneAgain()
}

func (c *cluster) job(name string) *batchv1.Job {
	c.t.Helper()
	j := &batchv1.Job{}
	must(c.t, c.admin.Get(c.t.Context(), client.ObjectKey{Namespace: render.Namespace, Name: name}, j))
	return j
}

// theHandOverIsOneWay tries to make kubelet start etcd again.
func (c *cluster) theHandOverIsOneWay() {
	c.t.Helper()
	c.t.Log("the hand-over cannot be taken back")
	const overrides = `{"spec":{"unsupportedConfigOverrides":`
	patch := func(kind types.PatchType, body string) error {
		return c.admin.Patch(c.t.Context(), c.etcdObject(), client.RawPatch(kind, []byte(body)))
	}
	refused := func() bool { return patch(types.MergePatchType, overrides+`null}}`) != nil }
	c.until(refused, func() string { return "the overrides could be removed" })
	for name, body := range map[string]string{
		"without one of them":    overrides + `{"useExternalEtcdSupport":null}}}`,
		"without the other":      overrides + `{"useUnsupportedUnsafeEtcdContainerRemoval":null}}}`,
		"false":                  overrides + `{"useExternalEtcdSupport":false}}}`,
		"a text":                 overrides + `{"useExternalEtcdSupport":"true"}}}`,
		"something else":         overrides + `{"useUnsupportedUnsafeEtcdContainerRemoval":{"yes":true}}}}`,
		"a spec of other things": `{"spec":null}`,
	} {
		err := patch(types.MergePatchType, body)
		if err == nil || !strings.Contains(err.Error(), "on a control plane goes back") && name != "a spec of other things" {
			c.t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.admin.Delete(c.t.Context(), c.etcdObject()); err == nil || !strings.Contains(err.Error(), "on a control plane goes back") {
		c.t.Errorf("etcd's object could be deleted: %v", err)
	}
	must(c.t, patch(types.MergePatchType, `{"spec":{"logLevel":"Debug"}}`))
	must(c.t, patch(types.MergePatchType, overrides+`{"another":1}}}`))
}

func (c *cluster) theManifestsArePublished() {
	c.t.Helper()
	cm := &corev1.ConfigMap{}
	must(c.t, c.admin.Get(c.t.Context(), client.ObjectKey{Namespace: render.Namespace, Name: "external-etcd-pod"}, cm))
	for node, address := range map[string]string{"cp-1": "10.98.0.11", "cp-2": "10.98.0.12"} {
		if pod := cm.Data[node+".yaml"]; !strings.Contains(pod, "kind: Pod") || !strings.Contains(pod, "https://"+address+":2379") {
			c.t.Errorf("the manifest of %s is\n%s", node, pod)
		}
	}
}

// theQuotaMustBeKnown deletes the object that says etcd's quota, and has it say another one.
func (c *cluster) theQuotaMustBeKnown() {
	c.t.Helper()
	c.t.Log("without etcd's quota, and with another one than that of the hosts, no manifest is rendered")
	published := func() map[string]string {
		cm := &corev1.ConfigMap{}
		must(c.t, c.admin.Get(c.t.Context(), client.ObjectKey{Namespace: render.Namespace, Name: "external-etcd-pod"}, cm))
		return cm.Data
	}
	before, install := published(), &corev1.ConfigMap{}
	must(c.t, c.admin.Get(c.t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "cluster-config-v1"}, install))
	must(c.t, c.admin.Delete(c.t.Context(), install))
	// The operator watches etcd's object, and not that one.
	must(c.t, c.admin.Patch(c.t.Context(), c.etcdObject(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"logLevel":"Trace"}}`))))
	c.eventually(handover.SetupDegraded, "True Missing ConfigMap kube-system/cluster-config-v1 has no install-config")
	text := install.Data["install-config"]
	install.ResourceVersion, install.UID = "", ""
	install.Data["install-config"] = text + "etcdQuotaGiB: 4\n"
	must(c.t, c.admin.Create(c.t.Context(), install))
	c.eventually(handover.SetupDegraded, "True Missing ConfigMap kube-system/cluster-config-v1 says that etcd's quota is 4 GiB, and etcd of cp-1 was set up with 2")
	install.Data["install-config"] = text
	must(c.t, c.admin.Update(c.t.Context(), install))
	c.eventually(handover.SetupDegraded, "False")
	if got := c.past(); got != "" || !maps.Equal(before, published()) {
		c.t.Errorf("steps ran (%s), or the manifests are others", got)
	}
}

// noInputIsLeft looks for inputs of Jobs once none of them runs: the kubelet of a
// node may read what a Job there was given, even one that has ended.
func (c *cluster) noInputIsLeft() {
	c.t.Helper()
	var left []string
	c.until(func() bool {
		var secrets corev1.SecretList
		must(c.t, c.admin.List(c.t.Context(), &secrets, client.InNamespace(render.Namespace)))
		left = nil
		for _, s := range secrets.Items {
			if strings.HasPrefix(s.Name, render.InputSecret("")) {
				left = append(left, s.Name)
			}
		}
		return len(left) == 0
	}, func() string { return fmt.Sprintf("%v are left", left) })
}

// anotherAddressIsRefused writes another address into the status of a node, as
// anybody with that right could.
func (c *cluster) anotherAddressIsRefused() {
	c.t.Helper()
	c.t.Log("an address that a node says after the hand-over changes nothing and is told")
	status := func(address string) {
		n := &corev1.Node{}
		must(c.t, c.admin.Get(c.t.Context(), client.ObjectKey{Name: "cp-1"}, n))
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		must(c.t, c.admin.Status().Update(c.t.Context(), n))
	}
	const refused = "True AddressChanged node cp-1 reports the address 10.9.9.9, but Corosync and etcd know its host by 10.98.0.11"
	status("10.9.9.9")
	c.eventually(handover.SetupDegraded, refused)
	before := c.job("two-node-auth-cp-1")
	c.t.Log("the hosts' own word is enough")
	c.until(func() bool {
		return c.admin.Get(c.t.Context(), client.ObjectKey{Name: "cluster"}, &etcdv1.PacemakerCluster{}) == nil
	}, func() string { return "there is no PacemakerCluster" })
	c.saw("healthy", time.Now(), "10.98.0.11", "10.98.0.12")
	must(c.t, c.admin.Delete(c.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: render.Namespace, Name: "external-etcd-pod"}}))
	c.until(func() bool {
		return c.admin.Get(c.t.Context(), client.ObjectKey{Namespace: render.Namespace, Name: "external-etcd-pod"}, &corev1.ConfigMap{}) == nil
	}, func() string { return "etcd's manifests are not published again" })
	c.theManifestsArePublished()
	c.eventually(handover.SetupProgressing, "False AsExpected")
	c.eventually(handover.SetupDegraded, refused)
	if got := c.past(); got != "" || c.job("two-node-auth-cp-1").UID != before.UID {
		c.t.Errorf("Jobs were made for it: %s", got)
	}
	status("10.98.0.11")
	c.eventually(handover.SetupDegraded, "False")
	if got := c.past(); got != "" {
		c.t.Errorf("Jobs were made with the address back: %s", got)
	}
}

func (c *cluster) changesAreCarriedOut() {
	c.t.Helper()
	c.t.Log("a new password goes to both hosts, and nothing else is done")
	secret := &corev1.Secret{}
	must(c.t, c.admin.Get(c.t.Context(), client.ObjectKey{Namespace: render.Namespace, Name: "fencing-credentials-cp-1"}, secret))
	secret.Data["password"] = []byte("hush-3")
	must(c.t, c.admin.Update(c.t.Context(), secret))
	c.afterwards("fencing fencing")
	c.mu.Lock()
	if !strings.Contains(c.inputs["cp-2"], "hush-3") {
		c.t.Error("the peer was not given the new password")
	}
	c.mu.Unlock()
	c.noInputIsLeft()

	c.t.Log("a host that is down changes nothing and fails nothing")
	c.setReady("cp-2", corev1.ConditionUnknown)
	c.t.Log("what is changed meanwhile reaches the host that is there, and waits for the other")
	secret.Data["password"] = []byte("hush-4")
	must(c.t, c.admin.Update(c.t.Context(), secret))
	c.eventually(handover.SetupProgressing, "True Waiting step 2 of 6 (fencing) on cp-2, waiting: node cp-2 is not ready")
	if got := c.condition(handover.SetupDegraded); !strings.HasPrefix(got, "False") {
		c.t.Error(got)
	}
	c.setReady("cp-2", corev1.ConditionTrue)
	c.afterwards("fencing fencing")

	c.t.Log("an account that is removed is missed, and the hand-over stays what it is")
	must(c.t, c.admin.Delete(c.t.Context(), secret))
	c.eventually(handover.SetupDegraded, "True Missing Secret openshift-etcd/fencing-credentials-cp-1 does not exist")
	if got := c.condition(handover.CompletedTransition); !strings.HasPrefix(got, "True") {
		c.t.Error(got)
	}
}

// afterwards waits until all is done again, and compares the steps that ran for
// it.
func (c *cluster) afterwards(want string) {
	c.t.Helper()
	got := ""
	c.until(func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		got = stepsOf(strings.Join(c.ran, ", "))
		return got == want
	}, func() string { return "ran " + got + ", want " + want })
	c.eventually(handover.SetupProgressing, "False AsExpected")
	if got := stepsOf(c.past()); got != want {
		c.t.Errorf("ran %s, want %s", got, want)
	}
}
