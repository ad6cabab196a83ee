package life_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/test/labsite"
)

// noticed is the time within which a deletion must be noticed, and mended or told.
const noticed = 10 * time.Second

// TestANodeThatSomebodyDeletesIsBackAsItWas deletes the Node of each host, also while
// the agent of a control plane is down. The Node is back within seconds, with its
// share of the pod network, and no pod was started anew.
func TestANodeThatSomebodyDeletesIsBackAsItWas(t *testing.T) {
	s := open(t)
	for _, h := range append(s.ControlPlanes(), workersOf(s.Site)...) {
		play(t, "deleted Node of "+h, func(tr *trial) { tr.deletesNode(h, noticed) })
	}
	if len(s.ControlPlanes()) < 2 {
		return
	}
	h := s.ControlPlanes()[1]
	play(t, "deleted Node of "+h+" without its agent", func(tr *trial) {
		tr.On(h, "systemctl stop holdfast-agent")
		defer func() { tr.On(h, "systemctl start holdfast-agent") }()
		tr.deletesNode(h, noticed)
	})
}

func (tr *trial) deletesNode(host string, within time.Duration) {
	tr.Helper()
	was, err := tr.node(host)
	if err != nil {
		tr.Fatal(err)
	}
	pods, since := tr.podsOn(host), tr.Now()
	if err := tr.API.Delete(tr.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: host}}); err != nil {
		tr.Fatal(err)
	}
	tr.Eventually(within, "the Node is back", func() error {
		is, err := tr.node(host)
		if err != nil {
			return err
		}
		return sameNode(was, is)
	})
	tr.Trial.Took("until the Node is back", time.Since(since))
	tr.Eventually(time.Minute, "the Node is ready", func() error { return tr.NodesReady(tr.Context(), append(tr.ControlPlanes(), workersOf(tr.Site)...)...) })
	tr.remains("no pod is started anew", func() error {
		now := tr.podsOn(host)
		for name, uid := range pods {
			if now[name] != uid {
				return fmt.Errorf("pod %s is %q, was %s", name, now[name], uid)
			}
		}
		return nil
	})
	tr.Noticed("", since)
	tr.NothingFailed("Node deleted", since, application)
	tr.nobodyFenced()
}

// sameNode says in what a Node differs from what it was.
func sameNode(was, is *corev1.Node) error {
	var errs []error
	if is.UID == was.UID {
		errs = append(errs, errors.New("it is not deleted yet"))
	}
	if !slices.Equal(is.Spec.PodCIDRs, was.Spec.PodCIDRs) {
		errs = append(errs, fmt.Errorf("its share of the pod network is %v, was %v", is.Spec.PodCIDRs, was.Spec.PodCIDRs))
	}
	if !maps.Equal(is.Labels, was.Labels) {
		errs = append(errs, fmt.Errorf("its labels are %v, were %v", is.Labels, was.Labels))
	}
	return errors.Join(errs...)
}

// podsOn returns the UIDs of the pods on a host that no static manifest makes.
func (tr *trial) podsOn(host string) map[string]string {
	tr.Helper()
	var list corev1.PodList
	if err := tr.API.List(tr.Context(), &list, client.MatchingFields{"spec.nodeName": host}); err != nil {
		tr.Fatal(err)
	}
	out := map[string]string{}
	for i := range list.Items {
		p := &list.Items[i]
		if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; !mirror && p.Status.Phase == corev1.PodRunning {
			out[p.Namespace+"/"+p.Name] = string(p.UID)
		}
	}
	return out
}

// TestCorosyncsFilesThatSomebodyDeletesAreToldAndPutBackByAPerson deletes corosync.conf
// and its key on one of two hosts. Corosync runs on; the status says within seconds
// what to type, and nobody is fenced. After the command nothing is left to say.
func TestCorosyncsFilesThatSomebodyDeletesAreToldAndPutBackByAPerson(t *testing.T) {
	s := onTwo(t)
	h := s.ControlPlanes()[1]
	play(t, "deleted files of Corosync", func(tr *trial) {
		before, since := tr.On(h, "sha256sum /etc/corosync/corosync.conf /etc/corosync/authkey"), tr.Now()
		tr.hasCopies(h)
		tr.On(h, "rm /etc/corosync/corosync.conf /etc/corosync/authkey")
		tr.Eventually(noticed, "the host says what is missing", func() error { return tr.misses(h, "corosync.conf") })
		tr.Trial.Took("until it is told", time.Since(since))
		tr.tells(3, []string{"on " + h + ": corosync.conf is gone", "holdfast-agent two-node put-back"}, "status")
		tr.On(h, "holdfast-agent two-node put-back")
		if after := tr.On(h, "sha256sum /etc/corosync/corosync.conf /etc/corosync/authkey"); after != before {
			tr.Errorf("the files are others: %s, were %s", after, before)
		}
		tr.Eventually(noticed, "nothing is missing any more", func() error { return tr.misses(h, "") })
		tr.Eventually(time.Minute, "the site is whole", func() error { return tr.Whole(tr.Context()) })
		tr.NothingFailed("Corosync's files", since, application)
		tr.nobodyFenced()
	})
}

