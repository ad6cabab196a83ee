package keeper

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/eventlog"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// play runs the whole keeper of alpha against a world of values, and writes down
// what it does, with the time of each effect. A scene's whole text is approved.
type play struct {
	t     *testing.T
	d     *daemon
	began time.Time
	root  string
	end   func()

	mu    sync.Mutex
	lines []line

	// etcd's container, its data and its stand-in
	process podman.Process
	ended   chan struct{} // closed when the process ends
	holds   bool          // the process holds the data
	mute    bool          // it answers nothing
	fails   error         // of a start
	status  etcd.MemberStatus
	commits error
	block   error // of a write beside the data
	blocked bool
	data    state.EtcdData
	free    uint64
	standIn etcd.StandIn

	// what the world outside says
	members    chan state.Fact[state.Membership]
	reaches    chan state.Reach
	statements map[string]string
	serial     uint64
	stops      bool // Pacemaker of the peer was told to stop
	barred     error
	power      string
	powerErr   error
	gives      time.Duration // what the peer promises in a race
	peerMute   bool
	// peerApplied is how much of its log the peer's learner has applied.
	peerApplied uint64
	wake        func() // of the watch of files
	watchFails  int    // how often it fails before
}

// line is a thing that happened. Lines of the same moment are ordered by their
// track: the loop's own effects come first.
type line struct {
	at    time.Duration
	track int
	text  string
	times int
}

// Tracks of what happens at the same time.
const (
	scene = iota
	loop
	beside
	asking
	proving
	telling
)

func (p *play) now() time.Duration { return time.Since(p.began) }

func (p *play) note(track int, format string, args ...any) { p.noteAt(p.now(), track, format, args...) }

func (p *play) noteAt(at time.Duration, track int, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), p.root, "")
	p.lines = append(p.lines, line{at, track, text, 1})
}

