package backup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

const day = 24 * time.Hour

// site is a site of two hosts whose backups are well and go to one target.
func site() Site {
	host := func(name string, taken time.Time) Host {
		return Host{Name: name, Summary: Summary{
			Schedule: "0 3 * * * UTC", Period: day, Keep: 7, Targets: []string{"shop-nas"}, Recipients: []string{"age1owner"}, Since: noon.Add(-30 * day), Next: taken.Add(day),
			Kept: []Brief{
				{ID: name + "-2", Taken: taken, Good: true, Revision: 4711, Size: 12 << 20, Copies: []Copy{{Target: "shop-nas", Verified: taken.Add(time.Minute)}}},
				{ID: name + "-1", Taken: taken.Add(-day), Good: true, Revision: 4000, Size: 12 << 20, Copies: []Copy{{Target: "shop-nas", Verified: taken.Add(-day)}}},
			},
		}}
	}
	return Site{
		Now: noon, Hosts: []Host{host("cp-1", noon.Add(-9*time.Hour)), host("cp-2", noon.Add(-8*time.Hour))},
		Proof: state.Known(Proof{ID: "cp-1-0", At: noon.Add(-20 * day), By: "admin", Recipients: []string{"age1owner"}}),
	}
}

// situations are sites, each with the troubles that it should show.
var situations = []struct {
	name   string
	change func(s *Site)
	want   string // kinds with subjects; ! where a person has to act
}{
	{"all is well", func(*Site) {}, ""},
	{"the first day", func(s *Site) {
		for i := range s.Hosts {
			s.Hosts[i].Kept, s.Hosts[i].Since = nil, noon.Add(-time.Hour)
		}
	}, ""},
	{"never one", func(s *Site) {
		for i := range s.Hosts {
			s.Hosts[i].Kept = nil
		}
		s.Hosts[1].Waits = "etcd takes no writes here"
	}, "none!"},
	{"bad ones do not count", func(s *Site) {
		for i := range s.Hosts {
			for j := range s.Hosts[i].Kept {
				s.Hosts[i].Kept[j].Good = false
			}
		}
	}, "none!"},
	{"the site's are old", func(s *Site) {
		s.Now = noon.Add(3 * day)
		s.Hosts[0].Failed = &Failure{At: noon, Why: "no room", Times: 9}
	}, "old!, not-sent shop-nas!"},
	{"two periods are not old yet", func(s *Site) { s.Now = noon.Add(-8 * time.Hour).Add(2 * day) }, "host-old cp-1"},
	{"a host is off", func(s *Site) {
		s.Hosts[0].Kept[0].Taken = noon.Add(-5 * day)
		s.Hosts[0].Kept[1].Taken = noon.Add(-6 * day)
	}, "host-old cp-1"},
	{"the clock was ahead when one was taken, and then none was", func(s *Site) {
		s.Now = noon.Add(3 * day)
		s.Hosts[0].Kept = append([]Brief{{ID: "ahead", Taken: s.Now.Add(90 * day), Good: true, Copies: []Copy{{Target: "shop-nas", Verified: noon}}}}, s.Hosts[0].Kept...)
	}, "old!, not-sent shop-nas!"},
	{"nothing but one of a clock that was ahead", func(s *Site) {
		for i := range s.Hosts {
			s.Hosts[i].Kept = []Brief{{ID: "ahead", Taken: noon.Add(90 * day), Good: true}}
		}
	}, "none!"},
	{"the newest lies on a host alone that is not ready", func(s *Site) { s.Hosts[1].Lost, s.Hosts[1].Kept[0].Copies = true, nil }, ""},
	{"a target has the newest of a host that is not ready", func(s *Site) { s.Hosts[1].Lost = true }, ""},
	{"a host removes none", func(s *Site) { s.Hosts[1].Stays = "the newest good backup is too old" }, ""},
	{"a target lets nothing be removed", func(s *Site) { s.Hosts[1].Left = []string{"cp-2-0 at shop-nas: permission denied"} }, ""},
	{"a host fails", func(s *Site) { s.Hosts[1].Failed = &Failure{At: noon, Why: "no room", Times: 1} }, "failing cp-2"},
	{"a host goes on failing", func(s *Site) { s.Hosts[1].Failed = &Failure{At: noon, Why: "no room", Times: 3} }, "failing cp-2!"},
	{"the wish has mistakes, which both hosts tell", func(s *Site) { s.Hosts[0].Refused, s.Hosts[1].Refused = []string{"a", "b"}, []string{"a", "b"} }, "refused!"},
	{"the target is away for days", func(s *Site) {
		for i := range s.Hosts {
			for j := range s.Hosts[i].Kept {
				s.Hosts[i].Kept[j].Copies[0] = Copy{Target: "shop-nas", Failed: "no route"}
			}
		}
		s.Hosts[0].Kept[1].Taken = noon.Add(-4 * day)
	}, "not-sent shop-nas!"},
	{"the target is away since last night", func(s *Site) { s.Hosts[1].Kept[0].Copies[0] = Copy{Target: "shop-nas", Failed: "no route"} }, ""},
	{"one backup is kept, and the target is away for days", func(s *Site) {
		for i := range s.Hosts {
			s.Hosts[i].Aimed, s.Hosts[i].Kept = map[string]time.Time{"shop-nas": noon.Add(-5 * day)}, s.Hosts[i].Kept[:1]
			s.Hosts[i].Kept[0].Copies[0] = Copy{Target: "shop-nas", Failed: "no route"}
		}
	}, "not-sent shop-nas!"},
	{"each sending is cut off", func(s *Site) {
		for i := range s.Hosts {
			s.Hosts[i].Aimed = map[string]time.Time{"shop-nas": noon.Add(-5 * day)}
			for j := range s.Hosts[i].Kept {
				s.Hosts[i].Kept[j].Copies = nil
			}
		}
	}, "not-sent shop-nas!"},
	{"a target is configured since yesterday, and has none yet", func(s *Site) {
		s.Hosts[0].Targets, s.Hosts[0].Aimed = append(s.Hosts[0].Targets, "bucket"), map[string]time.Time{"bucket": noon.Add(-day), "shop-nas": noon.Add(-30 * day)}
	}, ""},
	{"a new target has time", func(s *Site) { s.Hosts[0].Targets = append(s.Hosts[0].Targets, "bucket") }, ""},
	{"nobody ever proved one", func(s *Site) { s.Proof.Value = Proof{} }, "never-proven"},
	{"the proof was for others", func(s *Site) { s.Proof.Value.Recipients = []string{"age1former"} }, "never-proven"},
	{"whether one is proven is unknown", func(s *Site) { s.Proof = state.Fact[Proof]{} }, ""},
	{"the hosts alone have them", func(s *Site) { s.Hosts[0].Targets, s.Hosts[1].Targets, s.Proof.Value = nil, nil, Proof{} }, ""},
	{"one is on its way", func(s *Site) { s.Hosts[0].Doing = &Doing{ID: "x", Since: noon.Add(-time.Minute), Phase: "verifies"} }, ""},
	{"one host is silent", func(s *Site) { s.Hosts[0] = Host{Name: "cp-1", Silent: "x"} }, ""},
	{"all hosts are silent", func(s *Site) {
		s.Hosts[0], s.Hosts[1] = Host{Name: "cp-1", Silent: "x"}, Host{Name: "cp-2", Silent: "x"}
	}, ""},
}

