package machineconfig

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	decide "github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	updated  = mcfgv1.MachineConfigPoolUpdated
	updating = mcfgv1.MachineConfigPoolUpdating
	degraded = mcfgv1.MachineConfigPoolDegraded
	refused  = mcfgv1.MachineConfigPoolRenderDegraded
)

func TestANewSiteHasItsPoolsAndEveryHostItsConfiguration(t *testing.T) {
	s := newSite(t)
	if got := s.settle(); !slices.Equal(got, []string{"w-1", "w-2", "cp-1", "cp-2"}) {
		t.Errorf("the order is %v", got)
	}
	for pool, host := range map[string]string{"master": "cp-2", "worker": "w-2"} {
		s.has(pool, updated, "True 2 of 2 hosts have rendered-"+pool)
		s.has(pool, updating, "False")
		s.has(pool, degraded, "False")
		p := s.pool(pool)
		if st := p.Status; st.MachineCount != 2 || st.UpdatedMachineCount != 2 || st.ReadyMachineCount != 2 || st.UnavailableMachineCount != 0 || st.DegradedMachineCount != 0 ||
			st.Configuration.Name != p.Spec.Configuration.Name || st.ObservedGeneration != p.Generation {
			t.Errorf("%s: %+v", pool, p.Status)
		}
		if got := s.node(host).Annotations[rollout.DesiredConfig]; got != p.Spec.Configuration.Name || !slices.Equal(s.rendered(pool), []string{got}) {
			t.Errorf("%s has %s, of %v", host, got, s.rendered(pool))
		}
	}
	s.writes.Count = 0
	s.looks()
	if s.writes.Count > 0 {
		t.Errorf("%d writes at rest", s.writes.Count)
	}
}

func TestAChangeReachesOneHostAfterTheOther(t *testing.T) {
	s := newSite(t)
	s.settle()
	s.told()
	before := s.pool("worker").Spec.Configuration.Name
	s.apply(motd("50-a", "worker", "a"))
	must(t, s.look())
	if got := s.atWork(); len(got) > 0 {
		t.Errorf("%v were given it before more objects could follow", got)
	}
	s.has("worker", updating, "True", "have just changed")
	s.apply(motd("60-b", "worker", "b"))
	s.looks()
	if got := s.atWork(); !slices.Equal(got, []string{"w-1"}) {
		t.Fatalf("at work are %v", got)
	}
	s.has("worker", updated, "False")
	s.has("worker", updating, "True 0 of 2 hosts have", "its agent has not answered yet")
	p := s.pool("worker")
	if p.Status.Configuration.Name != before || p.Status.UnavailableMachineCount != 1 || len(p.Spec.Configuration.Source) != 2 {
		t.Errorf("%+v %+v", p.Spec.Configuration, p.Status)
	}
	s.says("w-1", before, rollout.Working, "")
	s.looks()
	if got := s.atWork(); !slices.Equal(got, []string{"w-1"}) {
		t.Errorf("at work are %v", got)
	}
	if got := s.settle(); !slices.Equal(got, []string{"w-1", "w-2"}) {
		t.Errorf("the order is %v", got)
	}
	s.has("worker", updated, "True")
	if told := s.told(); !strings.Contains(told, "worker Normal Rendered: its configuration is "+p.Spec.Configuration.Name+", made from 50-a, 60-b; file /etc/motd of 50-a is overridden by 60-b") ||
		!strings.Contains(told, "w-2 Normal MachineConfigGiven") || strings.Contains(told, "cp-1") {
		t.Errorf("it told\n%s", told)
	}
}

