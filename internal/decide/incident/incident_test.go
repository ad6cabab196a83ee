package incident

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func TestTheReportOfEveryScenarioIsTheApprovedText(t *testing.T) {
	var out strings.Builder
	for _, s := range scenarios {
		out.WriteString("== " + s.name + "\n\n")
		for _, i := range Assemble(scenario(t, s.text)) {
			out.WriteString(i.Words() + "\n")
		}
	}
	golden.Check(t, "incidents.txt", []byte(out.String()))
}

func named(t *testing.T, name string) []Record {
	t.Helper()
	for _, s := range scenarios {
		if s.name == name {
			return scenario(t, s.text)
		}
	}
	t.Fatalf("no scenario %q", name)
	return nil
}

// TestEachScenarioIsOneIncidentOfItsKind has one line for each scenario.
func TestEachScenarioIsOneIncidentOfItsKind(t *testing.T) {
	for name, want := range map[string]struct {
		state  State
		causes []Cause
		hosts  string
	}{
		"a host loses its power and comes back":                                  {Over, []Cause{Lost}, "cp-2"},
		"an incident that is under way":                                          {UnderWay, []Cause{Gone}, "cp-2"},
		"the journal of the lost host is not here":                               {Over, []Cause{Gone}, "cp-2"},
		"the journal of the survivor is not here":                                {Over, []Cause{Rebooted}, "cp-2"},
		"clocks that are minutes apart":                                          {Over, []Cause{Lost}, "cp-2"},
		"a clock that is set after a boot":                                       {Over, []Cause{Lost}, "cp-2"},
		"the network between the hosts is cut":                                   {Over, []Cause{Cut}, "cp-2"},
		"of two that switch each other off the second wins":                      {UnderWay, []Cause{Cut}, "cp-1"},
		"a network that is away for a moment":                                    {Over, []Cause{Cut}, "cp-2"},
		"a planned reboot":                                                       {Over, []Cause{Planned}, "cp-2"},
		"a reboot for a configuration":                                           {Over, []Cause{Planned}, "cp-2"},
		"both are shut down in order and start again":                            {Over, []Cause{Planned}, "cp-1 cp-2"},
		"mains that are away for both":                                           {Over, []Cause{Started}, "cp-1 cp-2"},
		"standby and back":                                                       {Over, []Cause{Planned}, "cp-2"},
		"the copy of a host is damaged":                                          {Over, []Cause{CopyLost}, "cp-2"},
		"the disk of etcd on a host is replaced, with its record":                {Over, []Cause{CopyLost}, "cp-2"},
		"the disk of etcd on a host is replaced, and it asks for a person first": {Over, []Cause{Trouble, CopyLost}, ""},
		"a BMC that is mute, and a person":                                       {UnderWay, []Cause{Gone}, "cp-2"},
		"a host that is lost for good, and another one in its place":             {Over, []Cause{Gone}, "cp-2"},
		"the survivor booted alone and waits for a person":                       {Waiting, []Cause{Gone, Rebooted}, "cp-2"},
		"the survivor fails before the other is a voter":                         {Over, []Cause{Lost, Lost}, "cp-2"},
		"the survivor is the host that nobody can reach":                         {UnderWay, []Cause{Cut}, "cp-2"},
		"the survivor is the host that nobody can reach, and a worker measures":  {UnderWay, []Cause{Cut}, "cp-2"},
		"a host loses its power, and two workers measure":                        {Over, []Cause{Lost}, "cp-2"},
		"the lost host itself could not write":                                   {UnderWay, []Cause{Gone}, "cp-2"},
		"a copy is damaged, and the other host measures":                         {Over, []Cause{CopyLost}, "cp-2"},
		"a host that boots in a circle":                                          {UnderWay, []Cause{Lost}, "cp-2"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Assemble(named(t, name))
			if len(got) != 1 {
				t.Fatalf("%d incidents: %v", len(got), titles(got))
			}
			var causes []Cause
			for _, f := range got[0].Failures {
				causes = append(causes, f.Cause)
			}
			if hosts := strings.Join(got[0].Failures[0].Hosts, " "); got[0].State != want.state || !slices.Equal(causes, want.causes) || hosts != want.hosts {
				t.Errorf("%s, %v of %s, want %s, %v of %s", got[0].State, causes, hosts, want.state, want.causes, want.hosts)
			}
		})
	}
	if len(scenarios) < 17 {
		t.Errorf("%d scenarios", len(scenarios))
	}
}

