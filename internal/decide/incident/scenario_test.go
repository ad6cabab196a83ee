package incident

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// began is the moment 0 of a scenario.
var began = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// play builds the records of a scenario. Each line has the true time in
// seconds, a host, and what it notes: an event, as eventOf reads it, or
// something that is noted elsewhere, as fill reads it.
type play struct {
	t       *testing.T
	boots   map[string]int
	up      map[string]float64 // when the present boot began
	ahead   map[string]time.Duration
	records []Record
}

func scenario(t *testing.T, text string) []Record {
	t.Helper()
	p := &play{t: t, boots: map[string]int{}, up: map[string]float64{}, ahead: map[string]time.Duration{}}
	for _, h := range []string{"cp-1", "cp-2"} {
		p.up[h] = -3600
	}
	for line := range strings.Lines(text) {
		if fields := strings.SplitN(strings.TrimSpace(line), " ", 3); len(fields) == 3 {
			p.line(fields[0], fields[1], fields[2])
		}
	}
	return p.records
}

// paired is the beginning of a scenario with two whole hosts.
const paired = `
-3500 cp-1 sees cp-1 cp-2, ring 10
-3500 cp-2 sees cp-1 cp-2, ring 10
-3490 cp-1 record 4 pair equal.pair-first: both are marked voters
-3490 cp-2 record 4 pair equal.pair-first: both are marked voters
-3480 cp-1 rule equal.idle idle: all is as it should be
-3480 cp-2 rule equal.idle idle: all is as it should be
-3400 cp-2 holds 10.0.0.5
-3400 cp-1 holds none
`

func (p *play) line(at, host, what string) {
	p.t.Helper()
	seconds, err := strconv.ParseFloat(at, 64)
	if err != nil {
		p.t.Fatalf("%q: %v", at, err)
	}
	word, rest, _ := strings.Cut(what, " ")
	if word == "clock" {
		if p.ahead[host], err = time.ParseDuration(rest); err != nil {
			p.t.Fatal(err)
		}
		return
	}
	if word == "boots" {
		p.boots[host]++
		p.up[host] = seconds - 0.001
	}
	r := Record{
		Host: host, Boot: fmt.Sprintf("%s-boot-%d", host, p.boots[host]), From: "test",
		At: began.Add(time.Duration(seconds * 1e9)).Add(p.ahead[host]), Up: time.Duration((seconds - p.up[host]) * 1e9),
	}
	p.records = append(p.records, p.fill(r, word, rest))
}

func (p *play) fill(r Record, word, rest string) Record {
	p.t.Helper()
	words := strings.Fields(rest)
	if e, is := eventOf(p.t, word, rest); is {
		e.Boot, e.At, e.Up = r.Boot, r.At, r.Up
		got, ok := FromEvent(r.Host, "test", e)
		if !ok {
			p.t.Fatalf("%s %s tells nothing", word, rest)
		}
		return got
	}
	switch word {
	case "boots":
		r.Kind = Booted
	case "off", "not-off": // like the history of fences, it names no boot
		r.Kind, r.OK, r.Target, r.Took, r.Boot, r.Up = Fenced, word == "off", words[0], 1200*time.Millisecond, "", 0
		r.Why = "the BMC says Off"
		if !r.OK {
			r.Why = "the BMC does not answer"
		}
	case "holds":
		r.Kind = Holds
		if rest != "none" {
			r.VIPs = words
		}
	case "api":
		r.Kind, r.OK = API, rest == "ready"
	case "pods":
		r.Kind, r.Target, r.Count = Pods, words[0], 7
	case "wrote": // like a Lease, it names no boot
		r.Kind, r.Who, r.VIPs, r.OK, r.Boot, r.Up = Wrote, words[0], []string{"10.0.0.5"}, true, "", 0
		var err error
		if r.Took, err = time.ParseDuration(words[1]); err != nil {
			p.t.Fatal(err)
		}
	case "person", "person-forces":
		r.Kind, r.Who, r.Target, r.Why, r.OK = Confirmed, words[0], words[1], strings.Join(words[2:], " "), word == "person-forces"
	default:
		p.t.Fatalf("unknown word %q", word)
	}
	return r
}

