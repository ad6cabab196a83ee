package life_test

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/agent/upgrade"
	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/clusterversion"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/lab/badrelease"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/render/flannel"
)

// badness is a bad release, and what is to become of it.
type badness struct {
	kind string
	// noticed is how long it may take until the site gives it up: for a host since its switch,
	// for a part since pods of it were asked for. back is how long the way back may take then.
	noticed, back time.Duration
	// says are the words with which a person is told, any one of them.
	says []string
	// image returns the image that the pods of a part have; nil for what a host shows by itself.
	image func(tr *trial) (string, error)
	// away: clients lose the application, or a part of their requests, until the part is back.
	away bool
	// before makes the site ready; nil for nothing.
	before func(tr *trial)
	// good: the same site then goes to the good release. It does so once after a release that a
	// host gave up, and once after one whose parts were given up.
	good bool
}

// badReleaseKinds lists them. A host asks itself every few seconds, and the parachute every
// fifteen; an operator looks every ten. On a busy machine each may be late by half a minute.
// A criterion that failed counts once its time is over, 90 s for etcd and 2 min for the API
// server; one that nobody could find out counts at the deadline, after 5 min, and so does an
// agent that hangs, unless its watchdog has ended it three times before. Parts have five
// minutes, and half a minute for each host (docs/adr/0076, 0090).
func badReleaseKinds(hosts int) []badness {
	const late, hostBack = time.Minute, 6 * time.Minute
	rollout := 5*time.Minute + time.Duration(hosts)*30*time.Second
	return []badness{
		{kind: badrelease.Etcd, good: true, noticed: 90*time.Second + late, back: hostBack, says: []string{"its etcd votes"}},
		{kind: badrelease.APIServer, noticed: 2*time.Minute + late, back: hostBack, says: []string{"its API server is of the release"}},
		// systemd waits for 90 s until it ends an agent that does not hear.
		{kind: badrelease.Agent, noticed: 5*time.Minute + late, back: hostBack + 90*time.Second, says: []string{"the agent of the new release hung 3 times", "not accepted in time"}},
		// Nobody can be asked whether the old release's images lie there.
		{kind: badrelease.Containerd, noticed: 5*time.Minute + late, back: hostBack, says: []string{"not accepted"}},
		{kind: badrelease.Crashing, noticed: rollout + 2*late, back: 5 * time.Minute, says: []string{"the pod network: "}, image: (*trial).flannelImage},
		{kind: badrelease.Network, good: true, noticed: rollout + 2*late, back: 5 * time.Minute, says: []string{"answers the operator, although the host itself does"}, image: (*trial).flannelImage, away: true},
		{kind: badrelease.Routers, noticed: rollout + 2*late, back: 8 * time.Minute, says: []string{"answers 404 for "}, image: (*trial).routerImage, away: true, before: (*trial).leadsToHealth},
	}
}

// TestABadReleaseGoesBackByItself takes a site to releases that are bad on purpose. Each is
// noticed in time and goes back by itself, the host or the parts; the status, the
// ClusterVersion and an event say why; the site serves all the while, nobody is fenced and no
// acknowledged write is lost. Routers that deny everything and a pod network that leads nowhere
// are the exception: clients of the application see that before anybody, so the time of that is
// bounded. What else clients notice has the bounds of an upgrade (mostOfAnUpgrade). Twice the
// same site then goes to the good release. Both are noticed by an operator that asks: that of the
// old release for the pod network, so OLDER has to be of a commit that does (docs/adr/0090,
// decision 10).
//
// A play takes about ten minutes, with the good release twenty. One is played by its name, as in
// SCENARIOS='GoesBackByItself/a bad release: agent'.
func TestABadReleaseGoesBackByItself(t *testing.T) {
	if *badReleases == "" {
		t.Skip("bad releases are played by 'hack/test upgrade'")
	}
	s := open(t)
	for _, b := range badReleaseKinds(len(s.Lab.Layout.Hosts)) {
		if t.Failed() {
			return
		}
		playUpgrade(t, "a bad release: "+b.kind, func(tr *trial, w ways) { tr.goesBack(b, w) })
	}
}