func titles(list []Incident) []string {
	var out []string
	for _, i := range list {
		out = append(out, i.Title)
	}
	return out
}

func TestEveryPhaseHasItsTime(t *testing.T) {
	f := Assemble(named(t, "a host loses its power and comes back"))[0].Failures[0]
	for _, c := range []struct {
		phase Phase
		want  float64
	}{
		{PhaseLost, 0}, {PhaseFenced, 1.3}, {PhaseDecided, 1.4}, {PhaseEtcd, 1.5}, {PhaseAPI, 2.2}, {PhaseVIP, 0.1}, {PhasePods, 7.7}, {PhaseBack, 25.2}, {PhaseVoters, 28.9},
	} {
		m := f.Moment(c.phase)
		if d := m.After - time.Duration(c.want*float64(time.Second)); m.At.IsZero() || d.Abs() > 10*time.Millisecond {
			t.Errorf("%s: %v after the failure, want %vs (%s)", c.phase, m.After, c.want, m.Words)
		}
	}
}

// TestClocksThatAreApartChangeNoTime compares the times of a scenario with
// those of the same one with right clocks.
func TestClocksThatAreApartChangeNoTime(t *testing.T) {
	right := Assemble(named(t, "a host loses its power and comes back"))[0]
	for _, name := range []string{"clocks that are minutes apart", "a clock that is set after a boot"} {
		i := Assemble(named(t, name))[0]
		for n, m := range i.Failures[0].Moments {
			if d := m.At.Sub(right.Failures[0].Moments[n].At).Abs(); d > 20*time.Millisecond {
				t.Errorf("%s: %s is %s off", name, m.Phase, d)
			}
		}
		if len(i.Notes) == 0 || !strings.Contains(i.Notes[0], "clock of cp-2 was") {
			t.Errorf("%s: it is not said: %q", name, i.Notes)
		}
	}
	if len(right.Notes) != 0 {
		t.Errorf("clocks that agree: %q", right.Notes)
	}
}

// TestAHostBootsAfterItsFenceWhateverItsClockSays has no common membership by
// which clocks could be compared.
func TestAHostBootsAfterItsFenceWhateverItsClockSays(t *testing.T) {
	text := strings.ReplaceAll(paired, "ring 10", "ring 0") + takeOver + "20 cp-2 clock -2m\n20 cp-2 boots\n"
	i := Assemble(scenario(t, text))[0]
	fenced, booted := -1, -1
	for n, r := range i.Records {
		switch r.Kind {
		case Fenced:
			fenced = n
		case Booted:
			booted = n
		default:
		}
	}
	if fenced < 0 || booted < fenced || i.Failures[0].Cause != Lost {
		t.Errorf("fenced at %d, booted at %d, %s", fenced, booted, i.Failures[0].Cause)
	}
	if notes := strings.Join(i.Notes, "\n"); !strings.Contains(notes, "or more behind") || !strings.Contains(notes, "could not be compared") {
		t.Errorf("notes %q", i.Notes)
	}
}

func TestAnInstallationIsNoIncident(t *testing.T) {
	text := `
-50 cp-1 boots
-49 cp-2 boots
-30 cp-1 sees cp-1, ring 4, no quorum
-29 cp-1 sees cp-1 cp-2, ring 8
-29 cp-2 sees cp-1 cp-2, ring 8
-25 cp-1 wish started
-24 cp-1 rule equal.adopt write-record: no record exists yet, and both data directories are whole
-24 cp-1 record 1 voter equal.adopt: no record exists yet
-23 cp-1 record 2 pair equal.pair-first: both are marked voters
-23 cp-2 record 2 pair equal.pair-first: both are marked voters
`
	if got := Assemble(scenario(t, text)); len(got) != 0 {
		t.Errorf("%v", titles(got))
	}
}

