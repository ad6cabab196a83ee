package standing

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// condition sets a condition of the second host, or of one of its resources.
func condition(f *Facts, of, kind string, status metav1.ConditionStatus, reason string) {
	list := lists(f)[of]
	for i := range *list {
		if (*list)[i].Type == kind {
			(*list)[i].Status, (*list)[i].Reason, (*list)[i].Message = status, reason, "the message"
		}
	}
}

// aboutAHost holds what may be known of the second host of two, which the API and
// Pacemaker report as well unless the case says otherwise.
func aboutAHost() map[string]func(*Facts) {
	noAPI := func(f *Facts) { f.Hosts[1].Kubelet = Seen[Kubelet]{} }
	lost := func(f *Facts) { condition(f, "cp-2", "Online", metav1.ConditionFalse, "") }
	member := func(m Member) func(*Facts) {
		return func(f *Facts) { f.Hosts[1].Member = Know(m, "cp-2", now) }
	}
	yes, no := state.Known(true), state.Known(false)
	cases := map[string]func(*Facts){
		"power: the BMC says on":                func(f *Facts) { f.Hosts[1].Power = Know(PowerOn, "its BMC", now) },
		"power: the BMC says off":               func(f *Facts) { f.Hosts[1].Power = Know(PowerOff, "its BMC", now) },
		"power: off and no report of Pacemaker": func(f *Facts) { f.Pacemaker.Known = false; noAPI(f); f.Hosts[1].Power = Know(PowerOff, "its BMC", now) },
		"power: on and no report of Pacemaker":  func(f *Facts) { f.Pacemaker.Known = false; noAPI(f); f.Hosts[1].Power = Know(PowerOn, "its BMC", now) },
		"power: a value that is not known":      func(f *Facts) { f.Pacemaker.Known = false; noAPI(f); f.Hosts[1].Power = Seen[Power]{Value: PowerOff} },
		"power: lost, and fenced": func(f *Facts) {
			lost(f)
			f.Hosts[1].LastFence = Know(Fence{At: now.Add(-time.Minute), Off: true}, "cp-1", now)
		},
		"power: lost, and the fence failed":  func(f *Facts) { lost(f); f.Hosts[1].LastFence = Know(Fence{At: now.Add(-time.Minute)}, "cp-1", now) },
		"power: lost, and no fence is known": lost,
		"power: lost, a fence that is not known": func(f *Facts) {
			lost(f)
			f.Hosts[1].LastFence = Seen[Fence]{Value: Fence{Off: true}}
		},
		"power: there, and fenced before":                             func(f *Facts) { f.Hosts[1].LastFence = Know(Fence{Off: true}, "cp-1", now) },
		"there: nobody says it":                                       func(f *Facts) { f.Pacemaker.Known = false; noAPI(f) },
		"there: Pacemaker's report is old, and the kubelet is ready":  func(f *Facts) { lost(f); f.Pacemaker.At = now.Add(-time.Hour) },
		"there: the kubelet is not ready, and no report of Pacemaker": func(f *Facts) { f.Pacemaker.Known = false; f.Hosts[1].Kubelet = notReady("") },
		"there: Pacemaker does not know, and the kubelet is not ready": func(f *Facts) {
			condition(f, "cp-2", "Online", metav1.ConditionUnknown, "")
			f.Hosts[1].Kubelet = notReady("")
		},
		"role: no worker, but the site schedules on control planes": func(f *Facts) { f.Hosts[1].Worker, f.MastersSchedulable = false, Know(true, "the API", now) },
		"role: no worker, and the site does not":                    func(f *Facts) { f.Hosts[1].Worker, f.MastersSchedulable = false, Know(false, "the API", now) },
		"role: no worker, and nobody knows the site":                func(f *Facts) { f.Hosts[1].Worker, f.MastersSchedulable = false, Seen[bool]{Value: true} },
		"role: none":                                  func(f *Facts) { f.Hosts[1].Worker, f.Hosts[1].ControlPlane = false, false },
		"role: a worker":                              func(f *Facts) { f.Hosts[1].ControlPlane = false },
		"kubelet: ready":                              func(*Facts) {},
		"kubelet: ready since an unknown time":        func(f *Facts) { f.Hosts[1].Kubelet.Value.Since = time.Time{} },
		"kubelet: cordoned":                           func(f *Facts) { f.Hosts[1].Kubelet.Value.Cordoned = true },
		"kubelet: not ready and cordoned":             func(f *Facts) { f.Hosts[1].Kubelet = notReady(""); f.Hosts[1].Kubelet.Value.Cordoned = true },
		"kubelet: without an API, Pacemaker runs it":  noAPI,
		"kubelet: without an API, Pacemaker does not": func(f *Facts) { noAPI(f); condition(f, "Kubelet on cp-2", "Started", metav1.ConditionFalse, "") },
		"kubelet: without an API, nobody knows":       func(f *Facts) { noAPI(f); condition(f, "Kubelet on cp-2", "Started", metav1.ConditionUnknown, "") },
		"kubelet: without an API, the report is old":  func(f *Facts) { noAPI(f); f.Pacemaker.At = now.Add(-time.Hour) },
		"kubelet: without an API, the host is lost":   func(f *Facts) { noAPI(f); lost(f) },
		"etcd: Pacemaker says unhealthy":              func(f *Facts) { condition(f, "Etcd on cp-2", "Healthy", metav1.ConditionFalse, "") },
		"etcd: Pacemaker does not know":               func(f *Facts) { condition(f, "Etcd on cp-2", "Healthy", metav1.ConditionUnknown, "") },
		"etcd: Pacemaker's report is old":             func(f *Facts) { f.Pacemaker.At = now.Add(-time.Hour) },
		"etcd: stopped":                               member(Member{Running: no, Listed: yes, Healthy: yes}),
		"etcd: not listed":                            member(Member{Running: yes, Listed: no}),
		"etcd: not healthy":                           member(Member{Running: yes, Listed: yes, Healthy: no}),
		"etcd: learner":                               member(Member{Running: yes, Listed: yes, Learner: true}),
		"etcd: leader":                                member(Member{Running: yes, Listed: yes, Leader: true}),
		"etcd: runs":                                  member(Member{Running: yes}),
		"etcd: healthy":                               member(Member{Healthy: yes}),
		"etcd: listed":                                member(Member{Listed: yes}),
		"etcd: nothing known":                         member(Member{}),
		"etcd: a member that is not known": func(f *Facts) {
			f.Hosts[1].Member = Seen[Member]{Value: Member{Running: no, Listed: no, Behind: state.Known(uint64(7))}}
		},
		"lag: none":                        member(Member{Running: yes, Behind: state.Known(uint64(0))}),
		"lag: a moment's":                  member(Member{Running: yes, Behind: state.Known(uint64(999))}),
		"lag: more":                        member(Member{Running: yes, Behind: state.Known(uint64(1000))}),
		"lag: more than any counter":       member(Member{Running: yes, Behind: state.Known(^uint64(0))}),
		"fencing: unknown":                 func(f *Facts) { condition(f, "cp-2", "FencingAvailable", metav1.ConditionUnknown, "") },
		"fencing: the BMC does not answer": func(f *Facts) { condition(f, "cp-2", "FencingProven", metav1.ConditionFalse, "") },
		"fencing: nobody tried":            func(f *Facts) { condition(f, "cp-2", "FencingProven", metav1.ConditionUnknown, "") },
		"fencing: last verified by a host": func(f *Facts) {
			condition(f, "cp-2", "FencingProven", metav1.ConditionUnknown, "")
			f.Hosts[1].Verified = Know(Verification{At: now.Add(-time.Hour), By: "cp-1", How: "its BMC answered"}, "cp-1", now)
		},
		"fencing: a proof that is not known": func(f *Facts) {
			condition(f, "cp-2", "FencingProven", metav1.ConditionUnknown, "")
			f.Hosts[1].Verified = Seen[Verification]{Value: Verification{By: "cp-1"}}
		},
		"fencing: no report of Pacemaker": func(f *Facts) { f.Pacemaker.Known = false },
		"fencing: an old report": func(f *Facts) {
			f.Pacemaker.At = now.Add(-time.Hour)
			f.Hosts[1].Verified = Know(Verification{By: "cp-1", How: "it was fenced"}, "cp-1", now)
		},
		"fencing: the host that would fence it is lost": func(f *Facts) {
			node := &(*f.Pacemaker.Value.Nodes)[0]
			for i := range node.Conditions {
				if node.Conditions[i].Type == "Online" {
					node.Conditions[i].Status = metav1.ConditionFalse
				}
			}
		},
		"last fence: off": func(f *Facts) {
			f.Hosts[1].LastFence = Know(Fence{At: now.Add(-time.Hour), By: "cp-1", Off: true, Took: 1234 * time.Millisecond}, "cp-1", now)
		},
		"last fence: failed, nobody knows by whom":    func(f *Facts) { f.Hosts[1].LastFence = Know(Fence{At: now.Add(-time.Hour)}, "cp-1", now) },
		"last fence: at an unknown time":              func(f *Facts) { f.Hosts[1].LastFence = Know(Fence{Off: true}, "cp-1", now) },
		"last fence: Pacemaker knows one":             func(f *Facts) { condition(f, "cp-2", "LastFenceSucceeded", metav1.ConditionTrue, "Fenced") },
		"last fence: Pacemaker knows one that failed": func(f *Facts) { condition(f, "cp-2", "LastFenceSucceeded", metav1.ConditionFalse, "FenceFailed") },
		"last fence: Pacemaker does not know":         func(f *Facts) { condition(f, "cp-2", "LastFenceSucceeded", metav1.ConditionUnknown, "") },
		"last fence: under way":                       func(f *Facts) { condition(f, "cp-2", "LastFenceSucceeded", metav1.ConditionFalse, "FencePending") },
		"doing: an explanation":                       func(f *Facts) { f.Hosts[1].Explanation = explained(explain.Healthy, explain.Writes) },
		"doing: an explanation that is not known": func(f *Facts) {
			f.Hosts[1].Explanation = explained(explain.Healthy, explain.Writes)
			f.Hosts[1].Explanation.Known = false
		},
	}
	for _, s := range []state.EtcdState{state.EtcdNone, state.EtcdPair, state.EtcdDeparting, state.EtcdTakingOver, state.EtcdSole, state.EtcdLearner, state.EtcdVoter} {
		cases["record: "+string(s)] = func(f *Facts) { f.Hosts[1].Record = Know(state.EtcdRecord{State: s}, "cp-2", now) }
	}
	cases["record: of a host that is lost"] = func(f *Facts) {
		lost(f)
		f.Hosts[1].Record = Know(state.EtcdRecord{State: state.EtcdPair}, "cp-2", now)
	}
	return cases
}

