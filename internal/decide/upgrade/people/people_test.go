package people

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/clusterversion"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

var (
	noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	// Three releases.
	r1, r2, r3 = "sha256:" + strings.Repeat("1", 64), "sha256:" + strings.Repeat("2", 64), "sha256:" + strings.Repeat("3", 64)
)

// site is a site that a test changes before it is read.
type site struct {
	version *configv1.ClusterVersion
	record  *cluster.Record
	// plan says which plan changes the control planes.
	plan  string
	hosts []annotation.Host
	// backups is what hosts tell of their backups.
	backups map[string]backup.Summary
}

// aSite returns a healthy site of two control planes and two workers with R1, on which R2
// lies too.
func aSite() site {
	v := func(text string) gate.Version {
		out, err := gate.ParseVersion(text)
		if err != nil {
			panic(err)
		}
		return out
	}
	formats := map[string]gate.Format{"record": {Reads: gate.Range{Min: 1, Max: 1}, Writes: 1}}
	from := gate.Release{Name: "Holdfast 0.8.0", Digest: r1, Version: v("0.8.0"), Verified: true, Kubernetes: v("1.35.4"), Etcd: v("3.6.14"), LeastEtcd: v("3.6.12"), Formats: formats, Steps: gate.Range{Min: 1, Max: 1}, Network: "n1"}
	to := from
	to.Name, to.Digest, to.Version, to.Least, to.Kubernetes = "Holdfast 0.9.0", r2, v("0.9.0"), v("0.8.0"), v("1.36.3")
	s := site{version: &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: annotation.VersionName, Annotations: map[string]string{}}}}
	s.version.Status.History = []configv1.UpdateHistory{{State: configv1.CompletedUpdate, Image: "registry.example/release@" + r1, Version: "0.8.0", StartedTime: metav1.NewTime(noon.Add(-90 * 24 * time.Hour)), CompletionTime: &metav1.Time{Time: noon.Add(-89 * 24 * time.Hour)}}}
	for _, name := range []string{"cp-1", "cp-2", "w-1", "w-2"} {
		h := annotation.Host{At: noon, Release: from, Offered: []gate.Release{to}}
		h.Facts = gate.Host{Name: name, Release: state.Known(r1), Whole: state.Known([]string{r1, r2}), Steps: state.Known(gate.Range{Min: 1, Max: 1}), Written: state.Known(map[string]int{"record": 1}), Proxy: state.Known(v("1.35.4")), Disks: state.Known([]gate.Disk{{Path: "/opt", Free: 9 << 30, Need: 1 << 30, Line: 1 << 30}}), Synchronised: state.Known(true), Offset: state.Known(time.Duration(0)), Edited: state.Known([]string{})}
		if name[0] == 'c' {
			h.Facts.APIServer, h.Facts.Emulates = state.Known(v("1.35.4")), state.Known(v("1.35.0"))
			h.Facts.Certificates = state.Known([]gate.Certificate{{Name: "apiserver", Ends: noon.Add(300 * 24 * time.Hour)}})
		}
		s.hosts = append(s.hosts, h)
	}
	s.backups = map[string]backup.Summary{"cp-1": {}, "cp-2": {Kept: []backup.Brief{{ID: "b", Taken: noon.Add(-2 * time.Hour), Good: true, Release: r1}}}}
	return s
}

// asked is a site on which the operator has asked cp-1 for the only backup, and waits for it.
func (s *site) asked(cp1 backup.Summary, why string) *site {
	s.underWay(0).record.Backup = cluster.BackupWish{Host: "cp-1", Text: "2026-11-24T11:50:00Z before-upgrade"}
	s.backups = map[string]backup.Summary{"cp-1": cp1, "cp-2": {}}
	return s.said(cluster.Step{Phase: cluster.Checked, Do: cluster.Pause, Why: "backup: there is no good backup that was taken with Holdfast 0.8.0; cp-1 was asked for one at 2026-11-24T11:50:00Z, and " + why})
}

// takesOne and madeNone are what a host tells that takes a backup, and that made no good one.
var (
	takesOne = backup.Summary{Doing: &backup.Doing{Reason: "before-upgrade"}}
	madeNone = backup.Summary{Asked: "2026-11-24T11:50:00Z before-upgrade", Answer: backup.Answer{Failed: "the disk is full"}}
)