func TestWhatIsWrongReachesNoHostAndEachMistakeIsNamed(t *testing.T) {
	s := newSite(t)
	s.settle()
	s.told()
	s.apply(motd("50-a", "worker", "a"), `{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfig,
metadata: {name: 60-wrong, labels: {machineconfiguration.openshift.io/role: worker}},
spec: {fips: true, config: {ignition: {version: 3.5.0}, storage: {files: [{path: /etc/hostname, contents: {source: "data:,x"}}]}}}}`)
	s.looks()
	s.has("worker", refused, "True", "MachineConfig 60-wrong: spec.fips: ", "spec.config.storage.files.0.path: /etc/hostname belongs to")
	s.has("worker", degraded, "True")
	s.has("master", degraded, "False")
	if got := s.atWork(); len(got) > 0 || len(s.rendered("worker")) != 1 {
		t.Errorf("%v were given something; there are %v", got, s.rendered("worker"))
	}
	if told := s.told(); !strings.Contains(told, "worker Warning RenderDegraded: ") {
		t.Errorf("it told\n%s", told)
	}
	s.delete(&mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: "60-wrong"}})
	s.settle()
	s.has("worker", refused, "False")
	s.has("worker", updated, "True")
}

func TestAMistakeInWhatChangesNeedStopsAllPools(t *testing.T) {
	s := newSite(t)
	s.settle()
	s.apply(`{apiVersion: operator.openshift.io/v1, kind: MachineConfiguration, metadata: {name: cluster}, spec: {managementState: Managed, nodeDisruptionPolicy:
{sshkey: {actions: [{type: None}]}, units: [{name: kubelet.service, actions: [{type: Restart, restart: {serviceName: kubelet.service}}]}]}}}`, motd("50-a", "worker", "a"))
	s.looks()
	for _, pool := range []string{"master", "worker"} {
		s.has(pool, refused, "True MachineConfiguration cluster: spec.nodeDisruptionPolicy.units.0.name: kubelet.service carries the cluster")
	}
	if got := s.atWork(); len(got) > 0 {
		t.Errorf("%v were given something", got)
	}
}

func TestAPausedPoolWaitsAndItsConfigurationIsMade(t *testing.T) {
	s := newSite(t)
	s.settle()
	s.patch(s.pool("worker"), `{"spec":{"paused":true}}`)
	t.Cleanup(func() { s.delete(&mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}) })
	s.apply(motd("50-a", "worker", "a"), motd("50-m", "master", "m"))
	if got := s.settle(); !slices.Equal(got, []string{"cp-1", "cp-2"}) {
		t.Errorf("the order is %v", got)
	}
	s.has("worker", updating, "False 0 of 2 hosts have", "the pool is paused")
	if p := s.pool("worker"); p.Spec.Configuration.Name == p.Status.Configuration.Name {
		t.Error("the configuration is not made")
	}
	s.patch(s.pool("worker"), `{"spec":{"paused":false,"maxUnavailable":2}}`)
	if got := s.settle(); !slices.Equal(got, []string{"w-1+w-2"}) {
		t.Errorf("the order is %v", got)
	}
}

func TestAControlPlaneIsTakenOnlyWhileItCanBeSpared(t *testing.T) {
	s := newSite(t)
	s.settle()
	s.apply(motd("50-m", "master", "m"))
	for recorded, words := range map[string]string{"lost-fenced": "not carry on without cp-1", "device-cannot-start": "cp-2 cannot be fenced"} {
		s.pacemaker(recorded)
		s.looks()
		s.has("master", updating, "True", words)
	}
	s.pacemaker("healthy")
	s.now = s.now.Add(2 * time.Hour) // and nobody has reported since
	must(t, s.look())
	s.has("master", updating, "True", "no host has reported on Pacemaker for 2h")
	s.delete(s.node("cp-2"))
	s.looks()
	s.has("master", updating, "True", "of 2 control planes 1 have a node in the pool")
	if got := s.atWork(); len(got) > 0 {
		t.Errorf("%v were given it", got)
	}
	s.join("cp-2", state.LabelControlPlane)
	s.r.Operator = "cp-1"
	s.settle()
	s.apply(motd("60-m", "master", "n"))
	if got := s.settle(); !slices.Equal(got, []string{"cp-2", "cp-1"}) {
		t.Errorf("the host of the operator is not the last: %v", got)
	}
}