// shown writes a cell: its text, whether it is good, who says so and when, and what
// of it counts as a change.
func shown(name string, c Cell) string {
	if c == (Cell{}) {
		return ""
	}
	age := ""
	if !c.At.IsZero() {
		age = ", " + now.Sub(c.At).String() + " ago"
	}
	state := ""
	if c.State != "" {
		state = fmt.Sprintf(", as %q", c.State)
	}
	return fmt.Sprintf("  %-8s %q: good %s, by %q%s%s\n", name, c.Text, c.Good, c.From, age, state)
}

// TestWhatIsShownOfAHostIsTheApproved changes one fact about a host of a healthy pair
// at a time, and shows what becomes of its line.
func TestWhatIsShownOfAHostIsTheApproved(t *testing.T) {
	usual := map[string]bool{}
	var out strings.Builder
	write := func(name string, change func(*Facts)) {
		f := recorded(t, "healthy", etcdReport(t, "healthy"))
		f.Pacemaker.Value = *f.Pacemaker.Value.DeepCopy()
		change(&f)
		v := Describe(f)
		i := slices.IndexFunc(v.Hosts, func(h HostLine) bool { return h.Name == "cp-2" })
		h := v.Hosts[i]
		lines := []string{
			"  role     " + h.Role + "\n", shown("power", h.Power), shown("kubelet", h.Kubelet), shown("record", h.Record), shown("etcd", h.Etcd), shown("lag", h.Lag), "  doing    " + h.Doing + "\n",
		}
		for _, l := range v.Fencing {
			if l.Host == "cp-2" {
				lines = append(lines, shown("able", l.Able), shown("verified", l.Verified), shown("last", l.Last))
			}
		}
		out.WriteString(name + "\n")
		for _, l := range lines {
			if !usual[l] {
				out.WriteString(l)
			}
		}
		if len(usual) == 0 {
			for _, l := range lines {
				usual[l] = true
			}
		}
	}
	write("A healthy pair; the cases below show what differs.", func(*Facts) {})
	cases := aboutAHost()
	for _, name := range slices.Sorted(keys(cases)) {
		write(name, cases[name])
	}
	golden.Check(t, "cells.txt", []byte(out.String()))
}