func (tr *trial) goesBack(b badness, w ways) {
	tr.Helper()
	store, err := release.Open(filepath.Join(*badReleases, b.kind))
	if err != nil {
		tr.Fatal(err)
	}
	if b.before != nil {
		b.before(tr)
	}
	to := store.Manifest().Digest
	began := tr.Now()
	tr.says(0, append([]string{"upgrade"}, append(wanting(to, "--from-folder", path.Join(lab.StickPath, b.kind)), "--no-wait")...)...)
	if b.image == nil {
		tr.hostGoesBack(b)
	} else {
		tr.partsGoBack(b, to)
	}
	tr.Trial.Promise("until it was noticed", b.noticed)
	tr.Trial.Promise("back, once it was noticed", b.back)
	tr.toldWhy(b.says)
	tr.Noticed("", began)
	tr.outages(began)
	tr.nobodyFenced()
	tr.servedMeanwhile(b, began)

	tr.says(0, "upgrade", "rollback", "--yes")
	tr.arrive(w.from)
	tr.homeAgain(isBack, w)
	if !b.good {
		return
	}
	good := time.Now()
	tr.says(0, append([]string{"upgrade"}, tr.start(w)...)...)
	tr.arrive(w.to)
	tr.statusSays(isThere, w)
	tr.Trial.Took("to the good release", time.Since(good))
	tr.homeAgain(isThere, w)
}

// servedMeanwhile checks that clients were served. On one control plane a host that restarts
// takes the API along.
func (tr *trial) servedMeanwhile(b badness, began time.Time) {
	tr.Helper()
	switch {
	case len(tr.ControlPlanes()) < 2:
		return
	case b.away:
		loss := tr.Loss(application, began)
		tr.Trial.Promise("the application was away", b.noticed+b.back)
		tr.Trial.Took("the application was away", loss.Gap)
		if loss.Gap > b.noticed+b.back {
			tr.Errorf("%s: no answer for %s, want at most %s", application, loss.Gap, b.noticed+b.back)
		}
		tr.apiIsHardlyNoticed(began)
	default:
		tr.upgradeIsHardlyNoticed(began)
	}
	tr.noWriteGapAbove(busyGap)
}

// hostGoesBack waits until the first host gives the release up, and serves with the old one.
func (tr *trial) hostGoesBack(b badness) {
	tr.Helper()
	host := tr.atStep(parachute.Switched)
	switched := time.Now()
	tr.Logf("%s switches to the bad release", host)
	tr.Eventually(b.noticed, host+" gives the release up", func() error { return tr.isAt(host, parachute.Returning, parachute.Returned) })
	noticed := time.Now()
	tr.Trial.Took("until it was noticed", noticed.Sub(switched))
	tr.Eventually(b.back, host+" is back", func() error { return tr.isAt(host, parachute.Returned) })
	tr.Trial.Took("back, once it was noticed", time.Since(noticed))
	tr.Logf("noticed %.0f s after the switch, back %.0f s later", noticed.Sub(switched).Seconds(), time.Since(noticed).Seconds())
}

// isAt returns nil if the journal of a host has one of these steps.
func (tr *trial) isAt(host string, steps ...parachute.Step) error {
	root, err := tr.Lab.Root(tr.Context(), tr.Power, host)
	if err != nil {
		return err
	}
	j, _, err := upgrade.NewStore(root).Read()
	if err != nil {
		return err
	}
	if slices.Contains(steps, j.Step) {
		return nil
	}
	return fmt.Errorf("it is at %s since %s: %s", j.Step, j.Since.Format(time.TimeOnly), j.Why)
}

// partsGoBack waits until all hosts run the release, its pods are asked for and given up, and
// those of the old release run.
func (tr *trial) partsGoBack(b badness, to string) {
	tr.Helper()
	old, err := b.image(tr)
	if err != nil {
		tr.Fatal(err)
	}
	tr.Eventually(upgradedWithin, "pods of the bad release are asked for", func() error {
		now, err := b.image(tr)
		if err == nil && now == old {
			err = fmt.Errorf("they have %s; hosts: %w", now, tr.allRun(to))
		}
		return err
	})
	asked := time.Now()
	tr.Eventually(b.noticed, "the parts are given up", func() error { return tr.recorded(func(r annotation.Record) bool { return r.Failed != "" }) })
	noticed := time.Now()
	tr.Trial.Took("until it was noticed", noticed.Sub(asked))
	tr.Eventually(b.back, "the parts are back", func() error {
		now, err := b.image(tr)
		if err == nil && now != old {
			err = fmt.Errorf("pods have %s, want %s", now, old)
		}
		if err != nil {
			return err
		}
		st, err := tr.upgradeStatus()
		if err == nil && (!strings.Contains(st.Held, "the parts went back: ") || strings.Contains(st.Held, ". Now: ")) {
			err = fmt.Errorf("held: %q; %s: %s", st.Held, st.Phase, st.Why)
		}
		return err
	})
	tr.Trial.Took("back, once it was noticed", time.Since(noticed))
	tr.Logf("noticed %.0f s after pods were asked for, back %.0f s later", noticed.Sub(asked).Seconds(), time.Since(noticed).Seconds())
	if err := tr.allRun(to); err != nil {
		tr.Errorf("hosts stay on the new release for a person to decide: %v", err)
	}
}