// wants lets a person want a release.
func (s *site) wants(digest string) *site {
	s.version.Spec.DesiredUpdate = &configv1.Update{Image: digest}
	return s
}

// said lets the operator say what it does.
func (s *site) said(step cluster.Step) *site {
	upgradeable := gate.Condition{Status: metav1.ConditionTrue, Reason: "AsExpected"}
	s.version.Status.Conditions = clusterversion.Conditions(nil, step, upgradeable, metav1.ConditionTrue, metav1.NewTime(noon))
	return s
}

// underWay begins an upgrade, of which the first hosts have arrived.
func (s *site) underWay(arrived int) *site {
	s.record = &cluster.Record{Upgrade: "u1", From: r1, To: r2, Started: true}
	s.version.Status.History = append([]configv1.UpdateHistory{{State: configv1.PartialUpdate, Image: r2, Version: "0.9.0", StartedTime: metav1.NewTime(noon.Add(-time.Hour)), AcceptedRisks: "ann skipped backup"}}, s.version.Status.History...)
	for i := range arrived {
		h := &s.hosts[i]
		h.Facts.Release, h.Journal = state.Known(r2), parachute.Journal{Upgrade: "u1", From: r1, To: r2, Step: parachute.Accepted, Since: noon.Add(time.Duration(i-60) * time.Minute)}
		h.Release, h.Offered = h.Offered[0], []gate.Release{h.Release}
	}
	return s.wants(r2)
}

// read reads the site as the API has it. cp-1 holds a virtual IP.
func (s *site) read(t *testing.T) Upgrade {
	t.Helper()
	o := Objects{Now: noon, Version: s.version, Record: state.Known(""), Plan: state.Known(s.plan)}
	if s.record != nil {
		text, err := annotation.Encode(annotation.RecordOf(*s.record))
		if err != nil {
			t.Fatal(err)
		}
		o.Record = state.Known(text)
	}
	for i, h := range s.hosts {
		text, err := annotation.Encode(h)
		if err != nil {
			t.Fatal(err)
		}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.Facts.Name, Labels: map[string]string{}, Annotations: map[string]string{annotation.HostOf: text}}}
		if n.Name[0] == 'c' {
			n.Labels[state.LabelControlPlane] = ""
		}
		if b, tells := s.backups[n.Name]; tells {
			text, err := b.Text()
			if err != nil {
				t.Fatal(err)
			}
			n.Annotations[backup.Annotation] = text
		}
		if i == 0 {
			n.Annotations[state.AnnotationVIPs] = `{"holds":["10.0.0.5"]}`
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		n.Status.NodeInfo.KubeletVersion = "v1.35.4"
		o.Hosts = append(o.Hosts, HostOf(n))
	}
	return Read(o)
}