func TestOfThreeControlPlanesTheOthersAreAMajority(t *testing.T) {
	s := newSite(t)
	s.join("cp-3", state.LabelControlPlane)
	s.settleThree(3)
	s.apply(motd("50-m", "master", "m"))
	s.threeServe(map[string]state.Fact[bool]{"cp-1": state.Known(true), "cp-2": state.Known(false)})
	s.looks()
	s.has("master", updating, "True", "not carry on without cp-1: too few members of etcd serve; not cp-2 (it is not healthy), cp-3 (it does not answer)")
	s.settleThree(3)
	s.has("master", updated, "True 3 of 3")
}

// threeServe makes the site one of three control planes whose members of etcd say
// this.
func (s *site) threeServe(serves map[string]state.Fact[bool]) {
	s.t.Helper()
	s.threeControlPlanes()
	s.r.TwoNode, s.r.Serves = false, servesOf(serves)
}

func (s *site) settleThree(n int) {
	s.t.Helper()
	all := map[string]state.Fact[bool]{}
	for _, name := range []string{"cp-1", "cp-2", "cp-3"}[:n] {
		all[name] = state.Known(true)
	}
	s.threeServe(all)
	s.settle()
}

func TestAFailureStopsThePoolUntilThereIsAnotherConfiguration(t *testing.T) {
	s := newSite(t)
	s.settle()
	s.told()
	before := s.pool("worker").Spec.Configuration.Name
	s.apply(motd("50-a", "worker", "a"), motd("50-m", "master", "m"))
	s.looks()
	s.says("w-1", before, rollout.Degraded, "cannot write /etc/motd")
	s.looks()
	s.has("worker", degraded, "True w-1: cannot write /etc/motd")
	s.has("worker", updating, "True", "it failed on w-1, and no other host is given it")
	s.has("master", updating, "True", "the configuration of the pool worker failed on w-1")
	if got := s.atWork(); !slices.Equal(got, []string{"w-1"}) || s.pool("worker").Status.DegradedMachineCount != 1 {
		t.Errorf("at work are %v", got)
	}
	s.delete(&mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: "50-a"}})
	if got := s.settle(); !slices.Equal(got, []string{"w-1", "cp-1", "cp-2"}) {
		t.Errorf("the order is %v", got)
	}
	if told := s.told(); !strings.Contains(told, "worker Warning NodeDegraded: w-1: cannot write") || !strings.Contains(told, "worker Normal NodeDegraded: no longer NodeDegraded") {
		t.Errorf("it told\n%s", told)
	}
}

func TestAWishThatIsTakenBackReachesTheHostAtWork(t *testing.T) {
	s := newSite(t)
	s.settle()
	before := s.pool("worker").Spec.Configuration.Name
	s.apply(motd("50-a", "worker", "a"))
	s.looks()
	s.says("w-1", before, rollout.Working, "needs a reboot: boot it")
	s.looks()
	s.has("worker", updating, "True", "w-1 (at work; needs a reboot: boot it)")
	s.delete(&mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: "50-a"}})
	s.looks()
	if got := s.node("w-1").Annotations[rollout.DesiredConfig]; got != before {
		t.Errorf("w-1 is to have %s, not what it has", got)
	}
	s.says("w-1", before, rollout.Done, "")
	if got := s.settle(); len(got) > 0 {
		t.Errorf("%v were given something", got)
	}
	s.has("worker", updated, "True")
}

