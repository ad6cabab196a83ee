package twonode

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	etcdv1 "github.com/openshift/api/etcd/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/etcdmanifest"
	"github.com/holdfast/holdfast/internal/render/operator"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

func TestWhetherTheOtherMemberMayBeStopped(t *testing.T) {
	whole := etcd.MemberStatus{Serves: true, Leader: 7, Member: 8}
	for _, c := range []struct {
		name   string
		change func(*etcd.MemberStatus)
		want   handover.Member
	}{
		{"a voter with a leader", func(*etcd.MemberStatus) {}, handover.MemberHealthy},
		{"one that waits for its first leader", func(l *etcd.MemberStatus) { l.Serves = false }, handover.MemberUnhealthy},
		{"one that lost its leader", func(l *etcd.MemberStatus) { l.Leader = 0 }, handover.MemberUnhealthy},
		{"a learner", func(l *etcd.MemberStatus) { l.Learner = true }, handover.MemberUnhealthy},
		{"one that raises an alarm", func(l *etcd.MemberStatus) { l.Errors = []string{"alarm:NOSPACE"} }, handover.MemberUnhealthy},
	} {
		look := whole
		c.change(&look)
		if got := health(look); got != c.want {
			t.Errorf("%s is %s", c.name, got)
		}
	}
}

func TestAnEtcdThatNobodyReachesIsUnknown(t *testing.T) {
	m := &Members{etcd.Members{Identity: etcd.Identity{CA: "/nowhere", Cert: "/nowhere", Key: "/nowhere"}}}
	got := m.Ask(t.Context(), []Host{{Name: "cp-1", Address: "127.0.0.1"}, {Name: "cp-2", Address: "no address"}})
	if len(got) != 0 || got["cp-1"] != handover.MemberUnknown {
		t.Errorf("got %v", got)
	}
}

