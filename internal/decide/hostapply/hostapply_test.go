package hostapply_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

// files is the number of files of the hosts of these tests.
const files = 3

// host is a host with a disk, and with programs that have read it.
type host struct {
	t       *testing.T
	c       course
	journal hostapply.Journal
	// disk has the configuration of each file, read the one that its reader has.
	disk, read [files]string
	boot       int
	booted     time.Time
	now        time.Time
	desired    string
	// did and failed are lost in a crash.
	did    hostapply.Do
	failed string
	// left is the number of operations until the crash, -1 for none.
	left    int
	power   bool
	reboots int
	looks   int
	trace   []string
}

// course is what a way is like.
type course struct {
	sentence string
	// thereBoots and backBoots: the way needs a reboot.
	thereBoots, backBoots bool
	// bad: the host is not ready with the configuration. unwritable: its second
	// file cannot be written. unactable: its unit does not start.
	bad, unwritable, unactable bool
	// stubborn: on the way back its unit does not take its former file before a boot.
	stubborn bool
	// guarded is the number of looks for which the host may not boot.
	guarded int
	// byHand: a person boots the host, and does so in the end.
	byHand bool
	// want is the state in which it ends, and reboots the number of reboots until
	// then.
	want    rollout.State
	reboots int
}

func courses() []course {
	return []course{
		{sentence: "a good one", want: rollout.Done},
		{sentence: "a good one with a reboot", thereBoots: true, backBoots: true, want: rollout.Done, reboots: 1},
		{sentence: "a good one whose reboot has to wait", thereBoots: true, backBoots: true, guarded: 20, want: rollout.Done, reboots: 1},
		{sentence: "a good one that a person boots", thereBoots: true, backBoots: true, byHand: true, want: rollout.Done},
		{sentence: "a bad one that a person boots", thereBoots: true, backBoots: true, byHand: true, bad: true, want: rollout.Degraded},
		{sentence: "a bad one", bad: true, want: rollout.Degraded},
		{sentence: "a bad one with a reboot", thereBoots: true, backBoots: true, bad: true, want: rollout.Degraded, reboots: 2},
		{sentence: "a bad one that needs a reboot back alone", backBoots: true, bad: true, want: rollout.Degraded, reboots: 1},
		{sentence: "a full disk", unwritable: true, want: rollout.Degraded},
		{sentence: "a full disk before a reboot", thereBoots: true, backBoots: true, unwritable: true, want: rollout.Degraded},
		{sentence: "a unit that does not start", unactable: true, want: rollout.Degraded},
		{sentence: "a bad one that needs a boot to be undone", bad: true, stubborn: true, want: rollout.Degraded, reboots: 1},
		{sentence: "a unit that starts with neither before a boot", unactable: true, stubborn: true, want: rollout.Degraded, reboots: 1},
		{sentence: "one that needs a boot to be undone, which has to wait", bad: true, stubborn: true, guarded: 30, want: rollout.Degraded, reboots: 1},
	}
}

func newHost(t *testing.T, c course) *host {
	h := &host{t: t, c: c, journal: hostapply.Journal{Good: "old"}, desired: "new", left: -1, now: time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)}
	for i := range files {
		h.disk[i], h.read[i] = "old", "old"
	}
	return h
}

// operation is one thing that a crash can follow. It reports whether the agent
// still runs.
func (h *host) operation(what string) bool {
	h.trace = append(h.trace, what)
	if h.left < 0 {
		return true
	}
	h.left--
	if h.left >= 0 {
		return true
	}
	h.did, h.failed = hostapply.Nothing, ""
	if h.power {
		h.trace = append(h.trace, "POWER CUT")
		h.boots()
	} else {
		h.trace = append(h.trace, "CRASH")
	}
	return false
}

func (h *host) boots() {
	h.boot++
	h.booted = h.now
	h.read = h.disk
	h.did, h.failed = hostapply.Nothing, ""
}

func (h *host) has(config string) bool {
	return h.disk == [files]string{config, config, config} && h.read == h.disk
}

func (h *host) fail(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf("%s: %s\n%+v\ndisk %v read %v\n%s", h.c.sentence, fmt.Sprintf(format, args...), h.journal, h.disk, h.read, strings.Join(h.trace, "\n"))
}