// eventOf reads an event: data before the colon, the reason after it.
func eventOf(t *testing.T, word, rest string) (state.Event, bool) {
	t.Helper()
	data, why, _ := strings.Cut(rest, ": ")
	words := append(strings.Fields(data), "", "")
	switch word {
	case "sees":
		return seen(t, rest), true
	case "rule":
		return state.DecisionEvent(state.EtcdVerdict{Rule: words[0], Action: state.EtcdAction(words[1]), Reason: why}), true
	case "record":
		seq, err := strconv.ParseUint(words[0], 10, 64)
		if err != nil {
			t.Fatalf("record %s: %v", rest, err)
		}
		return state.RecordEvent(state.EtcdRecord{Seq: seq, State: state.EtcdState(words[1])}, state.EtcdVerdict{Rule: words[2], Reason: why}), true
	case "wish":
		return state.WishEvent(state.EtcdWish(words[0])), true
	case "plans":
		return state.PlanEvent(rest), true
	case "taints", "untaints":
		return state.TaintEvent(words[0], word == "taints", why), true
	}
	return state.Event{}, false
}

// seen reads a membership: names, and after commas the ring and what the
// membership lacks.
func seen(t *testing.T, text string) state.Event {
	t.Helper()
	parts := strings.Split(text, ", ")
	ring, err := strconv.ParseUint(strings.TrimPrefix(parts[1], "ring "), 16, 64)
	if err != nil {
		t.Fatalf("sees %s: %v", text, err)
	}
	return state.MembershipEvent(state.Known(state.Membership{Members: strings.Fields(parts[0]), Ring: ring, Quorate: len(parts) == 2}))
}

// The parts of scenarios: cp-2 is lost, or leaves, at 0.
const (
	takeOver = `
1.8 cp-1 sees cp-1, ring 14
1.8 cp-1 rule gone.unproved wait: the peer is lost; waits until Pacemaker has fenced it and its BMC reads Off
1.9 cp-1 holds 10.0.0.5
2.0 cp-1 api not-ready
3.1 cp-1 off cp-2
3.2 cp-1 rule take-over.announce write-record: the peer cannot act: the take-over is recorded before it begins
3.2 cp-1 record 5 taking-over take-over.announce: the peer cannot act: the take-over is recorded before it begins
3.22 cp-1 rule take-over.stand-in start-stand-in: a stand-in casts the peer's vote
3.3 cp-1 record 6 sole take-over.sole: the removal is committed: this host is the only voter
3.4 cp-1 rule gone.sole-alone idle: goes on alone: until the peer is back, one more failure loses data
3.6 cp-1 taints cp-2: the host was fenced
4.0 cp-1 api ready
9.5 cp-1 pods cp-2
`
	leavesInOrder = `
0 cp-2 wish stopped
2.1 cp-2 record 5 departing leave.depart: this host leaves, the peer stays
2.2 cp-1 record 5 sole equal.peer-departs: the peer leaves
2.5 cp-2 record 6 departing leave.yield: gives up its data directory, which is proof enough for the peer to go on without a fence
4 cp-1 holds 10.0.0.5
6 cp-1 sees cp-1, ring 14
6.1 cp-1 rule gone.sole-alone idle: goes on alone: until the peer is back, one more failure loses data
`
	comesBack = `
20 cp-2 boots
25 cp-2 sees cp-2, ring 8, no quorum
25.1 cp-2 rule alone.wait ask-human: the peer may have gone on without this host: this host waits for contact with the peer, and only an administrator can decide otherwise
27 cp-1 sees cp-1 cp-2, ring 18
27 cp-2 sees cp-1 cp-2, ring 18
28 cp-2 wish started
28.1 cp-2 rule follow.give-up write-record: gives its copy up
28.2 cp-2 record 5 none follow.give-up: gives its copy up
28.3 cp-2 rule follow.empty empty-copy: the old copy is saved and emptied
28.5 cp-1 rule lead.add add-learner: the peer is added as a learner
28.6 cp-2 record 6 learner follow.accept: joins
30 cp-1 rule lead.promote promote: the learner holds nearly everything
30.2 cp-2 record 7 voter follow.promoted: a voter
30.5 cp-1 record 7 pair lead.pair: the peer holds everything
30.7 cp-2 record 8 pair equal.pair: this host holds everything
30.8 cp-1 rule equal.idle idle: all is as it should be
30.8 cp-2 rule equal.idle idle: all is as it should be
33 cp-1 untaints cp-2: the node is back: it is Ready again since its fence
40 cp-2 holds 10.0.0.5
40 cp-1 holds none
`
)