// situations are states of a site that people read about.
func situations() []struct {
	what string
	site *site
} {
	made := func(change func(s *site) *site) *site { s := aSite(); return change(&s) }
	return []struct {
		what string
		site *site
	}{
		{"nothing is under way", made(func(s *site) *site {
			return s.said(cluster.Step{Phase: cluster.Idle, Why: "the site runs its release"})
		})},
		{"the operator says nothing", made(func(s *site) *site { return s })},
		{"the cluster has no ClusterVersion", made(func(s *site) *site { s.version = nil; return s })},
		{"agents of an earlier Holdfast", made(func(s *site) *site { s.hosts = nil; return s })},
		{"etcd was restored during a soak", made(func(s *site) *site {
			s.underWay(4).record = nil
			s.version.Spec.DesiredUpdate, s.version.Status.History[0].State = nil, configv1.CompletedUpdate
			return s.said(cluster.Step{Phase: cluster.Idle, Why: "the hosts have not closed their way back, and no record says why. Take the upgrade up: holdfast upgrade start " + r2})
		})},
		{"it is wanted, and has not begun", made(func(s *site) *site { return s.wants(r2) })},
		{"hosts fetch what is offered", made(func(s *site) *site {
			s.version.Annotations[annotation.OfferOf] = r2
			s.hosts[2].Facts.Whole, s.hosts[2].Fetching = state.Known([]string{r1}), "210 of 524 MiB"
			s.hosts[3].Facts.Whole, s.hosts[3].FetchFailed = state.Known([]string{r1}), "registry.example: connection refused"
			return s.said(cluster.Step{Phase: cluster.Idle, Why: "the site runs its release"}) // it has not looked yet
		})},
		{"a release is offered", made(func(s *site) *site {
			s.version.Annotations[annotation.OfferOf] = r2
			return s.said(cluster.Step{Phase: cluster.Offered, Why: "the release that is offered lies on all hosts"})
		})},
		{"hosts fetch it", made(func(s *site) *site {
			s.underWay(0)
			s.hosts[2].Facts.Whole, s.hosts[2].Fetching = state.Known([]string{r1}), "210 of 524 MiB"
			s.hosts[3].Facts.Whole, s.hosts[3].FetchFailed = state.Known([]string{r1}), "registry.example: connection refused"
			return s.said(cluster.Step{Phase: cluster.Fetching, Do: cluster.Fetch, Why: "the release is fetched by w-1, w-2"})
		})},
		{"a gate holds it", made(func(s *site) *site {
			return s.underWay(0).said(cluster.Step{Phase: cluster.Checked, Do: cluster.Pause, Why: "incidents: open incidents: i-7"})
		})},
		{"it waits for a backup", made(func(s *site) *site { return s.asked(takesOne, "takes one") })},
		{"no good backup was made", made(func(s *site) *site { return s.asked(madeNone, "made no good one: the disk is full") })},
		{"the first host is at work", made(func(s *site) *site {
			s.underWay(1)
			s.hosts[1].Journal = parachute.Journal{Upgrade: "u1", Step: parachute.Proving, Deadline: noon.Add(3 * time.Minute)}
			return s.said(cluster.Step{Phase: cluster.Hosts, Do: cluster.Await, Why: "waiting for cp-2"})
		})},
		{"a host holds", made(func(s *site) *site {
			s.underWay(1)
			s.hosts[1].Journal = parachute.Journal{Upgrade: "u1", Step: parachute.Proving}
			s.hosts[1].Held = "would return (boot 2 without having been accepted), and does not: this host serves, and no other one is known to serve"
			return s.said(cluster.Step{Phase: cluster.Hosts, Do: cluster.Pause, Why: "cp-2: " + s.hosts[1].Held})
		})},
		{"a host went back", made(func(s *site) *site {
			s.underWay(1)
			s.hosts[1].Journal = parachute.Journal{Upgrade: "u1", Step: parachute.Returned, Failed: true, Why: "not accepted; not shown: its router answers, if it has one (within 2m0s)"}
			return s.said(cluster.Step{Phase: cluster.Hosts, Do: cluster.Pause, Why: "cp-2 went back: " + s.hosts[1].Journal.Why})
		})},
		{"a person has paused it", made(func(s *site) *site {
			s.underWay(2).version.Annotations[annotation.PausedBy] = "the shop is open"
			return s.said(cluster.Step{Phase: cluster.Hosts, Do: cluster.Pause, Why: "paused: the shop is open"})
		})},
		{"the soak", made(func(s *site) *site {
			s.underWay(4).record.Healthy = 20 * time.Minute
			return s.said(cluster.Step{Phase: cluster.Proving, Do: cluster.Write, Why: "healthy for 20m0s of 24h0m0s"})
		})},
		{"the way back is closed", made(func(s *site) *site {
			s.underWay(4).record.NoWayBack = true
			return s.said(cluster.Step{Phase: cluster.Committing, Do: cluster.Raise, Why: "cp-2 is brought to the new functional level"})
		})},
		{"it goes back", made(func(s *site) *site {
			s.underWay(2).wants(r1).record.Returning = true
			return s.said(cluster.Step{Phase: cluster.Returning, Do: cluster.Await, Why: "waiting for cp-2"})
		})},
		{"somebody wants a third release", made(func(s *site) *site {
			return s.underWay(1).wants(r3).said(cluster.Step{Phase: cluster.Hosts, Do: cluster.Await, Why: "waiting for cp-2", Refused: "another upgrade is under way: it is committed, or goes back, before a third release is installed"})
		})},
		{"the record is of a later release", made(func(s *site) *site { return s.underWay(1) })},
	}
}

// unreadable makes the record of the last situation one of a later release.
func unreadable(what string, u Upgrade) Upgrade {
	if what == "the record is of a later release" {
		u.Objects.Record = state.Known(`{"format":2}`)
		return Read(u.Objects)
	}
	return u
}

