package life_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/test/labsite"
	"github.com/holdfast/holdfast/test/labsite/load"
)

// TestHostsAreBootedUnderLoad has a person want a reboot of each host, the control
// planes first. Each waits for a program of its own that blocks shutdowns at logind, and boots
// once that has ended. A single control plane takes the API and the routers with it: what it
// shows is that all is back within a bound, that nobody is fenced, and that no acknowledged
// write is lost.
//
// It takes about three minutes for each host.
func TestHostsAreBootedUnderLoad(t *testing.T) {
	s := open(t)
	for _, h := range append(s.ControlPlanes(), workersOf(s.Site)...) {
		if t.Failed() {
			return
		}
		play(t, "reboot of "+h, func(tr *trial) { tr.reboot(h) })
	}
}

func (tr *trial) reboot(host string) {
	tr.Helper()
	tr.movesPods(host)
	before, since := tr.boot(host), tr.Now()
	if action := tr.On(host, "systemctl show --property JobTimeoutAction,JobTimeoutUSec reboot.target"); !strings.Contains(action, "=reboot-force") || strings.Contains(action, "=infinity") {
		tr.Errorf("a shutdown of %s that hangs has no end: %s", host, action)
	}
	// A new site still checks its first configuration, and the routers of one whose fencing was just tried start.
	tr.mayBegin("host", "reboot", host)
	if tr.boot(host) != before {
		tr.Errorf("%s has booted, though nobody wanted it yet", host)
	}
	tr.inhibits(host)
	wish := tr.starts("host", "reboot", host, "--reason", "the test wants it")
	tr.Eventually(rolledWithin, host+" waits with its boot for the program", func() error {
		if said := wish.said(); !strings.Contains(said, `blocked at logind by "`+inhibitor+`"`) {
			return fmt.Errorf("the command says %q", said)
		}
		return nil
	})
	if tr.boot(host) != before {
		tr.Errorf("%s has booted, though a program blocks shutdowns", host)
	}
	tr.On(host, "systemctl stop "+inhibitor)
	wish.ends(0)
	if tr.boot(host) == before {
		tr.Errorf("%s has not booted", host)
	}
	tr.Trial.Took("from the wish to its end", time.Since(since))
	if out := tr.says(0, "host", "show", host); strings.Contains(out, "the test wants it") {
		tr.Errorf("the wish is still there")
	}
	tr.asAfterPlannedBoot(host, since)
}

// inhibitor is the name of a program that is none of ours, and of its unit.
const inhibitor = "life-inhibits"

// inhibits has that program hold a lock at logind that blocks shutdowns, as the update of firmware or
// a person may. systemd before 257 would let root pass; the agent waits all the same. It ends with the
// test at the latest.
func (tr *trial) inhibits(host string) {
	tr.Helper()
	tr.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tr.Context()), time.Minute)
		defer cancel()
		_, _ = tr.Sh(ctx, host, "systemctl stop "+inhibitor) // after the boot there is none
	})
	tr.On(host, "systemd-run --quiet --collect --unit="+inhibitor+" systemd-inhibit --what=shutdown --mode=block --who="+inhibitor+" sleep 1200")
	tr.Eventually(time.Minute, "a program of "+host+" blocks shutdowns", func() error {
		held, err := tr.Sh(tr.Context(), host, "systemd-inhibit --list --no-legend --no-pager")
		if err == nil && !strings.Contains(held, inhibitor) {
			err = fmt.Errorf("the locks are %q", held)
		}
		return err
	})
}

// movesPods says which pods of the application a boot of a host moves. Where there are no
// workers and no more control planes than replicas, there must be one: what clients notice
// of the boot would show nothing of a drain.
func (tr *trial) movesPods(host string) {
	tr.Helper()
	var here, elsewhere []string
	for _, p := range tr.podsOf(hello) {
		switch {
		case p.DeletionTimestamp != nil:
		case p.Spec.NodeName == host:
			here = append(here, p.Name)
		default:
			elsewhere = append(elsewhere, p.Name+" on "+p.Spec.NodeName)
		}
	}
	switch {
	case len(here) > 0:
		tr.Logf("%s has %v of the application; elsewhere: %v", host, here, elsewhere)
	case len(workersOf(tr.Site)) == 0 && len(tr.ControlPlanes()) <= replicas:
		tr.Fatalf("%s has no pod of the application, so that its boot would drain none: %v", host, elsewhere)
	default:
		tr.Logf("NOT SHOWN: that pods of the application leave %s before it boots, since it has none: %v; WORKERS=0 on two control planes shows it", host, elsewhere)
	}
}

