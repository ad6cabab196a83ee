package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/clusterversion"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The releases of these tests.
var (
	releaseOne = "sha256:" + strings.Repeat("1", 64)
	releaseTwo = "sha256:" + strings.Repeat("2", 64)
)

// upgradeHosts are the hosts of these tests.
var upgradeHosts = []string{"up-1", "up-2", "up-3"}

// upgradeObjects are a ClusterVersion, and two control planes and a worker that run the
// first release and have the second one.
func upgradeObjects(t *testing.T) (*configv1.ClusterVersion, []*corev1.Node) {
	t.Helper()
	v := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: annotation.VersionName}, Spec: configv1.ClusterVersionSpec{ClusterID: "11111111-2222-4333-8444-555555555555"}}
	one := gate.Release{Name: "Holdfast 0.8.0", Digest: releaseOne, Version: gate.Version{Minor: 8}, Verified: true, Kubernetes: gate.Version{Major: 1, Minor: 36, Patch: 3}, Etcd: gate.Version{Major: 3, Minor: 6, Patch: 14}, Network: "n"}
	two := one
	two.Name, two.Digest, two.Version = "Holdfast 0.9.0", releaseTwo, gate.Version{Minor: 9}
	var nodes []*corev1.Node
	for i, name := range upgradeHosts {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{state.LabelControlPlane: ""}, Annotations: map[string]string{}}}
		if i == 2 {
			n.Labels = map[string]string{state.LabelWorker: ""}
		}
		tell(t, n, func(h *annotation.Host) {
			h.Release, h.Offered = one, []gate.Release{two}
			h.Facts.Name, h.Facts.Release, h.Facts.Whole = name, state.Known(releaseOne), state.Known([]string{releaseOne, releaseTwo})
		})
		nodes = append(nodes, n)
	}
	return v, nodes
}

// tell changes what the agent of a host tells.
func tell(t *testing.T, n *corev1.Node, change func(*annotation.Host)) annotation.Host {
	t.Helper()
	h, err := annotation.Decode[annotation.Host](n.Annotations[annotation.HostOf])
	if err != nil {
		t.Fatal(err)
	}
	change(&h)
	text, err := annotation.Encode(h)
	if err != nil {
		t.Fatal(err)
	}
	n.Annotations[annotation.HostOf] = text
	return h
}

// player plays the operator and the agents of the hosts: it decides with the functions
// that they decide with, and each host does at once what it has its turn for.
type player struct {
	t *testing.T
	c client.Client
}

// ctx outlives the test's own, which ends before what goes on beside it.
func (p player) ctx() context.Context { return context.WithoutCancel(p.t.Context()) }

// step plays one step of the operator, and what the hosts make of it.
func (p player) step() cluster.Step {
	p.t.Helper()
	v, s := p.site()
	step := cluster.Next(s)
	if step.Do == cluster.Write {
		p.write(step.Record)
	}
	for _, name := range step.Hosts {
		if step.Do == cluster.Raise || step.Do == cluster.Write && len(step.Record.Turns) > 0 {
			p.host(name, step)
		}
	}
	wanted := s.Running
	if s.Wish.Release != "" && step.Refused == "" {
		wanted = s.Wish.Release
	}
	completed := true
	for _, h := range s.Hosts {
		completed = completed && state.Is(h.Running, wanted)
	}
	now := metav1.Now()
	v.Status.ObservedGeneration = v.Generation
	v.Status.History = clusterversion.History(v.Status.History, clusterversion.Release{Image: wanted}, completed, now)
	v.Status.Desired.Image = wanted
	v.Status.VersionHash = "x"
	v.Status.Conditions = clusterversion.Conditions(v.Status.Conditions, step, gate.Condition{Status: metav1.ConditionTrue, Reason: "AsExpected"}, metav1.ConditionTrue, now)
	if err := p.c.Status().Update(p.ctx(), v); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		p.t.Error(err)
	}
	return step
}

