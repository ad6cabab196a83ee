package replace

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/replace"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// halted is a CIB in which Pacemaker was told not to start etcd.
const halted = `<cib><configuration><resources><clone id="etcd-clone"><meta_attributes id="m"><nvpair id="n" name="target-role" value="Stopped"/></meta_attributes>
<primitive id="etcd" class="ocf" provider="holdfast" type="podman-etcd"/></clone></resources></configuration></cib>`

// newShrinking returns one of two whose peer was retired, at the stage in which it becomes a lone
// control plane.
func newShrinking(t *testing.T) (l *lab, job Job, dressed *int) {
	t.Helper()
	l, job = newLab(t)
	for path, text := range map[string]string{etcdsData: "", "/proc/locks": ""} {
		if err := powercut.WriteFile(l.path(path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(l.files.WriteRetired(state.EtcdRetired{Peer: "cp-2", Plan: "p1"}), l.world().Do[replace.LeaveRing](t.Context(), job)); err != nil {
		t.Fatal(err)
	}
	l.nodes = []string{"cp-1"}
	l.Pod = func(self decide.Node) ([]byte, error) {
		return []byte("etcd of " + self.Name + " at " + self.Address), nil
	}
	dressed = new(int)
	l.Dress = func(context.Context) error { *dressed++; l.ControlPlanes = 1; return nil }
	l.member = func(context.Context) (etcd.MemberStatus, error) {
		return etcd.MemberStatus{Leader: 1, Members: []state.EtcdMember{{ID: 1}}}, nil
	}
	cib, on := "<cib/>", map[string]bool{"corosync.service": true, "pacemaker.service": true}
	l.run = func(_ context.Context, c host.Cmd) ([]byte, error) {
		line := c.String()
		l.commands = append(l.commands, line)
		last := c.Args[len(c.Args)-1]
		switch {
		case strings.HasPrefix(line, "systemctl is-"):
			if !on[last] {
				return nil, errors.New("exit status 1")
			}
		case strings.HasPrefix(line, "systemctl enable"):
			on[last] = true
		case strings.HasPrefix(line, "systemctl disable"):
			for _, u := range c.Args {
				delete(on, u)
			}
		case strings.HasPrefix(line, "pcs resource disable"):
			cib = halted
		case strings.HasPrefix(line, "pcs cluster destroy"):
			return nil, os.Remove(l.path(corosync.Path))
		}
		return []byte(cib), nil
	}
	job.Plan.Shrinks, job.Plan.New, job.Plan.Stage = true, replace.New{}, replace.Narrowing
	job.Order = nil
	return l, job, dressed
}

func TestOneOfTwoBecomesALoneControlPlane(t *testing.T) {
	l, job, dressed := newShrinking(t)
	do := l.world().Do
	for _, want := range []replace.Act{replace.PutPod, replace.KubeletBoot, replace.StopEtcd, replace.GivePod, replace.EndRing, replace.EndPair, replace.Dress} {
		if d := l.decides(t, job); d.Act != want {
			t.Fatalf("the decision is %+v, want %s", d, want)
		}
		for range 2 { // each may be done again
			if err := do[want](t.Context(), job); err != nil && want != replace.EndRing {
				t.Fatalf("%s: %v", want, err)
			}
		}
	}
	if d := l.decides(t, job); d.Plan == nil || d.Plan.Stage != replace.Whole || *dressed != 2 {
		t.Errorf("%+v, dressed %d times", d, *dressed)
	}
	if pod, err := os.ReadFile(l.path(kubeletsEtcd)); err != nil || string(pod) != "etcd of cp-1 at 10.98.0.11" {
		t.Errorf("kubelet has %q, %v", pod, err)
	}
	for _, c := range l.commands {
		if strings.HasPrefix(c, "systemctl stop kubelet") || strings.Contains(c, "fence") {
			t.Errorf("it ran %s", c)
		}
	}
}

// After a power cut Pacemaker may not run yet: nobody knows then whether it will start etcd.
func TestKubeletGetsEtcdOnlyOncePacemakerIsKnownNotToStartIt(t *testing.T) {
	l, job, _ := newShrinking(t)
	do := l.world().Do
	if err := errors.Join(do[replace.PutPod](t.Context(), job), do[replace.KubeletBoot](t.Context(), job)); err != nil {
		t.Fatal(err)
	}
	run := l.run
	l.run = func(ctx context.Context, c host.Cmd) ([]byte, error) {
		if c.Name == "cibadmin" {
			return nil, errors.New("Pacemaker does not run")
		}
		return run(ctx, c)
	}
	if d := l.decides(t, job); d.Act != replace.StopEtcd {
		t.Errorf("the decision is %+v", d)
	}
}

// Pacemaker is asked before the plan begins, too: its gate says what to type.
func TestAMaintenanceOfPacemakerKeepsASiteFromShrinking(t *testing.T) {
	const maintained = `<cib><configuration><crm_config><cluster_property_set id="p"><nvpair id="n" name="maintenance-mode" value="true"/></cluster_property_set></crm_config></configuration></cib>`
	l, job, _ := newShrinking(t)
	run, answer := l.run, maintained
	l.run = func(ctx context.Context, c host.Cmd) ([]byte, error) {
		if c.Name == "cibadmin" {
			return []byte(answer), nil
		}
		return run(ctx, c)
	}
	l.podman = func(context.Context) (podman.Process, error) { return podman.Process{}, errors.New("nobody knows") }
	do := l.world().Do
	if err := errors.Join(do[replace.PutPod](t.Context(), job), do[replace.KubeletBoot](t.Context(), job)); err != nil {
		t.Fatal(err)
	}
	if d := l.decides(t, job); d.Act != replace.Wait || d.Way != "sudo pcs property set maintenance-mode=false" {
		t.Errorf("the decision is %+v", d)
	}
	order := order
	order.Wish = replace.Wish{ID: "p2", Shrinks: true, Old: "cp-2"}
	for _, plan := range []*replace.Plan{nil, {ID: "p1", Shrinks: true, Old: replace.Old{Name: "cp-2"}, Stage: replace.Whole}, {ID: "p2", Shrinks: true, Old: replace.Old{Name: "cp-2"}, Stage: replace.Planned}} {
		asked := Job{Plan: plan, Order: &order}
		for _, answer = range []string{maintained, "<cib/>", "<cib>"} {
			f := l.look(t.Context(), asked)
			if state.Is(f.Maintained, true) != (answer == maintained) || f.Maintained.Known != (answer != "<cib>") {
				t.Errorf("with the plan %+v, Pacemaker says %s: %+v", plan, answer, f.Maintained)
			}
		}
	}
}

func TestAHostThatShrinksAsksNoBMCOfANewcomer(t *testing.T) {
	l, job, _ := newShrinking(t)
	order := order
	order.Wish = replace.Wish{ID: "p1", Shrinks: true, Old: "cp-2"}
	job.Order, job.Plan.Stage = &order, replace.Planned
	f := l.look(t.Context(), job)
	if f.Reached.Known || f.Device.Known || f.Account.Known || !state.Is(f.Target, false) {
		t.Errorf("%+v", f)
	}
	if err := powercut.WriteFile(l.path(replacement.TargetSitePath), []byte("{}"), 0o600); err != nil || !state.Is(l.look(t.Context(), job).Target, true) {
		t.Errorf("the site that the command wrote is not seen: %v", err)
	}
	if !f.Power.Known || !f.OldNode.Known {
		t.Errorf("nothing is known of the host that goes: %+v", f)
	}
}