// TestAHostThatSomebodyRemovesFromCorosyncIsNeverTakenForOff takes the peer out of
// corosync.conf on one of two hosts and has Corosync read it. That is what "pcs cluster
// node remove" does on a host that stays; pcs itself refuses, for no host of ours has
// an account at pcsd. Corosync of the other one loses it, and that one has it
// fenced. Alone with a list of itself the host starts no etcd: there is no second
// history, and no acknowledged write is lost. A person has the list put back, and both
// are a pair again.
func TestAHostThatSomebodyRemovesFromCorosyncIsNeverTakenForOff(t *testing.T) {
	s := onTwo(t)
	typed, removed := s.ControlPlanes()[0], s.ControlPlanes()[1]
	play(t, "peer removed from corosync.conf", func(tr *trial) {
		tr.hasCopies(typed)
		since := tr.Now()
		// The host may be fenced before the command ends.
		out, err := tr.Sh(tr.Context(), typed, `perl -0pi -e 's/\n\s*node \{[^}]*\bname: `+removed+`\b[^}]*\}//' /etc/corosync/corosync.conf && timeout 60 corosync-cfgtool -R`)
		tr.Logf("%s: %v", strings.TrimSpace(out), err)
		tr.Eventually(noticed+5*time.Second, "it is told", func() error {
			if tr.found(standing.DeletedOnHost, typed)+tr.found(standing.NodeOffline, typed)+tr.found(standing.NodeCountMismatch, "") == "" {
				return errors.New("the status says nothing")
			}
			return nil
		})
		tr.Trial.Took("until it is told", time.Since(since))
		tr.spared(removed, since)
		tr.Eventually(5*time.Minute, typed+" says that its list is another one", func() error { return tr.misses(typed, "corosync.conf lists "+typed) })
		tr.remains("no second etcd takes writes", func() error {
			r, err := tr.Etcd(tr.Context(), typed)
			if err != nil {
				return nil //nolint:nilerr // it does not run, as it should
			}
			if r.Snapshot.Record.Value.State.Leads() && !state.Is(r.Snapshot.Pacemaker.Contact, true) && state.Is(r.Snapshot.Local.Running, true) {
				o, err := tr.Etcd(tr.Context(), removed)
				if err == nil && state.Is(o.Snapshot.Local.Running, true) && o.Snapshot.Record.Value.State.Leads() {
					return fmt.Errorf("both went on alone: %s and %s", r.Verdict.Rule, o.Verdict.Rule)
				}
			}
			return nil
		})
		tr.On(typed, "holdfast-agent two-node put-back")
		tr.Eventually(5*time.Minute, "the site is whole again", func() error { return tr.Whole(tr.Context()) })
		tr.Eventually(time.Minute, "nothing is missing any more", func() error { return tr.misses(typed, "") })
		tr.spared(removed, since) // the other one may have been off before, and tells now
		tr.outages(since)
	})
}

// spared checks that nobody fenced a host since a moment, nor asked its BMC to.
func (tr *trial) spared(host string, since time.Time) {
	tr.Helper()
	if list, err := tr.Fenced(tr.Context(), since); err != nil || slices.Contains(list, host) {
		tr.Errorf("%s, which runs, was fenced: %v %v", host, list, err)
	}
	cuts, err := tr.Resets(tr.log, labsite.ForceOff)
	if err != nil || slices.ContainsFunc(cuts, func(r labsite.Reset) bool { return r.Host == host }) {
		tr.Errorf("the BMC of %s, which runs, was asked to cut its power: %v %v", host, cuts, err)
	}
}