// settledWithin is the time that a new site gets until a host of it may boot.
const settledWithin = 3 * time.Minute

// Clients may be without an acknowledged write for this long in a planned reboot. Of a single
// control plane it is the time until the API takes writes again.
const (
	plannedGap = time.Second
	aloneGap   = 3 * time.Minute
)

// alone reports whether a host is the only control plane, which takes the API and the
// routers with it.
func (tr *trial) alone(host string) bool {
	return slices.Equal(tr.ControlPlanes(), []string{host})
}

// asAfterPlannedBoot checks what clients noticed since a moment, of a host that has
// booted in its turn.
func (tr *trial) asAfterPlannedBoot(host string, since time.Time) {
	tr.Helper()
	tr.Noticed("", since)
	most, serves := busyGap, slices.Contains(tr.ControlPlanes(), host)
	switch {
	case tr.alone(host):
		most = aloneGap
	case serves:
		most = plannedGap
	}
	if !tr.alone(host) && (serves || len(workersOf(tr.Site)) > 1) {
		tr.onlyKeptConnectionsEnd(since) // where no other host takes the application's pods, they are away meanwhile
	}
	tr.outages(since)
	tr.noWriteGapAbove(most)
	tr.nobodyFenced()
	tr.toldAsPlanned(host, since)
}

// TestHostsThatAPersonBootsUnderLoad has a person type `systemctl reboot` on each control
// plane, without a drain and without asking anybody. Of a single control plane it shows
// the same as a planned reboot.
//
// It takes about three minutes for each host.
func TestHostsThatAPersonBootsUnderLoad(t *testing.T) {
	for _, h := range open(t).ControlPlanes() {
		if t.Failed() {
			return
		}
		play(t, "systemctl reboot on "+h, func(tr *trial) { tr.bootsByHand(h) })
	}
}

func (tr *trial) bootsByHand(host string) {
	tr.Helper()
	tr.movesPods(host)
	before, since := tr.boot(host), tr.Now()
	tr.On(host, "systemctl --no-block reboot")
	tr.Eventually(rolledWithin, host+" takes pods again", func() error { return tr.booted(host, before) })
	tr.Trial.Took("from the order until it takes pods again", time.Since(since))
	tr.Logf("%s", tr.On(host, "journalctl --unit=holdfast-leave --output=cat --no-pager"))
	// The test judges the clients until two members vote again and the virtual IPs rest.
	tr.Eventually(labsite.WholeWithin, "the site is whole", func() error { return tr.Whole(tr.Context()) })
	tr.asAfterBootByHand(host, since)
}

// asAfterBootByHand checks what clients noticed since a person booted a host of a site that is whole again.
func (tr *trial) asAfterBootByHand(host string, since time.Time) {
	tr.Helper()
	tr.Trial.Took("from the order until the site is whole", time.Since(since))
	tr.Noticed("", since)
	most := aloneGap
	if !tr.alone(host) {
		most = byHandGap
		loss := tr.Record(application, since, true)
		tr.within(application, loss, load.Most{New: byHandLoses, Lost: byHandLoses, Kept: byHandLoses + loss.PerThousand(keptEnd)})
	}
	tr.outages(since)
	tr.noWriteGapAbove(most)
	tr.nobodyFenced()
}