func TestWhatPeopleReadOfAnUpgradeIsApproved(t *testing.T) {
	var out strings.Builder
	for _, c := range situations() {
		s := unreadable(c.what, c.site.read(t)).Status()
		fmt.Fprintf(&out, "=== %s\n%s", c.what, s.Text(page.Style{}))
		site, hosts := s.Doing()
		fmt.Fprintf(&out, "--- followed\nsite: %s\n", site)
		for i, doing := range hosts {
			fmt.Fprintf(&out, "%s: %s\n", s.Hosts[i].Name, doing)
		}
		out.WriteString("\n")
	}
	golden.Check(t, "status.txt", []byte(out.String()))
}

func TestWhatStandsInTheWayIsApproved(t *testing.T) {
	var out strings.Builder
	show := func(what string, c Check, wide bool) {
		fmt.Fprintf(&out, "=== %s: %s\n%s\n", what, c.Worst(), c.Text(page.Style{Wide: wide}))
	}
	idle := cluster.Step{Phase: cluster.Idle, Why: "the site runs its release"}
	s := aSite()
	show("nobody wants anything, and the operator knows the rest", s.said(idle).read(t).Check(""), false)
	show("a release that lies on the hosts", s.said(idle).read(t).Check(r2), false)
	show("a release that lies on no host", s.said(idle).read(t).Check(r3), false)
	s = aSite()
	show("the operator says nothing", s.read(t).Check(""), false)
	s = aSite()
	s.hosts[1].Facts.Disks = state.Known([]gate.Disk{{Path: "/opt", Free: 1 << 30, Need: 1 << 30, Line: 1 << 30}})
	s.hosts[3].Facts.Edited = state.Known([]string{"/usr/local/bin/kubelet"})
	show("a disk is too small", s.said(idle).read(t).Check(""), false)
	show("a disk is too small, wide", s.said(idle).read(t).Check(""), true)
	s = aSite()
	show("it waits for a backup", s.asked(takesOne, "takes one").read(t).Check(""), false)
	s = aSite()
	show("no good backup was made", s.asked(madeNone, "made no good one: the disk is full").read(t).Check(""), false)
	s.version.Annotations[annotation.OverridesOf] = `[{"gate":"backup","reason":"the NAS has one","by":"ann","at":"2026-11-24T11:00:00Z"}]`
	show("no good backup was made, and it is skipped", s.read(t).Check(""), false)
	s = aSite()
	s.backups = map[string]backup.Summary{"cp-1": {}}
	show("nobody wants anything, and there is no backup", s.said(idle).read(t).Check(""), false)
	show("it soaks, and there is no backup", s.underWay(4).read(t).Check(""), false)
	s = aSite()
	s.underWay(1).version.Annotations[annotation.OverridesOf] = `[{"gate":"window","reason":"agreed with the shop","by":"ann","at":"2026-11-24T11:00:00Z"}]`
	show("an upgrade is under way, and a gate is skipped", s.read(t).Check(""), false)
	s = aSite()
	s.said(idle).version.Status.Conditions[4] = configv1.ClusterOperatorStatusCondition{Type: configv1.OperatorUpgradeable, Status: configv1.ConditionFalse, Reason: "DeprecatedApisGateClosed", Message: "deprecated-apis: a CronJob uses batch/v1beta1. Move its user to a later version of the API"}
	u := s.read(t)
	show("the operator alone knows of something", u.Check(""), false)
	for i := range u.Hosts {
		u.Hosts[i] = Host{Name: u.Hosts[i].Name, Silent: "its agent tells nothing of releases"}
	}
	show("no host tells anything", u.Check(""), false)
	golden.Check(t, "check.txt", []byte(out.String()))
}