// TestAnEmptiedConfigurationOfPacemakerIsSetBackByItself erases Pacemaker's
// configuration. It is whole again within seconds, with what a person had in it; etcd
// of both hosts runs again from its own data, and nobody is fenced.
func TestAnEmptiedConfigurationOfPacemakerIsSetBackByItself(t *testing.T) {
	s := onTwo(t)
	h := s.ControlPlanes()[0]
	play(t, "emptied CIB", func(tr *trial) {
		tr.On(h, "pcs resource create theirs ocf:pacemaker:Dummy --no-default-ops --disabled; pcs property set cluster-delay=61s")
		defer func() {
			_, _ = tr.Sh(tr.Context(), h, "pcs resource delete theirs --force; pcs property unset cluster-delay")
		}()
		tr.Eventually(2*time.Minute, "there is a copy with what a person had in it", func() error {
			_, err := tr.Sh(tr.Context(), h, "grep -q theirs /etc/holdfast/kept/var/lib/pacemaker/cib/cib.xml")
			return err
		})
		since := tr.Now()
		tr.On(h, "cibadmin --erase --force")
		tr.Eventually(noticed, "it is set back", func() error {
			out, err := tr.Sh(tr.Context(), h, "pcs resource config; pcs property config")
			if err != nil {
				return err
			}
			for _, part := range []string{"etcd-clone", "kubelet-clone", "theirs", "cluster-delay"} {
				if !strings.Contains(out, part) {
					return fmt.Errorf("%s is missing", part)
				}
			}
			return nil
		})
		tr.Trial.Took("until it is set back", time.Since(since))
		tr.Eventually(2*time.Minute, "the site is whole", func() error { return tr.Whole(tr.Context()) })
		tr.Trial.Took("until the site is whole", time.Since(since))
		tr.outages(since)
		tr.noWriteGapAbove(time.Minute)
		tr.nobodyFenced()
	})
}

// TestManifestsThatSomebodyMovesAreBack moves all static manifests of a control plane
// away, and then those of all of them at once.
func TestManifestsThatSomebodyMovesAreBack(t *testing.T) {
	s := open(t)
	play(t, "moved manifests", func(tr *trial) {
		for _, hosts := range [][]string{s.ControlPlanes()[:1], s.ControlPlanes()} {
			since := tr.Now()
			for _, h := range hosts {
				tr.hasCopies(h)
				tr.On(h, "mkdir -p /root/moved && mv /etc/kubernetes/manifests/kube-*.yaml /root/moved/")
			}
			for _, h := range hosts {
				tr.Eventually(noticed+5*time.Second, "the manifests of "+h+" are back", func() error {
					_, err := tr.Sh(tr.Context(), h, "for f in /root/moved/*.yaml; do cmp $f /etc/kubernetes/manifests/$(basename $f) || exit 1; done")
					return err
				})
			}
			tr.Trial.Took("until they are back", time.Since(since))
			tr.Eventually(3*time.Minute, "the site is whole", func() error { return tr.Whole(tr.Context()) })
			tr.outages(since)
			tr.nobodyFenced()
		}
	})
}

// onTwo returns a site of two control planes.
func onTwo(t *testing.T) *site {
	t.Helper()
	s := open(t)
	if len(s.ControlPlanes()) != 2 {
		t.Skip("Pacemaker runs etcd of two control planes alone")
	}
	return s
}

// hasCopies waits until the agent of a host has copies of its files.
func (tr *trial) hasCopies(host string) {
	tr.Helper()
	tr.Eventually(2*time.Minute, host+" has copies of its files", func() error {
		_, err := tr.Sh(tr.Context(), host, "test -s /etc/holdfast/kept/etc/kubernetes/manifests/kube-scheduler.yaml && { test ! -e /etc/corosync/authkey || test -s /etc/holdfast/kept/etc/corosync/corosync.conf; }")
		return err
	})
}

// misses returns nil if the agent of a host reports a missing thing with these words, or, if
// they are empty, reports nothing.
func (tr *trial) misses(host, words string) error {
	text, err := tr.ReadFile(tr.Context(), host, state.DeletedStatusPath)
	if err != nil {
		return err
	}
	var s state.DeletedStatus
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	for _, l := range s.Lost {
		if words != "" && strings.Contains(l.Problem, words) {
			return nil
		}
	}
	if words == "" && len(s.Lost) == 0 {
		return nil
	}
	return fmt.Errorf("it misses %+v", s.Lost)
}