func TestWhoHoldsAVIP(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*VIP)
		want   Cell
	}{
		{"one host", func(*VIP) {}, Cell{Text: "cp-1", Good: Yes}},
		{"none", func(v *VIP) { v.Holders.Value = nil }, Cell{Text: "no host", Good: No}},
		{"two, whatever the order", func(v *VIP) { v.Holders.Value = []string{"cp-2", "cp-1", "cp-2"} }, Cell{Text: "cp-1 and cp-2 both report it", Good: No}},
		{"one that is absent", func(v *VIP) { v.Holders.Value = []string{"cp-3"} }, Cell{Text: "last held by cp-3, now absent", Good: Unknown}},
		{"two that are absent", func(v *VIP) { v.Holders.Value = []string{"cp-4", "cp-3"} }, Cell{Text: "last held by cp-3 and cp-4, now absent", Good: Unknown}},
		{"one that is absent, and one that is not", func(v *VIP) { v.Holders.Value = []string{"cp-3", "cp-2"} }, Cell{Text: "cp-2", Good: Yes}},
		{"the first host that is listed, absent", func(v *VIP) { v.Holders.Value = []string{"cp-0"} }, Cell{Text: "last held by cp-0, now absent", Good: Unknown}},
		{"nobody was heard", func(v *VIP) { v.Holders = Seen[[]string]{Why: "no report from: cp-2", Value: []string{"cp-1"}} }, Cell{Text: "no report from: cp-2", Good: Unknown}},
		{"nobody knows", func(v *VIP) { v.Holders = Seen[[]string]{} }, Cell{Text: "unknown", Good: Unknown}},
		{"a foreign host too", func(v *VIP) { v.Claims = []string{"02:00:00:00:00:63"} }, Cell{Text: "cp-1, and a foreign host: 02:00:00:00:00:63", Good: No}},
		{"known, with a reason for less", func(v *VIP) { v.Holders.Why = "cp-2 was not heard" }, Cell{Text: "cp-1", Good: Yes}},
	} {
		f := many(5, "10.98.0.5", "10.98.0.6")
		f.Hosts[0].Name, f.Hosts[4].Name = "cp-0", "cp-1"
		for _, i := range []int{0, 2, 3} {
			f.Hosts[i].Kubelet = notReady("gone")
		}
		c.change(&f.VIPs[0])
		if got := Describe(f).VIPs[0].Holder; got.Text != c.want.Text || got.Good != c.want.Good {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestWhichMembersCountForTheQuorum takes one of three control planes at a time: with
// it the loss of another one is survived, without it not, and where nobody knows, that
// is unknown.
func TestWhichMembersCountForTheQuorum(t *testing.T) {
	yes, no := state.Known(true), state.Known(false)
	for _, c := range []struct {
		name   string
		change func(*Host)
		want   Answer
	}{
		{"healthy", func(h *Host) { h.Member.Value = Member{Healthy: yes} }, Yes},
		{"it runs, and nobody asked it", func(h *Host) { h.Member.Value = Member{Running: yes} }, Yes},
		{"it runs and does not serve", func(h *Host) { h.Member.Value = Member{Running: yes, Healthy: no} }, No},
		{"it is stopped", func(h *Host) { h.Member.Value = Member{Running: no, Healthy: yes} }, No},
		{"it is no member", func(h *Host) { h.Member.Value = Member{Running: yes, Listed: no} }, No},
		{"it is a learner", func(h *Host) { h.Member.Value = Member{Running: yes, Learner: true} }, No},
		{"its kubelet is gone", func(h *Host) { h.Kubelet = notReady("gone") }, No},
		{"only that it is listed is known", func(h *Host) { h.Member.Value = Member{Listed: yes} }, Unknown},
		{"nothing is known", func(h *Host) { h.Member = Seen[Member]{} }, Unknown},
		{"an old value that is not known", func(h *Host) { h.Member = Seen[Member]{Value: Member{Running: yes, Learner: true}} }, Unknown},
		{"an old value that was well", func(h *Host) { h.Member = Seen[Member]{Value: Member{Running: yes}} }, Unknown},
	} {
		f := many(3, "10.98.0.5", "10.98.0.6")
		c.change(&f.Hosts[2])
		r := Describe(f).Redundancy
		if r.Survives != c.want {
			t.Errorf("%s: survives %s: %s", c.name, r.Survives, r.Sentence)
		}
		want := map[Answer]string{
			Yes: anyHost + "yes, 3 of 3 work and 2 are enough", No: anyHost + "no, because 2 of 3 work and 2 are needed; not cp-3",
			Unknown: anyHost + "unknown, because these hosts report no status: cp-3",
		}[c.want]
		if r.Sentence != want {
			t.Errorf("%s: %s", c.name, r.Sentence)
		}
		for _, l := range r.Losses {
			because := map[Answer]string{No: "1 would be left and 2 are needed"}[c.want] //nolint:exhaustive // the others are not meant
			if c.want == No && l.Host == "cp-3" {
				because = lostAlready
			}
			if l.Survives != c.want || l.Because != because {
				t.Errorf("%s: %+v", c.name, l)
			}
		}
	}
	f := many(3, "10.98.0.5", "10.98.0.6")
	f.Hosts[2].Member = Seen[Member]{}
	for i := range 2 {
		f.Hosts[i].Member = Know(Member{Running: no}, "the API", now)
	}
	if l := Describe(f).Redundancy.Losses[2]; l.Because != "0 would be left and 2 are needed" {
		t.Errorf("no host is known to work: %+v", l)
	}
}

func TestAViewListsControlPlanesFirstAndEachKindByName(t *testing.T) {
	worker := func(name string) Host { h := host(name, "10.98.0.21"); h.ControlPlane = false; return h }
	f := many(3, "10.98.0.5", "10.98.0.6")
	f.Hosts = []Host{worker("b-worker"), f.Hosts[2], f.Hosts[0], worker("a-worker"), f.Hosts[1]}
	want := slices.Clone(f.Hosts)
	var got []string
	for _, h := range Describe(f).Hosts {
		got = append(got, h.Name)
	}
	if strings.Join(got, " ") != "cp-1 cp-2 cp-3 a-worker b-worker" {
		t.Error(got)
	}
	for i := range want {
		if f.Hosts[i].Name != want[i].Name {
			t.Error("the facts themselves were changed")
		}
	}
	f.ControlPlanes = Seen[int]{Value: 2}
	if s := Describe(f).Redundancy.Sentence; !strings.Contains(s, "3 of 3 work") {
		t.Errorf("a number that is not known counts: %s", s)
	}
}

// TestTheStatusWhileNothingIsWritten takes what the hosts say when no way to the API
// answers.
func TestTheStatusWhileNothingIsWritten(t *testing.T) {
	for _, c := range []struct {
		name        string
		first, last Seen[explain.Explanation]
		want        explain.Status
	}{
		{"nobody says anything", Seen[explain.Explanation]{}, Seen[explain.Explanation]{}, explain.Unknown},
		{"one host takes writes", explained(explain.Waiting, explain.ReadsOnly), explained(explain.Degraded, explain.Writes), explain.Degraded},
		{"one host waits", Seen[explain.Explanation]{}, explained(explain.Waiting, explain.ReadsOnly), explain.Waiting},
		{"one host is stopped", explained(explain.Stopped, explain.None), Seen[explain.Explanation]{}, explain.Waiting},
		{"one host needs a person", explained(explain.Waiting, explain.None), explained(explain.NeedsHuman, explain.None), explain.NeedsHuman},
		{"neither waits", explained(explain.Degraded, explain.ReadsOnly), explained(explain.Unknown, explain.ReadsOnly), explain.Unknown},
		{"it is not clear", explained(explain.Waiting, explain.Unclear), Seen[explain.Explanation]{}, explain.Unknown},
	} {
		f := withoutAPI(recorded(t, "healthy", etcdReport(t, "healthy")))
		f.Hosts[0].Explanation, f.Hosts[1].Explanation = c.first, c.last
		if got := Describe(f).Status; got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
		for i := range f.Hosts { // what is no longer known counts for nothing
			f.Hosts[i].Explanation.Known = false
		}
		if got := Describe(f).Status; got != explain.Unknown {
			t.Errorf("%s, and is not known: %s", c.name, got)
		}
	}
}

func TestOneControlPlaneWithAThingToCheckIsDegraded(t *testing.T) {
	f := many(1, "10.98.0.5", "10.98.0.6")
	f.VIPs[0].Claims = []string{"02:00:00:00:00:63"}
	if v := Describe(f); v.Status != explain.Degraded || v.Summary != "The cluster works, with 1 thing to check." {
		t.Errorf("%s: %s", v.Status, v.Summary)
	}
	f.VIPs[1].Claims = f.VIPs[0].Claims
	if v := Describe(f); v.Summary != "The cluster works, with 2 things to check." {
		t.Errorf("%s", v.Summary)
	}
}

func TestASourceSaysHowItAnswered(t *testing.T) {
	f := pair()
	f.Pacemaker.Known = false
	for _, c := range []struct {
		source Source
		want   string
	}{
		{Source{Kind: FromAPI, Name: "x", Took: 21 * time.Millisecond, Limits: []string{"no Secrets"}}, "answered in 21ms"},
		{Source{Kind: FromAPI, Name: "x", Took: 400 * time.Microsecond}, "answered"},
		{Source{Kind: FromHost, Name: "x", Took: time.Second}, "its own daemons and files, which need no API"},
		{Source{Kind: FromLab, Name: "x", Took: time.Second, Failed: "no such lab"}, "no data: no such lab"},
	} {
		f.Sources = []Source{c.source}
		v := Describe(f)
		l := v.Sources[0]
		if l.Text != c.want || l.Answered != (c.source.Failed == "") || !slices.Equal(l.Limits, c.source.Limits) {
			t.Errorf("%+v: %+v", c.source, l)
		}
		if text := Text(v, page.Style{Wide: true}); len(c.source.Limits) > 0 && !strings.Contains(text, "not read: no Secrets") {
			t.Errorf("the limits are not said:\n%s", text)
		}
	}
}

func TestWhatOfAHostIsAChange(t *testing.T) {
	before := onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
	after := onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
	after.Hosts[1].Power = Know(PowerOff, "its BMC", now)
	after.Hosts[1].Kubelet = notReady("")
	after.Hosts[1].Record.Value.State = state.EtcdSole
	text := strings.Join(Changes(Describe(before), Describe(after)), "\n")
	for _, want := range []string{"cp-2: power off", "cp-2: kubelet not ready", "cp-2: record sole"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}