func (h *host) facts() hostapply.Facts {
	f := hostapply.Facts{
		Now: h.now, Boot: fmt.Sprint(h.boot), Uptime: h.now.Sub(h.booted), Desired: state.Known(h.desired), Did: h.did, Failed: h.failed, Drained: true,
		Reboots: h.c.thereBoots, MayBoot: state.Known(h.looks > h.c.guarded),
		Ready: state.Known(!h.c.bad || !slices.Contains(h.read[:], "new")),
	}
	if h.journal.Back {
		f.Reboots = h.c.backBoots
	}
	if h.c.byHand {
		f.ByHand, f.MayBoot = "kernel arguments", state.Fact[bool]{}
	}
	return f
}

// look makes one decision and does it. It returns what the host reports.
func (h *host) look() hostapply.Report {
	h.looks++
	h.now = h.now.Add(time.Minute)
	if h.c.byHand && h.journal.Phase == hostapply.Booting && h.looks%5 == 0 {
		h.trace = append(h.trace, "a person boots it")
		h.boots()
	}
	f := h.facts()
	s := hostapply.Next(h.journal, f)
	if s.Do == hostapply.Reboot && !state.Is(f.MayBoot, true) {
		h.fail("it boots although the cluster may not carry on without it")
	}
	if !cmp.Equal(s.Journal, h.journal) {
		if h.journal = s.Journal; !h.operation(fmt.Sprintf("journal %+v", s.Journal)) {
			return s.Report
		}
		h.did, h.failed = hostapply.Nothing, ""
	}
	if h.do(s) {
		h.did = s.Do
	}
	return s.Report
}

// do does what a step says, and reports whether it is done.
func (h *host) do(s hostapply.Step) bool {
	switch s.Do {
	case hostapply.Write:
		for i := range files {
			if h.c.unwritable && s.Config == "new" && i == 1 {
				h.failed = "no space left on device"
				return false
			}
			h.disk[i] = s.Config
			if !h.operation(fmt.Sprintf("file %d is that of %s", i, s.Config)) {
				return false
			}
		}
	case hostapply.Act:
		for i := range files {
			if h.c.unactable && h.disk[i] == "new" && i == 1 {
				h.failed = "a.service does not start"
				return false
			}
			if h.c.stubborn && h.journal.Back && i == 1 {
				h.failed = "a parameter is refused"
				return false
			}
			h.read[i] = h.disk[i]
			if !h.operation(fmt.Sprintf("file %d is read", i)) {
				return false
			}
		}
	case hostapply.Reboot:
		h.reboots++
		h.trace = append(h.trace, "reboot")
		h.boots()
		return false
	case hostapply.Nothing, hostapply.Drain, hostapply.Fetch, hostapply.Install:
	}
	return true
}

// run plays until the host rests, and checks how it ends.
func (h *host) run() {
	h.t.Helper()
	for range 200 {
		r := h.look()
		if h.reboots > 2 {
			h.fail("it boots for the %dth time", h.reboots)
		}
		if h.journal.Target != "" || h.journal.Good == "old" && h.journal.Failed == "" {
			if r.State != rollout.Working {
				h.fail("it reports %+v on its way", r)
			}
			continue
		}
		h.ends(r)
		return
	}
	h.fail("it never rests")
}

func (h *host) ends(r hostapply.Report) {
	h.t.Helper()
	again := h.look() // once more, with the journal of the end
	if again.State != h.c.want || again.Current != h.journal.Good || r.State != h.c.want {
		h.fail("it ends with %+v, then %+v", r, again)
	}
	if !h.has(h.journal.Good) {
		h.fail("it does not have %s", h.journal.Good)
	}
	if (h.c.want == rollout.Degraded) != (h.journal.Failed == "new") || (h.c.want == rollout.Degraded) != (again.Reason != "") {
		h.fail("what failed is %q, because %q", h.journal.Failed, again.Reason)
	}
	reboots, disk := h.reboots, h.disk
	for range 20 {
		h.look()
	}
	if h.reboots != reboots || h.disk != disk {
		h.fail("it does not stay at rest")
	}
}

// operations is the number of operations of a way without a crash.
func operations(t *testing.T, c course) int {
	h := newHost(t, c)
	h.left = 1 << 20
	h.run()
	return 1<<20 - h.left
}