// damaged is what follows when a host gives up its data directory.
const damaged = `
0 cp-2 record 5 departing equal.lost-copy-yield: the data directory of this host is lost: the host gives it up, which lets the peer go on without a fence
1.4 cp-1 record 5 taking-over take-over.announce: the peer cannot act: the take-over is recorded before it begins
2.1 cp-1 record 6 sole take-over.sole: the removal is committed: this host is the only voter
2.7 cp-2 record 6 learner follow.give-up: the living cluster does not list this copy
3.5 cp-2 record 7 learner follow.accept: joins
4 cp-2 record 8 voter follow.promoted: a voter
4.8 cp-1 record 7 pair lead.pair: the peer holds everything
5.2 cp-2 record 9 pair equal.pair: this host holds everything
5.3 cp-2 rule equal.idle idle: all is as it should be
`

// nobodyWrites is what a host notes that nobody can reach: it fences the other
// one, its etcd leads, and it waits until its cable is plugged in again.
const nobodyWrites = `
1.8 cp-1 sees cp-1, ring 14
1.8 cp-1 holds 10.0.0.5
1.805 cp-2 sees cp-2, ring 14
6.5 cp-1 off cp-2
6.6 cp-1 record 5 taking-over take-over.announce: the peer cannot act: the take-over is recorded before it begins
6.8 cp-1 record 6 sole take-over.sole: the removal is committed: this host is the only voter
6.9 cp-1 rule gone.sole-alone idle: goes on alone: until the peer is back, one more failure loses data
`

