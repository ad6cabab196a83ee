package infrastructure

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/kube/vipobject"
	"github.com/holdfast/holdfast/internal/decide/vips"
)

// TestHardCase22_ASecondPairIsAddedUsedDeletedAndCorrected plays an administrator
// who mistypes an address while one host is off.
func TestHardCase22_ASecondPairIsAddedUsedDeletedAndCorrected(t *testing.T) {
	s := newSite(t)
	s.settle()
	s.condition(vips.ConditionApplied, "True AsExpected API 10.98.0.5, ingress 10.98.0.6")
	s.condition(vips.ConditionProgressing, "False AsExpected 3 of 3 hosts")
	if got := s.told(); got != "" {
		t.Errorf("nothing happened and it told\n%s", got)
	}

	t.Log("a node without IPv6 joins: a second pair is refused, the node and the rule are named")
	lacking := &agent{name: "w-2", addresses: []string{"10.98.0.32"}, ready: true, on: true}
	s.hosts = append(s.hosts, lacking)
	s.join(lacking)
	s.settle()
	s.wish("10.98.0.5 fd98::7", "10.98.0.6 fd98::8")
	s.settle()
	s.has("10.98.0.5", "10.98.0.6")
	s.condition(vips.ConditionAccepted, `False RuleBroken spec.platformSpec.baremetal.ingressIPs[1]: Invalid value: "fd98::8": is IPv6, but there is no IPv6 address on w-2`)
	if got := s.told(); strings.Count(got, "VirtualIPsRefused") != 1 || !strings.Contains(got, "rule hosts-have-family") {
		t.Errorf("it told\n%s", got)
	}
	must(t, s.admin.Delete(t.Context(), s.node("w-2")))
	s.hosts = s.hosts[:3]

	t.Log("one control plane is off; the others take the pair, with its typo")
	s.setReady(s.hosts[1], false)
	s.settle()
	s.has("10.98.0.5 fd98::7", "10.98.0.6 fd98::8")
	s.condition(vips.ConditionAccepted, "True")
	s.condition(vips.ConditionApplied, "True AsExpected API 10.98.0.5, fd98::7, ingress 10.98.0.6, fd98::8")
	s.condition(vips.ConditionProgressing, "True RollingOut 2 of 3 hosts; cp-2: does not have fd98::7, fd98::8 yet; the node is not ready and catches up once it is")
	if got := s.told(); !strings.Contains(got, "VirtualIPsAccepted: hosts are now asked to take [fd98::7 fd98::8]") || !strings.Contains(got, "VirtualIPsApplied") {
		t.Errorf("it told\n%s", got)
	}

	t.Log("the typo is not put right in place")
	s.wish("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
	s.settle()
	s.has("10.98.0.5 fd98::7", "10.98.0.6 fd98::8")
	s.condition(vips.ConditionAccepted, "False RuleBroken")

	t.Log("it is taken back; the host that was off comes back to that")
	s.wish("10.98.0.5", "10.98.0.6")
	s.settle()
	s.has("10.98.0.5", "10.98.0.6")
	s.setReady(s.hosts[1], true)
	s.settle()
	s.condition(vips.ConditionProgressing, "False AsExpected 3 of 3 hosts")

	t.Log("the right pair is taken everywhere")
	s.told()
	s.wish("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
	s.settle()
	s.has("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
	s.condition(vips.ConditionApplied, "True AsExpected API 10.98.0.5, fd98::5, ingress 10.98.0.6, fd98::6")
	s.condition(vips.ConditionProgressing, "False AsExpected 3 of 3 hosts")
	s.leavesNoQuestions()
}

// leavesNoQuestions fails if a question or an answer stays on a node.
func (s *site) leavesNoQuestions() {
	s.t.Helper()
	for _, h := range s.hosts {
		for name := range s.node(h.name).Annotations {
			if strings.Contains(name, "vip-probe") || strings.Contains(name, "vip-answer") {
				s.t.Errorf("%s keeps %s", h.name, name)
			}
		}
	}
}

func TestHardCase22_AnOlderAgentIsNotTakenForANo(t *testing.T) {
	s := newSite(t)
	s.settle()
	for _, h := range s.hosts {
		h.lazy = true // it knows neither question nor report
	}
	s.wish("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
	for range 60 {
		s.look()
	}
	s.has("10.98.0.5", "10.98.0.6")
	s.condition(vips.ConditionAccepted, "Unknown Checking no host has yet reported whether fd98::5 is in use")
	s.hosts[1].lazy = false // one is upgraded
	s.settle()
	s.settle()
	s.has("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
	s.condition(vips.ConditionApplied, "False RollingOut 1 of 3 hosts; cp-1: does not have fd98::5, fd98::6 yet")
	s.hosts[0].lazy, s.hosts[2].lazy = false, false
	s.settle()
	s.condition(vips.ConditionApplied, "True")
}

func TestHardCase22_AnAddressThatSomebodyHasIsRefusedUntilItIsFree(t *testing.T) {
	s := newSite(t)
	s.settle()
	s.taken[netip.MustParseAddr("fd98::6")] = "52:54:00:00:00:99"
	s.wish("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
	s.settle()
	s.has("10.98.0.5", "10.98.0.6")
	s.condition(vips.ConditionAccepted, `False RuleBroken spec.platformSpec.baremetal.ingressIPs[1]: Invalid value: "fd98::6": is taken: 52:54:00:00:00:99 answers for it`)
	for range 130 { // each minute it is looked for again, and it stays refused meanwhile
		s.look()
		s.playHosts()
		s.condition(vips.ConditionAccepted, "False RuleBroken")
	}
	delete(s.taken, netip.MustParseAddr("fd98::6"))
	for range 70 {
		s.look()
		s.playHosts()
	}
	s.settle()
	s.has("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
	s.leavesNoQuestions()
}

func TestHardCase23_AnUpgradedClusterIsFilledAndHostsSeeNoChange(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct{ what, spec, status, wrote string }{
		{
			"an empty platform", `{"platformSpec":{"type":"BareMetal","baremetal":{}}}`,
			`{"platformStatus":{"type":"BareMetal","baremetal":{"apiServerInternalIPs":["10.98.0.5"],"ingressIPs":["10.98.0.6"],"apiServerInternalIP":"10.98.0.5","ingressIP":"10.98.0.6"}}}`,
			"patch Infrastructure",
		},
		{
			"no platform at all", `{"platformSpec":{}}`,
			`{"platformStatus":{"type":"BareMetal","baremetal":{"apiServerInternalIPs":["10.98.0.5"],"ingressIPs":["10.98.0.6"],"apiServerInternalIP":"10.98.0.5","ingressIP":"10.98.0.6","machineNetworks":["10.98.0.0/24"]}}}`,
			"patch Infrastructure",
		},
		{
			"B76: neither lists in the status", `{}`,
			`{"platformStatus":{"type":"BareMetal","baremetal":{"apiServerInternalIP":"10.98.0.5","ingressIP":"10.98.0.6"}}}`,
			"patch Infrastructure, patch Infrastructure/status",
		},
	} {
		s.t.Run(c.what, func(t *testing.T) {
			defer s.in(t)()
			s.create(c.spec, c.status)
			s.playHosts()
			s.past()
			s.look()
			var wrote []string
			for _, w := range s.past() {
				if strings.Contains(w, "Infrastructure") {
					wrote = append(wrote, w)
				}
			}
			if got := strings.Join(wrote, ", "); got != c.wrote {
				t.Errorf("it wrote %s in one look, want %s", got, c.wrote)
			}
			spec := s.infra().Spec.PlatformSpec.BareMetal
			if spec == nil || fmt.Sprint(spec.APIServerInternalIPs, spec.IngressIPs) != "[10.98.0.5] [10.98.0.6]" {
				t.Errorf("the spec is %+v", spec)
			}
			s.has("10.98.0.5", "10.98.0.6")
			s.settle()
			s.condition(vips.ConditionApplied, "True AsExpected API 10.98.0.5, ingress 10.98.0.6")
			if got := s.told(); !strings.Contains(got, "SpecFilled") || strings.Contains(got, "Accepted") {
				t.Errorf("it told\n%s", got)
			}
		})
	}
}

// in lets a subtest use the site; the returned function gives the site back.
func (s *site) in(t *testing.T) func() {
	outer := s.t
	s.t = t
	return func() { s.t = outer }
}

func TestHardCase24_TextualVariantsAreNoChange(t *testing.T) {
	s := newSite(t)
	s.wish("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
	s.settle()
	version := s.node("cp-1").ResourceVersion
	s.past()
	s.wish("10.98.0.5 FD98:0:0:0:0:0:0:5", "10.98.0.6 fd98:0:0::0006")
	for range 5 {
		s.look()
		s.playHosts()
	}
	if wrote := s.past(); len(wrote) != 0 {
		t.Errorf("it wrote %v", wrote)
	}
	s.has("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
	if s.node("cp-1").ResourceVersion != version {
		t.Error("a host did something")
	}
}

func TestB75_AClusterWithoutVIPsIsNeverWrittenTo(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct{ what, spec, status, accepted string }{
		{"vSphere, user-provisioned: nothing in spec and status", `{"platformSpec":{"type":"VSphere"}}`, `{"platformStatus":{"type":"VSphere"}}`, "False NotManagedHere"},
		{"vSphere, empty in both", `{"platformSpec":{"type":"VSphere","vsphere":{}}}`, `{"platformStatus":{"type":"VSphere","vsphere":{}}}`, "False NotManagedHere"},
		{
			"vSphere, two equal VIPs", `{"platformSpec":{"type":"VSphere","vsphere":{"apiServerInternalIPs":["10.98.0.5"],"ingressIPs":["10.98.0.5"]}}}`,
			`{"platformStatus":{"type":"VSphere","vsphere":{}}}`, `False RuleBroken spec.platformSpec.vsphere.ingressIPs[0]: Duplicate value: "10.98.0.5"`,
		},
		{
			"OpenStack", `{"platformSpec":{"type":"OpenStack","openstack":{"apiServerInternalIPs":["10.98.0.5"],"ingressIPs":["10.98.0.6"]}}}`,
			`{"platformStatus":{"type":"OpenStack","openstack":{}}}`, "False NotManagedHere virtual IPs of platform OpenStack are not managed by Holdfast",
		},
		{"none", `{"platformSpec":{"type":"None"}}`, `{"platformStatus":{"type":"None"}}`, "True NoVirtualIPs"},
		{"bare metal before its status is there", `{"platformSpec":{"type":"BareMetal","baremetal":{}}}`, `{"platformStatus":{"type":"BareMetal"}}`, "True"},
		{"bare metal without a platform", `{"platformSpec":{"type":"BareMetal"}}`, `{}`, "True"},
		{"bare metal, empty in both", `{"platformSpec":{"type":"BareMetal","baremetal":{}}}`, `{"platformStatus":{"type":"BareMetal","baremetal":{}}}`, "True"},
	} {
		s.t.Run(c.what, func(t *testing.T) {
			defer s.in(t)()
			s.create(c.spec, c.status)
			version := s.infra().ResourceVersion
			for range 3 {
				s.look()
			}
			s.condition(vips.ConditionAccepted, c.accepted)
			s.past()
			s.look()
			if wrote := s.past(); len(wrote) != 0 || s.infra().ResourceVersion != version {
				t.Errorf("it wrote %v", wrote)
			}
		})
	}
	must(t, s.admin.Delete(t.Context(), s.infra()))
	s.past()
	s.look()
	if wrote := s.past(); len(wrote) != 0 {
		t.Errorf("without an Infrastructure object it wrote %v", wrote)
	}
}

func TestInSteadyStateNothingIsWritten(t *testing.T) {
	s := newSite(t)
	quiet := func(what string, allowed int) {
		t.Helper()
		s.settle()
		s.past()
		for range 75 { // five minutes, a look every four seconds
			s.look()
			s.now = s.now.Add(3 * time.Second)
			s.playHosts()
		}
		if wrote := s.past(); len(wrote) > allowed {
			t.Errorf("%s: %d writes in five minutes: %v", what, len(wrote), wrote)
		}
	}
	quiet("one pair", 0)
	s.wish("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
	quiet("two pairs", 0)
	s.setReady(s.hosts[1], false)
	s.wish("10.98.0.5", "10.98.0.6")
	quiet("a host is off", 0)
	s.wish("10.98.0.7", "10.98.0.6")
	quiet("a refusal that nobody mends", 1) // the one write: it counts as a trouble by now
	s.restart()
	quiet("after a restart", 0)
}

// The operator keeps fields that others write into the object, and fields that a
// newer API server adds to it.
func TestWhatIsNotOursStaysAsItIs(t *testing.T) {
	s := newSite(t)
	s.settle()
	must(t, s.admin.Status().Patch(t.Context(), s.infra(), client.RawPatch(types.MergePatchType,
		[]byte(`{"status":{"etcdDiscoveryDomain":"x.example.test","platformStatus":{"baremetal":{"nodeDNSIP":"10.98.0.9"}}}}`))))
	s.patch(s.infra(), types.MergePatchType, `{"metadata":{"labels":{"site":"one"}},"spec":{"cloudConfig":{"name":"x"}}}`)
	operator := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: vipobject.OperatorName}}
	must(t, s.admin.Status().Patch(t.Context(), operator, client.RawPatch(types.ApplyPatchType, []byte(
		`{"apiVersion":"config.openshift.io/v1","kind":"ClusterOperator","metadata":{"name":"network"},"status":{"conditions":[{"type":"Upgradeable","status":"True","lastTransitionTime":"2026-11-20T12:00:00Z"}]}}`)),
		client.FieldOwner("another"), client.ForceOwnership))
	s.wish("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
	s.settle()
	s.has("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
	infra := s.infra()
	b := infra.Status.PlatformStatus.BareMetal
	if infra.Status.EtcdDiscoveryDomain != "x.example.test" || b.NodeDNSIP != "10.98.0.9" || infra.Labels["site"] != "one" || infra.Spec.CloudConfig.Name != "x" {
		t.Errorf("it became %+v", infra)
	}
	if b.LoadBalancer == nil || b.LoadBalancer.Type != configv1.LoadBalancerTypeOpenShiftManagedDefault {
		t.Errorf("the API's default is %+v", b.LoadBalancer)
	}
	must(t, s.admin.Get(t.Context(), client.ObjectKeyFromObject(operator), operator))
	if !slices.ContainsFunc(operator.Status.Conditions, func(c configv1.ClusterOperatorStatusCondition) bool { return c.Type == "Upgradeable" }) {
		t.Error("another's condition is gone")
	}
}

func TestB77_DegradedWaitsTwoMinutesAndThenSaysWhy(t *testing.T) {
	s := newSite(t)
	s.settle()
	s.wish("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
	s.past()
	away := errors.New("etcdserver: request timed out")
	s.before = func(n int) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if strings.Contains(s.wrote[n-1], "ClusterOperator") {
			return nil
		}
		return apierrors.NewInternalError(away)
	}
	for range 119 {
		s.look()
	}
	s.condition(vips.ConditionDegraded, "False")
	s.look()
	s.look()
	s.condition(vips.ConditionDegraded, "True SyncFailed")
	s.condition(vips.ConditionApplied, "True AsExpected API 10.98.0.5, ingress 10.98.0.6")
	s.before = nil
	s.settle()
	s.condition(vips.ConditionDegraded, "False")
	s.has("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
}

// story plays a whole change with all its writes.
func (s *site) story() {
	s.t.Helper()
	s.wish("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
	s.settle()
	s.wish("10.98.0.5", "10.98.0.6")
	s.settle()
}

// TestARestartAtEveryStepLosesNothing cuts the operator off at each of its
// writes, once before and once after the API has accepted it.
func TestARestartAtEveryStepLosesNothing(t *testing.T) {
	s := newSite(t)
	s.settle()
	s.past()
	s.story()
	whole := len(s.past())
	if whole < 8 {
		t.Fatalf("a change is %d writes", whole)
	}
	t.Logf("a change and back are %d writes", whole)
	cut := errors.New("the operator was killed")
	for n := 1; n <= whole; n++ {
		for _, when := range []string{"before", "after"} {
			s.reset()
			s.restart()
			s.settle()
			s.past()
			kill := func(i int) error {
				if i == n {
					s.restart()
					return cut
				}
				return nil
			}
			s.before, s.after = nil, nil
			if when == "before" {
				s.before = kill
			} else {
				s.after = kill
			}
			s.wish("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
			s.settle()
			s.settle()
			s.has("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
			s.condition(vips.ConditionApplied, "True AsExpected API 10.98.0.5, fd98::5")
			s.wish("10.98.0.5", "10.98.0.6")
			s.settle()
			s.settle()
			s.has("10.98.0.5", "10.98.0.6")
			s.condition(vips.ConditionApplied, "True AsExpected API 10.98.0.5, ingress 10.98.0.6")
			s.condition(vips.ConditionProgressing, "False")
			s.leavesNoQuestions()
			if t.Failed() {
				t.Fatalf("cut off %s write %d", when, n)
			}
		}
	}
}

// TestHardCase22_TheAPIIsDownInTheMiddle takes the API from the operator after
// each of the first looks at a request, long enough to be reported.
func TestHardCase22_TheAPIIsDownInTheMiddle(t *testing.T) {
	s := newSite(t)
	for looks := range 6 {
		s.wish("10.98.0.5", "10.98.0.6")
		s.settle()
		s.wish("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
		for range looks {
			s.look()
			s.playHosts()
		}
		s.down = errors.New("dial tcp 127.0.0.1:6443: connect: connection refused")
		for range 150 {
			s.look()
		}
		s.down = nil
		s.settle()
		s.settle()
		s.has("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
		s.condition(vips.ConditionApplied, "True AsExpected API 10.98.0.5, fd98::5")
		s.condition(vips.ConditionDegraded, "False")
		s.leavesNoQuestions()
		if t.Failed() {
			t.Fatalf("down after %d looks", looks)
		}
	}
}

// TestAConflictStormIsWaitedOut lets somebody else write into the object before
// each of the operator's first writes.
func TestAConflictStormIsWaitedOut(t *testing.T) {
	s := newSite(t)
	s.settle()
	s.wish("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
	s.past()
	storms := 0
	s.before = func(n int) error {
		s.mu.Lock()
		what := s.wrote[n-1]
		s.mu.Unlock()
		if strings.Contains(what, "Infrastructure") && storms < 10 {
			storms++
			s.patch(s.infra(), types.MergePatchType, fmt.Sprintf(`{"metadata":{"annotations":{"storm":"%d"}}}`, storms))
		}
		return nil
	}
	for range 60 {
		s.look()
		s.playHosts()
	}
	if storms != 10 {
		t.Errorf("%d conflicts", storms)
	}
	s.has("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
	s.condition(vips.ConditionDegraded, "False")
	s.condition(vips.ConditionApplied, "True")
}

// A request that changes while its question is open must not be accepted by the
// answers to the question before.
func TestAnswersCountForTheWishThatTheyWereAskedFor(t *testing.T) {
	s := newSite(t)
	s.settle()
	s.taken[netip.MustParseAddr("fd98::9")] = "52:54:00:00:00:99"
	s.wish("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
	s.look() // asks
	s.playHosts()
	s.wish("10.98.0.5 fd98::9", "10.98.0.6 fd98::6")
	s.settle()
	s.has("10.98.0.5", "10.98.0.6")
	s.condition(vips.ConditionAccepted, "False RuleBroken")
}

func TestTheVIPThatIsAwayForAMomentIsNoUnfinishedChange(t *testing.T) {
	s := newSite(t)
	s.settle()
	s.past()
	s.told()
	for _, h := range s.hosts[:2] {
		s.setReady(h, false) // nobody is left to hold the API's VIP
	}
	for range 60 {
		s.look()
	}
	s.condition(vips.ConditionApplied, "True")
	s.condition(vips.ConditionDegraded, "False")
	s.now = s.now.Add(vips.DegradedAfter)
	s.look()
	s.condition(vips.ConditionDegraded, "True VirtualIPNotAnswering api VIP 10.98.0.5: no host holds it")
	s.condition(vips.ConditionAvailable, "False VirtualIPNotAnswering")
	if got := s.told(); got != "" {
		t.Errorf("it told\n%s", got)
	}
	s.setReady(s.hosts[0], true)
	s.settle()
	s.condition(vips.ConditionDegraded, "False")
}
