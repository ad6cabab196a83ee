package life_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/agent/upgrade"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hostfiles"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/lab/badrelease"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
	"github.com/holdfast/holdfast/test/labsite"
	"github.com/holdfast/holdfast/test/labsite/load"
)

var (
	stick = flag.String("stick", "", "directory of a later release than that of the program: upgrades are played to it")
	// badReleases has the good one, too.
	badReleases = flag.String("bad", "", "directory that hack/bad-release made of that release: it is the stick of the lab then")
)

// plugged returns the directory that the lab has as a stick, and the folder in which hosts
// find the release there.
func plugged() (dir, folder string) {
	if *badReleases == "" {
		return *stick, lab.StickPath
	}
	return *badReleases, path.Join(lab.StickPath, badrelease.Good)
}

// upgradedWithin bounds a way of all hosts to another release.
const upgradedWithin = 40 * time.Minute

// ways are the two releases of an upgrade, by their digests.
type ways struct{ from, to string }

// playUpgrade plays a scenario on a site that may be upgraded.
func playUpgrade(t *testing.T, scenario string, do func(*trial, ways)) {
	t.Helper()
	if *stick == "" {
		t.Skip("upgrades are played by 'hack/test upgrade'")
	}
	var w ways
	for dir, digest := range map[string]*string{*stick: &w.to, filepath.Join(filepath.Dir(*program), "..", "release"): &w.from} {
		store, err := release.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		*digest = store.Manifest().Digest
	}
	play(t, scenario, func(tr *trial) {
		tr.hasStick()
		tr.Eventually(5*time.Minute, "each host tells its release", func() error { return tr.allRun(w.from) })
		do(tr, w)
	})
}

// hasStick ends the test on a lab that was brought up with another stick: nobody can plug in
// one later.
func (tr *trial) hasStick() {
	tr.Helper()
	dir, _ := plugged()
	want, err := filepath.Abs(dir)
	if err != nil {
		tr.Fatal(err)
	}
	if has := tr.Lab.Options.Stick; has != want {
		tr.Fatalf("lab %s has the stick %q, want %q: take it down, it is brought up anew", tr.LabName(), has, want)
	}
}

// oneIn is the share of requests to the application that an upgrade may cost, of those on
// connections of their own as of those on kept connections that did not end: both hosts, their
// clients and two releases share two processors, and kubelet and containerd start anew on each
// host. In two whole plays 251 of 184,000 new ones and 1 of 180,652 failed (docs/facts/upgrades.md);
// between them the router got as much processor time as the API's balancer.
const oneIn = 10_000

// mostOfAnUpgrade is what a client of the application may notice of one. Its kept connections end
// together when the virtual IP leaves a host, as in a planned boot.
func mostOfAnUpgrade(l load.Loss) load.Most {
	few := l.Requests / oneIn
	return load.Most{New: few, Lost: few, Kept: few + l.PerThousand(keptEnd)}
}

// upgradeIsHardlyNoticed checks what clients noticed since a moment: of the application, and of the
// API, whose servers end on each host in its turn as in a planned boot.
func (tr *trial) upgradeIsHardlyNoticed(since time.Time) {
	tr.Helper()
	app := tr.Loss(application, since)
	tr.within(application, app, mostOfAnUpgrade(app))
	tr.apiIsHardlyNoticed(since)
}

func (tr *trial) apiIsHardlyNoticed(since time.Time) {
	tr.Helper()
	server := tr.Loss(api, since)
	tr.within(api, server, mostOfAPI(server, apiLoses))
}

