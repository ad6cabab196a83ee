package cli

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// TestWhyHostsDoNotHaveTheirConfigurationIsExplainedAsApproved: with the words of the
// agent and of the operator, and those of status.
func TestWhyHostsDoNotHaveTheirConfigurationIsExplainedAsApproved(t *testing.T) {
	now := time.Date(2026, 11, 23, 13, 30, 0, 0, time.UTC)
	ready := func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue})
	}
	var out bytes.Buffer
	explain := func(title, format string, change func(nodes map[string]*corev1.Node, worker *mcfgv1.MachineConfigPool), args ...string) {
		t.Helper()
		s := mustConfigSite(t, func(objects map[string]client.Object) {
			nodes := map[string]*corev1.Node{}
			for name, o := range objects {
				if n, is := o.(*corev1.Node); is {
					ready(n)
					nodes[name] = n
				}
			}
			worker, _ := objects["worker"].(*mcfgv1.MachineConfigPool)
			change(nodes, worker)
		})
		e, err := s.explain(now, args)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("=== " + title + "\n")
		if err := e.print(&out, format); err != nil {
			t.Fatal(err)
		}
	}
	drains := func(nodes map[string]*corev1.Node, _ *mcfgv1.MachineConfigPool) {
		n := nodes["w-2"]
		n.Annotations[rollout.StageAt], n.Annotations[rollout.ReasonOf] = string(rollout.Drains), "waits until its pods have moved"
		n.Annotations[drain.Desired] = "drain-" + n.Annotations[rollout.DesiredConfig]
		n.Annotations[drain.Began] = "2026-11-23T12:00:00Z"
		n.Annotations[drain.Waits] = "shop/till-0: PodDisruptionBudget till lets none go"
	}
	explain("a budget is in the way", "text", drains)
	explain("the same as YAML", "yaml", drains, "worker")
	explain("a host failed", "text", func(nodes map[string]*corev1.Node, _ *mcfgv1.MachineConfigPool) {
		n := nodes["w-2"]
		n.Annotations[rollout.StateOf], n.Annotations[rollout.StageAt] = string(rollout.Degraded), string(rollout.Failed)
		n.Annotations[rollout.ReasonOf] = "probe.service has failed"
	})
	explain("the pool is paused", "text", func(nodes map[string]*corev1.Node, worker *mcfgv1.MachineConfigPool) {
		nodes["w-2"].Annotations[rollout.DesiredConfig] = nodes["w-2"].Annotations[rollout.CurrentConfig]
		nodes["w-2"].Annotations[rollout.StateOf] = string(rollout.Done)
		worker.Spec.Paused = true
		worker.Status.Conditions[1].Message = "the pool is paused"
	})
	explain("nothing is to be done", "text", func(map[string]*corev1.Node, *mcfgv1.MachineConfigPool) {}, "master")
	golden.Check(t, "explain-config.txt", out.Bytes())
	for _, words := range []string{"shop/till-0", "type", "docs/runbook/drain.md", "probe.service has failed"} {
		if !strings.Contains(out.String(), words) {
			t.Errorf("without %q", words)
		}
	}
	s := mustConfigSite(t, nil)
	var usage *UsageError
	if _, err := s.explain(now, []string{"gpu"}); !errors.As(err, &usage) {
		t.Errorf("a pool that is not there: %v", err)
	}
}

// TestAHostOfNoPoolIsNotDone: no change of a configuration reaches it.
func TestAHostOfNoPoolIsNotDone(t *testing.T) {
	for _, astray := range []bool{true, false} {
		s := mustConfigSite(t, func(objects map[string]client.Object) {
			worker := objects["worker"].(*mcfgv1.MachineConfigPool) //nolint:forcetypeassert // it is one
			for i := range worker.Status.Conditions {
				if c := &worker.Status.Conditions[i]; c.Type == mcfgv1.MachineConfigPoolUpdated {
					c.Status = corev1.ConditionTrue
				} else {
					c.Status = corev1.ConditionFalse
				}
			}
			n := objects["w-2"].(*corev1.Node) //nolint:forcetypeassert // it is one
			n.Annotations[rollout.CurrentConfig], n.Annotations[rollout.StateOf] = n.Annotations[rollout.DesiredConfig], string(rollout.Done)
			if !astray {
				delete(objects, "other")
			}
		})
		r, err := s.show(nil)
		if err != nil || r.settled() == astray {
			t.Errorf("astray %t: settled %t, %v, %+v", astray, r.settled(), err, r.Hosts)
		}
		e, err := s.explain(time.Now(), nil)
		if told := slices.ContainsFunc(e.Findings, func(f finding.Finding) bool { return f.ID == standing.ConfigNoPool && f.Subject == "other" }); err != nil || told != astray {
			t.Errorf("astray %t: %+v, %v", astray, e, err)
		}
	}
}