// scenarios lists the incidents of the golden file, by name.
var scenarios = []struct{ name, text string }{
	{"a host whose disk is full gives its data directory up", paired + strings.Replace(damaged, "record 5 departing equal.lost-copy-yield: the data directory of this host is lost: the host gives it up, which lets the peer go on without a fence",
		"record 5 departing equal.no-space-depart: etcd cannot run on this host, because its disk is full or podman does not start it: this host leaves, the peer goes on\n"+
			"0.3 cp-2 record 6 departing equal.no-space-yield: etcd cannot run on this host, because its disk is full or podman does not start it: the host gives its data directory up, which lets the peer go on without a fence", 1)},
	{"a host loses its power and comes back", paired + takeOver + comesBack},
	{"an incident that is under way", paired + takeOver},
	{"the journal of the lost host is not here", only("cp-1", paired+takeOver+comesBack)},
	{"the journal of the survivor is not here", only("cp-2", paired+takeOver+comesBack)},
	{"clocks that are minutes apart", "0 cp-2 clock 3m20s" + paired + takeOver + comesBack},
	{"a clock that is set after a boot", paired + takeOver + strings.Replace(comesBack, "20 cp-2 boots\n", "20 cp-2 clock -1h\n20 cp-2 boots\n", 1) + "41 cp-2 clock 0s\n42 cp-2 api ready\n"},
	{"the network between the hosts is cut", paired + strings.Replace(takeOver, "3.1 cp-1 off", `1.805 cp-2 sees cp-2, ring 14
1.81 cp-2 rule gone.unproved wait: the peer is lost; waits until Pacemaker has fenced it and its BMC reads Off
3.1 cp-1 off`, 1) + comesBack},
	{"of two that switch each other off the second wins", `
0 cp-1 clock 0s` + paired + `
1.8 cp-1 sees cp-1, ring 14
1.805 cp-2 sees cp-2, ring 14
3.5 cp-2 off cp-1
3.6 cp-2 record 5 taking-over take-over.announce: the peer cannot act
3.7 cp-2 record 6 sole take-over.sole: the removal is committed
`},
	{"a network that is away for a moment", paired + `
10 cp-1 sees cp-1, ring 14
10.003 cp-2 sees cp-2, ring 14
11.2 cp-1 sees cp-1 cp-2, ring 18
11.203 cp-2 sees cp-1 cp-2, ring 18
11.3 cp-1 rule equal.idle idle: all is as it should be
`},
	{"a planned reboot", paired + leavesInOrder + comesBack},
	{"a reboot for a configuration", paired + `
-3 cp-2 plans it boots for its configuration rendered-master-2
` + leavesInOrder + comesBack},
	{"both are shut down in order and start again", paired + `
0 cp-2 wish stopped
0.5 cp-1 wish stopped
3 cp-2 rule leave.stop stop: stops and keeps its data directory and its record: neither host leaves when both stop, and a lone survivor never leaves
5 cp-1 sees cp-1, ring 14
3600 cp-1 boots
3605 cp-2 boots
3610 cp-1 sees cp-1 cp-2, ring 18
3610 cp-2 sees cp-1 cp-2, ring 18
3612 cp-1 wish started
3612 cp-2 wish started
3613 cp-1 rule equal.start start: our data directory lists us
3615 cp-1 rule equal.idle idle: all is as it should be
3615 cp-2 rule equal.idle idle: all is as it should be
`},
	{"mains that are away for both", paired + `
300 cp-1 boots
301 cp-2 boots
310 cp-1 sees cp-1 cp-2, ring 18
310 cp-2 sees cp-1 cp-2, ring 18
312 cp-1 rule equal.start start: our data directory lists us
315 cp-1 rule equal.idle idle: all is as it should be
315.1 cp-2 rule equal.idle idle: all is as it should be
`},
	{"standby and back", paired + `
0 cp-2 wish stopped
2.1 cp-2 record 5 departing leave.depart: this host leaves, the peer stays
2.2 cp-1 record 5 sole equal.peer-departs: the peer leaves
600 cp-2 wish started
600.2 cp-2 record 6 none follow.give-up: gives its copy up
602 cp-2 record 7 learner follow.accept: joins
604 cp-2 record 8 voter follow.promoted: a voter
604.5 cp-1 record 6 pair lead.pair: the peer holds everything
604.7 cp-2 record 9 pair equal.pair: this host holds everything
604.9 cp-2 rule equal.idle idle: all is as it should be
`},
	{"the copy of a host is damaged", paired + damaged},
	{"the disk of etcd on a host is replaced, with its record", paired + `
0.4 cp-2 record 1 learner follow.give-up: this host holds nothing
1.4 cp-1 record 5 taking-over take-over.announce: the peer cannot act: the take-over is recorded before it begins
2.1 cp-1 record 6 sole take-over.sole: the removal is committed: this host is the only voter
3.5 cp-2 record 2 learner follow.accept: joins
4 cp-2 record 3 voter follow.promoted: a voter
4.8 cp-1 record 7 pair lead.pair: the peer holds everything
5.2 cp-2 record 4 pair equal.pair: this host holds everything
5.3 cp-2 rule equal.idle idle: all is as it should be
`},
	{"the disk of etcd on a host is replaced, and it asks for a person first", paired + `
0 cp-2 rule equal.no-record ask-human: this host has no record, or no data, and the peer did not go on alone: the missing disk may have been the survivor's
1.25 cp-2 rule follow.wait wait: waits with its etcd stopped until the peer has finished its take-over
1.26 cp-1 rule equal.take-over write-record: the peer cannot act: the take-over is recorded before it begins
1.26 cp-1 record 5 taking-over equal.take-over: the peer cannot act: the take-over is recorded before it begins
1.9 cp-1 record 6 sole lead.sole: the removal is committed: this host is the only voter
2.4 cp-2 record 1 learner follow.give-up: the living cluster does not list this copy
4.5 cp-2 record 3 voter follow.promoted: this member was promoted
5.6 cp-1 record 7 pair lead.pair: both copies hold everything
5.7 cp-1 rule equal.idle idle: all is as it should be
6.0 cp-2 record 4 pair equal.pair: this host holds everything
6.7 cp-2 rule equal.idle idle: all is as it should be
`},
	{"a BMC that is mute, and a person", paired + `
1.8 cp-1 sees cp-1, ring 14
1.8 cp-1 rule gone.unproved wait: the peer is lost; waits until Pacemaker has fenced it and its BMC reads Off
61.8 cp-1 not-off cp-2
125 cp-1 not-off cp-2
400 cp-1 person ops@example.com cp-2 the rack has no mains, I stand before it
400.4 cp-1 record 5 taking-over take-over.announce: the peer cannot act: the take-over is recorded before it begins
400.6 cp-1 record 6 sole take-over.sole: the removal is committed: this host is the only voter
`},
	{"a host that is lost for good, and another one in its place", paired + takeOver + `
700 cp-3 boots
702 cp-1 sees cp-1 cp-3, ring 18
702 cp-3 sees cp-1 cp-3, ring 18
703 cp-3 wish started
703.1 cp-1 rule lead.add add-learner: the peer is added as a learner
704 cp-3 record 1 learner follow.accept: joins
706 cp-3 record 2 voter follow.promoted: a voter
706.5 cp-1 record 7 pair lead.pair: the peer holds everything
706.7 cp-3 record 3 pair equal.pair: this host holds everything
706.8 cp-1 rule equal.idle idle: all is as it should be
706.8 cp-3 rule equal.idle idle: all is as it should be
`},
	{"the survivor booted alone and waits for a person", paired + takeOver + `
60 cp-1 boots
66 cp-1 sees cp-1, ring 1c, no quorum
66.1 cp-1 rule alone.unproved ask-human: this host was the survivor, but nothing proves that its peer is off; it waits for contact with the peer
`},
	{"the survivor fails before the other is a voter", paired + takeOver + `
20 cp-2 boots
27 cp-1 sees cp-1 cp-2, ring 18
27 cp-2 sees cp-1 cp-2, ring 18
28.2 cp-2 record 5 none follow.give-up: gives its copy up
28.6 cp-2 record 6 learner follow.accept: joins
31.8 cp-2 sees cp-2, ring 1c
33.0 cp-2 off cp-1
33.1 cp-2 rule gone.not-eligible ask-human: this data directory may lack acknowledged writes, so it never leads alone
60 cp-1 boots
66 cp-1 sees cp-1 cp-2, ring 20
66 cp-2 sees cp-1 cp-2, ring 20
67 cp-1 rule lead.start start: our copy is whole
67.5 cp-2 rule follow.catch-up wait: catches up
70.2 cp-2 record 7 voter follow.promoted: a voter
70.5 cp-1 record 7 pair lead.pair: the peer holds everything
70.7 cp-2 record 8 pair equal.pair: this host holds everything
70.8 cp-1 rule equal.idle idle: all is as it should be
70.8 cp-2 rule equal.idle idle: all is as it should be
`},
	{"the survivor is the host that nobody can reach", paired + nobodyWrites},
	{"the survivor is the host that nobody can reach, and a worker measures", paired + nobodyWrites + "75.3 cp-1 wrote worker-1 75.1s\n"},
	{"a host loses its power, and two workers measure", paired + takeOver + "4.2 cp-1 wrote worker-2 3.7s\n4.9 cp-1 wrote worker-1 4.4s\n" + comesBack},
	{"the lost host itself could not write", paired + takeOver + "31 cp-1 wrote cp-2 4s\n"},
	{"a copy is damaged, and the other host measures", paired + damaged + "3.1 cp-1 wrote cp-1 2.4s\n"},
	{"a host that boots in a circle", paired + takeOver + circle(4)},
}

// only keeps the lines of one host.
func only(host, text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[1] == host {
			out.WriteString(line)
		}
	}
	return out.String()
}

func circle(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "%d cp-2 boots\n%d cp-2 sees cp-2, ring %x, no quorum\n", 60+60*i, 65+60*i, 0x40+4*i)
	}
	return out.String()
}

func known(records []Record, host string) state.EtcdState {
	var out state.EtcdState
	for _, r := range records {
		if r.Host == host && r.Kind == Recorded {
			out = r.State
		}
	}
	return out
}