func TestWhatAnUpgradeMayCostItsClients(t *testing.T) {
	app, server := mostOfAnUpgrade, func(l load.Loss) load.Most { return mostOfAPI(l, apiLoses) }
	for what, c := range map[string]struct {
		most func(load.Loss) load.Most
		loss load.Loss
		want bool
	}{
		"a whole play of 2026-11-30":         {app, load.Loss{FailedKept: 81, Ended: 81}, true},
		"13 on connections of their own":     {app, load.Loss{FailedNew: 13}, true},
		"14 on connections of their own":     {app, load.Loss{FailedNew: 14}, false},
		"13 kept ones that did not end":      {app, load.Loss{FailedKept: 13}, true},
		"14 kept ones that did not end":      {app, load.Loss{FailedKept: 14}, false},
		"291 kept ones that ended":           {app, load.Loss{FailedKept: 291, Ended: 291}, true},
		"292 kept ones that ended":           {app, load.Loss{FailedKept: 292, Ended: 292}, false},
		"a wrong answer":                     {app, load.Loss{FailedNew: 1, Wrong: 1}, false},
		"the API in that play":               {server, load.Loss{FailedKept: 77, Ended: 77}, true},
		"the API, 139 of their own":          {server, load.Loss{FailedNew: 139}, true},
		"the API, 140 of their own":          {server, load.Loss{FailedNew: 140}, false},
		"the API, 278 kept ones":             {server, load.Loss{FailedKept: 278}, true},
		"the API, 279 kept ones":             {server, load.Loss{FailedKept: 279, Ended: 279}, false},
		"the API, another one's certificate": {server, load.Loss{FailedNew: 1, Wrong: 1}, false},
		"nobody noticed anything":            {app, load.Loss{}, true},
	} {
		c.loss.Requests, c.loss.Failed = 139_140, c.loss.FailedNew+c.loss.FailedKept
		if err := c.loss.Within(c.most(c.loss)); (err == nil) != c.want {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestAnUpgradeUnderLoad takes a site to another release, back, there again, and closes
// the way back. Clients hardly notice: each host ends kept connections, and next to no
// other request fails. Nobody is without an acknowledged write for longer than busyGap.
func TestAnUpgradeUnderLoad(t *testing.T) {
	playUpgrade(t, "an upgrade", func(tr *trial, w ways) {
		since, files := tr.Now(), map[string]string{w.from: tr.haveFiles()}
		for _, way := range []struct {
			what string
			goal string
			args []string
		}{
			{"there", w.to, tr.start(w)},
			{"back", w.from, []string{"rollback", "--yes"}},
			{"there again", w.to, tr.start(w)},
		} {
			began := time.Now()
			tr.says(0, append([]string{"upgrade"}, way.args...)...)
			tr.arrive(way.goal)
			tr.Trial.Took(way.what, time.Since(began))
			tr.Logf("%s: %.0f s", way.what, time.Since(began).Seconds())
			tr.Noticed(way.what, began)
			switch now := tr.haveFiles(); {
			case files[way.goal] == "":
				files[way.goal] = now
			case files[way.goal] != now:
				tr.Errorf("%s: hosts have other files than before in this release:\n%s", way.what, now)
			}
		}
		if files[w.from] == files[w.to] {
			tr.Error("both releases bring hosts the same files: make OLDER anew with hack/older-release")
		}
		began := time.Now()
		tr.says(0, "upgrade", "commit", "--yes")
		tr.Eventually(10*time.Minute, "the upgrade is complete", func() error { return tr.completed(w.to) })
		tr.Trial.Took("commit", time.Since(began))
		tr.Noticed("commit", began)
		tr.haveArguments()

		tr.outages(since)
		tr.nobodyFenced()
		if len(tr.ControlPlanes()) > 1 {
			tr.upgradeIsHardlyNoticed(since)
			tr.noWriteGapAbove(busyGap)
		}
	})
}

// haveFiles checks that each host has the files that the release that it runs brings, and returns
// them.
func (tr *trial) haveFiles() string {
	tr.Helper()
	var all strings.Builder
	for _, h := range tr.Lab.Layout.Hosts {
		var files []hostfiles.File
		if err := json.Unmarshal([]byte(tr.On(h.Name, "holdfast-agent parachute --files")), &files); err != nil || len(files) == 0 {
			tr.Fatalf("%s: what its release brings: %d files, %v", h.Name, len(files), err)
		}
		for _, f := range files {
			if has := tr.On(h.Name, "cat "+f.Path); strings.TrimSpace(has) != strings.TrimSpace(string(f.Data)) {
				tr.Errorf("%s: %s is not what its release brings, but\n%s", h.Name, f.Path, has)
			}
			fmt.Fprintf(&all, "%s %s\n%s\n", h.Name, f.Path, f.Data)
		}
	}
	return all.String()
}

// haveArguments checks that the static pods of each control plane, and kubeadm's configuration
// for those that join, have the arguments of this release.
func (tr *trial) haveArguments() {
	tr.Helper()
	for _, h := range tr.ControlPlanes() {
		for program, args := range kubeadm.Arguments() {
			pod := tr.On(h, "cat /etc/kubernetes/manifests/"+program+".yaml")
			for name, value := range args {
				if !strings.Contains(pod, "- --"+name+"="+value+"\n") {
					tr.Errorf("%s: %s is not started with --%s=%s:\n%s", h, program, name, value, pod)
				}
			}
		}
	}
	joins := tr.On(tr.ControlPlanes()[0], "kubectl --kubeconfig /etc/kubernetes/admin.conf -n kube-system get configmap kubeadm-config -o yaml")
	for _, args := range kubeadm.Arguments() {
		for name := range args {
			if !strings.Contains(joins, "name: "+name+"\n") {
				tr.Errorf("a control plane that joins has no --%s:\n%s", name, joins)
			}
		}
	}
}

// upgradeSteps are the steps of a host's way, there and back, at which it is disturbed. With
// each of two control planes as the one that suffers these are sixteen moments.
var upgradeSteps = []parachute.Step{
	parachute.Prepare, parachute.Leave, parachute.Armed, parachute.Switched, parachute.Started, parachute.Proving, parachute.Accepted, parachute.Returning,
}

// upgradeCut is a moment of an upgrade at which a power cut strikes.
type upgradeCut struct {
	step parachute.Step
	// other: the other control plane loses its power, not the one at work.
	other bool
}

func (c upgradeCut) String() string {
	who := "the host at work"
	if c.other {
		who = "the other host"
	}
	return fmt.Sprintf("power of %s cut at step %s of an upgrade", who, c.step)
}

// TestAnUpgradeSurvivesPowerCuts cuts the power of a control plane at each step of a
// host's way, there and back. The upgrade ends at one of the two releases on all hosts,
// or says why it waits and then goes back; no acknowledged write is lost.
func TestAnUpgradeSurvivesPowerCuts(t *testing.T) {
	var missed misses
	defer func() { missed.tell(t) }()
	for _, other := range []bool{false, true} {
		for _, step := range upgradeSteps {
			c := upgradeCut{step, other}
			if t.Failed() {
				return
			}
			missed.aim(t, c.String(), func(s *shot) {
				playUpgrade(t, c.String(), func(tr *trial, w ways) { s.played, s.hit = true, tr.cutUpgrade(c, w) })
			})
		}
	}
}

// cutUpgrade cuts the power once at a step. It returns false if the step was over by then.
func (tr *trial) cutUpgrade(c upgradeCut, w ways) (hit bool) {
	tr.Helper()
	began := tr.Now()
	atWork := tr.onItsWay(c.step, w)
	victim := atWork
	if c.other {
		victim = tr.peer(atWork)
	}
	tr.Inject(lab.Fault{Host: victim, Kind: lab.FaultReset})
	tr.Logf("%s loses its power, %s is at %s", victim, atWork, c.step)
	cut := time.Now()
	hit = tr.hits(atWork, victim, func(root string) error {
		j, _, err := upgrade.NewStore(root).Read()
		if err == nil && j.Step != c.step {
			err = fmt.Errorf("%w: it was at %s", errOver, j.Step)
		}
		return err
	})
	end := tr.outcome(w, c.step == parachute.Returning, cut)
	tr.Trial.Took("until it "+end, time.Since(cut))
	tr.Logf("%.0f s after the cut the upgrade %s", time.Since(cut).Seconds(), end)
	tr.Noticed("", began)
	tr.homeAgain(end, w)
	return hit
}

// onItsWay begins an upgrade, and waits until a control plane is at a step of it, or of the
// way back. It returns that host.
func (tr *trial) onItsWay(step parachute.Step, w ways) string {
	tr.Helper()
	tr.says(0, append([]string{"upgrade"}, append(tr.start(w), "--no-wait")...)...)
	if step == parachute.Returning {
		tr.arrive(w.to)
		tr.says(0, "upgrade", "rollback", "--yes", "--no-wait")
	}
	return tr.atStep(step)
}

// outcome waits until an upgrade ends, or says why it waits, and returns which of both. What
// says at once that it waits may wait for a host that boots.
func (tr *trial) outcome(w ways, returning bool, since time.Time) (end string) {
	tr.Helper()
	tr.Eventually(upgradedWithin, "the upgrade ends, or says why it waits", func() (err error) {
		if end, err = tr.ended(w, returning); err == nil && end == waits && time.Since(since) < 3*time.Minute {
			return errors.New("it waits, perhaps for the host that boots")
		}
		return err
	})
	return end
}

// homeAgain takes the site back to the release from which the next play begins. Hosts have the
// files of the release that they run, here and there, whatever was cut.
func (tr *trial) homeAgain(end string, w ways) {
	tr.Helper()
	if end == isThere {
		tr.haveFiles()
	}
	if end != isBack {
		tr.says(0, "upgrade", "rollback", "--yes")
		tr.arrive(w.from)
	}
	tr.Eventually(10*time.Minute, "no upgrade is under way", func() error { return tr.completed(w.from) })
	tr.haveFiles()
}

// How an upgrade ended: with all hosts at the new release, at the old one and no upgrade any
// more, or waiting for a person.
const (
	isThere = "is there"
	isBack  = "is back"
	waits   = "waits"
)

// ended says how an upgrade ended.
func (tr *trial) ended(w ways, returning bool) (string, error) {
	errThere, errBack := tr.allRun(w.to), tr.allRun(w.from)
	switch {
	case errThere == nil && !returning:
		return isThere, nil
	case errBack == nil && tr.completed(w.from) == nil:
		return isBack, nil
	}
	// A host that went back may try again by itself: what holds the upgrade is what counts.
	s, err := tr.upgradeStatus()
	if err == nil && !returning && heldByReturn(s) {
		return waits, nil
	}
	return "", fmt.Errorf("there: %w; back: %w; held: %q (%w)", errThere, errBack, s.Held, err)
}

// start returns the words with which a person begins the upgrade.
func (tr *trial) start(w ways) []string {
	_, folder := plugged()
	return wanting(w.to, "--from-folder", folder)
}

// wanting returns the words with which a person wants a release, from a source.
func wanting(digest, from, source string) []string {
	return []string{
		"start", digest, from, source, "--soak", "off", "--yes", "--by", "lab",
		"--skip", "clock-source=hosts of the lab have one clock", "--skip", "deprecated-apis=this site is minutes old",
	}
}

// arrive waits until all hosts run a release. A host that went back for good keeps the site from
// that until a person decides, and nobody waits for one.
func (tr *trial) arrive(digest string) {
	tr.Helper()
	var stuck error
	var held time.Time
	tr.Eventually(upgradedWithin, "all hosts run release "+digest, func() error {
		err := tr.allRun(digest)
		s, failed := tr.upgradeStatus()
		switch {
		case err == nil || failed != nil || !heldByReturn(s):
			held = time.Time{}
		case held.IsZero():
			held = time.Now()
		case time.Since(held) > time.Minute: // a wish that has just come is not seen by all yet
			stuck = fmt.Errorf("it waits for a person: %s; %w", s.Held, err)
			return nil
		}
		return err
	})
	if stuck != nil {
		tr.Fatal(stuck)
	}
}

// allRun returns which host does not run a release, or is on a way.
func (tr *trial) allRun(digest string) error {
	var errs []error
	for _, h := range append(tr.ControlPlanes(), workersOf(tr.Site)...) {
		n, err := tr.node(h)
		if err != nil {
			return err
		}
		said, err := annotation.Decode[annotation.Host](n.Annotations[annotation.HostOf])
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", h, err))
		case said.Facts.Release.Value != digest:
			errs = append(errs, fmt.Errorf("%s runs %s", h, said.Facts.Release.Value))
		case !said.Journal.Step.AtRest():
			errs = append(errs, fmt.Errorf("%s is at %s", h, said.Journal.Step))
		case !labsite.Ready(n) || n.Spec.Unschedulable:
			errs = append(errs, fmt.Errorf("%s takes no pods", h))
		}
	}
	return errors.Join(errs...)
}

// completed returns why the site does not count as one of a release with no upgrade
// under way.
func (tr *trial) completed(digest string) error {
	var v configv1.ClusterVersion
	if err := tr.API.Get(tr.Context(), client.ObjectKey{Name: annotation.VersionName}, &v); err != nil {
		return err
	}
	if len(v.Status.History) == 0 {
		return errors.New("the ClusterVersion has no history")
	}
	h := v.Status.History[0]
	if h.State != configv1.CompletedUpdate || !strings.HasSuffix(h.Image, strings.TrimPrefix(digest, "sha256:")) {
		return fmt.Errorf("the newest of the history is %s of %s", h.State, h.Image)
	}
	return tr.allRun(digest)
}

// journals returns where control planes keep the journals of their ways, and what those say now.
func (tr *trial) journals() (map[string]upgrade.Store, map[string]parachute.Journal) {
	tr.Helper()
	stores, now := map[string]upgrade.Store{}, map[string]parachute.Journal{}
	for _, h := range tr.ControlPlanes() {
		root, err := tr.Lab.Root(tr.Context(), tr.Power, h)
		if err != nil {
			tr.Fatal(err)
		}
		stores[h] = upgrade.NewStore(root)
		now[h], _, _ = stores[h].Read() // one that cannot be read now is read again
	}
	return stores, now
}

// atStep waits until a control plane is at a step of its way, and returns it.
func (tr *trial) atStep(step parachute.Step) string {
	tr.Helper()
	stores, before := tr.journals()
	found, last := "", map[string]parachute.Step{}
	err := labsite.Until(tr.Context(), upgradedWithin, 5*time.Millisecond, func() error {
		for h, s := range stores {
			j, _, err := s.Read()
			if err != nil {
				continue
			}
			if last[h] = j.Step; j.Step == step && (!step.AtRest() || j.Upgrade != before[h].Upgrade) {
				found = h
				return nil
			}
		}
		return fmt.Errorf("no host was at %s, last: %v", step, last)
	})
	if err != nil {
		tr.Fatal(err)
	}
	return found
}