// TestHostsThatFailedGetAnotherConfigurationOneAfterTheOther: somebody changed a file on
// all hosts. Until the agent of a host has answered, what it said before counts for nothing.
func TestHostsThatFailedGetAnotherConfigurationOneAfterTheOther(t *testing.T) {
	s := newSite(t)
	s.settle()
	for _, c := range []struct{ pool, role, first, second string }{{"worker", "worker", "w-1", "w-2"}, {"master", "master", "cp-1", "cp-2"}} {
		before := s.pool(c.pool).Spec.Configuration.Name
		for _, name := range []string{c.first, c.second} {
			s.says(name, before, rollout.Degraded, "somebody changed /etc/motd")
		}
		s.apply(motd("50-"+c.role, c.role, "x"))
		s.looks()
		s.looks()
		target := s.pool(c.pool).Spec.Configuration.Name
		if one, other := s.node(c.first).Annotations, s.node(c.second).Annotations; one[rollout.DesiredConfig] != target || one[rollout.StateOf] != "" || one[rollout.ReasonOf] != "" || other[rollout.DesiredConfig] != before {
			t.Errorf("%s: before %s answers: %v, %v", c.pool, c.first, one, other)
		}
		if got := s.condition(c.pool, updating); strings.Contains(got, "it failed on "+c.first) {
			t.Errorf("%s: %s", c.pool, got)
		}
		s.now = s.now.Add(rollout.AnswerLimit)
		s.looks()
		s.has(c.pool, degraded, "True "+c.first+": its agent has not answered since", c.second+": somebody changed /etc/motd")
		s.says(c.first, target, rollout.Done, "")
		s.looks()
		if got := s.node(c.second).Annotations[rollout.DesiredConfig]; got != target {
			t.Errorf("%s: after that %s has %s", c.pool, c.second, got)
		}
		s.says(c.second, target, rollout.Done, "")
	}
}

func TestAnAgentThatDoesNotAnswerIsNamed(t *testing.T) {
	s := newSite(t)
	s.looks()
	s.has("worker", updating, "True", "w-1 (at work; its agent has not answered yet)")
	s.has("master", updating, "True", "w-1 (its agent has not answered yet) of the pool worker is at work")
	s.has("worker", degraded, "False")
	s.now = s.now.Add(rollout.AnswerLimit)
	s.looks()
	s.has("worker", degraded, "True w-1: its agent has not answered since", "holdfast-agent.service")
	if got := s.atWork(); !slices.Equal(got, []string{"w-1"}) {
		t.Errorf("at work are %v", got)
	}
	s.settle()
	s.has("worker", degraded, "False")
}

func TestWhereverTheOperatorIsCutOffTheNextOneGoesOn(t *testing.T) {
	s := newSite(t)
	s.settle()
	broken := errors.New("the API went away")
	for after := range 2 {
		for n := 1; ; n++ {
			text := strings.Repeat("x", 100*after+n)
			s.apply(motd("50-m", "master", text))
			s.writes.Count = 0
			s.writes.Before, s.writes.After = nil, nil
			cut := func(i int) error {
				if i == n {
					return broken
				}
				return nil
			}
			if after == 1 {
				s.writes.After = cut
			} else {
				s.writes.Before = cut
			}
			whole := s.playOneByOne(broken)
			if s.writes.Count < n {
				if n < 10 {
					t.Errorf("there were only %d writes", s.writes.Count)
				}
				break
			}
			if !whole {
				t.Fatalf("cut at write %d: not every host has its configuration", n)
			}
		}
	}
}

// playOneByOne lets operator and agents take turns; an operator that saw an error
// is another one afterwards. It reports whether both control planes got their
// configuration, of which never two had it at work.
func (s *site) playOneByOne(broken error) bool {
	s.t.Helper()
	s.pacemakerLives()
	for range 30 {
		if err := s.look(); errors.Is(err, broken) {
			s.restart()
		} else {
			must(s.t, err)
		}
		s.now = s.now.Add(2 * time.Second)
		given := s.atWork()
		if len(given) > 1 {
			s.t.Fatalf("at work are %v", given)
		}
		s.answer()
		p := s.pool("master")
		if len(given) == 0 && len(p.Spec.Configuration.Source) == 1 && strings.HasPrefix(s.condition("master", updated), "True") && len(s.rendered("master")) == 1 {
			return true
		}
	}
	return false
}

