package etcdspace

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// calm is the summary of a host on which nothing is to be done.
func calm() Summary {
	return Summary{
		At: noon, Size: 200 * mib, InUse: 180 * mib, Quota: 2 << 30, Voters: 2,
		Verdict: Verdict{Rule: "rest", Why: "no member has enough to gain"}, IfAsked: Verdict{Rule: "rest"},
	}
}

func TestASummaryIsWrittenAtOnceOnlyForWhatSomebodyWaitsForOrHasToActOn(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *Summary)
		want   News
	}{
		"nothing":                        {func(*Summary) {}, Nothing},
		"another time":                   {func(s *Summary) { s.At = noon.Add(time.Hour) }, Nothing},
		"some MiB more":                  {func(s *Summary) { s.Size += 100 * mib }, Nothing},
		"other words":                    {func(s *Summary) { s.Verdict.Why = "180 of 300 MiB are free" }, Nothing},
		"another revision":               {func(s *Summary) { s.Verdict.Revision = 7 }, Nothing},
		"a twentieth of the quota":       {func(s *Summary) { s.Size += 103 * mib }, Quiet},
		"a twentieth less in use":        {func(s *Summary) { s.InUse -= 103 * mib }, Quiet},
		"a gate":                         {func(s *Summary) { s.Verdict.Rule = "backup" }, Quiet},
		"the turn of another host":       {func(s *Summary) { s.Verdict.Host = "cp-2" }, Quiet},
		"what a person could have":       {func(s *Summary) { s.IfAsked.Rule = "follower" }, Nothing},
		"another quota":                  {func(s *Summary) { s.Quota++ }, Quiet},
		"a member less":                  {func(s *Summary) { s.Voters = 1 }, Quiet},
		"another error":                  {func(s *Summary) { s.Error = "x" }, Quiet},
		"79 % of the quota":              {func(s *Summary) { s.Size = 79 * s.Quota / 100 }, Quiet},
		"80 % of the quota":              {func(s *Summary) { s.Size = 80*s.Quota/100 + 1 }, Loud},
		"the alarm":                      {func(s *Summary) { s.NoSpace = []string{"cp-2"} }, Loud},
		"a failure":                      {func(s *Summary) { s.Failed = 1 }, Loud},
		"it gave up":                     {func(s *Summary) { s.GivenUp = true }, Loud},
		"it runs":                        {func(s *Summary) { s.Verdict.Rule = Begun }, Loud},
		"it ran":                         {func(s *Summary) { s.Done.At = noon }, Loud},
		"a wish":                         {func(s *Summary) { s.Wish = "w" }, Loud},
		"an answer":                      {func(s *Summary) { s.Asked = "w" }, Loud},
		"a loud thing beside quiet ones": {func(s *Summary) { s.Failed, s.Verdict.Rule = 1, "backup" }, Loud},
	} {
		now := calm()
		if c.change(&now); now.News(calm()) != c.want {
			t.Errorf("%s: %d, want %d", name, now.News(calm()), c.want)
		}
	}
	waits, still := calm(), calm()
	waits.Wish, still.Wish, still.Verdict.Rule = "w", "w", "backup"
	if still.News(waits) != Loud {
		t.Error("a person who waits is not told for what")
	}
}

func TestASummaryIsReadAsItWasWrittenAndIsBounded(t *testing.T) {
	s := calm()
	s.Done, s.Asked, s.Answer = Done{At: noon, Before: 400 * mib, After: 100 * mib, Took: 1200 * time.Millisecond}, "w", Answer{Failed: "no\nroom"}
	s.Error, s.Verdict.Why, s.IfAsked.Why = strings.Repeat("é", 5000), strings.Repeat("x", 5000), strings.Repeat("y", 5000)
	text, err := s.Text()
	if err != nil || len(text) > 2000 {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	got, err := ReadSummary(text)
	if err != nil || got.Answer.Failed != "no room" || got.Done != s.Done || got.News(s) != Quiet || len(s.Error) != 10000 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := ReadSummary(""); !errors.Is(err, ErrNothingSaid) {
		t.Error(err)
	}
	if h := HostOf("cp-1", map[string]string{Annotation: "{", WantedOf: "w"}); !strings.Contains(h.Silent, Annotation) || h.Wanted != "w" {
		t.Errorf("%+v", h)
	}
	if _, err := ReadSummary(`{"size": 1, "later": {}}`); err != nil {
		t.Errorf("a field of a later release: %v", err)
	}
}

func TestAWishCountsForTenMinutes(t *testing.T) {
	for ago, want := range map[time.Duration]string{0: "", WishLasts: "", WishLasts + 1: "counts for 10m", -WishLasts: "", -WishLasts - 1: "clocks"} {
		if got := ReadWish(Ask(noon.Add(-ago))).Refused(noon); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s ago: %q, want %q", ago, got, want)
		}
	}
	if got := ReadWish("please").Refused(noon); !strings.Contains(got, WantedOf+": must be a time") {
		t.Errorf("%q", got)
	}
}