func TestAHostReachesTheNewConfigurationOrGoesBackOnce(t *testing.T) {
	for _, c := range courses() {
		h := newHost(t, c)
		if h.run(); h.reboots != c.reboots {
			h.fail("it boots %d times, not %d", h.reboots, c.reboots)
		}
	}
}

// TestACrashAtAnyPointChangesNothing plays each way with a crash of the agent or a
// power cut after each operation, and then with a second one after each further
// one.
func TestACrashAtAnyPointChangesNothing(t *testing.T) {
	for _, c := range courses() {
		all := operations(t, c)
		if all < 4 {
			t.Fatalf("%s has only %d operations", c.sentence, all)
		}
		for first := range all {
			for second := range all {
				for _, power := range [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
					h := newHost(t, c)
					h.left, h.power = first, power[0]
					for h.left >= 0 && h.looks < 100 {
						h.look()
					}
					h.left, h.power = second, power[1]
					h.run()
				}
			}
		}
	}
}

// TestAHostThatDoesNotStayUpGoesBack: it dies again and again with the new
// configuration, long before anybody calls it late.
func TestAHostThatDoesNotStayUpGoesBack(t *testing.T) {
	h := newHost(t, course{sentence: "dies", thereBoots: true, backBoots: true, bad: true, want: rollout.Degraded})
	for !h.journal.Back && h.looks < 20 {
		h.look()
		if h.read[0] == "new" {
			h.boots()
		}
	}
	h.run()
	if !strings.Contains(h.journal.Why, "the host booted 3 times and did not become ready") {
		t.Errorf("it failed because %s", h.journal.Why)
	}
}