// TestAHostThatAPersonBootsInMaintenance has a person put Pacemaker into maintenance, where it stops
// nothing, and type `systemctl reboot` on one of two control planes. Its etcd leaves in order all the
// same, and the other host writes on. The maintenance ends once Pacemaker has both hosts again: it fences
// one that is not back by then, because nobody stopped what ran there.
//
// It takes about four minutes.
func TestAHostThatAPersonBootsInMaintenance(t *testing.T) {
	const scenario = "systemctl reboot in Pacemaker's maintenance"
	hosts := open(t).ControlPlanes()
	if len(hosts) != 2 {
		leaveOut(t, scenario, "only two control planes have Pacemaker")
		return
	}
	play(t, scenario, func(tr *trial) { tr.bootsInMaintenance(hosts[0], hosts[1]) })
}

func (tr *trial) bootsInMaintenance(host, other string) {
	tr.Helper()
	tr.movesPods(host)
	before, since := tr.boot(host), tr.Now()
	tr.On(other, "pcs property set maintenance-mode=true")
	tr.On(host, "systemctl --no-block reboot")
	tr.Eventually(rolledWithin, host+" has booted", func() error { return tr.rebooted(host, before) })
	tr.Trial.Took("from the order until it has booted", time.Since(since))
	tr.Logf("%s", tr.On(host, "journalctl --unit=holdfast-leave --output=cat --no-pager"))
	if runs := tr.On(host, "systemctl is-active kubelet || true"); strings.TrimSpace(runs) == "active" {
		tr.Errorf("kubelet runs, though Pacemaker is in maintenance: this was no maintenance")
	}
	tr.Eventually(rolledWithin, "Pacemaker has "+host+" again", func() error {
		out, err := tr.Sh(tr.Context(), other, "crm_mon --one-shot --output-as=xml")
		if err == nil && !regexp.MustCompile(`<node name="`+host+`"[^>]* online="true"[^>]* pending="false"`).MatchString(out) {
			err = errors.New("it is not online")
		}
		return err
	})
	tr.On(other, "pcs property set maintenance-mode=false")
	tr.Eventually(labsite.WholeWithin, "the site is whole", func() error { return tr.Whole(tr.Context()) })
	tr.asAfterBootByHand(host, since)
}

// What clients notice when a person boots a host without a word: its pods have moved,
// and then its virtual IPs, while the shutdown waits. Without the move of the pods 2,500
// requests of the same clients failed, and without that of the virtual IPs 15.
const (
	byHandLoses = 5
	byHandGap   = 3 * time.Second
)

// booted returns nil once a host has booted since another boot, and takes pods.
func (tr *trial) booted(host, before string) error {
	if err := tr.rebooted(host, before); err != nil {
		return err
	}
	n, err := tr.node(host)
	if err == nil && (!labsite.Ready(n) || n.Spec.Unschedulable) {
		err = fmt.Errorf("it is ready: %v, cordoned: %v", labsite.Ready(n), n.Spec.Unschedulable)
	}
	return err
}

// rebooted returns nil once a host has booted since another boot.
func (tr *trial) rebooted(host, before string) error {
	if now, err := tr.Sh(tr.Context(), host, sinceWhen); err != nil || strings.TrimSpace(now) == before {
		return errors.Join(err, errors.New("it has not booted"))
	}
	return nil
}

// sinceWhen prints what tells one boot of a host from another one.
const sinceWhen = "cut -d' ' -f22 /proc/1/stat"

// boot returns what tells one boot of a host from another one. Hosts of the lab share
// a kernel, so it is when their first process began.
func (tr *trial) boot(host string) string {
	tr.Helper()
	return strings.TrimSpace(tr.On(host, sinceWhen))
}

// saysWithin is the time within which somebody is told who is in the way.
const saysWithin = 10 * time.Second