func TestRenderedObjectsStayWhileSomebodyNamesThem(t *testing.T) {
	s := newSite(t)
	s.settle()
	first := s.pool("worker").Spec.Configuration.Name
	s.apply(motd("50-a", "worker", "a"))
	s.looks()
	second := s.pool("worker").Spec.Configuration.Name
	s.says("w-1", first, rollout.Working, "")
	s.apply(motd("50-a", "worker", "b"))
	s.looks()
	third := s.pool("worker").Spec.Configuration.Name
	for _, name := range []string{first, second, third} {
		if !slices.Contains(s.rendered("worker"), name) {
			t.Errorf("%s is gone", name)
		}
	}
	s.settle()
	if got := s.rendered("worker"); !slices.Equal(got, []string{third}) {
		t.Errorf("left are %v, want %s", got, third)
	}
	mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: third}}
	must(t, s.own.Delete(t.Context(), mc)) // as nobody else may
	s.looks()
	if got := s.rendered("worker"); !slices.Equal(got, []string{third}) {
		t.Errorf("it does not come back: %v", got)
	}
	s.changeAsOperator(third)
	s.looks()
	must(t, s.admin.Get(t.Context(), client.ObjectKey{Name: third}, mc))
	if len(mc.Spec.KernelArguments) > 0 || !strings.Contains(s.told(), third+" Warning RenderedRestored") {
		t.Errorf("it stays changed: %v", mc.Spec.KernelArguments)
	}
	if _, err := decide.Read(*mc); err != nil {
		t.Error(err)
	}
}

func TestNobodyElseChangesOrDeletesARenderedObject(t *testing.T) {
	s := newSite(t)
	s.settle()
	name := s.pool("worker").Spec.Configuration.Name
	mc := &mcfgv1.MachineConfig{}
	must(t, s.admin.Get(t.Context(), client.ObjectKey{Name: name}, mc))
	const words = "a rendered MachineConfig is made from those of its pool"
	refuses := func(what string, do func() error) {
		t.Helper()
		s.until(func() bool { err := do(); return err != nil && strings.Contains(err.Error(), words) }, what+" is not refused")
	}
	patch := func(text string) func() error {
		return func() error {
			return s.admin.Patch(t.Context(), mc.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(text)), client.DryRunAll)
		}
	}
	refuses("a change", patch(`{"spec":{"kernelArguments":["quiet"]}}`))
	refuses("another file", patch(`{"spec":{"config":{"storage":{"files":[]}}}}`))
	refuses("the removal of its label", patch(`{"metadata":{"labels":null}}`))
	refuses("a deletion", func() error { return s.admin.Delete(t.Context(), mc.DeepCopy(), client.DryRunAll) })
	must(t, patch(`{"metadata":{"annotations":{"a":"b"}}}`)())
	s.apply(motd("50-a", "worker", "a"))
	s.patch(&mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: "50-a"}}, `{"spec":{"kernelArguments":["quiet"]}}`)
}

func TestDeletedPoolsComeBackAndHostsOfOthersGoHome(t *testing.T) {
	s := newSite(t)
	s.settle()
	s.delete(s.pool("worker"))
	s.apply(`{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfigPool, metadata: {name: gpu}, spec: {
machineConfigSelector: {matchExpressions: [{key: machineconfiguration.openshift.io/role, operator: In, values: [worker, gpu]}]}, nodeSelector: {matchLabels: {site/gpu: ""}}}}`,
		motd("50-g", "gpu", "g"), motd("50-w", "worker", "w"))
	s.patch(s.node("w-2"), `{"metadata":{"labels":{"site/gpu":""}}}`)
	if got := s.settle(); !slices.Equal(got, []string{"w-2", "w-1"}) {
		t.Errorf("the order is %v", got)
	}
	s.has("gpu", updated, "True 1 of 1")
	s.has("worker", updated, "True 1 of 1")
	if got := shown(t, "gpu"); !strings.Contains(got, "Updated=1") || !strings.Contains(got, "all=1") {
		t.Errorf("metrics: %s", got)
	}
	s.delete(s.pool("gpu"))
	if got := s.settle(); !slices.Equal(got, []string{"w-2"}) {
		t.Errorf("the order is %v", got)
	}
	if got := s.node("w-2").Annotations[rollout.CurrentConfig]; got != s.pool("worker").Spec.Configuration.Name || len(s.rendered("gpu")) > 0 {
		t.Errorf("w-2 has %s, and there are %v", got, s.rendered("gpu"))
	}
	if got := shown(t, "gpu"); got != "" {
		t.Errorf("metrics: %s", got)
	}
}

