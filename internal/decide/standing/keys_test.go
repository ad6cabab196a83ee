package standing

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/encryption"
	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/state"
)

// keyed has the hosts of a healthy pair say which keys their API servers have.
func keyed(t *testing.T, said ...string) Facts {
	t.Helper()
	f := onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
	for i := range f.Hosts {
		f.Hosts[i].Labels = Know(map[string]string{state.LabelControlPlane: ""}, saidTest, now)
		f.Hosts[i].Authorities = Know(rotation.Reports{ControlPlanes: 2}, saidTest, now)
		f.Hosts[i].Keys = Know(said[i], saidTest, now)
	}
	return f
}

// wishing adds the wish, written that long ago; zero if it does not say.
func wishing(f Facts, ago time.Duration, numbers ...int) Facts {
	w := encryption.Wish{Keys: numbers, Rewritten: 1}
	if ago > 0 {
		w.At = f.Now.Add(-ago)
	}
	f.Encryption = Know(w, saidTest, f.Now)
	return f
}

func TestARotationOfKeysThatWasCutOffIsANoteAndAWarningIfNobodyGoesOn(t *testing.T) {
	away := wishing(keyed(t, "1,2", "1"), time.Minute, 1, 2)
	away.Hosts[1].Kubelet.Value.Ready = false
	const status, rotate = "holdfast encryption status", "holdfast encryption rotate"
	const stands = "the rotation of the keys of secrets in etcd has had no step for "
	const unsettled = "the keys of secrets in etcd are not settled: "
	for what, c := range map[string]struct {
		facts    Facts
		severity finding.Severity
		problem  string // begins so
		types    string // the last command
	}{
		"none":                       {wishing(keyed(t, "1", "1"), time.Hour, 1), "", "", ""},
		"a site without keys":        {keyed(t, "", ""), "", "", ""},
		"nobody says anything":       {onTheHost(recorded(t, "healthy", etcdReport(t, "healthy"))), "", "", ""},
		"for a minute":               {wishing(keyed(t, "1,2", "1,2"), time.Minute, 1, 2), finding.Note, stands + "1m00s: every host must write with key 2", rotate},
		"for two hours and more":     {wishing(keyed(t, "2,1", "2,1"), 3*time.Hour, 2, 1), finding.Warning, stands + "3h00m: everything stored is rewritten with key 2", rotate},
		"nobody knows since when":    {wishing(keyed(t, "1,2", "1,2"), 0, 1, 2), finding.Warning, unsettled + "every host must write with key 2", rotate},
		"one is away":                {away, finding.Note, stands + "1m00s: cp-2 not ready", rotate},
		"one drops the old key yet":  {wishing(keyed(t, "2", "2,1"), time.Minute, 2), finding.Note, unsettled + "waiting for the API servers of cp-2 to load: key 2", status},
		"it never drops it":          {wishing(keyed(t, "2", "2,1"), 3*time.Hour, 2), finding.Warning, unsettled + "waiting for the API servers of cp-2 to load: key 2", status},
		"one keeps a key":            {wishing(keyed(t, "2", "2,1 kept"), 100*time.Hour, 2), finding.Warning, unsettled + "cp-2 may have written with key 1", rotate},
		"this account reads no wish": {keyed(t, "1,2", "1,2"), finding.Note, unsettled + "every host must write with key 2", rotate},
	} {
		found := describer{Facts: c.facts}.ofKeys()
		f, one := onlyOne(t, what, found, c.severity != "")
		if !one {
			continue
		}
		if f.ID != RotationUnfinished || f.Severity != c.severity || !strings.HasPrefix(f.Problem, c.problem) || f.Commands[len(f.Commands)-1].Line != c.types || f.Page != pageKeys {
			t.Errorf("%s: %+v", what, f)
		}
		if late := strings.HasSuffix(f.Meaning, "It takes longer than it should."); late != (c.severity == finding.Warning) {
			t.Errorf("%s: it means %q", what, f.Meaning)
		}
		v := Describe(c.facts)
		if !strings.Contains(Text(v, page.Style{}), "holdfast encryption status") {
			t.Errorf("%s: the overview does not tell of it", what)
		}
		if c.severity == finding.Warning && v.Status != explain.Degraded {
			t.Errorf("%s: the status is %s", what, v.Status)
		}
		later := c.facts
		later.Now = later.Now.Add(time.Second)
		if got := Changes(v, Describe(later)); len(got) > 0 {
			t.Errorf("%s: a second later changed %q", what, got)
		}
	}
}

// TestAWorkerThatSaysThatItIsAControlPlaneCountsForNone: root on it may write what it likes.
func TestAWorkerThatSaysThatItIsAControlPlaneCountsForNone(t *testing.T) {
	f := wishing(keyed(t, "1,2", "1,2"), time.Minute, 1, 2)
	f.Hosts[1].Labels.Value, f.Hosts[1].Authorities.Value.ControlPlanes = nil, 9
	found := describer{Facts: f}.ofKeys()
	if len(found) != 1 || !strings.Contains(found[0].Problem, "only 1 of 2 control planes have a Node") {
		t.Errorf("%+v", found)
	}
}
