package incident

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestALineOfTheTimelineForEachRecord: passing decisions and what is only counted have
// none.
func TestALineOfTheTimelineForEachRecord(t *testing.T) {
	for want, r := range map[string]Record{
		"the host has started":                                               {Kind: Booted},
		"Corosync reports no members":                                        {Kind: Members},
		"sees no other host and has no quorum":                               {Kind: Members, Members: []string{"cp-1"}},
		"sees no other host":                                                 {Kind: Members, Members: []string{"cp-1"}, Quorate: true},
		"sees cp-1 and cp-2":                                                 {Kind: Members, Members: []string{"cp-1", "cp-2"}},
		"etcd's record says pair: both hold all":                             {Kind: Recorded, State: state.EtcdPair, Rule: "lead.pair", Why: "both hold all"},
		"etcd's record says sole: take-over.sole":                            {Kind: Recorded, State: state.EtcdSole, Rule: "take-over.sole"},
		"Pacemaker requests etcd started":                                    {Kind: Wished, Wish: state.EtcdStarted},
		"Pacemaker is asked to fence cp-2":                                   {Kind: AsksFence, Target: "cp-2"},
		"cp-2 is off: it read Off":                                           {Kind: Fenced, OK: true, Target: "cp-2", Why: "it read Off"},
		"cp-2 could not be switched off: no answer":                          {Kind: Fenced, Target: "cp-2", Why: "no answer"},
		"ops confirmed that cp-2 is off: I see it":                           {Kind: Confirmed, Who: "ops", Target: "cp-2", Why: "I see it"},
		"etcd is restarted in place: it hangs":                               {Kind: Restarted, Why: "it hangs"},
		"holds 10.0.0.5 and 10.0.0.6":                                        {Kind: Holds, VIPs: []string{"10.0.0.5", "10.0.0.6"}},
		"holds no virtual IP":                                                {Kind: Holds},
		"its API server is ready":                                            {Kind: API, OK: true},
		"its API server is not ready":                                        {Kind: API},
		"1 pod of cp-2 run elsewhere":                                        {Kind: Pods, Count: 1, Target: "cp-2"},
		"2 pods of cp-2 run elsewhere":                                       {Kind: Pods, Count: 2, Target: "cp-2"},
		"reports to the API that cp-2 is out of service":                     {Kind: Tainted, Target: "cp-2"},
		"reports to the API that cp-2 is in service again":                   {Kind: Untainted, Target: "cp-2"},
		"waits for its peer or an administrator: nobody knows":               {Kind: Decides, Action: state.EtcdAskHuman, Why: "nobody knows"},
		"etcd: the peer is lost":                                             {Kind: Decides, Action: state.EtcdWait, Rule: "gone.unproved", Why: "the peer is lost"},
		"etcd: it starts":                                                    {Kind: Decides, Action: state.EtcdStart, Why: "it starts"},
		"etcd: it stops":                                                     {Kind: Decides, Action: state.EtcdStop, Why: "it stops"},
		"etcd: a stand-in votes":                                             {Kind: Decides, Action: state.EtcdStartStandIn, Why: "a stand-in votes"},
		"etcd: it is emptied":                                                {Kind: Decides, Action: state.EtcdEmpty, Why: "it is emptied"},
		"etcd: it goes on alone":                                             {Kind: Decides, Action: state.EtcdGrantQuorum, Why: "it goes on alone"},
		"etcd: it runs":                                                      {Kind: Decides, Action: state.EtcdIdle, Rule: state.EtcdRuleIdle, Why: "it runs"},
		"1 event before this could not be saved: the disk was full, or hung": {Kind: Missed, Count: 1},
		"writes through 10.0.0.5, which another host held, after 7s in which it could not": {Kind: Wrote, VIPs: []string{"10.0.0.5"}, Took: 7 * time.Second},
	} {
		if got := r.words(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, r := range []Record{
		{Kind: "of a later release"},
		{Kind: Decides, Action: state.EtcdWait, Rule: "lead.wait", Why: "x"},
		{Kind: Decides, Action: state.EtcdMark, Why: "x"},
		{Kind: Decides, Action: state.EtcdIdle, Rule: "gone.sole-alone", Why: "x"},
	} {
		if got := r.words(); got != "" {
			t.Errorf("%+v: %q", r, got)
		}
	}
	if got := (Record{Kind: Booted}).seen(); got != "" {
		t.Errorf("%q", got)
	}
}

// TestTheFirstLineOfAReport: the failure, another one, how it ended, and who helped.
func TestTheFirstLineOfAReport(t *testing.T) {
	cp2 := []string{"cp-2"}
	lost := Failure{Hosts: cp2, By: "cp-1", Cause: Lost}
	off := Moment{Phase: PhaseFenced, At: began, Words: "off"}
	for want, i := range map[string]Incident{
		"cp-2 stopped without notice: not over yet":                                                           {State: UnderWay, Failures: []Failure{lost}},
		"cp-2 stopped without notice: waits for an administrator":                                             {State: Waiting, Failures: []Failure{lost}},
		"cp-2 stopped without notice: over after 1m30s":                                                       {State: Over, Failures: []Failure{lost}, Start: began, End: began.Add(90 * time.Second)},
		"cp-2 stopped cleanly: not over yet":                                                                  {State: UnderWay, Failures: []Failure{{Hosts: cp2, Cause: Planned}}},
		"cp-2 was lost: not over yet":                                                                         {State: UnderWay, Failures: []Failure{{Hosts: cp2, Cause: Gone}}},
		"cp-2 restarted: not over yet":                                                                        {State: UnderWay, Failures: []Failure{{Hosts: cp2, Cause: Rebooted}}},
		"cp-1 and cp-2 started after both had been off: not over yet":                                         {State: UnderWay, Failures: []Failure{{Hosts: []string{"cp-1", "cp-2"}, Cause: Started}}},
		"etcd could not run from its data directory on cp-2: not over yet":                                    {State: UnderWay, Failures: []Failure{{Hosts: cp2, Cause: CopyLost}}},
		"etcd did not continue: not over yet":                                                                 {State: UnderWay, Failures: []Failure{{Cause: Trouble}}},
		"a host was lost: not over yet":                                                                       {State: UnderWay, Failures: []Failure{{Cause: Gone}}},
		"cp-1 and cp-2 lost contact with each other: not over yet":                                            {State: UnderWay, Failures: []Failure{{Hosts: cp2, By: "cp-1", Cause: Cut}}},
		"cp-1 and cp-2 lost contact with each other, and cp-2 was switched off: not over yet":                 {State: UnderWay, Failures: []Failure{{Hosts: cp2, By: "cp-1", Cause: Cut, Moments: []Moment{off}}}},
		"cp-2 stopped without notice; before that was over, etcd did not continue: not over yet":              {State: UnderWay, Failures: []Failure{lost, {Cause: Trouble}}},
		"cp-2 stopped without notice; before that was over, etcd did not continue (and 2 more): not over yet": {State: UnderWay, Failures: []Failure{lost, {Cause: Trouble}, lost, lost}},
		"cp-2 stopped without notice: not over yet, with a confirmation by ops and root":                      {State: UnderWay, Failures: []Failure{lost}, People: []string{"ops", "root"}},
	} {
		if got := title(i); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWhatPeopleAskFirst: whether it goes on, whether anybody had to act, and what is
// still missing.
func TestWhatPeopleAskFirst(t *testing.T) {
	both, one := []string{"cp-1", "cp-2"}, []string{"cp-1"}
	lost := func(moments ...Moment) []Failure {
		return []Failure{{Cause: Planned}, {Hosts: []string{"cp-2"}, By: "cp-1", Cause: Lost, Moments: moments}}
	}
	of := func(f Failure, moments ...Moment) []Failure { f.Moments = moments; return []Failure{f} }
	etcd := Moment{Phase: PhaseEtcd, At: began, After: 12 * time.Second, Host: "cp-1"}
	decided := Moment{Phase: PhaseDecided, At: began}
	clients := Moment{Phase: PhaseClients, At: began, After: 15 * time.Second, Host: "worker-1"}
	const open = "It is not over: until both are voters again, the loss of cp-1 stops the cluster or loses data."
	const byEtcd = "etcd on cp-1 took writes again 12s after cp-2 was lost; no other machine measured when clients could write. "
	for rule, c := range map[string]struct {
		i    Incident
		want string
	}{
		"over, by both":         {Incident{State: Over, Journals: both, Failures: lost()}, "No administrator had to act. Both hosts are healthy again."},
		"over, by one":          {Incident{State: Over, Journals: one, Failures: lost()}, "According to cp-1, no administrator had to act. Both hosts are healthy again."},
		"over, with help":       {Incident{State: Over, Journals: both, People: []string{"ops"}, Failures: lost()}, "A host went on after ops confirmed that its peer was off. Both hosts are healthy again."},
		"it waits":              {Incident{State: Waiting, Journals: both, Failures: lost()}, "It waits for an administrator now: run sudo holdfast explain on the host that is up."},
		"under way":             {Incident{State: UnderWay, Journals: both, Failures: lost()}, open},
		"nobody went on":        {Incident{State: UnderWay, Failures: of(Failure{Cause: Gone})}, "It is not over: until both are voters again, the loss of either host stops the cluster or loses data."},
		"etcd took writes":      {Incident{State: UnderWay, Failures: lost(etcd, decided)}, byEtcd + open},
		"it never stopped them": {Incident{State: UnderWay, Failures: lost(etcd)}, open},
		"it is not known":       {Incident{State: UnderWay, Failures: lost(decided)}, open},
		"clients could write":   {Incident{State: UnderWay, Failures: lost(etcd, decided, clients)}, "Clients could write through the API VIP again 15s after cp-2 was lost, as measured by worker-1. " + open},
		"a planned stop":        {Incident{State: UnderWay, Failures: of(Failure{By: "cp-1", Cause: Planned}, etcd, decided, clients)}, open},
		"data were lost":        {Incident{State: UnderWay, Failures: of(Failure{Hosts: one, By: "cp-1", Cause: CopyLost}, clients)}, "Clients could write through the API VIP again 15s after that, as measured by worker-1. " + open},
		"etcd did not continue": {Incident{State: UnderWay, Failures: of(Failure{By: "cp-1", Cause: Trouble}, etcd, decided)}, "etcd on cp-1 took writes again 12s after that; no other machine measured when clients could write. " + open},
	} {
		if got := c.i.summary(); got != c.want {
			t.Errorf("%s: %q", rule, got)
		}
	}
}

// TestALongTimelineLosesItsMiddle, and says how many lines.
func TestALongTimelineLosesItsMiddle(t *testing.T) {
	for n, lines := range map[int]int{0: 0, maxTimeline - 1: maxTimeline - 1, maxTimeline: maxTimeline, maxTimeline + 1: maxTimeline, maxTimeline + 7: maxTimeline} {
		var events []event
		for i := range n {
			events = append(events, event{Record{Host: "cp-1", Kind: AsksFence, Target: fmt.Sprint(i), From: "x"}, began.Add(time.Duration(i) * time.Second)}, event{Record: Record{Kind: Decides}})
		}
		got := timeline(events)
		if len(got) != lines {
			t.Fatalf("of %d: %d lines", n, len(got))
		}
		if n == 0 {
			continue
		}
		if last := got[len(got)-1]; last.Text != fmt.Sprintf("Pacemaker is asked to fence %d", n-1) || got[0].Text != "Pacemaker is asked to fence 0" {
			t.Errorf("of %d: %q to %q", n, got[0].Text, last.Text)
		}
		cut := slices.IndexFunc(got, func(s Step) bool { return s.Host == "..." })
		if (cut >= 0) != (n > maxTimeline) {
			t.Errorf("of %d: cut at %d", n, cut)
		}
		if want := fmt.Sprintf("%d more lines", n-maxTimeline+1); cut >= 0 && (cut != maxTimeline/2 || got[cut].Text != want || !got[cut].At.Equal(began.Add(maxTimeline/2*time.Second))) {
			t.Errorf("of %d: %+v at %d", n, got[cut], cut)
		}
	}
}

// TestWhichReportKnowsMore: one that is complete, of more hosts, of what is over, and of
// more records that belong to it.
func TestWhichReportKnowsMore(t *testing.T) {
	r := Record{Kind: API}
	order := []Incident{
		{ID: "complete", Complete: true},
		{ID: "two hosts", Journals: []string{"a", "b"}},
		{ID: "over", Journals: []string{"a"}, State: Over},
		{ID: "three records", Journals: []string{"a"}, Records: []Record{r, r, r}},
		{ID: "two of five", Journals: []string{"a"}, Records: []Record{r, r, r, r, r}, Trailing: 3},
		{ID: "none, by a damaged file", Journals: []string{"a"}, Records: []Record{r, r, r}, Trailing: 9},
		{ID: "nothing"},
	}
	for i, a := range order {
		for j, b := range order {
			if got := better(a, b); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("%s to %s: %d", a.ID, b.ID, got)
			}
		}
	}
	if got := own(Incident{Records: []Record{r, r}, Trailing: -1}); len(got) != 2 {
		t.Errorf("a damaged file: %d records", len(got))
	}
}

// TestWhichRecordsOfEarlierReportsAreUsedAgain: those that are no older than what is at
// hand.
func TestWhichRecordsOfEarlierReportsAreUsedAgain(t *testing.T) {
	at := func(s int) Record { return Record{At: began.Add(time.Duration(s) * time.Second)} }
	earlier := []Incident{{Records: []Record{at(1), at(5)}}, {Records: []Record{at(4), at(9)}}}
	for rule, c := range map[string]struct {
		atHand []Record
		want   []Record
	}{
		"nothing is at hand":              {nil, nil},
		"the oldest at hand is the limit": {[]Record{at(7), at(5)}, []Record{at(5), at(9)}},
		"all are newer":                   {[]Record{at(0)}, []Record{at(1), at(5), at(4), at(9)}},
	} {
		if got := remembered(earlier, c.atHand); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v", rule, got)
		}
	}
}

// TestHowLongAnIncidentLasts: nothing is said of one that goes on.
func TestHowLongAnIncidentLasts(t *testing.T) {
	if got := (Incident{Start: began, End: began.Add(time.Minute)}).Long(); got != time.Minute {
		t.Errorf("%s", got)
	}
	if got := (Incident{Start: began}).Long(); got != 0 {
		t.Errorf("%s", got)
	}
	if got := (Incident{Start: began}).until(); got != "now" {
		t.Errorf("%s", got)
	}
}

// TestAnIncidentWaitsWhereAHostAsksAndNoneWorksAlone: what a lost host noted last does
// not count.
func TestAnIncidentWaitsWhereAHostAsksAndNoneWorksAlone(t *testing.T) {
	for rule, c := range map[string]struct {
		one, two state.EtcdAction
		lost     string
		want     bool
	}{
		"one asks":                         {state.EtcdAskHuman, state.EtcdWait, "cp-2", true},
		"nobody does":                      {state.EtcdWait, state.EtcdWait, "cp-2", false},
		"one asks and the other works":     {state.EtcdAskHuman, state.EtcdIdle, "", false},
		"one asks and the lost one worked": {state.EtcdAskHuman, state.EtcdIdle, "cp-2", true},
	} {
		g := &group{lost: map[string]bool{c.lost: true}}
		if got := waits(g, map[string]*host{"cp-1": {action: c.one}, "cp-2": {action: c.two}}); got != c.want {
			t.Errorf("%s: %t", rule, got)
		}
	}
}

// TestWhatAMachineMeasuresOfWrites: a gap has its end, its length and the clock's
// difference, and the newest are kept.
func TestWhatAMachineMeasuresOfWrites(t *testing.T) {
	at := func(s float64) time.Time { return began.Add(time.Duration(s * 1e9)) }
	var o Outside
	o = o.Next(Attempt{Began: at(-1), Ended: at(0), Outside: true, OK: true})
	for n := range keptGaps + 2 {
		s := float64(100 * n)
		o = o.Next(Attempt{Began: at(s), Ended: at(s + 0.5), Outside: true})
		o = o.Next(Attempt{Began: at(s + 0.8), Ended: at(s + float64(n)/2), Outside: true, OK: true, Write: true, VIP: "10.0.0.5", Ahead: 3 * time.Second})
	}
	if len(o.Gaps) != keptGaps { // the first two last less than a second
		t.Fatalf("%d gaps", len(o.Gaps))
	}
	for i, g := range o.Gaps {
		long := time.Duration(i+2) * time.Second / 2
		if g != (Gap{Until: at(float64(100 * (i + 2))).Add(long).UTC(), Long: long, VIP: "10.0.0.5", Ahead: 3 * time.Second}) {
			t.Errorf("%d: %+v", i, g)
		}
	}
	o = o.Next(Attempt{Began: at(5000), Ended: at(5001), Outside: true})
	o = o.Next(Attempt{Began: at(5002), Ended: at(5003), Outside: true, OK: true, Write: true, VIP: "10.0.0.6"})
	if last := o.Gaps[keptGaps-1]; len(o.Gaps) != keptGaps || last.VIP != "10.0.0.6" || o.Gaps[0].Long != 1500*time.Millisecond {
		t.Errorf("the oldest goes: %+v", o.Gaps)
	}
	for s, want := range map[float64]bool{0: true, 9.9: true, 10: false} {
		if got := o.Writes(at(5003 + s)); got != want {
			t.Errorf("%g s after it: writes %t", s, got)
		}
	}
	if got := o.Next(Attempt{OK: true, Write: true}); len(got.Gaps) != keptGaps || got.Writes(at(5003)) {
		t.Errorf("who has the VIP knows its gaps and nothing else: %+v", got)
	}
}

// TestWhichMeasurementsAreRead: of each machine the newest, long enough and late enough,
// by the clock of the API where that differs.
func TestWhichMeasurementsAreRead(t *testing.T) {
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second).UTC() }
	read := func(since time.Time, gaps ...Gap) []Record {
		return Measured("cp-1", map[string]string{"worker-1": Outside{Gaps: gaps}.Text(at(0)), "worker-2": "{"}, since)
	}
	good := Gap{Until: at(10), Long: briefest, VIP: "10.0.0.5"}
	want := Record{Host: "cp-1", At: at(10), Kind: Wrote, Who: "worker-1", VIPs: []string{"10.0.0.5"}, Took: briefest, OK: true, From: "Lease of worker-1"}
	if got := read(at(10), good); len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(want) {
		t.Errorf("%+v", got)
	}
	for rule, c := range map[string]struct {
		change func(*Gap)
		since  int
		at     int // 0 for none
	}{
		"of before":                     {func(*Gap) {}, 11, 0},
		"too short":                     {func(g *Gap) { g.Long-- }, 0, 0},
		"of no address":                 {func(g *Gap) { g.VIP = "x" }, 0, 0},
		"a clock that is apart":         {func(g *Gap) { g.Ahead = apart }, 0, 12},
		"one that is behind":            {func(g *Gap) { g.Ahead = -apart }, 0, 8},
		"one that is hardly apart":      {func(g *Gap) { g.Ahead = apart - 1 }, 0, 10},
		"the API's time is what counts": {func(g *Gap) { g.Ahead = apart }, 12, 12},
	} {
		g := good
		c.change(&g)
		got := read(at(c.since), g)
		if (len(got) == 1) != (c.at != 0) || len(got) == 1 && !got[0].At.Equal(at(c.at)) {
			t.Errorf("%s: %+v", rule, got)
		}
	}
	var many []Gap
	for n := range keptGaps + 1 {
		g := good
		g.Until = at(n)
		many = append(many, g)
	}
	if got := read(at(0), many...); len(got) != keptGaps || !got[0].At.Equal(at(1)) {
		t.Errorf("%d of too many", len(got))
	}
}