// TestAVerbSaysWhatFollowsOrWhyItDoesNotCount in every situation, and a verb that was
// written has nothing left to write.
func TestAVerbSaysWhatFollowsOrWhyItDoesNotCount(t *testing.T) {
	var out strings.Builder
	verbs := []struct {
		name string
		do   func(Upgrade) (Change, error)
	}{
		{"start R1", func(u Upgrade) (Change, error) { return u.Start(Start{Image: r1}) }},
		{"start R2", func(u Upgrade) (Change, error) { return u.Start(Start{Image: r2}) }},
		{"start R3", func(u Upgrade) (Change, error) {
			return u.Start(Start{Image: "registry.example/release@" + r3, Sources: annotation.Sources{Registry: "registry.example/release"}, Soak: "off", Overrides: []annotation.Override{{Gate: "backup", Reason: "the nightly one is whole", By: "ann", At: noon}}})
		}},
		{"fetch R2", func(u Upgrade) (Change, error) { return u.Fetch(r2, annotation.Sources{}) }},
		{"fetch R3", func(u Upgrade) (Change, error) { return u.Fetch("registry.example/release@"+r3, annotation.Sources{}) }},
		{"fetch R3 from a stick", func(u Upgrade) (Change, error) { return u.Fetch(r3, annotation.Sources{Folder: "/media/stick"}) }},
		{"forget", Upgrade.Forget},
		{"rollback", Upgrade.Rollback},
		{"pause", func(u Upgrade) (Change, error) { return u.Pause("the shop is open") }},
		{"resume", Upgrade.Resume},
		{"commit", Upgrade.Commit},
	}
	for _, c := range situations() {
		for _, v := range verbs {
			u := unreadable(c.what, c.site.read(t))
			change, err := v.do(u)
			fmt.Fprintf(&out, "=== %s: %s\n", c.what, v.name)
			if no, ok := errors.AsType[*Refusal](err); ok {
				fmt.Fprintf(&out, "refused, unknown %v: %s\n", no.Unknown, no.Why)
				continue
			}
			if err != nil {
				t.Errorf("%s: %s: %v", c.what, v.name, err)
			}
			out.WriteString(change.Text())
			if change.Empty() {
				continue
			}
			write(u.Version, change)
			if again, err := v.do(Read(u.Objects)); !again.Empty() && err == nil {
				t.Errorf("%s: %s a second time writes %+v", c.what, v.name, again)
			}
			u.Version.Spec.DesiredUpdate = nil // the next verb reads its own
			c.site = again(c.what)
			var names []string
			for name := range change.Annotations {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				if value := change.Annotations[name]; value != nil {
					fmt.Fprintf(&out, "  writes %s: %s\n", name, *value)
				} else {
					fmt.Fprintf(&out, "  removes %s\n", name)
				}
			}
			if change.Image != "" {
				fmt.Fprintf(&out, "  wants %s\n", change.Image)
			}
		}
	}
	golden.Check(t, "verbs.txt", []byte(out.String()))
}

// again makes a situation anew.
func again(what string) *site {
	for _, c := range situations() {
		if c.what == what {
			return c.site
		}
	}
	return nil
}

// write changes an object as the command does.
func write(v *configv1.ClusterVersion, c Change) {
	for name, value := range c.Annotations {
		if value == nil {
			delete(v.Annotations, name)
		} else {
			v.Annotations[name] = *value
		}
	}
	if c.Image != "" {
		v.Spec.DesiredUpdate = &configv1.Update{Image: c.Image}
	}
}

