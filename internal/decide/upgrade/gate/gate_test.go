package gate

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func version(t *testing.T, text string) Version {
	t.Helper()
	v, err := ParseVersion(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// good returns a site of two control planes and a worker on which nothing is wrong.
func good(t *testing.T) Facts {
	t.Helper()
	v := func(text string) Version { return version(t, text) }
	both := map[string]Format{"record": {Range{1, 1}, 1}, "journal": {Range{1, 2}, 1}}
	stack := []string{"corosync=3.1.7", "pacemaker=2.1.5"}
	from := Release{Name: "R1", Digest: "sha256:1", Version: v("0.8.0"), Verified: true, Kubernetes: v("1.35.4"), Etcd: v("3.6.12"), LeastEtcd: v("3.6.12"), Formats: both, Steps: Range{3, 4}, Network: "n1", StoredVersions: []string{"a/v1"}, Stack: stack}
	to := Release{Name: "R2", Digest: "sha256:2", Version: v("0.9.0"), Least: v("0.8.0"), Verified: true, Kubernetes: v("1.36.3"), Etcd: v("3.6.14"), LeastEtcd: v("3.6.12"), Formats: map[string]Format{"record": {Range{1, 2}, 1}, "journal": {Range{1, 2}, 1}, "new": {Range{1, 1}, 1}}, Steps: Range{4, 5}, Network: "n1", StoredVersions: []string{"a/v1", "a/v2"}, Stack: stack}
	host := func(name string, worker bool) Host {
		h := Host{
			Name: name, Worker: worker, Ready: state.Known(true), Release: state.Known(from.Digest), Whole: state.Known([]string{from.Digest, to.Digest}), Steps: state.Known(Range{3, 4}),
			Written: state.Known(map[string]int{"journal": 1}), Kubelet: state.Known(v("1.35.4")), Proxy: state.Known(v("1.35.4")),
			Disks: state.Known([]Disk{{Path: "/var", Free: 5 << 30, Need: 2 << 30, Line: 2 << 30}}), Synchronised: state.Known(true), Offset: state.Known(-500 * time.Millisecond), Ahead: 2 * time.Second, Edited: state.Known([]string(nil)),
		}
		if !worker {
			h.Pacemaker, h.APIServer, h.Emulates = true, state.Known(v("1.35.4")), state.Known(v("1.35.0"))
			h.Online, h.Marked, h.Failed, h.Features = state.Known(true), state.Known([]string(nil)), state.Known([]string(nil)), state.Known("3.16.1")
			h.Links, h.Fencing, h.Fenced = state.Known(true), state.Known(true), state.Known(noon.Add(-24*time.Hour))
			h.Stack, h.Loose, h.Certificates = state.Known(stack), state.Known([]string(nil)), state.Known([]Certificate{{"apiserver", noon.Add(80 * 24 * time.Hour)}})
		}
		return h
	}
	member := func(host string) Member {
		return Member{Host: host, Voter: true, Started: true, Version: state.Known(v("3.6.12"))}
	}
	empty := state.Known([]string(nil))
	return Facts{
		Now: noon, From: from, To: &to, Level: v("1.35.0"), Soak: 24 * time.Hour, Hosts: []Host{host("cp-1", false), host("cp-2", false), host("w-1", true)},
		Etcd:          Etcd{state.Known([]Member{member("cp-1"), member("cp-2")}), state.Known(true), empty, state.Known(false), state.Known(v("3.6.0")), state.Known(v("3.6.0"))},
		ControlPlanes: state.Known(2),
		Upgrade:       state.Known(""), Plan: state.Known(""), Work: empty, Incidents: empty, Deprecated: state.Known([]Use{{"flowcontrol/v1beta3", v("1.37.0"), "x"}}), Observed: 24 * time.Hour,
		Leaders: empty, Refused: empty, Sandboxes: empty, Webhooks: empty, Budgets: empty, Immovable: empty, StoredVersions: state.Known([]string{"a/v1"}), Backups: state.Known(Backups{Newest: noon.Add(-24 * time.Hour), Before: noon.Add(-24 * time.Hour), Wanted: true}),
		Window: state.Known(""), OnBattery: state.Known(false),
	}
}

// closed returns the gates that are not open, as people read them.
func closed(f Facts, at Stage) (ids []ID, text string) {
	var out strings.Builder
	for _, g := range Gates(f, at) {
		if g.Closed() {
			ids = append(ids, g.ID)
			fmt.Fprintf(&out, "  %s (%s) %s. %s.\n", g.Verdict, g.Severity, g, g.Way)
		}
	}
	return slices.Compact(ids), out.String()
}

// situations are what may be wrong with a good site. The gate of the first word of a
// situation has to be closed, and no other one.
var situations = []struct {
	what   string
	at     Stage
	change func(*Facts)
}{
	{"release: no digest was compared", Begin, func(f *Facts) { f.To.Verified = false }},
	{"release: it is older", Begin, func(f *Facts) { f.To.Version = Version{0, 7, 9} }},
	{"release: it wants one between", Begin, func(f *Facts) { f.To.Least = Version{0, 8, 1} }},
	{"release: two minor releases at once", Begin, func(f *Facts) { f.To.Kubernetes, f.Deprecated = Version{1, 37, 0}, state.Known([]Use(nil)) }},
	{"release: a minor release down", Begin, func(f *Facts) { f.To.Kubernetes = Version{1, 34, 9} }},
	{"release: another major release", Begin, func(f *Facts) { f.To.Kubernetes, f.Deprecated = Version{2, 36, 0}, state.Known([]Use(nil)) }},
	{"idle: a rotation", Begin, func(f *Facts) { f.Work = state.Known([]string{"a rotation of etcd's CA"}) }},
	{"idle: another upgrade", Begin, func(f *Facts) { f.Upgrade = state.Known("sha256:9") }},
	{"plan: a growth", Begin, func(f *Facts) { f.Plan = state.Known("the plan p1 of ada brings cp-2") }},
	{"plan: it took its lock in the moment in which the upgrade began", Between, func(f *Facts) { f.Plan = state.Known("the plan p1 of ada replaces cp-2") }},
	{"control-planes: one of three has no node", Begin, func(f *Facts) { f.ControlPlanes = state.Known(3) }},
	{"control-planes: one of two has no node, and may never have come", Begin, func(f *Facts) {
		f.Hosts, f.Etcd.Members.Value = []Host{f.Hosts[0], f.Hosts[2]}, f.Etcd.Members.Value[:1]
	}},
	{"hosts: one is away", Between, func(f *Facts) { f.Hosts[1].Ready = state.Known(false) }},
	{"workers: one is away, and says nothing", Begin, func(f *Facts) {
		f.Hosts[2] = Host{Name: "w-1", Worker: true, Ready: state.Known(false), Release: state.Known("sha256:1"), Kubelet: f.Hosts[2].Kubelet, Proxy: f.Hosts[2].Proxy}
	}},
	{"mixed-release: one runs another release", Begin, func(f *Facts) { f.Hosts[2].Release = state.Known("sha256:0") }},
	{"etcd-members: one is gone, another one is there", Between, func(f *Facts) { f.Etcd.Members.Value[1].Host = "cp-9" }},
	{"etcd-members: one has not started", Between, func(f *Facts) { f.Etcd.Members.Value[1].Started = false }},
	{"etcd-members: a learner", Between, func(f *Facts) { f.Etcd.Members.Value[1].Voter = false }},
	{"etcd-members: a stand-in votes", Commit, func(f *Facts) { f.Etcd.StandIn = state.Known(true) }},
	{"etcd-data: they differ", Commit, func(f *Facts) { f.Etcd.Equal = state.Known(false) }},
	{"etcd-data: an alarm", Between, func(f *Facts) { f.Etcd.Alarms = state.Known([]string{"NOSPACE"}) }},
	{"etcd-version: another minor release", Begin, func(f *Facts) { f.To.Etcd = Version{3, 7, 3} }},
	{"etcd-version: it was raised", Between, func(f *Facts) { f.Etcd.Cluster = state.Known(Version{3, 7, 0}) }},
	{"etcd-version: not safe to return to", Begin, func(f *Facts) { f.Etcd.Members.Value[0].Version = state.Known(Version{3, 6, 8}) }},
	{"leaders: the controller manager does nothing", Commit, func(f *Facts) { f.Leaders = state.Known([]string{"kube-controller-manager"}) }},
	{"refused-objects: one API server refuses a node", Between, func(f *Facts) {
		f.Refused = state.Known([]string{"cp-1: Node cp-1: spec.podCIDR: Invalid value"})
	}},
	{"sandboxes: a host of the new release starts none", Between, func(f *Facts) { f.Sandboxes = state.Known([]string{"cp-1 (shop/db-0 waits since 11:58:00)"}) }},
	{"skew: a kubelet above the level", Between, func(f *Facts) { f.Hosts[0].Kubelet = state.Known(Version{1, 36, 3}) }},
	{"skew: a kube-proxy above the level", Between, func(f *Facts) { f.Hosts[2].Proxy = state.Known(Version{1, 36, 3}) }},
	{"skew: a kubelet that is too old", Begin, func(f *Facts) { f.Hosts[2].Kubelet = state.Known(Version{1, 32, 9}) }},
	{"skew: an API server that does not emulate", Between, func(f *Facts) {
		f.Hosts[0].APIServer, f.Hosts[0].Emulates = state.Known(Version{1, 36, 3}), state.Known(Version{1, 36, 0})
	}},
	{"skew: an API server that is too old", Begin, func(f *Facts) { f.Hosts[0].APIServer = state.Known(Version{1, 34, 9}) }},
	{"formats: the old one cannot read the new one", Begin, func(f *Facts) { f.To.Formats["record"] = Format{Range{1, 2}, 2} }},
	{"formats: the new one cannot read the old one", Begin, func(f *Facts) { f.To.Formats["record"] = Format{Range{2, 2}, 1} }},
	{"formats: the new one does not know one", Begin, func(f *Facts) { delete(f.To.Formats, "record") }},
	{"formats: a disk has a newer one", Between, func(f *Facts) { f.Hosts[1].Written = state.Known(map[string]int{"record": 2}) }},
	{"steps: no step in common", Begin, func(f *Facts) { f.To.Steps = Range{5, 6} }},
	{"steps: an old agent", Begin, func(f *Facts) { f.Hosts[1].Steps = state.Known(Range{1, 3}) }},
	{"network: another one", Begin, func(f *Facts) { f.To.Network = "n2" }},
	{"pacemaker: not a member", Between, func(f *Facts) { f.Hosts[0].Online = state.Known(false) }},
	{"pacemaker: somebody's mark", Between, func(f *Facts) { f.Hosts[0].Marked = state.Known([]string{"standby"}) }},
	{"pacemaker: a failed action", Between, func(f *Facts) { f.Hosts[1].Failed = state.Known([]string{"etcd monitor"}) }},
	{"pacemaker: a link", Commit, func(f *Facts) { f.Hosts[1].Links = state.Known(false) }},
	{"feature-set: they differ", Begin, func(f *Facts) { f.Hosts[1].Features = state.Known("3.19.0") }},
	{"feature-set: the release brings another Pacemaker", Begin, func(f *Facts) { f.To.Stack = []string{"corosync=3.1.7", "pacemaker=3.0.1"} }},
	{"fencing: disabled", Between, func(f *Facts) { f.Hosts[1].Fencing = state.Known(false) }},
	{"fencing: never", Begin, func(f *Facts) { f.Hosts[1].Fenced = state.Known(time.Time{}) }},
	{"fencing: too long ago", Begin, func(f *Facts) { f.Hosts[1].Fenced = state.Known(noon.Add(-24*time.Hour - time.Second)) }},
	{"fencing: a wrong clock", Begin, func(f *Facts) { f.Hosts[1].Fenced = state.Known(noon.Add(time.Minute)) }},
	{"packages: not held", Begin, func(f *Facts) { f.Hosts[0].Loose = state.Known([]string{"podman"}) }},
	{"packages: another version", Begin, func(f *Facts) { f.Hosts[0].Stack = state.Known([]string{"corosync=3.1.8", "pacemaker=2.1.5"}) }},
	{"packages: one is missing, and another version", Between, func(f *Facts) { f.Hosts[1].Stack = state.Known([]string{"crun=1", "pacemaker=2.1.6"}) }},
	{"disk: too little", Begin, func(f *Facts) {
		f.Hosts[2].Whole = state.Known([]string{f.From.Digest})
		f.Hosts[2].Disks.Value[0].Free--
	}},
	{"disk: the release lies there whole, and kubelet lacks room", Between, func(f *Facts) { f.Hosts[2].Disks.Value[0].Free = 2<<30 - 1 }},
	{"fetched: the old one is gone", Between, func(f *Facts) { f.Hosts[1].Whole = state.Known([]string{"sha256:2"}) }},
	{"certificates: one ends in between", Begin, func(f *Facts) {
		f.Hosts[0].Certificates.Value[0].Ends = noon.Add(48*time.Hour - time.Second)
	}},
	{"certificates-margin: one ends soon after", Begin, func(f *Facts) { f.Hosts[0].Certificates.Value[0].Ends = noon.Add(48 * time.Hour) }},
	{"clock-source: nothing keeps it, so nobody knows how far it is off", Commit, func(f *Facts) {
		f.Hosts[0].Synchronised, f.Hosts[0].Offset = state.Known(false), state.Fact[time.Duration]{}
	}},
	{"clock: ahead of the operator's", Begin, func(f *Facts) { f.Hosts[2].Ahead = 3 * time.Second }},
	{"clock: off", Between, func(f *Facts) { f.Hosts[0].Offset = state.Known(501 * time.Millisecond) }},
	{"edited-files: a person's work", Begin, func(f *Facts) { f.Hosts[0].Edited = state.Known([]string{"/etc/haproxy.cfg"}) }},
	{"stored-versions: one is not read", Begin, func(f *Facts) { f.StoredVersions = state.Known([]string{"a/v1", "a/v0"}) }},
	{"deprecated-apis: in use", Begin, func(f *Facts) {
		f.Deprecated = state.Known([]Use{{"batch/v1beta1", Version{1, 36, 0}, "a CronJob"}, {"x/v1", Version{1, 35, 0}, ""}})
	}},
	{"deprecated-apis: not looked for long enough", Begin, func(f *Facts) { f.Observed = 5 * time.Minute }},
	{"webhooks: one host has all pods", Between, func(f *Facts) { f.Webhooks = state.Known([]string{"policy"}) }},
	{"disruption-budgets: no room", Begin, func(f *Facts) { f.Budgets = state.Known([]string{"shop/db"}) }},
	{"immovable-pods: one", Begin, func(f *Facts) { f.Immovable = state.Known([]string{"shop/job-1"}) }},
	{"backup: none, and nobody was asked", Begin, func(f *Facts) { f.Backups = state.Known(Backups{Wanted: true}) }},
	{"backup: too old, and asked for", Begin, func(f *Facts) {
		f.Backups.Value.Before, f.Backups.Value.Wish.Says = noon.Add(-24*time.Hour-time.Second), "cp-1 was asked for one at 2026-11-24T12:00:00Z, and takes one"
	}},
	{"backup: a younger one is of another release", Begin, func(f *Facts) { f.Backups.Value.Newest, f.Backups.Value.Before = noon, noon.Add(-25*time.Hour) }},
	{"backup: a wrong clock", Begin, func(f *Facts) { f.Backups.Value.Before = noon.Add(time.Minute) }},
	{"backup: no good one came of it", Begin, func(f *Facts) {
		f.Backups = state.Known(Backups{Wanted: true, Fails: "cp-1: x", Wish: BackupWish{"cp-1 was asked for one at 2026-11-24T12:00:00Z, and made no good one: pages: page 7 is damaged", true}})
	}},
	{"backup: tries fail, and nobody wants an upgrade yet", Begin, func(f *Facts) { f.Backups = state.Known(Backups{Fails: "cp-1: the disk is full"}) }},
	{"backup-commit: none", Close, func(f *Facts) { f.Backups = state.Known(Backups{}) }},
	{"backup-commit: too old, and asked for", Close, func(f *Facts) {
		f.Backups.Value.Newest, f.Backups.Value.Wish.Says = noon.Add(-24*time.Hour-time.Second), "cp-2 was asked for one at 2026-11-24T11:59:00Z, and waits: etcd takes no writes here"
	}},
	{"backup-commit: no good one came of it", Close, func(f *Facts) {
		f.Backups = state.Known(Backups{Wish: BackupWish{"cp-1 was asked for one at 2026-11-24T11:59:00Z, and made no good one: x", true}})
	}},
	{"incidents: one is open", Between, func(f *Facts) { f.Incidents = state.Known([]string{"i-7"}) }},
	{"window: closed", Between, func(f *Facts) { f.Window = state.Known("it opens at 22:00") }},
	{"battery: no mains", Commit, func(f *Facts) { f.OnBattery = state.Known(true) }},
}

func TestEachGateSaysWhatClosesIt(t *testing.T) {
	for _, at := range []Stage{Begin, Between, Bring, Commit, Close} {
		if _, text := closed(good(t), at); text != "" {
			t.Fatalf("a good site:\n%s", text)
		}
	}
	var out strings.Builder
	tried := make(map[ID]bool)
	for _, s := range situations {
		f := good(t)
		s.change(&f)
		before := fmt.Sprintf("%+v", f)
		ids, text := closed(f, s.at)
		name, _, _ := strings.Cut(s.what, ":")
		if !slices.Equal(ids, []ID{ID(name)}) {
			t.Errorf("%s: closed are %v", s.what, ids)
		}
		if fmt.Sprintf("%+v", f) != before {
			t.Errorf("%s: what it was given changed", s.what)
		}
		tried[ID(name)] = true
		fmt.Fprintf(&out, "%s\n%s", s.what, text)
	}
	for _, r := range rules {
		if !tried[r.id] {
			t.Errorf("nothing closes the gate %s", r.id)
		}
	}
	golden.Check(t, "gates.txt", []byte(out.String()))
}

// Of five control planes one without a node is no reason to wait: no command replaces it.
func TestASiteOfFiveIsNotHeldByOneWithoutANode(t *testing.T) {
	f := good(t)
	f.ControlPlanes = state.Known(5)
	if got := allPlanes(f); got != nil {
		t.Errorf("%v", got)
	}
}

// TestAGateHoldsOnlyTheStepsThatNeedIt: no host is taken away for a part, so what only a host
// that is away could harm holds none.
func TestAGateHoldsOnlyTheStepsThatNeedIt(t *testing.T) {
	ofHosts := []ID{"plan", "steps", "packages", "disk", "fetched", "edited-files", "sandboxes", "webhooks", "refused-objects", "disruption-budgets"}
	open := make(map[ID]bool)
	for _, s := range situations {
		if s.at == Commit || s.at == Close {
			continue
		}
		f := good(t)
		s.change(&f)
		id, _, _ := strings.Cut(s.what, ":")
		ids, text := closed(f, Bring)
		switch {
		case slices.Contains(ofHosts, ID(id)):
			open[ID(id)] = true
			if len(ids) > 0 {
				t.Errorf("%s holds a part:\n%s", s.what, text)
			}
		case s.at == Between && !slices.Equal(ids, []ID{ID(id)}):
			t.Errorf("%s: %v hold a part", s.what, ids)
		}
	}
	if len(open) != len(ofHosts) {
		t.Errorf("of the gates of hosts were tried: %v", open)
	}
}

// unknowns clears each fact of a value, one after the other, and calls visit with the
// name of the field.
func unknowns(v reflect.Value, name string, visit func(string)) {
	switch v.Kind() {
	case reflect.Struct:
		if known := v.FieldByName("Known"); known.IsValid() {
			if !known.Bool() {
				return
			}
			before := reflect.New(v.Type()).Elem()
			before.Set(v)
			v.SetZero()
			visit(name)
			v.Set(before)
			unknowns(v.FieldByName("Value"), name, visit)
			return
		}
		for i := range v.NumField() {
			unknowns(v.Field(i), name+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			unknowns(v.Index(i), name, visit)
		}
	default: // no facts lie below
	}
}

// TestNoFactThatIsMissingIsTakenForGood has each fact unknown: a gate is then closed, at
// the beginning or before each host, and says so.
func TestNoFactThatIsMissingIsTakenForGood(t *testing.T) {
	f, n := good(t), 0
	unknowns(reflect.ValueOf(&f).Elem(), "", func(field string) {
		n++
		if field == ".OnBattery" {
			return // TestASiteThatKnowsNothingOfABatteryIsNotHeld
		}
		gates := append(Gates(f, Begin), Gates(f, Between)...)
		i := slices.IndexFunc(gates, func(g Gate) bool { return g.Verdict == Unknown })
		if i < 0 || gates[i].Why == "" || gates[i].Way == "" {
			t.Errorf("%s is unknown: %+v", field, gates)
			return
		}
		if strings.HasPrefix(field, ".Immovable") {
			return // advice
		}
		if c := Upgradeable(f); c.Status != metav1.ConditionUnknown && field != ".Hosts.Whole" && field != ".Sandboxes" || c.Reason == "" {
			t.Errorf("%s is unknown: %+v", field, c)
		}
	})
	if n < 60 {
		t.Errorf("%d facts were unknown", n)
	}
}

// TestReleasesThatNameNoPackagesAreNotCompared: the distribution brings them, and hosts are
// compared with each other.
func TestReleasesThatNameNoPackagesAreNotCompared(t *testing.T) {
	for what, change := range map[string]func(*Facts){"the old one": func(f *Facts) { f.From.Stack = nil }, "the new one": func(f *Facts) { f.To.Stack = nil }} {
		f := good(t)
		change(&f)
		if ids, text := closed(f, Begin); len(ids) > 0 {
			t.Errorf("%s names none:\n%s", what, text)
		}
	}
}

// TestAPatchReleaseAsksForNoUseOfRemovedAPIs: Kubernetes removes none in one.
func TestAPatchReleaseAsksForNoUseOfRemovedAPIs(t *testing.T) {
	f := good(t)
	f.Observed, f.Deprecated = 0, state.Known([]Use{{"x/v1", Version{1, 35, 0}, ""}})
	if ids, text := closed(f, Begin); !slices.Equal(ids, []ID{"deprecated-apis"}) || !strings.Contains(text, "`holdfast upgrade start RELEASE --skip deprecated-apis=REASON`") {
		t.Errorf("another minor release:\n%s", text)
	}
	f.To.Kubernetes, f.Deprecated = Version{1, 35, 9}, state.Fact[[]Use]{}
	if ids, text := closed(f, Begin); len(ids) > 0 {
		t.Errorf("a patch release:\n%s", text)
	}
	if f.To = nil; Upgradeable(f).Status != metav1.ConditionUnknown {
		t.Error("any next release may be another minor one")
	}
}

// TestASiteThatKnowsNothingOfABatteryIsNotHeld: nothing on such a site could ever find it
// out.
func TestASiteThatKnowsNothingOfABatteryIsNotHeld(t *testing.T) {
	f := good(t)
	f.OnBattery = state.Fact[bool]{}
	for _, at := range []Stage{Begin, Between, Bring, Commit, Close} {
		if ids, text := closed(f, at); len(ids) > 0 {
			t.Errorf("at %d:\n%s", at, text)
		}
	}
}

// TestABackupHoldsNothingWhileOneCanBeHad: as long as no upgrade waits for its first host, an
// old one or none is no obstacle, nor are tries that fail while there is a young one. The soak
// is not held by any.
func TestABackupHoldsNothingWhileOneCanBeHad(t *testing.T) {
	for what, b := range map[string]Backups{
		"none":                              {},
		"an old one":                        {Newest: noon.Add(-72 * time.Hour), Before: noon.Add(-72 * time.Hour)},
		"tries fail, beside one that does":  {Newest: noon, Before: noon, Fails: "cp-1: x"},
		"a wish of an earlier time, failed": {Wish: BackupWish{"cp-1 made none", true}},
	} {
		f := good(t)
		f.Backups = state.Known(b)
		if ids, text := closed(f, Begin); len(ids) > 0 || Upgradeable(f).Status != metav1.ConditionTrue {
			t.Errorf("%s:\n%s", what, text)
		}
		b.Wanted = true
		f.Backups = state.Known(b)
		for _, at := range []Stage{Between, Bring, Commit} {
			if ids, text := closed(f, at); len(ids) > 0 {
				t.Errorf("%s, at %d:\n%s", what, at, text)
			}
		}
	}
	f := good(t)
	f.Backups = state.Fact[Backups]{}
	if ids, text := closed(f, Close); !slices.Equal(ids, []ID{BackupCommitGate}) || !strings.Contains(text, "unknown (may)") {
		t.Errorf("nobody tells of backups:\n%s", text)
	}
}

// TestWhoMaySkipAGate: only one of severity May, by name, with a reason that is kept.
func TestWhoMaySkipAGate(t *testing.T) {
	for _, s := range situations {
		f := good(t)
		s.change(&f)
		gates := Gates(f, s.at)
		i := slices.IndexFunc(gates, Gate.Closed)
		g := gates[i]
		valid := Override{g.ID, "the shop is closed", "ada", noon}
		for what, o := range map[string]Override{"valid": valid, "no reason": {g.ID, " ", "ada", noon}, "nobody": {g.ID, "so", "", noon}, "another": {"backups", "so", "ada", noon}} {
			j := Judge(gates, []Override{o})
			skips := what == "valid" && g.Severity == May
			if (len(j.Closed) == 0) != (skips || g.Severity == Advice) || (len(j.Skipped) > 0) != skips || (len(j.Refused) == 0) != skips || len(j.Risks) != len(j.Skipped) {
				t.Errorf("%s, override %s: %+v", s.what, what, j)
			}
			if skips && (!strings.Contains(j.Risks[0], "the shop is closed") || !strings.Contains(j.Risks[0], "ada skipped "+string(g.ID))) {
				t.Errorf("%s: %v", s.what, j.Risks)
			}
		}
		c := Upgradeable(f)
		if s.at&Begin != 0 && (c.Status == metav1.ConditionFalse) != (g.Severity != Advice) || c.Status == metav1.ConditionFalse && !strings.Contains(c.Message, g.Why) {
			t.Errorf("%s: %+v", s.what, c)
		}
	}
}

// TestUpgradeableIsAskedWithoutAnOffer: it looks a minor release ahead.
func TestUpgradeableIsAskedWithoutAnOffer(t *testing.T) {
	f := good(t)
	f.To = nil
	if c := Upgradeable(f); c.Status != metav1.ConditionTrue {
		t.Errorf("a good site: %+v", c)
	}
	f.Deprecated = state.Known([]Use{{"batch/v1beta1", Version{1, 36, 0}, "a CronJob"}})
	if c := Upgradeable(f); c.Status != metav1.ConditionFalse || c.Reason != "DeprecatedApisGateClosed" {
		t.Errorf("what the next one removes: %+v", c)
	}
	f.Hosts[0].Disks.Value[0].Free = 0
	if c := Upgradeable(f); c.Reason != "SeveralGateClosed" {
		t.Errorf("two gates: %+v", c)
	}
}

func TestAVersionIsReadAsProgramsWriteIt(t *testing.T) {
	for text, want := range map[string]string{"v1.36.3": "1.36.3", "3.6.14": "3.6.14", "v1.36.3-rc.1+abc": "1.36.3", "1.36": "", "": "", "a.b.c": "", "1.36.-3": "", "1.2.3.4": ""} {
		v, err := ParseVersion(text)
		if (err == nil) != (want != "") || err == nil && v.String() != want {
			t.Errorf("%q: %s, %v", text, v, err)
		}
	}
}