// TestADrainThatCannotEndSaysWhy has a budget in the way of a drain. The command names
// the pod, its owner and the budget, and the drain ends once the budget allows it.
//
// It takes about three minutes, on several control planes without workers.
func TestADrainThatCannotEndSaysWhy(t *testing.T) {
	const scenario = "a budget in the way of a drain"
	switch s := open(t); {
	case len(workersOf(s.Site)) > 0:
		leaveOut(t, scenario, "where there are workers, perhaps no pod of the application runs on a control plane")
		return
	case len(s.ControlPlanes()) == 1:
		leaveOut(t, scenario, "no other host takes the pods of a single one, so that nobody moves them")
		return
	}
	play(t, scenario, func(tr *trial) {
		since := tr.Now()
		pod := tr.podOf(hello)
		tr.budget(2)
		out := tr.says(3, "host", "drain", pod.Spec.NodeName, "--timeout", saysWithin.String())
		for _, want := range []string{pod.Name, "ReplicaSet", "PodDisruptionBudget " + hello} {
			if !strings.Contains(out, want) {
				tr.Errorf("it does not name %q within %s", want, saysWithin)
			}
		}
		if out := tr.says(3, "host", "list"); !strings.Contains(out, hello) {
			tr.Errorf("the list of hosts does not tell who is in the way")
		}
		tr.budget(1)
		tr.says(0, "host", "drain", pod.Spec.NodeName)
		if n, err := tr.node(pod.Spec.NodeName); err != nil || !n.Spec.Unschedulable {
			tr.Errorf("it is drained and takes pods (%v)", err)
		}
		tr.says(0, "host", "uncordon", pod.Spec.NodeName)
		tr.Eventually(time.Minute, "the host takes pods again", func() error {
			n, err := tr.node(pod.Spec.NodeName)
			if err == nil && n.Spec.Unschedulable {
				err = errors.New("it is cordoned")
			}
			return err
		})
		tr.Noticed("", since)
		tr.onlyKeptConnectionsEnd(since)
		tr.outages(since)
		tr.noWriteGapAbove(busyGap)
		tr.nobodyFenced()
	})
}

// podOf returns a pod of an application that runs on a control plane.
func (tr *trial) podOf(app string) corev1.Pod {
	tr.Helper()
	pods := tr.podsOf(app)
	for _, p := range pods {
		if slices.Contains(tr.ControlPlanes(), p.Spec.NodeName) && p.DeletionTimestamp == nil {
			return p
		}
	}
	tr.Fatalf("none of %d pods runs on a control plane", len(pods))
	return corev1.Pod{}
}

// podsOf returns the pods of an application.
func (tr *trial) podsOf(app string) []corev1.Pod {
	tr.Helper()
	var pods corev1.PodList
	if err := tr.API.List(tr.Context(), &pods, client.InNamespace("default"), client.MatchingLabels{"app": app}); err != nil {
		tr.Fatal(err)
	}
	return pods.Items
}

// nobodyEvicted checks that no pod of an application has another place than before: a host
// whose API server is away for too long counts as lost, and its pods are evicted.
func (tr *trial) nobodyEvicted(app string, before []corev1.Pod) {
	tr.Helper()
	places := func(pods []corev1.Pod) []string {
		var out []string
		for _, p := range pods {
			out = append(out, p.Name+" on "+p.Spec.NodeName)
		}
		slices.Sort(out)
		return out
	}
	if was, now := places(before), places(tr.podsOf(app)); !slices.Equal(was, now) {
		tr.Errorf("the pods of %s were %q, and are %q", app, was, now)
	}
}

// budget has the application keep so many of its pods.
func (tr *trial) budget(least int) {
	tr.Helper()
	var b policyv1.PodDisruptionBudget
	key := client.ObjectKey{Namespace: "default", Name: hello}
	tr.Eventually(time.Minute, "the budget is changed", func() error {
		if err := tr.API.Get(tr.Context(), key, &b); err != nil {
			return err
		}
		b.Spec.MinAvailable = new(intstr.FromInt(least))
		return tr.API.Update(tr.Context(), &b)
	})
	tr.Eventually(time.Minute, "the budget counts", func() error {
		if err := tr.API.Get(tr.Context(), key, &b); err != nil {
			return err
		}
		if b.Status.ObservedGeneration != b.Generation || b.Status.DesiredHealthy != int32(least) || b.Status.CurrentHealthy != 2 { // #nosec G115 -- 1 or 2
			return fmt.Errorf("its status is %+v", b.Status)
		}
		return nil
	})
}