func TestAReleaseIsNamedByItsDigestAlone(t *testing.T) {
	hex := strings.Repeat("a", 64)
	for text, want := range map[string]string{"sha256:" + hex: "sha256:" + hex, hex: "sha256:" + hex, "r.example/a@sha256:" + hex: "r.example/a@sha256:" + hex} {
		if got, err := ParseImage(text); err != nil || got != want || Digest(got) != "sha256:"+hex {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0.9.0", "r.example/a:0.9.0", "sha256:" + hex[1:], "sha256:" + strings.ToUpper(hex), "sha512:" + hex, "sha256:" + hex + "@x"} {
		if got, err := ParseImage(text); err == nil {
			t.Errorf("%q is taken for %s", text, got)
		}
	}
}

func TestASoakIsATimeOrOff(t *testing.T) {
	for text, want := range map[string]string{"24h": "24h", "90m": "1h30m", "off": "off"} {
		u := Upgrade{}
		var err error
		u.Soak, u.SoakOff, err = annotation.ParseSoak(text)
		if got := soakOf(Start{}, u); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0s", "-1h", "24", "soon", "Off"} {
		if _, _, err := annotation.ParseSoak(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestOnlyAGateThatMayBeSkippedIsSkippedAndWithAReason(t *testing.T) {
	if got := strings.Join(SkippableGates(), " "); got != "refused-objects certificates-margin clock-source deprecated-apis sandboxes webhooks disruption-budgets backup backup-commit incidents window battery" {
		t.Error(got)
	}
	if o, err := ParseSkip("backup= a=b ", "ann", noon); err != nil || o != (annotation.Override{Gate: "backup", Reason: "a=b", By: "ann", At: noon}) {
		t.Errorf("%+v, %v", o, err)
	}
	for text, want := range map[string]string{
		"backup": "must be GATE=REASON", "backup=": "must be GATE=REASON", "fencing=why": "nobody can skip this gate", "immovable-pods=why": "this is advice", "fence=why": "there is no such gate",
	} {
		if _, err := ParseSkip(text, "ann", noon); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestAChangeIsToldOnce and the passing of time is none.
func TestAChangeIsToldOnce(t *testing.T) {
	s := aSite()
	s.underWay(4).record.Healthy = 20 * time.Minute
	s.said(cluster.Step{Phase: cluster.Proving, Do: cluster.Write, Why: "healthy for 20m0s of 24h0m0s"})
	before := s.read(t).Status()
	s.record.Healthy += time.Minute
	s.said(cluster.Step{Phase: cluster.Proving, Do: cluster.Write, Why: "healthy for 21m0s of 24h0m0s"})
	if got := before.Changes(s.read(t).Status()); len(got) > 0 {
		t.Errorf("%q", got)
	}
	s.hosts[2].Held = "why"
	s.said(cluster.Step{Phase: cluster.Proving, Do: cluster.Pause, Why: "w-1 is not known to be well"})
	if got := before.Changes(s.read(t).Status()); strings.Join(got, "\n") != "site: Proving: w-1 is not known to be well\nw-1: runs Holdfast 0.9.0 (sha256:222222222222), accepted, held: why" {
		t.Errorf("%q", got)
	}
}

// TestWhatTheOperatorSaidOfAnEarlierWishCountsNoMore.
func TestWhatTheOperatorSaidOfAnEarlierWishCountsNoMore(t *testing.T) {
	s := aSite()
	s.underWay(1).said(cluster.Step{Phase: cluster.Proving, Do: cluster.Pause, Why: "old", Refused: "old"})
	s.version.Generation = 7
	u := s.read(t)
	if phase, why := u.Phase(); phase != cluster.Hosts || why == "old" || u.Held() != "" || u.Refused() != "" {
		t.Errorf("%s: %s, held %q, refused %q", phase, why, u.Held(), u.Refused())
	}
	s.version.Status.ObservedGeneration = 7
	if u := s.read(t); u.Held() != "old" || u.Refused() != "old" {
		t.Errorf("held %q, refused %q", u.Held(), u.Refused())
	}
}

func TestWhatAnOverviewTellsOfAnUpgradeIsApproved(t *testing.T) {
	var out strings.Builder
	seen := map[TroubleKind]bool{} //nolint:exhaustive // filled below
	show := func(what string, u Upgrade) {
		fmt.Fprintf(&out, "=== %s\n", what)
		if b := u.Brief(); b != nil {
			fmt.Fprintf(&out, "%s\n", b.Sentence())
			for _, h := range b.Hosts {
				fmt.Fprintf(&out, "  %s %s\n", h.Name, h.Doing)
			}
		}
		for _, trouble := range u.Troubles() {
			seen[trouble.Kind] = true
			fmt.Fprintf(&out, "! %s %s: %s\n", trouble.Kind, trouble.Host, trouble.Why)
		}
	}
	for _, c := range situations() {
		show(c.what, unreadable(c.what, c.site.read(t)))
	}
	s := aSite()
	s.hosts[3].Facts.Release = state.Known(r2)
	show("hosts run different releases, and nothing is under way", s.read(t))
	s = aSite()
	s.underWay(1).version.Status.History[0].StartedTime = metav1.NewTime(noon.Add(-mixedLong))
	show("an upgrade takes a day", s.read(t))
	s.version.Status.History[0].StartedTime = metav1.NewTime(noon.Add(-mixedLong - 1))
	show("an upgrade takes longer than a day", s.read(t))
	s = aSite()
	s.hosts[1].Journal, s.hosts[1].FetchFailed = parachute.Journal{Upgrade: "u0", Step: parachute.Returned, Why: "an old reason"}, "an old failure"
	show("a host has its journal of an earlier upgrade", s.read(t))
	golden.Check(t, "overview.txt", []byte(out.String()))
	for _, kind := range []TroubleKind{HostHeld, HostReturned, FetchFailed, HeldByGate, PausedByPerson, WishRefused, Mixed, WayBackOpen} {
		if !seen[kind] {
			t.Errorf("no situation shows %s", kind)
		}
	}
}