func TestJobsAreReadFromTheirConditions(t *testing.T) {
	ended := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	job := func(attempt string, deleted bool, conditions ...batchv1.JobConditionType) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Annotations: map[string]string{
			operator.AnnotationKey: "k", operator.AnnotationAttempt: attempt, operator.AnnotationBefore: "before",
		}}}
		if deleted {
			j.DeletionTimestamp = &metav1.Time{Time: ended}
		}
		for _, c := range conditions {
			j.Status.Conditions = append(j.Status.Conditions,
				batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(ended)})
		}
		return j
	}
	for _, c := range []struct {
		name string
		job  *batchv1.Job
		want handover.Job
	}{
		{"one that began", job("1", false), handover.Job{State: handover.JobRunning, Attempt: 1}},
		{"one that succeeded", job("2", false, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete), handover.Job{State: handover.JobSucceeded, Attempt: 2, Ended: ended}},
		{"one that failed", job("3", false, batchv1.JobFailureTarget, batchv1.JobFailed), handover.Job{State: handover.JobFailed, Attempt: 3, Ended: ended}},
		{"one that fails and whose pod still ends", job("3", false, batchv1.JobFailureTarget), handover.Job{State: handover.JobRunning, Attempt: 3}},
		{"one that is being deleted", job("1", true, batchv1.JobFailed), handover.Job{State: handover.JobEnding, Attempt: 1, Ended: ended}},
		{"one whose attempt somebody changed", job("many", false), handover.Job{State: handover.JobRunning, Attempt: 1}},
	} {
		c.want.Name, c.want.Key, c.want.Before = "j", "k", "before"
		if diff := cmp.Diff(c.want, jobOf(c.job)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestWhyAPodFailed(t *testing.T) {
	with := func(state corev1.ContainerState) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: state}}}}
	}
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want failure
	}{
		{"its words", with(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: " no quorum\n"}}), failure{words: "no quorum"}},
		{"none", with(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}), failure{words: "exit code 137 without a message"}},
		{"its step refuses", with(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 7, Message: "other hosts"}}), failure{"other hosts", true}},
		{"it succeeded", with(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "done"}}), failure{}},
		{"it never ran", &corev1.Pod{Status: corev1.PodStatus{Reason: "OutOfcpu", Message: "Node did not have enough"}}, failure{words: "OutOfcpu: Node did not have enough"}},
	} {
		if got := podsFailure(c.pod); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestAnAccountIsReadOrWhatItLacksIsNamed(t *testing.T) {
	hosts := []Host{{Name: "cp-1", Address: "10.98.0.11"}, {Name: "cp-2", Address: "10.98.0.12"}}
	data := map[string][]byte{
		"address": []byte("https://10.99.0.111/redfish/v1/Systems/1"), "username": []byte("admin"), "password": []byte("hush"),
		"certificateVerification": []byte("Disabled"), "fingerprint": []byte("ab12"),
	}
	got, missing := deviceOf("cp-1", hosts, data)
	want := state.FencingDevice{
		Target: "cp-1", Address: "https://10.99.0.111/redfish/v1/Systems/1", Username: "admin", Password: "hush", Insecure: true, Fingerprint: "ab12", Delay: 20 * time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" || len(missing) != 0 {
		t.Errorf("missing %v (-want +got):\n%s", missing, diff)
	}
	data["firstSeenFingerprint"] = []byte("cd34")
	if got, _ := deviceOf("cp-1", hosts, data); got.Fingerprint != "ab12" || got.FirstSight {
		t.Errorf("what a person named goes before what a host saw: %+v", got)
	}
	delete(data, "fingerprint")
	if got, _ := deviceOf("cp-1", hosts, data); got.Fingerprint != "cd34" || !got.FirstSight {
		t.Errorf("a host that is made anew learns what was seen: %+v", got)
	}
	delete(data, "certificateVerification")
	if got, _ := deviceOf("cp-1", hosts, data); got.Fingerprint != "" {
		t.Errorf("an authority is to vouch for it: %+v", got)
	}
	if got, _ := deviceOf("cp-2", hosts, data); got.Insecure || got.Delay != 0 {
		t.Errorf("the second host's device, verified where nothing else is said: %+v", got)
	}
	_, missing = deviceOf("cp-2", hosts, map[string][]byte{"address": []byte("x"), "password": {}})
	if want := []string{"Secret openshift-etcd/fencing-credentials-cp-2 has no username", "Secret openshift-etcd/fencing-credentials-cp-2 has no password"}; !cmp.Equal(want, missing) {
		t.Errorf("got %q", missing)
	}
	if _, missing = deviceOf("cp-2", hosts, nil); !cmp.Equal([]string{"Secret openshift-etcd/fencing-credentials-cp-2 does not exist"}, missing) {
		t.Errorf("got %q", missing)
	}
}

func newMaterial() *material {
	return &material{
		cluster: "shop-abcde", token: "t0k3n", hosts: []Host{{Name: "cp-1", Address: "10.98.0.11"}, {Name: "cp-2", Address: "10.98.0.12"}},
		devices:   []state.FencingDevice{{Target: "cp-1", Password: "hush-1"}, {Target: "cp-2", Password: "hush-2"}},
		manifests: map[string]string{"cp-1": "pod 1", "cp-2": "pod 2"},
	}
}

func TestADigestChangesWithWhatItStandsForAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		change                   func(*material)
		hosts, fencing, one, two bool
	}{
		"nothing":    {func(*material) {}, false, false, false, false},
		"a password": {func(m *material) { m.devices[1].Password = "new" }, false, true, false, false},
		"a pin":      {func(m *material) { m.devices[1].Fingerprint = "ab12" }, false, true, false, false},
		"a pin that a host took by itself": {func(m *material) {
			m.devices[1].Fingerprint, m.devices[1].FirstSight = "ab12", true
		}, false, false, false, false},
		"an address": {func(m *material) { m.hosts[1].Address = "10.98.0.13" }, true, true, false, false},
		"a manifest": {func(m *material) { m.manifests["cp-2"] = "new" }, false, false, false, true},
		"the token":  {func(m *material) { m.token = "new" }, true, true, true, true},
	} {
		before, m := newMaterial().digests(), newMaterial()
		c.change(m)
		after := m.digests()
		for what, is := range map[string][2]bool{
			"hosts":      {before.Hosts != after.Hosts, c.hosts},
			"fencing":    {before.Fencing != after.Fencing, c.fencing},
			"manifest 1": {before.Manifest["cp-1"] != after.Manifest["cp-1"], c.one},
			"manifest 2": {before.Manifest["cp-2"] != after.Manifest["cp-2"], c.two},
		} {
			if is[0] != is[1] {
				t.Errorf("%s: the digest of %s changed: %v", name, what, is[0])
			}
		}
	}
}