func TestTheOrderInWhichRecordsComeDoesNotMatter(t *testing.T) {
	for _, s := range scenarios {
		records := scenario(t, s.text)
		want := Assemble(records)
		mixed := append(slices.Clone(records), records...) // and every record is read twice
		rand.New(rand.NewSource(1)).Shuffle(len(mixed), func(a, b int) { mixed[a], mixed[b] = mixed[b], mixed[a] })
		got := Assemble(mixed)
		for n := range min(len(got), len(want)) {
			if got[n].ID != want[n].ID || got[n].Title != want[n].Title || !reflect.DeepEqual(got[n].Failures, want[n].Failures) {
				t.Errorf("%s: %s, in order %s", s.name, got[n].Title, want[n].Title)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %v, in order %v", s.name, titles(got), titles(want))
		}
	}
}

// TestWhatIsCutOffAnywhereIsStillReported cuts each scenario after each of its
// records: no more is known while it happens.
func TestWhatIsCutOffAnywhereIsStillReported(t *testing.T) {
	for _, s := range scenarios {
		records := scenario(t, s.text)
		for n := range records {
			for _, i := range Assemble(records[:n]) {
				if i.Title == "" || i.ID == "" || len(i.Failures) == 0 || i.Words() == "" || Teller(i) == "" {
					t.Fatalf("%s after %d records: %+v", s.name, n, i)
				}
				for _, name := range i.Journals {
					if got := known(records[:n], name); i.State == Over && got != state.EtcdPair && got != "" {
						t.Errorf("%s after %d records: over while %s is %s", s.name, n, name, got)
					}
				}
			}
		}
	}
}

func TestATextKeepsToThePage(t *testing.T) {
	for _, s := range scenarios {
		for _, i := range Assemble(scenario(t, s.text)) {
			for line := range strings.Lines(i.Words()) {
				if len(line) > page.Broad+1 || strings.Contains(line, "\x1b") {
					t.Errorf("%s: %q", s.name, line)
				}
			}
		}
	}
}

func TestAReportIsReadBackAsItWasWritten(t *testing.T) {
	for _, s := range scenarios {
		for _, i := range Assemble(scenario(t, s.text)) {
			b, err := json.Marshal(i)
			if err != nil {
				t.Fatal(err)
			}
			var back Incident
			if err := json.Unmarshal(b, &back); err != nil || back.Words() != i.Words() {
				t.Errorf("%s: %v", s.name, err)
			}
		}
	}
}

// TestTwoHostsComeToOneReportUnderOneName merges, in every order, the reports
// that each host assembles alone and the report from both hosts' records.
func TestTwoHostsComeToOneReportUnderOneName(t *testing.T) {
	for _, s := range scenarios {
		records := scenario(t, s.text)
		if s.name == "both are shut down in order and start again" {
			continue // alone, each host knows only its own stop
		}
		var own [2][]Record
		for _, r := range records {
			own[map[string]int{"cp-1": 0, "cp-2": 1}[r.Host]] = append(own[map[string]int{"cp-1": 0, "cp-2": 1}[r.Host]], r)
		}
		a, b, both := Assemble(own[0]), Assemble(own[1]), Assemble(records)
		first := Reports(nil, a, b, both)
		for _, other := range [][]Incident{Reports(nil, b, both, a), Reports(nil, both, a, b), Reports(nil, first, both), Reports(nil, first, a), Reports(records, b, a), Reports(records, first)} {
			if len(other) != len(first) || len(first) != len(both) || other[0].ID != first[0].ID || other[0].Title != first[0].Title {
				t.Errorf("%s: %v, or %v", s.name, titles(first), titles(other))
			}
		}
		if first[0].Title != both[0].Title {
			t.Errorf("%s: kept %q, not %q", s.name, first[0].Title, both[0].Title)
		}
	}
}

func TestOneHostTellsTheAPI(t *testing.T) {
	for name, want := range map[string]string{
		"a host loses its power and comes back":             "cp-1",
		"the journal of the survivor is not here":           "cp-2",
		"a network that is away for a moment":               "cp-1",
		"a planned reboot":                                  "cp-1",
		"mains that are away for both":                      "cp-1",
		"of two that switch each other off the second wins": "cp-2",
	} {
		if got := Teller(Assemble(named(t, name))[0]); got != want {
			t.Errorf("%s: %s tells, want %s", name, got, want)
		}
	}
}

func TestAnIncidentThatGotAnotherNameIsNotToldAgain(t *testing.T) {
	records := named(t, "a host loses its power and comes back")
	var own []Record
	for _, r := range records {
		if r.Host == "cp-2" {
			own = append(own, r)
		}
	}
	half := Assemble(own)[0]
	e, ok := Told(half, began.Add(20*time.Minute))
	if !ok {
		t.Fatal("not told")
	}
	whole := Reports(records, []Incident{half})[0]
	if whole.ID == half.ID || !slices.Equal(whole.Was, []string{half.ID}) {
		t.Errorf("%s was %v", whole.ID, whole.Was)
	}
	now, ok := Told(whole, began.Add(20*time.Minute))
	if !ok || !WasTold(whole, now, map[string]bool{e.Name: true}) || WasTold(whole, now, nil) {
		t.Errorf("%+v", now)
	}
}

func TestAnIncidentIsToldOnceItIsOverAndBeforeOnlyWhereItLasts(t *testing.T) {
	over := Assemble(named(t, "a host loses its power and comes back"))[0]
	open := Assemble(named(t, "an incident that is under way"))[0]
	half := Assemble(named(t, "the journal of the lost host is not here"))[0]
	for name, c := range map[string]struct {
		i    Incident
		now  time.Duration
		want string
	}{
		"over":              {over, time.Minute, ReasonOver},
		"over for days":     {over, 50 * time.Hour, ""},
		"only begun":        {open, time.Minute, ""},
		"begun a while ago": {open, 10 * time.Minute, ReasonUnderWay},
		"over, and the other host has not said what it saw": {half, time.Minute, ""},
		"over, and the other host says nothing":             {half, 10 * time.Minute, ReasonOver},
		"begun days ago, and not over":                      {open, 50 * time.Hour, ReasonUnderWay},
	} {
		e, ok := Told(c.i, began.Add(c.now))
		if e.Reason != c.want || ok != (c.want != "") {
			t.Errorf("%s: %+v", name, e)
		}
		if ok && (e.Name != strings.ToLower(e.Name) || len(e.Name) > 250 || !strings.Contains(e.Message, "holdfast incidents show")) {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestTheProtocolHasTheRulesThatReportsName(t *testing.T) {
	rules := map[string]bool{}
	for _, rule := range etcdmember.Rules() {
		rules[rule.ID] = true
	}
	for _, id := range []string{"equal.idle", "gone.sole-alone", "equal.peer-departs", "equal.lost-copy-yield"} {
		if !rules[id] {
			t.Errorf("the protocol has no rule %s any more", id)
		}
	}
}

// TestEachEventIsARecord has an event of each kind.
func TestEachEventIsARecord(t *testing.T) {
	verdict := state.EtcdVerdict{Rule: "lead.sole", Action: state.EtcdWriteRecord, Reason: "it is committed"}
	var seen []state.EventKind
	for _, c := range []struct {
		event state.Event
		want  Record
	}{
		{state.MembershipEvent(state.Known(state.Membership{Members: []string{"cp-1"}, Ring: 7, Quorate: true})), Record{Kind: Members, Members: []string{"cp-1"}, Ring: 7, Quorate: true}},
		{state.DecisionEvent(verdict), Record{Kind: Decides, Rule: "lead.sole", Action: state.EtcdWriteRecord, Why: "it is committed"}},
		{state.RecordEvent(state.EtcdRecord{State: state.EtcdSole, Seq: 6}, verdict), Record{Kind: Recorded, State: state.EtcdSole, Seq: 6, Rule: "lead.sole", Why: "it is committed"}},
		{state.WishEvent(state.EtcdStopped), Record{Kind: Wished, Wish: state.EtcdStopped}},
		{state.AskFenceEvent("cp-2"), Record{Kind: AsksFence, Target: "cp-2"}},
		{state.RestartEvent("it is frozen"), Record{Kind: Restarted, Why: "it is frozen"}},
		{state.TaintEvent("cp-2", true, "fenced"), Record{Kind: Tainted, Target: "cp-2", Why: "fenced"}},
		{state.TaintEvent("cp-2", false, "back"), Record{Kind: Untainted, Target: "cp-2", Why: "back"}},
		{state.PlanEvent("it boots"), Record{Kind: Plans, Why: "it boots"}},
		{state.Event{Kind: state.EventMissed, Count: 3}, Record{Kind: Missed, Count: 3}},
	} {
		seen = append(seen, c.event.Kind)
		c.event.Boot, c.event.Up, c.event.At = "b", time.Hour, began
		c.want.Host, c.want.Boot, c.want.Up, c.want.At, c.want.From = "cp-1", "b", time.Hour, began, "events of podman-etcd"
		got, ok := FromEvent("cp-1", state.EtcdEvents, c.event)
		if !ok || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v is read as %+v", c.event, got)
		}
		if got.words() == "" && got.Kind != Decides {
			t.Errorf("%s has no words", got.Kind)
		}
	}
	for kind := range kinds {
		if !slices.Contains(seen, kind) {
			t.Errorf("no event of kind %s is looked at", kind)
		}
	}
}

func TestWhatTellsNothingIsNoRecord(t *testing.T) {
	for _, e := range []state.Event{{}, {At: began}, {At: began, Kind: "of a later release"}, {Kind: state.EventWish, Wish: state.EtcdStopped}} {
		if r, ok := FromEvent("cp-1", state.EtcdEvents, e); ok {
			t.Errorf("%+v is read as %+v", e, r)
		}
	}
}

func TestTheNewestRecordsKeepWhatAHostWasBefore(t *testing.T) {
	records := named(t, "a host loses its power and comes back")
	got := Newest(records, 10)
	if len(got) > 10 || got[0].Kind != Recorded || got[len(got)-1].Key() != records[len(records)-1].Key() {
		t.Errorf("%d records, the first is %+v", len(got), got[0])
	}
	if len(Newest(records[:5], 10)) != 5 {
		t.Error("few records are all kept")
	}
}

func TestALongStoryIsShortenedInTheMiddle(t *testing.T) {
	i := Assemble(scenario(t, paired+takeOver+circle(200)))[0]
	if len(i.Timeline) != maxTimeline+1 && len(i.Timeline) != maxTimeline || len(i.Records) != maxRecords {
		t.Errorf("%d lines, %d records", len(i.Timeline), len(i.Records))
	}
}

func FuzzFromEvent(f *testing.F) {
	for _, e := range []state.Event{state.WishEvent(state.EtcdStopped), state.AskFenceEvent("cp-2"), {Kind: state.EventMissed, Count: -1}, {Kind: state.EventMembership, Ring: 1 << 63}} {
		e.At, e.Up = began, 5
		text, err := json.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var e state.Event
		if json.Unmarshal(text, &e) != nil {
			return
		}
		r, ok := FromEvent("cp-1", state.EtcdEvents, e.Bounded())
		if ok {
			for _, i := range Assemble(append(scenario(t, paired), r)) {
				_ = i.Words()
			}
		}
	})
}

// TestAFailureSoonAfterAnIncidentIsAnother repeats two cuts within a minute in
// the lab: the first line of the second was read as the last of the first
// report, and the second had no report.
func TestAFailureSoonAfterAnIncidentIsAnother(t *testing.T) {
	first := scenario(t, paired+takeOver+comesBack)
	all := scenario(t, paired+takeOver+comesBack+`
70 cp-1 sees cp-1, ring 30
70 cp-1 rule gone.unproved wait: the peer is lost; waits until Pacemaker has fenced it and its BMC reads Off
71 cp-1 off cp-2
`)
	if got := Assemble(all); len(got) != 2 || got[1].Records[0].Kind != Members {
		t.Errorf("%v", titles(got))
	}
	early := slices.DeleteFunc(slices.Clone(all[:len(first)+2]), func(r Record) bool { return r.Kind == Members && r.Ring == 0x30 })
	before := Assemble(early)
	if len(before) != 1 || before[0].Trailing != Assemble(first)[0].Trailing+1 {
		t.Fatalf("%v", titles(before))
	}
	if got := Reports(all, before); len(got) != 2 {
		t.Errorf("%v", titles(got))
	}
	for _, damaged := range []int{-1, 1000} {
		before[0].Trailing = damaged
		if got := Reports(nil, before); len(got) != 1 {
			t.Errorf("trailing %d: %v", damaged, titles(got))
		}
	}
}