// takes lets an effect take its time, so that no two goroutines act at once.
func takes(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

const pairOfAB = `{"nodes":{"alpha":"192.0.2.1","beta":"192.0.2.2"},"podManifest":"POD","backupDir":"/b","backups":3,"oom":-997}`

// newPlay prepares the world. begin starts the keeper.
func newPlay(t *testing.T) *play {
	p := &play{
		t: t, began: time.Now(), root: t.TempDir(), free: 1 << 40,
		members: make(chan state.Fact[state.Membership], 8), reaches: make(chan state.Reach, 8),
		statements: map[string]string{}, powerErr: errors.New("no answer"), peerMute: true,
		data:   state.EtcdData{Copy: state.CopyWhole, Cluster: 0xc, Member: 0xa, Members: both},
		status: etcd.MemberStatus{Cluster: 0xc, Member: 0xa, Leader: 0xa, Members: slices.Clone(both), RaftIndex: 100},
	}
	files := records.Files{Root: p.root}
	manifest := filepath.Join(p.root, "pod.yaml")
	keep(t, manifest, podOf(t, "etcd-image"))
	keep(t, files.Path(state.EtcdParametersPath), strings.Replace(pairOfAB, "POD", manifest, 1))
	for _, dir := range []string{state.EtcdDataDir + "/member", "/run/holdfast/etcd", state.FencedDir} {
		if err := os.MkdirAll(files.Path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.d = newDaemon(Options{Host: "alpha", Now: time.Now, Log: logOf(t)}, p.effects(), files, "")
	p.d.events = eventlog.New(eventlog.Options{Boot: p.boot, Now: time.Now, Hear: func(error) {}, Write: func(events []state.Event) error {
		for _, e := range events {
			p.noteAt(e.Up-bootedFor, telling, "%s", eventText(e))
		}
		return nil
	}})
	return p
}

func eventText(e state.Event) string {
	switch e.Kind { //nolint:exhaustive // the others have one form
	case state.EventMembership:
		return fmt.Sprintf("event: membership %d of %v, quorate %t", e.Ring, e.Members, e.Quorate)
	case state.EventDecision:
		return fmt.Sprintf("event: %s decides: %s", e.Rule, e.Action)
	case state.EventRecord:
		return fmt.Sprintf("event: record %d says %s", e.Seq, e.State)
	}
	return strings.TrimSpace(fmt.Sprintf("event: %s %s %s %s", e.Kind, e.Wish, e.Target, e.Why))
}

// bootedFor is the time since boot at which a play begins.
const bootedFor = 5 * time.Minute

func (p *play) boot() (string, time.Duration, error) { return "boot-2", p.now() + bootedFor, nil }

// begin starts the keeper as the daemon does.
func (p *play) begin() {
	ctx, stop := context.WithCancel(p.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.d.events.During(ctx, p.d.keep)
	}()
	p.end = func() { stop(); <-done }
	p.run(time.Nanosecond)
}

// run lets time pass.
func (p *play) run(d time.Duration) { time.Sleep(d); synctest.Wait() }

// say writes a heading, changes the world, and lets time pass.
func (p *play) say(what string, change func(), d time.Duration) {
	p.note(scene, "--- %s", what)
	if change != nil {
		change()
	}
	p.run(d)
}

// sees has Corosync report a membership. What follows is a moment later, so that the
// order is the same in each run.
func (p *play) sees(ring uint64, quorate bool, hosts ...string) {
	p.members <- state.Known(state.Membership{Ring: ring, Members: hosts, Quorate: quorate})
	p.run(time.Millisecond)
}

// peerSays publishes a statement of beta.
func (p *play) peerSays(st state.EtcdStatement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serial++
	st.Serial = p.serial
	text, err := json.Marshal(st)
	if err != nil {
		p.t.Error(err)
	}
	p.statements["beta"] = string(text)
}

func (p *play) ask(wish state.EtcdWish) {
	if err := p.d.keeper().Ask(wish); err != nil {
		p.t.Error(err)
	}
}

func (p *play) fenced(at time.Duration) {
	if err := p.d.files.WriteFenced(state.EtcdFenced{Target: "beta", State: state.PowerOff, Boot: "boot-2", At: at + bootedFor}); err != nil {
		p.t.Error(err)
	}
	p.wake()
}

func (p *play) recorded(r state.EtcdRecord) {
	if err := p.d.files.WriteRecord(r); err != nil {
		p.t.Fatal(err)
	}
}

// exits ends etcd's process.
func (p *play) exits() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process.Running {
		close(p.ended)
	}
	p.process, p.holds = podman.Process{}, false
}

func (p *play) statusNow() etcd.MemberStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.status
	s.Members = slices.Clone(s.Members)
	return s
}

var (
	takeOverID = regexp.MustCompile(`\b[0-9a-f]{16}\b`)
	wallClock  = regexp.MustCompile(`"(written|at)":"[^"]*"`)
)

// text returns what happened. A question that is repeated stands once in each part, with
// its number.
func (p *play) text() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.SortStableFunc(p.lines, func(a, b line) int {
		order := cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.track, b.track))
		if order == 0 && a.track >= asking { // they come from several goroutines
			order = cmp.Compare(a.text, b.text)
		}
		return order
	})
	var out []line
	first := map[string]int{} // of this part, the place of a question that is repeated
	for _, l := range p.lines {
		l.text = wallClock.ReplaceAllString(takeOverID.ReplaceAllString(l.text, "ID"), `"$1":"…"`)
		if l.track == scene {
			clear(first)
		}
		if n, again := first[l.text]; again && (l.track == asking || l.track == proving) {
			out[n].times++
			continue
		}
		first[l.text] = len(out)
		out = append(out, l)
	}
	var b bytes.Buffer
	for _, l := range out {
		if l.track == scene {
			fmt.Fprintf(&b, "%s\n", l.text)
			continue
		}
		fmt.Fprintf(&b, "%8.3f  %s", l.at.Seconds(), l.text)
		if l.times > 1 {
			fmt.Fprintf(&b, " (%d times)", l.times)
		}
		b.WriteString("\n")
	}
	return b.Bytes()
}

// playOut plays one scene and compares all that happened with what is approved.
func playOut(t *testing.T, name string, act func(*play)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t)
		act(p)
		p.end()
		golden.Check(t, "plays/"+name+".txt", p.text())
	})
}

// statementText is a statement without what changes from run to run.
func statementText(text string) string {
	var st state.EtcdStatement
	if err := json.Unmarshal([]byte(text), &st); err != nil {
		return err.Error()
	}
	out := fmt.Sprintf("ring %d, record %d %s, running %s, stand-in %s", st.Ring, st.Record.Seq, st.Record.State, factText(st.Running), factText(st.StandIn))
	for _, c := range []struct {
		is   bool
		text string
	}{
		{st.Leads, "leads"},
		{st.Leaderless, "leaderless"},
		{st.Leaving, "leaving"},
		{st.SeenSeq != 0, fmt.Sprintf("has read %d", st.SeenSeq)},
		{st.Data.Known, "data " + string(st.Data.Value.Copy)},
		{st.Stalled != 0, "stalled " + st.Stalled.String()},
		{st.Earlier != 0, "from before " + st.Earlier.String()},
		{st.PeerStalled != 0, "peer stalled " + st.PeerStalled.String()},
		{st.Sick != "", "sick: " + st.Sick},
		{len(st.Addresses) > 0, fmt.Sprint("at ", st.Addresses)},
	} {
		if c.is {
			out += ", " + c.text
		}
	}
	return out
}

func factText[T any](f state.Fact[T]) string {
	if !f.Known {
		return "unknown"
	}
	return fmt.Sprint(f.Value)
}

func lan(text string) netip.Addr { return netip.MustParseAddr(text) }