func TestAnInputHoldsWhatItsHostNeeds(t *testing.T) {
	data, err := newMaterial().input("cp-2")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"self":"cp-2"`, `"manifest":"pod 2"`, `"token":"t0k3n"`, `"hush-1"`, `"hush-2"`, `"10.98.0.11"`, `"cluster":"shop-abcde"`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s is not in %s", want, data)
		}
	}
}

func TestNoSecretIsRepeated(t *testing.T) {
	if got := newMaterial().redact("t0k3n, hush-1 and hush-2 were refused"); got != "<redacted>, <redacted> and <redacted> were refused" {
		t.Error(got)
	}
	if got := (*material)(nil).redact("words"); got != "words" {
		t.Error(got)
	}
}

// Bundles differ in the middle of a rotation. Then it must not matter where the
// operator runs: each of its moves would restart both etcds.
func TestAMoveOfTheOperatorBetweenHostsWithOtherAuthoritiesChangesNoManifest(t *testing.T) {
	render := func(onOperatorsHost string, change func(*material)) map[string]string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "ca.crt")
		if err := os.WriteFile(path, []byte(onOperatorsHost), 0o600); err != nil {
			t.Fatal(err)
		}
		m := newMaterial()
		m.manifests = map[string]string{}
		m.hosts[0].Authorities, m.hosts[1].Authorities = etcdpod.DigestOf([]byte("old and new\n")), etcdpod.DigestOf([]byte("old\n"))
		change(m)
		if err := (&Reconciler{CABundle: path}).renderPods(m); err != nil {
			t.Fatal(err)
		}
		return m.manifests
	}
	same := func(*material) {}
	first, second := render("old and new\n", same), render("old\n", same)
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the operator moved:\n%s", diff)
	}
	grown := render("old\n", func(m *material) { m.hosts[1].Authorities = m.hosts[0].Authorities })
	if grown["cp-1"] != first["cp-1"] || grown["cp-2"] == first["cp-2"] {
		t.Error("the bundle of cp-2 grew: its manifest changes, and no other")
	}
	unsaid := render("old\n", func(m *material) { m.hosts[0].Authorities, m.hosts[1].Authorities = "", "" })
	if unsaid["cp-2"] != first["cp-2"] {
		t.Error("an agent of the release before says nothing, and etcd would be restarted for that")
	}
	m := newMaterial()
	before := m.digests().Hosts
	m.hosts[0].Authorities = "another"
	if m.digests().Hosts != before {
		t.Error("the whole set-up would run again")
	}
}

// TestTheOperatorRendersTheQuotaOfTheSite: internal/agent/controlplane has the test of the other ways.
func TestTheOperatorRendersTheQuotaOfTheSite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(path, []byte("an authority\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]etcdpod.Quota{"": 2, "etcdQuotaGiB: 2\n": 2, "etcdQuotaGiB: 4\n": 4} {
		quota, unknown := quotaOf(sitetest.TwoDual+text, nil)
		m := newMaterial()
		m.manifests, m.quota = map[string]string{}, quota
		if err := (&Reconciler{CABundle: path}).renderPods(m); err != nil || unknown != "" {
			t.Fatal(err, unknown)
		}
		for node, pod := range m.manifests {
			if got, err := etcdpod.QuotaOf([]byte(pod)); err != nil || got != want || strings.Contains(pod, "--quota-backend-bytes=4294967296\n") != (want == 4) || strings.Contains(pod, "quota") != (want != 2) {
				t.Errorf("%q: etcd of %s has %d GiB (%v), want %d:\n%s", text, node, got, err, want, pod)
			}
		}
	}
}

func TestAQuotaThatIsNotKnownOrNotThatOfTheHostsHoldsTheManifestsBack(t *testing.T) {
	pod := func(quota etcdpod.Quota) string {
		out, err := etcdmanifest.Pod(etcdmanifest.Spec{
			Name: "cp-1", Image: "x", CABundle: []byte("x"), Quota: quota,
			Nodes: [2]etcdmanifest.Node{{Name: "cp-1", Address: netip.MustParseAddr("10.0.0.1")}, {Name: "cp-2", Address: netip.MustParseAddr("10.0.0.2")}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	const four = sitetest.TwoDual + "etcdQuotaGiB: 4\n"
	for sentence, c := range map[string]struct {
		install   string
		published etcdpod.Quota
		want      string
	}{
		"that of the hosts":            {four, 4, ""},
		"etcd's own":                   {sitetest.TwoDual, 2, ""},
		"nothing is published yet":     {four, 0, ""},
		"nobody says it":               {"", 4, "has no install-config"},
		"what says it cannot be read":  {"etcdQuotaGiB: [4]", 4, "cannot be read"},
		"somebody has raised it":       {four, 2, "says that etcd's quota is 4 GiB, and etcd of cp-1 was set up with 2: it is fixed at the installation"},
		"somebody has taken the field": {sitetest.TwoDual, 4, "Set etcdQuotaGiB there to 4"},
	} {
		published := map[string]string{"cp-2.yaml": "nonsense"}
		if c.published > 0 {
			published["cp-1.yaml"] = pod(c.published)
		}
		_, unknown := quotaOf(c.install, published)
		if (unknown == "") != (c.want == "") || !strings.Contains(unknown, c.want) {
			t.Errorf("%s: %q", sentence, unknown)
		}
	}
}

func TestTheHostsWordCountsBeforeWhatTheyWereTold(t *testing.T) {
	told := map[string]string{"cp-1.yaml": "nonsense"}
	pod, err := etcdmanifest.Pod(etcdmanifest.Spec{
		Name: "cp-2", Image: "x", CABundle: []byte("x"),
		Nodes: [2]etcdmanifest.Node{{Name: "cp-1", Address: netip.MustParseAddr("10.0.0.1")}, {Name: "cp-2", Address: netip.MustParseAddr("10.0.0.2")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	told["cp-2.yaml"] = string(pod)
	cluster := &etcdv1.PacemakerCluster{}
	if diff := cmp.Diff(map[string]string{"cp-2": "10.0.0.2"}, knownOf(cluster, told)); diff != "" {
		t.Error(diff)
	}
	cluster.Status.Nodes = &[]etcdv1.PacemakerClusterNodeStatus{
		{NodeName: "cp-1", Addresses: []etcdv1.PacemakerNodeAddress{{Address: "10.0.0.11"}, {Address: "fd00::11"}}},
		{NodeName: "cp-2", Addresses: []etcdv1.PacemakerNodeAddress{{Address: "10.0.0.12"}}},
		{NodeName: "cp-3"},
	}
	if diff := cmp.Diff(map[string]string{"cp-1": "10.0.0.11", "cp-2": "10.0.0.12"}, knownOf(cluster, told)); diff != "" {
		t.Error(diff)
	}
}

func TestAHeartbeatIsNoNews(t *testing.T) {
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1", Labels: map[string]string{state.LabelControlPlane: ""}}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "cp-1"}, {Type: corev1.NodeInternalIP, Address: "10.98.0.11"}}
		change(n)
		return n
	}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		news   bool
	}{
		"a heartbeat": {func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() }, false},
		"an image":    {func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{}} }, false},
		"not ready":   {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, true},
		"an address":  {func(n *corev1.Node) { n.Status.Addresses[1].Address = "10.98.0.12" }, true},
		"a label":     {func(n *corev1.Node) { n.Labels = nil }, true},
	} {
		if got := nodeChanged(event.UpdateEvent{ObjectOld: node(func(*corev1.Node) {}), ObjectNew: node(c.change)}); got != c.news {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTheHandOverHasBegunOnceBothFieldsSayTrue(t *testing.T) {
	for raw, want := range map[string]bool{
		``: false, `null`: false, `{}`: false, `[]`: false,
		`{"useExternalEtcdSupport":true}`: false,
		`{"useExternalEtcdSupport":"true","useUnsupportedUnsafeEtcdContainerRemoval":"true"}`: false,
		`{"useExternalEtcdSupport":true,"useUnsupportedUnsafeEtcdContainerRemoval":true}`:     true,
	} {
		e := &operatorv1.Etcd{}
		e.Spec.UnsupportedConfigOverrides = runtime.RawExtension{Raw: []byte(raw)}
		if got := begun(e); got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

func TestWhichTroubleEndsByItself(t *testing.T) {
	gr := schema.GroupResource{Resource: "jobs"}
	for name, c := range map[string]struct {
		err     error
		passing bool
	}{
		"no connection":            {errors.New("connection refused"), true},
		"a time-out of the API":    {apierrors.NewTimeoutError("x", 1), true},
		"an API that cannot write": {apierrors.NewInternalError(errors.New("etcdserver: request timed out")), true},
		"a right that is missing":  {apierrors.NewForbidden(gr, "x", nil), false},
		"an object that is gone":   {apierrors.NewNotFound(gr, "x"), false},
		"a file that is missing":   {fmt.Errorf("read: %w", fs.ErrNotExist), false},
	} {
		if got := passing(fmt.Errorf("make Job: %w", c.err)); got != c.passing {
			t.Errorf("%s: %v", name, got)
		}
	}
}