// until plays until a phase is reached, or nothing goes on.
func (p player) until(phase cluster.Phase) cluster.Step {
	p.t.Helper()
	var last cluster.Step
	for range 60 {
		last = p.step()
		if last.Phase == phase && last.Do != cluster.Write || last.Phase == phase && phase == cluster.Proving {
			return p.step() // the status says it, too
		}
	}
	p.t.Fatalf("%s is not reached: %+v", phase, last)
	return last
}

func (p player) site() (*configv1.ClusterVersion, cluster.Site) {
	p.t.Helper()
	v := &configv1.ClusterVersion{}
	if err := p.c.Get(p.ctx(), client.ObjectKey{Name: annotation.VersionName}, v); err != nil {
		p.t.Fatal(err)
	}
	s := cluster.Site{Now: time.Now(), Record: p.record(), Running: releaseOne, Soak: annotation.DefaultSoak}
	s.Wish = cluster.Wish{Upgrade: "upgrade-1", Start: true, Paused: v.Annotations[annotation.PausedBy]}
	s.Wish.Commit = s.Record.Upgrade != "" && v.Annotations[annotation.CommitOf] == s.Record.Upgrade
	if v.Spec.DesiredUpdate != nil {
		s.Wish.Release = people.Digest(v.Spec.DesiredUpdate.Image)
	}
	for _, h := range v.Status.History {
		if h.State == configv1.CompletedUpdate {
			s.Running = people.Digest(h.Image)
			break
		}
	}
	yes := state.Known(true)
	for _, name := range upgradeHosts {
		n := nodeOf(p.t, p.c, name)
		told := tell(p.t, n, func(*annotation.Host) {})
		_, control := n.Labels[state.LabelControlPlane]
		s.Hosts = append(s.Hosts, cluster.Host{Name: name, Worker: !control, Present: yes, Well: yes, Whole: yes, Running: told.Facts.Release, Journal: told.Journal, Held: told.Held, Raised: told.Raised})
	}
	return v, s
}

func (p player) record() cluster.Record {
	p.t.Helper()
	var m corev1.ConfigMap
	err := p.c.Get(p.ctx(), client.ObjectKey{Namespace: annotation.RecordNamespace, Name: annotation.RecordName}, &m)
	if client.IgnoreNotFound(err) != nil {
		p.t.Fatal(err)
	}
	said, err := annotation.Decode[annotation.Record](m.Data[annotation.RecordKey])
	if err != nil {
		p.t.Fatal(err)
	}
	return said.Of()
}

func (p player) write(r cluster.Record) {
	p.t.Helper()
	text, err := annotation.Encode(annotation.RecordOf(r))
	if err != nil {
		p.t.Fatal(err)
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: annotation.RecordNamespace, Name: annotation.RecordName}, Data: map[string]string{annotation.RecordKey: text}}
	err = p.c.Create(p.ctx(), m)
	if apierrors.IsAlreadyExists(err) {
		err = p.c.Update(p.ctx(), m)
	}
	if err != nil {
		p.t.Error(err)
	}
}

// host does what a host does in its turn.
func (p player) host(name string, step cluster.Step) {
	p.t.Helper()
	n := nodeOf(p.t, p.c, name)
	tell(p.t, n, func(h *annotation.Host) {
		if step.Do == cluster.Raise {
			h.Raised, h.Journal.Closed = state.Known(true), true
			return
		}
		goal, end := step.Record.To, parachute.Accepted
		if step.Record.Returning {
			goal, end = step.Record.From, parachute.Returned
		}
		if !state.Is(h.Facts.Release, goal) {
			h.Release, h.Offered = h.Offered[0], []gate.Release{h.Release}
		}
		h.Facts.Release, h.Raised = state.Known(goal), state.Known(false)
		h.Journal = parachute.Journal{Upgrade: step.Record.Upgrade, From: step.Record.From, To: step.Record.To, Step: end, Since: time.Now()}
	})
	if err := p.c.Update(p.ctx(), n); err != nil {
		p.t.Error(err)
	}
}