// recorded reads the record of the upgrade.
func (tr *trial) recorded(is func(annotation.Record) bool) error {
	var cm corev1.ConfigMap
	if err := tr.API.Get(tr.Context(), client.ObjectKey{Namespace: annotation.RecordNamespace, Name: annotation.RecordName}, &cm); err != nil {
		return err
	}
	r, err := annotation.Decode[annotation.Record](cm.Data[annotation.RecordKey])
	if err == nil && !is(r) {
		err = fmt.Errorf("the record is %s", cm.Data[annotation.RecordKey])
	}
	return err
}

// toldWhy checks that a person is told why the release went back, wherever he looks.
func (tr *trial) toldWhy(any []string) {
	tr.Helper()
	tells := func(text string) bool {
		for _, words := range any {
			if strings.Contains(inOneLine(text), words) {
				return true
			}
		}
		return false
	}
	tr.Eventually(3*time.Minute, fmt.Sprintf("the status, the ClusterVersion and an event say one of %q", any), func() error {
		var errs []error
		if st, err := tr.upgradeStatus(); err != nil || !tells(st.Held) {
			errs = append(errs, fmt.Errorf("holdfast upgrade status says %q (%w)", st.Held, err))
		}
		return errors.Join(append(errs, tr.conditionTells(tells), tr.eventTells(tells))...)
	})
}

func (tr *trial) conditionTells(tells func(string) bool) error {
	var v configv1.ClusterVersion
	if err := tr.API.Get(tr.Context(), client.ObjectKey{Name: annotation.VersionName}, &v); err != nil {
		return err
	}
	for _, c := range v.Status.Conditions {
		if c.Type == clusterversion.Failing && c.Status == configv1.ConditionTrue && tells(c.Message) {
			return nil
		}
	}
	return fmt.Errorf("the ClusterVersion says %+v", v.Status.Conditions)
}

func (tr *trial) eventTells(tells func(string) bool) error {
	var events corev1.EventList
	if err := tr.API.List(tr.Context(), &events); err != nil {
		return err
	}
	var said []string
	for i := range events.Items {
		e := &events.Items[i]
		if e.InvolvedObject.Kind != "ClusterVersion" || e.Type != corev1.EventTypeWarning {
			continue
		}
		if tells(e.Message) {
			return nil
		}
		said = append(said, e.Message)
	}
	return fmt.Errorf("warnings about the ClusterVersion: %q", said)
}

func (tr *trial) flannelImage() (string, error) {
	var d appsv1.DaemonSet
	if err := tr.API.Get(tr.Context(), client.ObjectKey{Namespace: flannel.Namespace, Name: flannel.DaemonSet}, &d); err != nil {
		return "", err
	}
	return imageOf(d.Spec.Template.Spec, payload.ImageFlannel)
}

func (tr *trial) routerImage() (string, error) {
	var d appsv1.Deployment
	if err := tr.API.Get(tr.Context(), client.ObjectKey{Namespace: ingress.OperandNamespace, Name: ingress.RouterName(ingress.DefaultName)}, &d); err != nil {
		return "", err
	}
	return imageOf(d.Spec.Template.Spec, payload.ImageRouter)
}

// imageOf returns the full name of an image of a release in a pod.
func imageOf(spec corev1.PodSpec, name string) (string, error) {
	for _, c := range spec.Containers {
		if strings.HasPrefix(c.Image, payload.Registry+"/"+name+":") {
			return c.Image, nil
		}
	}
	return "", fmt.Errorf("no container has image %s of a release", name)
}

// leadsToHealth has the Ingress of the application lead to a path that it answers: routers are
// judged by hosts whose own pods answer, and for / this one has nothing.
func (tr *trial) leadsToHealth() {
	tr.Helper()
	tr.Eventually(time.Minute, "the Ingress leads to /health alone", func() error {
		var lead networkingv1.Ingress
		if err := tr.API.Get(tr.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: hello}, &lead); err != nil {
			return err
		}
		for i := range lead.Spec.Rules[0].HTTP.Paths {
			lead.Spec.Rules[0].HTTP.Paths[i].Path = "/health"
		}
		return tr.API.Update(tr.Context(), &lead)
	})
}