func TestAHostOfNoPoolIsToldOnce(t *testing.T) {
	s := newSite(t)
	s.join("other-1", "site/other")
	s.settle()
	if told := s.told(); strings.Contains(told, "other-1") {
		t.Errorf("a host that joins is told: %s", told)
	}
	s.now = s.now.Add(time.Hour)
	s.looks()
	if told := s.told(); strings.Count(told, "other-1 Warning NoMachineConfigPool: no pool selects it") != 1 {
		t.Errorf("it told %s", told)
	}
}

func TestAHostThatGoesAwayAtItsWorkHoldsTheOthers(t *testing.T) {
	s := newSite(t)
	s.settle()
	s.apply(motd("50-a", "worker", "a"))
	s.looks()
	s.ready("w-1", corev1.ConditionUnknown)
	s.now = s.now.Add(time.Hour)
	s.restart()
	s.looks()
	s.has("worker", updating, "True", "w-1 (at work; it is not ready)")
	s.has("worker", degraded, "False")
	if got := s.atWork(); !slices.Equal(got, []string{"w-1"}) {
		t.Errorf("an hour later %v are at work", got)
	}
	s.ready("w-1", corev1.ConditionTrue)
	s.settle()
}

func TestSettingsOfKubeletReachThePoolsThatTheySelect(t *testing.T) {
	s := newSite(t)
	s.settle()
	text := func(name, fields string) string {
		return `{apiVersion: machineconfiguration.openshift.io/v1, kind: KubeletConfig, metadata: {name: ` + name + `},
spec: {machineConfigPoolSelector: {matchLabels: {pools.operator.machineconfiguration.openshift.io/worker: ""}}, kubeletConfig: {` + fields + `}}}`
	}
	says := func(name string) string {
		k := &mcfgv1.KubeletConfig{}
		must(t, s.admin.Get(t.Context(), client.ObjectKey{Name: name}, k))
		var out []string
		for _, c := range k.Status.Conditions {
			out = append(out, strings.TrimSpace(string(c.Type)+" "+string(c.Status)+" "+c.Message))
		}
		return strings.Join(out, ", ")
	}
	s.apply(text("pods", "maxPods: 150"))
	t.Cleanup(func() { s.delete(&mcfgv1.KubeletConfig{ObjectMeta: metav1.ObjectMeta{Name: "pods"}}) })
	s.looks()
	if got := says("pods"); got != "Success True it belongs to the configuration of the pools worker, Failure False" {
		t.Errorf("it says %s", got)
	}
	mc := &mcfgv1.MachineConfig{}
	must(t, s.admin.Get(t.Context(), client.ObjectKey{Name: s.pool("worker").Spec.Configuration.Name}, mc))
	cfg, err := decide.Read(*mc)
	if err != nil || len(cfg.Ignition.Storage.Files) != 3 || cfg.Ignition.Storage.Files[2].Path != decide.KubeletPath {
		t.Errorf("workers are to have %+v, %v", cfg.Ignition.Storage.Files, err)
	}
	if source := s.pool("worker").Spec.Configuration.Source; len(source) != 1 || source[0].Kind != "KubeletConfig" || source[0].Name != "pods" {
		t.Errorf("it is made from %+v", source)
	}
	s.apply(text("owned", "clusterDNS: [10.0.0.1]"))
	t.Cleanup(func() { s.delete(&mcfgv1.KubeletConfig{ObjectMeta: metav1.ObjectMeta{Name: "owned"}}) })
	s.looks()
	if got := says("owned"); !strings.Contains(got, "Failure True KubeletConfig owned: spec.kubeletConfig.clusterDNS: kubeadm and Holdfast set it") {
		t.Errorf("it says %s", got)
	}
	s.has("worker", refused, "True KubeletConfig owned: spec.kubeletConfig.clusterDNS")
}
