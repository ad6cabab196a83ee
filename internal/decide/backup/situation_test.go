package backup

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// pair is the report of the keeper of a host whose pair is whole.
func pair() state.EtcdReport {
	r := state.EtcdReport{Verdict: state.EtcdVerdict{Action: state.EtcdIdle}}
	r.Snapshot.Local = state.EtcdLocal{
		Running: state.Known(true), Leader: state.Known(state.MemberID(1)),
		Members: state.Known([]state.EtcdMember{{ID: 2, Name: "cp-2"}, {ID: 1, Name: "cp-1"}}),
	}
	r.Snapshot.Pacemaker = state.EtcdPacemaker{Contact: state.Known(true), Ring: 7}
	return r
}

func TestWhatTheKeeperSaysCountsForBackups(t *testing.T) {
	whole := EtcdOfPair(pair()).Value
	for name, c := range map[string]struct {
		change func(r *state.EtcdReport)
		want   func(e state.Fact[Etcd]) bool
	}{
		"the pair is whole": {func(*state.EtcdReport) {}, func(e state.Fact[Etcd]) bool { return e.Value == (Etcd{Writes: true, Members: whole.Members}) }},
		"etcd is unknown":   {func(r *state.EtcdReport) { r.Snapshot.Local.Running.Known = false }, func(e state.Fact[Etcd]) bool { return !e.Known }},
		"etcd is down":      {func(r *state.EtcdReport) { r.Snapshot.Local.Running.Value = false }, func(e state.Fact[Etcd]) bool { return e.Known && !e.Value.Writes }},
		"no leader":         {func(r *state.EtcdReport) { r.Snapshot.Local.Leader.Value = 0 }, func(e state.Fact[Etcd]) bool { return !e.Value.Writes }},
		"it stalls":         {func(r *state.EtcdReport) { r.Snapshot.Local.Stalled = time.Second }, func(e state.Fact[Etcd]) bool { return !e.Value.Writes }},
		"a fence":           {func(r *state.EtcdReport) { r.Verdict.Action = state.EtcdAskFence }, func(e state.Fact[Etcd]) bool { return strings.Contains(e.Value.TakesOver, "ask-fence") }},
		"a stand-in":        {func(r *state.EtcdReport) { r.Snapshot.Local.StandIn = state.Known(state.MemberID(2)) }, func(e state.Fact[Etcd]) bool { return strings.Contains(e.Value.TakesOver, "stand-in") }},
		"it leaves":         {func(r *state.EtcdReport) { r.Snapshot.Pacemaker.Leaving = true }, func(e state.Fact[Etcd]) bool { return strings.Contains(e.Value.TakesOver, "leaves") }},
		"a learner":         {func(r *state.EtcdReport) { r.Snapshot.Local.Members.Value[0].Learner = true }, func(e state.Fact[Etcd]) bool { return e.Value.Learner == "cp-2" && e.Value.Members != whole.Members }},
		"a learner to come": {func(r *state.EtcdReport) { r.Snapshot.Local.Members.Value[0] = state.EtcdMember{ID: 9, Learner: true} }, func(e state.Fact[Etcd]) bool {
			return strings.Contains(e.Value.Learner, "not started") && e.Value.Unstarted && e.Value.Members != whole.Members
		}},
		"the peer is lost": {func(r *state.EtcdReport) { r.Snapshot.Pacemaker.Contact.Value = false }, func(e state.Fact[Etcd]) bool { return e.Value.Members != whole.Members }},
		"another ring":     {func(r *state.EtcdReport) { r.Snapshot.Pacemaker.Ring++ }, func(e state.Fact[Etcd]) bool { return e.Value.Members != whole.Members }},
		"a lone survivor": {func(r *state.EtcdReport) {
			r.Verdict.Action = state.EtcdWait
			r.Snapshot.Local.Members.Value = r.Snapshot.Local.Members.Value[1:]
		}, func(e state.Fact[Etcd]) bool { return e.Value.Writes && e.Value.TakesOver == "" }},
		"the order of a list": {func(r *state.EtcdReport) { slices.Reverse(r.Snapshot.Local.Members.Value) }, func(e state.Fact[Etcd]) bool { return e.Value.Members == whole.Members }},
	} {
		r := pair()
		c.change(&r)
		if got := EtcdOfPair(r); !c.want(got) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A third control plane may be listed in etcd and die before its etcd ran. Nobody may come for days.
func TestAMemberThatNeverStartedStopsNoBackup(t *testing.T) {
	list := []state.EtcdMember{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}, {ID: 9, Learner: true}}
	f := well(t)
	f.Journal.Slot, f.Schedule = at(t, "2026-03-09T03:00:00Z"), schedule(t, "0 9 * * *", "")
	f.Etcd = state.Known(EtcdOfMember(true, list))
	v := Decide(f)
	if v.Action != Begin {
		t.Fatalf("%s by %s: %s", v.Action, v.Rule, v.Why)
	}
	f.Works, f.Journal.Begun, list[2].Name = true, &v.Begins, "cp-3"
	f.Etcd = state.Known(EtcdOfMember(true, list))
	if v := Decide(f); v.Action != End || v.Rule != "learner" {
		t.Errorf("it starts in the middle of the backup: %s by %s", v.Action, v.Rule)
	}
}

func control(name string, annotations map[string]string) state.Node {
	return state.Node{Name: name, Ready: true, Labels: map[string]string{state.LabelControlPlane: ""}, Annotations: annotations}
}

func written[T annotation.Turn | annotation.Host](t *testing.T, v T) string {
	t.Helper()
	var text string
	var err error
	switch v := any(v).(type) {
	case annotation.Turn:
		text, err = annotation.Encode(v)
	case annotation.Host:
		text, err = annotation.Encode(v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// blocked is what the node of a host says whose boot waits for a program, and more.
func blocked(more ...string) map[string]string {
	const why = "waits with its reboot: shutdowns are blocked at logind"
	out := map[string]string{rollout.StateOf: string(rollout.Working), rollout.StageAt: string(rollout.Held), rollout.ReasonOf: why, rollout.BlockedOf: why}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

func TestControlPlanesThatAreAwayAreSeen(t *testing.T) {
	const wish = "2026-03-10T11:00:00Z"
	turn := annotation.Turn{Wish: parachute.Go, To: "sha256:b"}
	for name, c := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"nothing":                   {nil, ""},
		"its turn in an upgrade":    {map[string]string{annotation.TurnOf: written(t, turn)}, "on its way to another release"},
		"a turn that it has taken":  {map[string]string{annotation.TurnOf: written(t, turn), annotation.HostOf: written(t, annotation.Host{Facts: gate.Host{Release: state.Known("sha256:b")}})}, ""},
		"on its way":                {map[string]string{annotation.HostOf: written(t, annotation.Host{Journal: parachute.Journal{Step: parachute.Proving}})}, "on its way to another release"},
		"its turn to boot":          {map[string]string{rollout.RebootWanted: wish, rollout.RebootFrom: wish + " boot", rollout.RebootGiven: wish + " " + wish}, "its turn to boot or for updates (to take that back: holdfast host reboot cp-2 --cancel)"},
		"a boot that was not given": {map[string]string{rollout.RebootWanted: wish}, ""},
		"at work":                   {map[string]string{rollout.StateOf: string(rollout.Working)}, "at work"},
		"a boot by hand":            {map[string]string{rollout.StateOf: string(rollout.Working), rollout.StageAt: string(rollout.WaitsForBoot)}, ""},
		"a boot by hand, in turn":   {map[string]string{rollout.StateOf: string(rollout.Working), rollout.StageAt: string(rollout.WaitsForBoot), rollout.RebootWanted: wish, rollout.RebootFrom: wish + " boot", rollout.RebootGiven: wish + " " + wish}, "its turn to boot"},
		"a boot by hand, drained":   {map[string]string{rollout.StateOf: string(rollout.Working), rollout.StageAt: string(rollout.WaitsForBoot), drain.CordonedBy: "x"}, "drained"},
		"a program blocks it":       {blocked(), ""},
		"blocked, in its turn":      {blocked(drain.CordonedBy, "x", rollout.RebootWanted, wish, rollout.RebootFrom, wish+" boot", rollout.RebootGiven, wish+" "+wish), ""},
		"blocked, and it boots":     {blocked(rollout.StageAt, string(rollout.Applies), rollout.ReasonOf, "boots"), "at work"},
		"held for another reason":   {blocked(rollout.ReasonOf, "waits with its reboot: the cluster may not carry on without it"), "at work"},
		"held, by a former agent":   {blocked(rollout.BlockedOf, ""), "at work"},
		"blocked, on its way":       {blocked(annotation.TurnOf, written(t, turn)), "on its way to another release"},
		"drained":                   {map[string]string{drain.CordonedBy: "x"}, "drained"},
		"what nobody can read":      {map[string]string{annotation.TurnOf: "{", annotation.HostOf: "{", Annotation: "{"}, ""},
	} {
		s := Situation{}
		s.Around("cp-1", []state.Node{control("cp-1", nil), control("cp-2", c.annotations), {Name: "worker-1", Annotations: map[string]string{drain.CordonedBy: "x"}}}, noon)
		got := Sentences(s.Away)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestWhatAHostThatIsNotReadySaidLastIsNotBelieved: it may have booted since.
func TestWhatAHostThatIsNotReadySaidLastIsNotBelieved(t *testing.T) {
	gone := control("cp-2", blocked())
	gone.Ready, gone.Created = false, noon
	s := Situation{}
	s.Around("cp-1", []state.Node{control("cp-1", nil), gone, {Name: "worker-1"}}, noon)
	if got := Sentences(s.Away); got != "cp-2 is at work on its configuration" || len(s.NotReady) != 1 || !s.NotReady["cp-2"].Equal(noon) {
		t.Errorf("%q, not ready are %v", got, s.NotReady)
	}
	// Whoever begins a plan waits also for a host that boots as soon as a program has ended.
	if got := Away([]state.Node{control("cp-2", blocked())}); len(got) != 1 || !got[0].Blocked {
		t.Errorf("%+v", got)
	}
}

func TestAnotherHostAtWorkAndARotationAreSeen(t *testing.T) {
	does := func(d Doing) map[string]string {
		text, err := Summary{Doing: &d}.Text()
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{Annotation: text}
	}
	busy := func(since time.Time) map[string]string { return does(Doing{ID: "x", Since: since}) }
	for since, want := range map[time.Time]int{noon.Add(-time.Minute): 1, noon.Add(-longest): 0, noon.Add(time.Hour): 0} {
		s := Situation{}
		s.Around("cp-1", []state.Node{control("cp-1", busy(noon)), control("cp-2", busy(since))}, noon)
		if len(s.Busy) != want {
			t.Errorf("since %s: %v", since, s.Busy)
		}
	}
	begun := noon.Add(-time.Minute)
	for name, c := range map[string]struct {
		doing         Doing
		ready, absent bool
		busy          bool
	}{
		"it takes a snapshot":                     {Doing{Since: begun, Reason: BySchedule}, true, false, true},
		"it died while it did":                    {Doing{Since: begun, Reason: BySchedule}, false, false, false},
		"and its Node is gone":                    {Doing{Since: begun, Reason: BySchedule}, true, true, false},
		"it sends an old one, and removes others": {Doing{Since: begun, Reason: Tend}, true, false, false},
		"it sends what it has taken":              {Doing{Since: begun, Reason: BySchedule, PastEtcd: true}, true, false, false},
	} {
		peer := control("cp-2", does(c.doing))
		peer.Ready, peer.Absent = c.ready, c.absent
		s := Situation{}
		s.Around("cp-1", []state.Node{control("cp-1", nil), peer}, noon)
		if (len(s.Busy) > 0) != c.busy {
			t.Errorf("%s: busy are %v", name, s.Busy)
		}
	}
	said := state.FormatAnnotation(rotation.Reports{Authorities: map[rotation.Authority]rotation.Report{rotation.EtcdCA: {Trusts: []rotation.ID{"a", "b"}}, rotation.KubernetesCA: {Trusts: []rotation.ID{"a"}}}}) //nolint:exhaustive // two are enough
	s := Situation{}
	s.Around("cp-1", []state.Node{control("cp-1", map[string]string{state.AnnotationTrust: said}), control("cp-2", map[string]string{state.AnnotationTrust: said})}, noon)
	if s.Rotation != string(rotation.EtcdCA) {
		t.Errorf("%q", s.Rotation)
	}
}