func TestTroublesWithBackups(t *testing.T) {
	for _, c := range situations {
		s := site()
		c.change(&s)
		var got []string
		for _, tr := range s.Troubles() {
			text := strings.TrimSpace(string(tr.Kind) + " " + tr.Subject)
			if tr.Often {
				text += "!"
			}
			got = append(got, text)
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestPeopleReadOfBackupsWhatWasApproved(t *testing.T) {
	var out strings.Builder
	for _, c := range situations {
		s := site()
		c.change(&s)
		fmt.Fprintf(&out, "== %s\n%s\n", c.name, strings.Join(s.Lines(), "\n"))
		for _, tr := range s.Troubles() {
			fmt.Fprintf(&out, "* %s %s: %s\n", tr.Kind, tr.Subject, tr.Why)
		}
	}
	golden.Check(t, "health.txt", []byte(out.String()))
}

func TestASummaryIsReadAsItWasWrittenAndStaysSmall(t *testing.T) {
	s := site().Hosts[0].Summary
	text, err := s.Text()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ReadSummary(text)
	if err != nil || !back.Same(s) {
		t.Errorf("%+v, %v", back, err)
	}
	back.At = noon
	if !back.Same(s) {
		t.Error("the time of writing is news")
	}
	if back.Kept[0].Revision++; back.Same(s) {
		t.Error("another backup is no news")
	}
	long := strings.Repeat("é\nx", 5000)
	for i := range 100 {
		s.Kept = append(s.Kept, Brief{ID: fmt.Sprint(i), Taken: noon.Add(time.Duration(i) * time.Hour), Why: long, Reason: long, Copies: []Copy{{Target: "t", Failed: long}, {Target: "u", Failed: long}}})
	}
	s.Failed, s.Waits, s.Answer.Failed, s.Refused = &Failure{Why: long}, long, long, slices.Repeat([]string{long}, 100)
	s.Left = s.Refused
	text, err = s.Text()
	if err != nil || len(text) > 32<<10 || strings.Contains(text, `\n`) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	back, err = ReadSummary(text)
	if best, is := back.Newest(time.Time{}); err != nil || !is || best.ID != "cp-1-2" {
		t.Errorf("the newest good one is not in it any more: %+v, %v", best, err)
	}
	if _, err := ReadSummary(""); !errors.Is(err, ErrNothingSaid) {
		t.Errorf("%v", err)
	}
	if _, err := ReadSummary("{"); err == nil || !strings.Contains(err.Error(), Annotation) {
		t.Errorf("%v", err)
	}
	if later, err := ReadSummary(`{"schedule":"x","ofALaterRelease":{"a":1}}`); err != nil || later.Schedule != "x" {
		t.Errorf("%+v, %v", later, err)
	}
}

func TestTheHostThatIsAskedIsOneThatCanBeginNow(t *testing.T) {
	fit := func(name, waits string, fails int) Host {
		h := Host{Name: name, Summary: Summary{Waits: waits}}
		if fails > 0 {
			h.Failed = &Failure{Times: fails}
		}
		return h
	}
	ready := map[string]bool{"a": true, "b": true, "c": true}
	for want, hosts := range map[string][]Host{
		"a": {fit("c", "", 0), fit("a", "", 0), fit("b", "", 0)},
		"b": {fit("a", "cp-2 is drained", 0), fit("b", "", 1), fit("c", "", 2)},
		"c": {fit("a", "x", 1), fit("b", "x", 2), fit("c", "x", 0)},
	} {
		if got, err := (Site{Hosts: hosts}).Choose(ready); err != nil || got != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}

// After a change of the recipients the copies of before are still encrypted to the former ones.
func TestACopyProvesTheKeysToWhichItWasEncrypted(t *testing.T) {
	former, today := []string{"age1b", "age1a"}, []string{"age1b", "age1c"}
	sent := func(recipients []string, verified time.Time) Brief {
		b := Briefs([]model.Entry{{ID: "x", Copies: []model.Copy{{Target: "nas", Recipients: recipients, Verified: verified}, {Target: "far", Failed: "no route"}}}})[0]
		text, err := Summary{Kept: []Brief{b}}.Text()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ReadSummary(text)
		if err != nil {
			t.Fatal(err)
		}
		return back.Kept[0]
	}
	for name, c := range map[string]struct {
		b    Brief
		want bool
	}{
		"today's":                       {sent(today, noon), true},
		"today's, in another order":     {sent([]string{"age1c", "age1b"}, noon), true},
		"former ones":                   {sent(former, noon), false},
		"today's, and not read back":    {sent(today, time.Time{}), false},
		"an agent that does not say it": {sent(nil, noon), true},
	} {
		if got := c.b.SentTo(today); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if sent(today, noon).SentTo(nil) {
		t.Error("a site without recipients has a copy that is encrypted to them")
	}
	long := sent(slices.Repeat([]string{strings.Repeat("age1pq1", 300)}, 9), noon)
	if len(long.Copies[0].To) > 16 {
		t.Errorf("%d bytes for the recipients of each copy", len(long.Copies[0].To))
	}
}

func TestAWishIsReadAsItWasWritten(t *testing.T) {
	for _, reason := range []string{"", "before the move", "two\nlines  here"} {
		text := Ask(noon.Add(5), reason)
		if got := ReadAsked(text); got.Text != text || !got.At.Equal(noon.Add(5)) || got.Reason != strings.Join(strings.Fields(reason), " ") {
			t.Errorf("%q: %+v", text, got)
		}
	}
	text := AskWithout(noon, "cp-2", "before host replace")
	if got := ReadAsked(text); got.Text != text || !got.At.Equal(noon) || got.Gone != "cp-2" || got.Reason != "before host replace" {
		t.Errorf("%q: %+v", text, got)
	}
	if got := ReadAsked(AskWithout(noon, "cp-2", "")); got.Gone != "cp-2" || got.Reason != "" {
		t.Errorf("%+v", got)
	}
	if got := ReadAsked("please"); got.Text != "please" || !got.At.IsZero() || got.Reason != "please" {
		t.Errorf("%+v", got)
	}
	if got := ReadAsked(""); got.Text != "" {
		t.Errorf("%+v", got)
	}
}