// TestAWishWaitsForWhatEndsByItself: each rule without a step is either of those or final, and
// the source has no rule that is neither.
func TestAWishWaitsForWhatEndsByItself(t *testing.T) {
	ends := []string{"unknown", "leader", "learner", "take-over", "no-writes", "behind", "pair", "settling", "backup", "busy", "away", "rotation", "other", youngVersions}
	for _, g := range gates {
		if !slices.Contains(final, g.id) && !slices.Contains(ends, g.id) {
			t.Errorf("gate %s: does it end by itself?", g.id)
		}
	}
	for _, s := range situations {
		f := tidy(s.hosts, s.self)
		for _, c := range s.change {
			c(&f)
		}
		f.Asked = true
		v := Decide(f)
		if v.Step == None && v.Final() == slices.Contains(ends, v.Rule) {
			t.Errorf("%s: %s is final: %t", s.name, v.Rule, v.Final())
		}
		if v.Step != None && v.Final() {
			t.Errorf("%s: %s is a step", s.name, v.Rule)
		}
	}
}

// TestAFullEtcdIsNotGivenUpWhileVersionsAreYoung: nobody is told to delete objects before the last
// versions were compacted.
func TestAFullEtcdIsNotGivenUpWhileVersionsAreYoung(t *testing.T) {
	for name, c := range map[string]struct {
		newest, past int64
		want         string
	}{
		"the agent has just begun":      {1000, 0, youngVersions},
		"written a minute ago":          {1000, 990, youngVersions},
		"all of it is old":              {1000, 1000, "nothing-to-gain"},
		"the revision is not known yet": {0, 0, "nothing-to-gain"},
	} {
		f := tidy(2, "cp-1")
		change(packed)(&f)
		change(noSpace, "cp-1")(&f)
		f.Newest, f.Past = c.newest, c.past
		v := Decide(f)
		if h := (Host{Summary: Summary{Verdict: v}}); v.Rule != c.want || v.Step != None || h.mends() != (c.want == youngVersions) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestTheJournalKeepsTheAnswerBesideAnEnd(t *testing.T) {
	j := Journal{}.Answers("w", Answer{Failed: "no"}).Begin(time.Minute)
	if j.Asked != "w" || j.End(time.Hour, nil).Answer.Failed != "no" || j.End(time.Hour, errors.New("x")).Asked != "w" {
		t.Errorf("%+v", j)
	}
}

func TestAHostSaysWhatItDoesAboutAWish(t *testing.T) {
	for want, h := range map[string]Host{
		"not readable false":                           {Silent: "not readable"},
		"has not heard of it yet false":                {Summary: calm()},
		"waits: no member has enough false":            {Summary: Summary{Wish: "w", Verdict: Verdict{Why: "no member has enough"}}},
		"cp-1 leads false":                             {Name: "cp-1", Summary: Summary{Wish: "w", Verdict: Verdict{Step: MoveLeader, Host: "cp-1", Why: "cp-1 leads"}}},
		"is defragmented false":                        {Summary: Summary{Wish: "w", Verdict: Verdict{Step: Defragment, Rule: Begun}}},
		"was not defragmented: no room true":           {Summary: Summary{Asked: "w", Answer: Answer{Failed: "no room"}}},
		"defragmented, from 4 MiB to 1 MiB in 2s true": {Summary: Summary{Asked: "w", Answer: Answer{Done: Done{At: noon, Before: 4 * mib, After: mib, Took: 2 * time.Second}}}},
		"defragmented, 4 MiB before, in 2s true":       {Summary: Summary{Asked: "w", Answer: Answer{Done: Done{At: noon, Before: 4 * mib, Took: 2 * time.Second}}}},
	} {
		text, done := h.Says("w")
		if got := text + map[bool]string{true: " true", false: " false"}[done]; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestOfSeveralHostsTheOneWithMostToGainIsAsked(t *testing.T) {
	host := func(name string, free int64, v Verdict) Host {
		s := calm()
		s.InUse, s.IfAsked = s.Size-free, v
		return Host{Name: name, Summary: s}
	}
	due, busy, rest := Verdict{Step: Defragment}, Verdict{Rule: "backup"}, Verdict{Rule: "rest", Why: "nothing to gain"}
	ready := map[string]bool{"cp-1": true, "cp-2": true}
	list := []Host{host("cp-1", 100*mib, due), host("cp-2", 120*mib, busy), host("cp-3", 150*mib, due)}
	if h, err := Choose(list, ready); err != nil || h.Name != "cp-2" {
		t.Errorf("%s, %v", h.Name, err)
	}
	_, err := Choose([]Host{host("cp-1", 0, rest), {Name: "cp-2", Silent: "no report"}, host("cp-3", 0, due)}, ready)
	if err == nil || err.Error() != "no control plane can be defragmented: cp-1: nothing to gain; cp-2: no report; cp-3: it is not ready" {
		t.Error(err)
	}
}

func TestTroublesOfTheSpaceOfEtcd(t *testing.T) {
	const quota = 2 << 30
	with := func(percent int64, v Verdict) Host {
		s := calm()
		s.Size, s.Verdict = percent*quota/100+1, v
		return Host{Name: "cp-1", Summary: s}
	}
	nothing := Verdict{Rule: "rest", Why: "no member has enough to gain"}
	due := Verdict{Step: Defragment, Host: "cp-2", Rule: "follower"}
	alarm := with(99, due)
	alarm.NoSpace = []string{"cp-1", "cp-2"}
	failed := with(10, nothing)
	failed.GivenUp, failed.Failed, failed.Error = true, 3, "no room"
	lone := with(10, Verdict{Rule: onlyMember})
	silent := with(99, nothing)
	silent.Silent = "no report"
	for name, c := range map[string]struct {
		hosts []Host
		want  []Trouble
	}{
		"a calm host": {[]Host{with(79, nothing)}, nil},
		"no report":   {[]Host{silent}, nil},
		"short, and nothing to gain": {[]Host{with(80, nothing)}, []Trouble{
			{Kind: Short, Subject: "cp-1", Why: "80 % of its quota: 1638 MiB of 2048 MiB, of which 180 MiB are in use", Next: "no member has enough to gain"},
		}},
		"short, and the agents do something": {[]Host{with(96, due)}, []Trouble{
			{Kind: Short, Subject: "cp-1", Why: "96 % of its quota: 1966 MiB of 2048 MiB, of which 180 MiB are in use", Next: "cp-2 is next to be defragmented", Mends: true},
		}},
		"nearly full": {[]Host{with(95, nothing)}, []Trouble{
			{Kind: Short, Subject: "cp-1", Why: "95 % of its quota: 1945 MiB of 2048 MiB, of which 180 MiB are in use", Next: "no member has enough to gain", Urgent: true},
		}},
		"its turn lasts": {[]Host{with(80, Verdict{Rule: "turn", Why: "it waits"})}, []Trouble{
			{Kind: Short, Subject: "cp-1", Why: "80 % of its quota: 1638 MiB of 2048 MiB, of which 180 MiB are in use", Next: "it waits", Mends: true},
		}},
		"the alarm, once for all hosts": {[]Host{alarm, alarm}, []Trouble{
			{Kind: Full, Why: "cp-1 and cp-2 raised the alarm NOSPACE", Next: "cp-2 is next to be defragmented", Mends: true, Urgent: true},
		}},
		"it gave up": {[]Host{failed}, []Trouble{
			{Kind: GivenUp, Subject: "cp-1", Why: "3 times in a row, the last time with: no room", Next: "it tries again 24h00m after the last time"},
		}},
		"the only member": {[]Host{lone}, []Trouble{
			{Kind: Waste, Subject: "cp-1", Why: "24 MiB of 204 MiB are free"},
		}},
	} {
		if got := Troubles(c.hosts); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestAHostKnowsMoreOfThisMomentThanTheNodes: of all members, and of the alarm, which no Node says.
func TestAHostKnowsMoreOfThisMomentThanTheNodes(t *testing.T) {
	told := calm()
	told.Done.At = noon
	v := Verdict{Step: Compact, Host: "cp-1", Rule: "compact"}
	own := Summary{Size: 9 * mib, Quota: 10 * mib, NoSpace: []string{"cp-2"}, Verdict: v}
	r := Report{
		Host: "cp-1", Verdict: v, Summary: own,
		Members: []Member{{Name: "cp-1", Size: 9 * mib, Quota: 10 * mib}, {Name: "cp-2", Size: 10 * mib, InUse: 8 * mib, Quota: 10 * mib}},
	}
	got := r.Over([]Host{{Name: "cp-1", Silent: "nothing"}, {Name: "cp-2", Summary: told}})
	if len(got) != 2 || got[0].Silent != "" || got[1].Size != 10*mib || !got[1].Done.At.Equal(noon) || got[1].Verdict != v || !slices.Equal(got[1].NoSpace, own.NoSpace) {
		t.Errorf("%+v", got)
	}
	if alone := r.Over(nil); len(alone) != 2 || alone[1].InUse != 8*mib || Troubles(alone)[0].Kind != Full {
		t.Errorf("without an API: %+v", alone)
	}
}

func TestEtcdIsFullAsLongAsAHostSaysSo(t *testing.T) {
	now := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	for what, c := range map[string]struct {
		report Report
		want   bool
	}{
		"the alarm is raised":        {Report{At: now, Summary: Summary{NoSpace: []string{"cp-1"}}}, true},
		"nobody raised it":           {Report{At: now}, false},
		"it was, and nobody says so": {Report{At: now.Add(-Fresh), Summary: Summary{NoSpace: []string{"cp-1"}}}, false},
	} {
		if got := c.report.Full(now); got != c.want {
			t.Errorf("%s: %t", what, got)
		}
	}
}
