package standing

import (
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/clusterversion"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// upgrading adds an upgrade to facts: cp-1 has arrived, and the operator has said a
// step.
func upgrading(t *testing.T, f Facts, step cluster.Step, second annotation.Host) Facts {
	t.Helper()
	one, two := "sha256:"+strings.Repeat("1", 64), "sha256:"+strings.Repeat("2", 64)
	record, err := annotation.Encode(annotation.Record{Upgrade: "u1", From: one, To: two, Started: true})
	if err != nil {
		t.Fatal(err)
	}
	v := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: annotation.VersionName}}
	v.Spec.DesiredUpdate = &configv1.Update{Image: two}
	v.Status.Conditions = clusterversion.Conditions(nil, step, gate.Condition{Status: metav1.ConditionTrue}, metav1.ConditionTrue, metav1.NewTime(f.Now))
	f.Upgrade = Know(UpgradeObjects{Version: v, Record: state.Known(record)}, saidTest, f.Now)
	for i := range f.Hosts {
		told := annotation.Host{Release: gate.Release{Name: "Holdfast 0.9.0", Digest: two}, Journal: parachute.Journal{Upgrade: "u1", Step: parachute.Accepted}}
		told.Facts.Release = state.Known(two)
		if f.Hosts[i].Name == "cp-2" {
			told = second
			told.Release = gate.Release{Name: "Holdfast 0.8.0", Digest: one}
			if !told.Facts.Release.Known {
				told.Facts.Release = state.Known(one)
			}
		}
		f.Hosts[i].Release = Know(people.Host{Name: f.Hosts[i].Name, Ready: state.Known(true), Told: state.Known(told)}, saidTest, f.Now)
	}
	return f
}

const saidTest = "the API"

func TestAnUpgradeHasItsSectionAndItsFindings(t *testing.T) {
	site := func() Facts { return onTheHost(recorded(t, "healthy", etcdReport(t, "healthy"))) }
	back := annotation.Host{Journal: parachute.Journal{Upgrade: "u1", Step: parachute.Returned, Failed: true, Why: "not accepted; not shown: its router answers, if it has one (within 2m0s)"}}
	held := annotation.Host{Journal: parachute.Journal{Upgrade: "u1", Step: parachute.Proving, Since: now.Add(-time.Minute)}, Held: "waiting for what is not known or lies elsewhere: its peer sees the same (within 2m0s)"}
	golden.Check(t, "upgrade-host-returned.txt", []byte(Text(Describe(upgrading(t, site(), cluster.Step{Phase: cluster.Hosts, Do: cluster.Pause, Why: "cp-2 went back: " + back.Journal.Why}, back)), page.Style{})))
	for id, f := range map[finding.ID]Facts{
		UpgradeHostReturned: upgrading(t, site(), cluster.Step{Phase: cluster.Hosts, Do: cluster.Pause, Why: "cp-2 went back"}, back),
		UpgradeHostHeld:     upgrading(t, site(), cluster.Step{Phase: cluster.Hosts, Do: cluster.Pause, Why: "cp-2: waits"}, held),
		UpgradeFetchFailed:  upgrading(t, site(), cluster.Step{Phase: cluster.Fetching, Do: cluster.Fetch}, annotation.Host{FetchFailed: "connection refused"}),
		UpgradePaused:       upgrading(t, site(), cluster.Step{Phase: cluster.Hosts, Do: cluster.Pause, Why: "backup: there is no backup of etcd"}, annotation.Host{}),
		UpgradeRefused:      upgrading(t, site(), cluster.Step{Phase: cluster.Hosts, Refused: "another upgrade is under way"}, annotation.Host{}),
		UpgradeWayBackOpen:  upgrading(t, site(), cluster.Step{Phase: cluster.Proving, Why: "healthy for 1h0m0s of 24h0m0s"}, annotation.Host{}),
	} {
		found := describer{Facts: f}.ofUpgrade()
		if len(found) != 1 || found[0].ID != id || len(found[0].Commands) == 0 || !strings.HasSuffix(found[0].Meaning, ".") || strings.HasSuffix(found[0].Problem, ".") {
			t.Errorf("%s: %+v", id, found)
		}
		if note := id == UpgradeWayBackOpen; len(found) == 1 && (found[0].Severity == finding.Note) != note {
			t.Errorf("%s is a %s", id, found[0].Severity)
		}
	}
	paused := upgrading(t, site(), cluster.Step{Phase: cluster.Hosts, Do: cluster.Pause, Why: "paused: lunch"}, annotation.Host{})
	paused.Upgrade.Value.Version.Annotations = map[string]string{annotation.PausedBy: "lunch"}
	if found := (describer{Facts: paused}).ofUpgrade(); len(found) != 1 || found[0].ID != UpgradePaused || found[0].Severity != finding.Note || found[0].Commands[0].Line != "holdfast upgrade resume" {
		t.Errorf("%+v", found)
	}
	mixed := upgrading(t, site(), cluster.Step{Phase: cluster.Idle}, annotation.Host{})
	mixed.Upgrade.Value.Record, mixed.Upgrade.Value.Version.Spec.DesiredUpdate = state.Known(""), nil
	if found := (describer{Facts: mixed}).ofUpgrade(); len(found) != 1 || found[0].ID != ReleasesMixed || found[0].Severity != finding.Warning {
		t.Errorf("%+v", found)
	}
}

// TestASiteThatNobodyUpgradesSaysNothingOfIt, with and without a ClusterVersion.
func TestASiteThatNobodyUpgradesSaysNothingOfIt(t *testing.T) {
	f := upgrading(t, onTheHost(recorded(t, "healthy", etcdReport(t, "healthy"))), cluster.Step{Phase: cluster.Idle}, annotation.Host{})
	f.Upgrade.Value.Record, f.Upgrade.Value.Version.Spec.DesiredUpdate = state.Known(""), nil
	for i := range f.Hosts {
		f.Hosts[i].Release.Value.Told.Value.Facts.Release = state.Known("sha256:1")
	}
	without := f
	without.Upgrade = Seen[UpgradeObjects]{}
	for _, f := range []Facts{f, without} {
		if v := Describe(f); v.Upgrade != nil || len((describer{Facts: f}).ofUpgrade()) > 0 || strings.Contains(Text(v, page.Style{}), "pgrade") {
			t.Errorf("%+v", v.Upgrade)
		}
	}
}

// TestAStepOfAnUpgradeIsAChangeAndAMinuteIsNone of a watch.
func TestAStepOfAnUpgradeIsAChangeAndAMinuteIsNone(t *testing.T) {
	site := onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
	view := func(step cluster.Step) View { return Describe(upgrading(t, site, step, annotation.Host{})) }
	a, b := view(cluster.Step{Phase: cluster.Hosts, Do: cluster.Await, Why: "waiting for cp-2"}), view(cluster.Step{Phase: cluster.Hosts, Do: cluster.Await, Why: "cp-2 is next"})
	if got := Changes(a, b); len(got) != 1 || !strings.HasPrefix(got[0], "upgrade: Hosts, from Holdfast 0.8.0 (sha256:111111111111) to Holdfast 0.9.0 (sha256:222222222222): cp-2 is next") {
		t.Errorf("%q", got)
	}
	if got := Changes(a, a); len(got) > 0 {
		t.Errorf("%q", got)
	}
}