func TestWhatAHostReports(t *testing.T) {
	at := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	desired := func(name string) hostapply.Facts {
		return hostapply.Facts{Now: at, Boot: "1", Uptime: time.Hour, Desired: state.Known(name), MayBoot: state.Known(true), Ready: state.Known(true)}
	}
	old := hostapply.Journal{Good: "old"}
	failed := hostapply.Journal{Good: "old", Failed: "bad", Why: "it was late"}
	checked := hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Checking, Boot: "1", Since: at}
	booting := hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Booting, Reboots: true, Boot: "1"}
	with := func(f hostapply.Facts, change func(*hostapply.Facts)) hostapply.Facts {
		change(&f)
		return f
	}
	for _, c := range []struct {
		sentence string
		journal  hostapply.Journal
		facts    hostapply.Facts
		do       hostapply.Do
		report   hostapply.Report
		next     hostapply.Journal
	}{
		{"the API does not answer", old, hostapply.Facts{Boot: "1"}, "", hostapply.Report{State: rollout.Done, Current: "old", Stage: rollout.Settled}, old},
		{"after a failure neither", failed, hostapply.Facts{Boot: "1"}, "", hostapply.Report{State: rollout.Degraded, Current: "old", Reason: "it was late", Stage: rollout.Failed}, failed},
		{"it is given what failed", failed, desired("bad"), "", hostapply.Report{State: rollout.Degraded, Current: "old", Reason: "it was late", Stage: rollout.Failed}, failed},
		{"it is given what it has, after a failure", failed, desired("old"), "", hostapply.Report{State: rollout.Done, Current: "old", Stage: rollout.Settled}, old},
		{
			"it is given another one after a failure", failed, desired("new"), hostapply.Write,
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "writes new", Stage: rollout.Applies},
			hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Writing, Boot: "1"},
		},
		{
			"it refuses", old, with(desired("new"), func(f *hostapply.Facts) { f.Refused = "no such group" }), "",
			hostapply.Report{State: rollout.Unreconcilable, Current: "old", Reason: "no such group", Stage: rollout.Refused},
			hostapply.Journal{Good: "old", Failed: "new", Refused: true, Why: "no such group"},
		},
		{
			"pods have to move first", old, with(desired("new"), func(f *hostapply.Facts) { f.Drains = true }), hostapply.Drain,
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "waits until its pods have moved", Drain: true, Stage: rollout.Drains},
			old,
		},
		{
			"pods have moved", old, with(desired("new"), func(f *hostapply.Facts) { f.Drains, f.Drained, f.Reboots = true, true, true }), hostapply.Write,
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "writes new", Drain: true, Stage: rollout.Applies},
			hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Writing, Reboots: true, Boot: "1"},
		},
		{
			"the cluster has needed it for long", old, with(desired("new"), func(f *hostapply.Facts) {
				f.Drains, f.Drained, f.Reboots, f.MayBoot, f.Needed, f.NotSpared = true, true, true, state.Known(false), true, "cp-2 is absent"
			}), "",
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "takes pods until the cluster carries on without it: cp-2 is absent", Needed: true, Stage: rollout.Held},
			old,
		},
		{
			"the cluster has needed it for long, and all is written", booting, with(desired("new"), func(f *hostapply.Facts) {
				f.Drains, f.Reboots, f.MayBoot, f.Needed = true, true, state.Known(false), true
			}), "",
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "takes pods until the cluster carries on without it", Needed: true, Stage: rollout.Held},
			booting,
		},
		{
			"its wish was taken back before its reboot, and it is back",
			hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Checking, Back: true, Reboots: true, Boot: "1", Since: at, Why: "another configuration is wanted before its reboot"},
			with(desired("old"), func(f *hostapply.Facts) { f.Quiet = true }), "",
			hostapply.Report{State: rollout.Done, Current: "old", Stage: rollout.Settled},
			old,
		},
		{
			"the desired one changes on the way", checked, with(desired("newer"), func(f *hostapply.Facts) { f.Ready = state.Known(false) }), "",
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "waits until it is ready", Stage: rollout.Applies},
			checked,
		},
		{
			"it is ready, and a kubelet that fell silent would not be noticed yet", checked, desired("new"), "",
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "is watched for 1m0s", Stage: rollout.Applies},
			checked,
		},
		{
			"it is ready, and nobody read what changed", checked, with(desired("new"), func(f *hostapply.Facts) { f.Quiet = true }), "",
			hostapply.Report{State: rollout.Done, Current: "new", Stage: rollout.Settled},
			hostapply.Journal{Good: "new"},
		},
		{
			"it says why it is not ready", checked, with(desired("new"), func(f *hostapply.Facts) { f.Ready, f.NotReady = state.Known(false), "a.service has failed" }), "",
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "waits until it is ready: a.service has failed", Stage: rollout.Applies},
			checked,
		},
		{
			"a person has to boot it", booting, with(desired("new"), func(f *hostapply.Facts) { f.ByHand = "kernel arguments" }), "",
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "needs a reboot: kernel arguments", Stage: rollout.WaitsForBoot},
			booting,
		},
		{
			"a person has to boot it, and the API does not answer", booting, with(desired("new"), func(f *hostapply.Facts) { f.ByHand, f.Desired = "kernel arguments", state.Fact[string]{} }), "",
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "needs a reboot: kernel arguments", Stage: rollout.WaitsForBoot},
			booting,
		},
		{
			"the wish is taken back before a person boots it", booting, with(desired("old"), func(f *hostapply.Facts) { f.ByHand = "kernel arguments" }), hostapply.Write,
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "goes back to old, because another configuration is wanted before its reboot: writes old", Stage: rollout.GoesBack},
			hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Writing, Back: true, Reboots: true, Boot: "1", Why: "another configuration is wanted before its reboot"},
		},
		{
			"the wish is taken back while its pods move", booting, with(desired("old"), func(f *hostapply.Facts) { f.Drains = true }), hostapply.Write,
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "goes back to old, because another configuration is wanted before its reboot: writes old", Drain: true, Stage: rollout.GoesBack},
			hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Writing, Back: true, Reboots: true, Boot: "1", Why: "another configuration is wanted before its reboot"},
		},
		{
			"nobody says whether it is ready", checked, with(desired("new"), func(f *hostapply.Facts) { f.Ready, f.Now = state.Fact[bool]{}, at.Add(11*time.Minute) }), hostapply.Write,
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "goes back to old, because nobody could say 10m0s after whether the host is ready: writes old", Stage: rollout.GoesBack},
			hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Writing, Back: true, Boot: "1", Since: at, Why: "nobody could say 10m0s after whether the host is ready"},
		},
		{
			"the clock goes back", checked, with(desired("new"), func(f *hostapply.Facts) { f.Ready, f.Now = state.Known(false), at.Add(-time.Hour) }), "",
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "waits until it is ready", Stage: rollout.Applies},
			hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Checking, Boot: "1", Since: at.Add(-time.Hour)},
		},
		{
			"the clock jumps forward after the boot", checked,
			with(desired("new"), func(f *hostapply.Facts) {
				f.Ready, f.Now, f.Uptime = state.Known(false), at.Add(24*time.Hour), hostapply.CheckLimit
			}), "",
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "waits until it is ready", Stage: rollout.Applies},
			checked,
		},
		{
			"it is ready then, and was not watched", checked,
			with(desired("new"), func(f *hostapply.Facts) { f.Now, f.Uptime = at.Add(24*time.Hour), hostapply.Settled-1 }), "",
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "is watched for 1m0s", Stage: rollout.Applies},
			checked,
		},
		{
			"the clock has jumped, and it is late all the same", checked,
			with(desired("new"), func(f *hostapply.Facts) {
				f.Ready, f.Now, f.Uptime = state.Known(false), at.Add(24*time.Hour), hostapply.CheckLimit+1
			}), hostapply.Write,
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "goes back to old, because the host was not ready 10m0s after: writes old", Stage: rollout.GoesBack},
			hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Writing, Back: true, Boot: "1", Since: at, Why: "the host was not ready 10m0s after"},
		},
		{
			"nobody knows whether it may boot",
			hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Booting, Boot: "1", Reboots: true},
			with(desired("new"), func(f *hostapply.Facts) { f.MayBoot = state.Fact[bool]{} }), "",
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "waits with its reboot: the cluster may not carry on without it", Stage: rollout.Held},
			hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Booting, Boot: "1", Reboots: true},
		},
		{
			"it says why it may not boot", booting, with(desired("new"), func(f *hostapply.Facts) { f.MayBoot, f.NotSpared = state.Known(false), "cp-2 is absent" }), "",
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "waits with its reboot: the cluster may not carry on without it: cp-2 is absent", Stage: rollout.Held},
			booting,
		},
		{
			"somebody brought pods back before the reboot", booting, with(desired("new"), func(f *hostapply.Facts) { f.Drains, f.MayBoot = true, state.Fact[bool]{} }), hostapply.Drain,
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "waits until its pods have moved", Drain: true, Stage: rollout.Drains},
			booting,
		},
		{
			"it is empty and may boot", booting, with(desired("new"), func(f *hostapply.Facts) { f.Drains, f.Drained = true, true }), hostapply.Reboot,
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "boots", Drain: true, Stage: rollout.Applies},
			booting,
		},
		{
			"nobody moves its pods on the way back",
			hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Booting, Back: true, Boot: "1", Why: "late"},
			with(desired("new"), func(f *hostapply.Facts) { f.Drains = true }), hostapply.Reboot,
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "goes back to old, because late: boots", Drain: true, Stage: rollout.GoesBack},
			hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Booting, Back: true, Boot: "1", Why: "late"},
		},
		{
			"it boots on the way back",
			hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Booting, Back: true, Boot: "0", Boots: 3, Why: "late"},
			with(desired("new"), func(f *hostapply.Facts) { f.Ready = state.Known(false) }), "",
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "goes back to old, because late: waits until it is ready", Stage: rollout.GoesBack},
			hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Checking, Back: true, Boot: "1", Booted: true, Since: at, Why: "late"},
		},
		{
			"it cannot write on the way back",
			hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Writing, Back: true, Boot: "1", Why: "late"},
			with(desired("new"), func(f *hostapply.Facts) { f.Failed = "read-only" }), hostapply.Write,
			hostapply.Report{State: rollout.Working, Current: "old", Reason: "goes back to old, because late: cannot write: read-only", Stage: rollout.GoesBack},
			hostapply.Journal{Good: "old", Target: "new", Phase: hostapply.Writing, Back: true, Boot: "1", Why: "late"},
		},
	} {
		s := hostapply.Next(c.journal, c.facts)
		if s.Do != c.do {
			t.Errorf("%s: does %q, want %q", c.sentence, s.Do, c.do)
		}
		if diff := cmp.Diff(c.report, s.Report) + cmp.Diff(c.next, s.Journal); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.sentence, diff)
		}
	}
}
