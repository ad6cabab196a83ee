package standing

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/rotation"
)

// rotating has the hosts of a healthy pair say the same of an authority.
func rotating(t *testing.T, a rotation.Authority, r rotation.Report) Facts {
	t.Helper()
	f := onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
	for i := range f.Hosts {
		f.Hosts[i].Authorities = Know(rotation.Reports{ControlPlanes: 2, Authorities: map[rotation.Authority]rotation.Report{a: r}}, saidTest, f.Now) //nolint:exhaustive // one is enough
	}
	return f
}

func trusting(turn string, began time.Time) rotation.Report {
	return rotation.Report{Of: "one", New: "new", Phase: rotation.Trust, Turn: turn, Began: began, Late: began.Add(2 * time.Hour), Trusts: []rotation.ID{"old"}, Signs: "old"}
}

func TestARotationThatIsUnderWayIsANoteAndAWarningIfNobodyGoesOn(t *testing.T) {
	for what, c := range map[string]struct {
		facts    Facts
		severity finding.Severity
		problem  string
		meaning  string
		types    finding.Command
	}{
		"for a minute": {
			rotating(t, rotation.EtcdCA, trusting("cp-1", now.Add(-time.Minute))), finding.Note,
			"etcd-ca has been in rotation for 1m00s, phase trust: waiting for cp-1 to trust the new authority beside the old one",
			"type it again to continue.",
			finding.Command{Line: "holdfast ca rotate etcd-ca"},
		},
		"for a day": {
			rotating(t, rotation.KubernetesCA, trusting("cp-2", now.Add(-24*time.Hour))), finding.Warning,
			"kubernetes-ca has been in rotation for 24h00m, phase trust: waiting for cp-2 to trust the new authority beside the old one",
			"It takes longer than it should.",
			finding.Command{Line: "sudo holdfast ca rotate kubernetes-ca", Host: oneHost},
		},
	} {
		found := describer{Facts: c.facts}.ofRotations()
		if len(found) != 1 {
			t.Errorf("%s: %+v", what, found)
			continue
		}
		f := found[0]
		if f.ID != RotationUnfinished || f.Severity != c.severity || f.Problem != c.problem || !strings.HasSuffix(f.Meaning, c.meaning) || f.Commands[len(f.Commands)-1] != c.types || f.Page != pageCAs {
			t.Errorf("%s: %+v", what, f)
		}
		v := Describe(c.facts)
		if want := map[bool]explain.Status{true: explain.Degraded, false: explain.Healthy}[c.severity == finding.Warning]; v.Status != want || !strings.Contains(Text(v, page.Style{}), "holdfast ca rotate ") {
			t.Errorf("%s: the status is %s", what, v.Status)
		}
		later := c.facts
		later.Now = later.Now.Add(time.Second)
		if got := Changes(v, Describe(later)); len(got) > 0 {
			t.Errorf("%s: a second later changed %q", what, got)
		}
	}
}

func TestAHostThatARotationLeftOutIsNamed(t *testing.T) {
	done := rotation.Report{Of: "one", New: "new", Phase: rotation.Done, Trusts: []rotation.ID{"new"}, Signs: "new"}
	f := rotating(t, rotation.FrontProxyCA, done)
	if found := (describer{Facts: f}).ofRotations(); len(found) > 0 {
		t.Errorf("all is well: %+v", found)
	}
	older := done
	older.New, older.Restored = "former", true
	f.Hosts[1].Authorities.Value.Authorities[rotation.FrontProxyCA] = older
	found := describer{Facts: f}.ofRotations()
	if len(found) != 1 || found[0].Problem != "etcd was restored from before the last rotation of front-proxy-ca" || found[0].Severity != finding.Warning || found[0].Commands[1].Line != "holdfast ca rotate front-proxy-ca" {
		t.Errorf("%+v", found)
	}
	f.Hosts[1].Authorities.Value.Authorities[rotation.FrontProxyCA] = rotation.Report{Unreadable: true, Problem: "it cannot be read"}
	found = describer{Facts: f}.ofRotations()
	if len(found) != 1 || found[0].Problem != "what is wished about front-proxy-ca cannot be read" || found[0].Severity != finding.Warning || found[0].Commands[1].Line != rotation.TakeAway(rotation.FrontProxyCA) {
		t.Errorf("%+v", found)
	}
	done.Trusts, done.Signs, done.Problem = []rotation.ID{"old"}, "old", "no space left on device"
	f.Hosts[1].Authorities.Value.Authorities[rotation.FrontProxyCA] = done
	found = describer{Facts: f}.ofRotations()
	if len(found) != 1 || found[0].Problem != "front-proxy-ca was replaced, and cp-2 uses another one: no space left on device" || found[0].Severity != finding.Warning || found[0].Commands[0].Host != "cp-2" {
		t.Errorf("%+v", found)
	}
}
