package backup

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// noon is a moment at which the backup of 03:00 is done, and well returns a host with nothing in
// the way of its backups.
var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

func well(t *testing.T) Facts {
	t.Helper()
	return Facts{
		Now: noon, Synchronised: state.Known(true), Up: 48 * time.Hour, Schedule: schedule(t, "0 3 * * *", ""),
		Journal:   Journal{Since: noon.Add(-300 * time.Hour), Slot: at(t, "2026-03-10T03:00:00Z")},
		Situation: Situation{Etcd: state.Known(Etcd{Writes: true, Members: "1, 2"}), Free: state.Known(uint64(100 << 30))},
	}
}

func TestWhatAHostDoesAboutItsBackups(t *testing.T) {
	open := func(f *Facts) { f.Journal.Slot = at(t, "2026-03-09T03:00:00Z") }
	begun := func(f *Facts) {
		open(f)
		f.Works, f.Journal.Begun = true, &Begun{ID: "x", At: noon.Add(-time.Minute), Reason: BySchedule, Members: "1, 2"}
	}
	// lost has a person say that a host is lost, which is at work by its Node.
	lost := func(f *Facts, name, reason string) {
		f.Asked, f.NotReady = ReadAsked(AskWithout(noon, name, reason)), map[string]time.Time{name: {}}
		f.Away = []Absence{{Host: name, Why: "is at work on its configuration"}}
	}
	answered := func(f *Facts) { lost(f, "cp-2", "before host replace"); f.Journal.Asked = f.Asked.Text }
	unsent := func(f *Facts) { f.Unsent, f.Away = "b", []Absence{{Host: "cp-2", Why: "is drained"}} }
	sends := func(f *Facts, lasts time.Duration) {
		begun(f)
		f.Sends = true
		b := f.Journal.Begun
		b.At, b.Slot, b.Longer = noon.Add(-lasts), at(t, "2026-03-10T03:00:00Z"), Longer(24*time.Hour)
	}
	for _, c := range []struct {
		name   string
		change func(f *Facts)
		want   Action
		rule   string
	}{
		{"none is due", func(*Facts) {}, Rest, "not-due"},
		{"one was missed while the host was off", open, Begin, BySchedule},
		{"many were missed: it is made up once", func(f *Facts) { f.Journal.Slot = at(t, "2026-01-09T03:00:00Z") }, Begin, BySchedule},
		{"its part of the time has not come", func(f *Facts) { open(f); f.Now, f.Offset = at(t, "2026-03-10T03:10:00Z"), 30*time.Minute }, Rest, "not-due"},
		{"its part of the time has come", func(f *Facts) { open(f); f.Now, f.Offset = at(t, "2026-03-10T03:31:00Z"), 30*time.Minute }, Begin, BySchedule},
		{"it was missed, and this is the other host's part of the hour", func(f *Facts) { open(f); f.Part, f.Now = 30*time.Minute, noon.Add(40*time.Minute) }, Rest, "not-its-part"},
		{"its own part comes again", func(f *Facts) { open(f); f.Part, f.Now = 30*time.Minute, noon.Add(61*time.Minute) }, Begin, BySchedule},
		{"a lone host has the whole hour", func(f *Facts) { open(f); f.Part, f.Now = time.Hour, noon.Add(40*time.Minute) }, Begin, BySchedule},
		{"a person does not wait for a part of the hour", func(f *Facts) {
			f.Part, f.Now, f.Asked = 30*time.Minute, noon.Add(40*time.Minute), ReadAsked(Ask(noon, ""))
		}, Begin, ByPerson},
		{"what is in the way is told in each part", func(f *Facts) {
			open(f)
			f.Part, f.Now, f.Etcd.Value.Writes = 30*time.Minute, noon.Add(40*time.Minute), false
		}, Wait, "no-writes"},
		{"the first one comes soon", func(f *Facts) { f.Journal = Journal{Since: noon.Add(-20 * time.Minute)} }, Begin, BySchedule},
		{"and not at once", func(f *Facts) { f.Journal = Journal{Since: noon.Add(-10 * time.Minute)} }, Rest, "not-due"},
		{"nor on both hosts together", func(f *Facts) { f.Journal, f.Offset = Journal{Since: noon.Add(-20 * time.Minute)}, 30*time.Minute }, Rest, "not-due"},
		{"a clock that was years ahead stops nothing", func(f *Facts) {
			f.Journal = Journal{Since: noon.AddDate(3, 0, 0), Slot: noon.AddDate(3, 0, 0), Again: noon.AddDate(3, 0, 0)}
		}, Begin, BySchedule},
		{"a failure waits for its pause", func(f *Facts) { open(f); f.Journal.Again = noon.Add(time.Minute) }, Rest, "not-due"},
		{"and is tried again then", func(f *Facts) { open(f); f.Journal.Again = noon }, Begin, BySchedule},
		{"a person does not wait for that", func(f *Facts) {
			f.Journal.Again, f.Asked = noon.Add(time.Hour), ReadAsked(Ask(noon, "before the move"))
		}, Begin, "before the move"},
		{"but for the one that was ended", func(f *Facts) {
			f.Journal.Again, f.Journal.Ended, f.Asked = noon.Add(time.Minute), true, ReadAsked(Ask(noon, ""))
		}, Rest, "not-due"},
		{"a person's wish that was answered is over", func(f *Facts) { f.Asked = ReadAsked(Ask(noon, "x")); f.Journal.Asked = f.Asked.Text }, Rest, "not-due"},
		{"nobody knows what the site wants now, and a person waits for its targets", func(f *Facts) { f.Asked, f.Unread = ReadAsked(Ask(noon, "")), "connection refused" }, Wait, "unread"},
		{"for hours", func(f *Facts) { f.Asked, f.Unread = ReadAsked(Ask(noon.Add(-7*time.Hour), "")), "connection refused" }, Begin, ByPerson},
		{"the schedule does not wait for that", func(f *Facts) { open(f); f.Schedule, f.Unread = schedule(t, "0 9 * * *", ""), "connection refused" }, Begin, BySchedule},
		{"a person needs no reason", func(f *Facts) { f.Asked = ReadAsked(Ask(noon, "")) }, Begin, ByPerson},
		{"a person gives the name of a run that takes no backup", func(f *Facts) { f.Asked = ReadAsked(Ask(noon, Tend)) }, Begin, ByPerson},
		{"a person gives the name of a run of the schedule", func(f *Facts) { f.Asked = ReadAsked(Ask(noon, BySchedule)) }, Begin, ByPerson},
		{"the clock is not synchronised yet", func(f *Facts) { open(f); f.Synchronised, f.Up = state.Known(false), time.Minute }, Wait, "clock"},
		{"a site without a time server", func(f *Facts) { open(f); f.Synchronised, f.Up = state.Known(false), 2*time.Hour }, Begin, BySchedule},
		{"what etcd does is unknown", func(f *Facts) { open(f); f.Etcd = state.Fact[Etcd]{} }, Wait, "etcd-unknown"},
		{"etcd takes no writes", func(f *Facts) { open(f); f.Etcd.Value.Writes = false }, Wait, "no-writes"},
		{"a defragmentation", func(f *Facts) { open(f); f.Etcd.Value.Defragments = true }, Wait, "defragmentation"},
		{"etcd is full", func(f *Facts) { open(f); f.Schedule = schedule(t, "0 9 * * *", ""); f.Etcd.Value.Full = true }, Wait, "etcd-full"},
		{"etcd is full for hours", func(f *Facts) { open(f); f.Etcd.Value.Full = true }, Begin, BySchedule},
		{"etcd is full, and a person wants a backup before he deletes", func(f *Facts) { f.Asked = ReadAsked(Ask(noon, "")); f.Etcd.Value.Full = true }, Begin, ByPerson},
		{"etcd and the disk are full", func(f *Facts) { open(f); fullDisk(f); f.Etcd.Value.Full = true }, Begin, Tend},
		{"a take-over", func(f *Facts) { open(f); f.Etcd.Value.TakesOver = "x" }, Wait, "take-over"},
		{"a learner", func(f *Facts) { open(f); f.Schedule = schedule(t, "0 9 * * *", ""); f.Etcd.Value.Learner = "cp-2" }, Wait, "learner"},
		{"a learner whose machine died in the middle", func(f *Facts) { open(f); f.Etcd.Value.Learner = "cp-2" }, Begin, BySchedule},
		{"a host is away", func(f *Facts) {
			open(f)
			f.Journal.Slot = at(t, "2026-03-09T09:00:00Z")
			f.Schedule = schedule(t, "0 9 * * *", "")
			f.Away = []Absence{{Host: "cp-2", Why: "is drained"}}
		}, Wait, "away"},
		{"a lost host was at work, and a person who replaces it wants a backup", func(f *Facts) { lost(f, "cp-2", "before host replace") }, Begin, "before host replace"},
		{"the host that is lost in a person's words is Ready", func(f *Facts) { lost(f, "cp-2", ""); f.NotReady = nil }, Wait, "away"},
		{"another host is away besides the lost one", func(f *Facts) {
			lost(f, "cp-2", "")
			f.Away = append(f.Away, Absence{Host: "cp-3", Why: "is drained"})
		}, Wait, "away"},
		{"a full disk, a lost host at work, and a wish that names it", func(f *Facts) { lost(f, "cp-2", ""); fullDisk(f) }, Begin, Tend},
		{"room is made there", func(f *Facts) {
			lost(f, "cp-2", "")
			fullDisk(f)
			f.Works, f.Journal.Begun = true, &Begun{At: noon, Reason: Tend}
		}, Follow, "works"},
		{"a target lacks the backup of before the replacement of a lost host", func(f *Facts) { answered(f); f.Unsent = "b" }, Begin, Tend},
		{"it is sent", func(f *Facts) { answered(f); f.Works, f.Journal.Begun = true, &Begun{ID: "b", At: noon, Reason: Tend} }, Follow, "works"},
		{"the wish is of another day: the host that came in place of the lost one has turns of its own", func(f *Facts) {
			lost(f, "cp-2", "")
			f.Asked, f.Unsent = ReadAsked(AskWithout(noon.Add(-goneFor), "cp-2", "")), "b"
			f.Journal.Asked = f.Asked.Text
		}, Wait, "away"},
		{"the machine that came in place of the lost one boots in its turn", func(f *Facts) {
			answered(f)
			f.Unsent, f.NotReady["cp-2"] = "b", f.Asked.At.Add(time.Minute)
		}, Wait, "away"},
		{"a target lacks the newest, and a host is away", unsent, Wait, "away"},
		{"a target lacks the newest, and a host is away for a day", func(f *Facts) { unsent(f); f.Held = noon.Add(-24 * time.Hour) }, Begin, Tend},
		{"a target lacks the newest, a host is away, and the clock was ahead", func(f *Facts) { unsent(f); f.Held = noon.Add(time.Hour) }, Wait, "away"},
		{"the learner is the member of the lost host", func(f *Facts) { lost(f, "cp-3", "before host replace"); f.Etcd.Value.Learner = "cp-3" }, Begin, "before host replace"},
		{"it is not known that the host of the learner is lost", func(f *Facts) {
			lost(f, "cp-3", "")
			f.NotReady, f.Away, f.Etcd.Value.Learner = nil, nil, "cp-3"
		}, Wait, "learner"},
		{"the machine learns that came in the place of the lost one", func(f *Facts) { answered(f); f.Unsent, f.Etcd.Value.Learner = "b", "cp-2" }, Wait, "learner"},
		{"another member learns", func(f *Facts) { lost(f, "cp-3", ""); f.Etcd.Value.Learner = "cp-2" }, Wait, "learner"},
		{"a host is away for hours", func(f *Facts) { open(f); f.Away = []Absence{{Host: "cp-2", Why: "is drained"}} }, Begin, BySchedule},
		{"authorities are replaced", func(f *Facts) { open(f); f.Schedule = schedule(t, "0 9 * * *", ""); f.Rotation = "etcd" }, Wait, "rotation"},
		{"another host is at work", func(f *Facts) { open(f); f.Schedule = schedule(t, "0 9 * * *", ""); f.Busy = []string{"cp-2"} }, Wait, "busy"},
		{"for hours", func(f *Facts) { open(f); f.Busy = []string{"cp-2"} }, Wait, "busy"},
		{"the disk is full", func(f *Facts) { open(f); f.Free = state.Known(uint64(1 << 30)) }, Wait, "disk"},
		{"the disk is full, and some backups are not kept any more", func(f *Facts) { open(f); fullDisk(f) }, Begin, Tend},
		{"but for the pause after a try", func(f *Facts) { open(f); fullDisk(f); f.Journal.TendAgain = noon.Add(time.Minute) }, Wait, "disk"},
		{"and a take-over is in the way", func(f *Facts) { open(f); fullDisk(f); f.Etcd.Value.TakesOver = "x" }, Wait, "take-over"},
		{"none is due, and the disk is full", fullDisk, Begin, Tend},
		{"the disk is full with what a killed run left", func(f *Facts) { open(f); keptFull(f) }, Begin, Tend},
		{"none is due, and the disk is full with what a killed run left", keptFull, Begin, Tend},
		{"a target was away for hours before that", func(f *Facts) { keptFull(f); f.Unsent, f.Journal.TendAgain = "b", noon.Add(time.Hour) }, Begin, Tend},
		{"it cannot be removed, for the pause after a try", func(f *Facts) { open(f); keptFull(f); f.Journal.SweepAgain = noon.Add(time.Minute) }, Wait, "disk"},
		{"etcd is down on the disk that is full with it", func(f *Facts) { open(f); keptFull(f); f.Etcd.Value.Writes = false }, Begin, Tend},
		{"nobody knows of etcd there", func(f *Facts) { keptFull(f); f.Etcd = state.Fact[Etcd]{} }, Begin, Tend},
		{"etcd goes down while it is removed", func(f *Facts) {
			f.Works, f.Journal.Begun, f.Etcd.Value.Writes = true, &Begun{At: noon, Reason: Tend}, false
		}, Follow, "works"},
		{"etcd goes down while one is sent", func(f *Facts) {
			f.Works, f.Journal.Begun, f.Etcd.Value.Writes = true, &Begun{ID: "x", At: noon, Reason: Tend}, false
		}, End, "no-writes"},
		{"a killed run left something, and a take-over is in the way", func(f *Facts) { keptFull(f); f.Etcd.Value.TakesOver = "x" }, Wait, "take-over"},
		{"whether something was left is unknown", func(f *Facts) { open(f); keptFull(f); f.Remains = state.Fact[bool]{} }, Wait, "disk"},
		{"a killed run left something, and there is room", func(f *Facts) { f.Remains = state.Known(true) }, Begin, Tend},
		{"the disk is full while some are removed", func(f *Facts) { fullDisk(f); f.Works, f.Journal.Begun = true, &Begun{At: noon, Reason: Tend} }, Follow, "works"},
		{"the disk is full while one is sent", func(f *Facts) { fullDisk(f); f.Works, f.Journal.Begun = true, &Begun{ID: "x", At: noon, Reason: Tend} }, End, "disk"},
		{"one is on its way", begun, Follow, "works"},
		{"somebody else started the unit", func(f *Facts) { f.Works = true }, Follow, "not-ours"},
		{"what etcd does is unknown meanwhile", func(f *Facts) { begun(f); f.Etcd = state.Fact[Etcd]{} }, Follow, "works"},
		{"etcd stalls meanwhile", func(f *Facts) { begun(f); f.Etcd.Value.Writes = false }, End, "no-writes"},
		{"a defragmentation begins meanwhile", func(f *Facts) { begun(f); f.Etcd.Value.Defragments = true }, End, "defragmentation"},
		{"etcd is full meanwhile", func(f *Facts) { begun(f); f.Etcd.Value.Full = true }, End, "etcd-full"},
		{"a take-over begins meanwhile", func(f *Facts) { begun(f); f.Etcd.Value.TakesOver = "x" }, End, "take-over"},
		{"a host comes back and learns", func(f *Facts) { begun(f); f.Etcd.Value.Learner = "cp-2" }, End, "learner"},
		{"the membership changes", func(f *Facts) { begun(f); f.Etcd.Value.Members = "1" }, End, "members"},
		{"a host gets its turn", func(f *Facts) { begun(f); f.Away = []Absence{{Host: "cp-1", Why: "has its turn to boot"}} }, End, "away"},
		{"one that a person asked for without a lost host goes on", func(f *Facts) {
			begun(f)
			lost(f, "cp-2", "")
			f.Journal.Begun.Asked, f.Etcd.Value.Learner = f.Asked.Text, "cp-2"
		}, Follow, "works"},
		{"one that is late is not ended by that", func(f *Facts) { begun(f); f.Journal.Begun.Late = true; f.Away = []Absence{{Host: "cp-2"}} }, Follow, "works"},
		{"a rotation ends none", func(f *Facts) { begun(f); f.Rotation = "x" }, Follow, "works"},
		{"the disk fills", func(f *Facts) { begun(f); f.Free = state.Known(uint64(0)) }, End, "disk"},
		{"kubelet of the site wants more free", func(f *Facts) { open(f); f.Free, f.Line = state.Known(uint64(16<<30)), 20<<30 }, Wait, "disk"},
		{"what it wants free is taken meanwhile", func(f *Facts) { begun(f); f.Free, f.Line = state.Known(uint64(16<<30)), 20<<30 }, End, "disk"},
		{"and is free", func(f *Facts) { begun(f); f.Free, f.Line = state.Known(uint64(20<<30)), 20<<30 }, Follow, "works"},
		{"it lasts too long", func(f *Facts) { begun(f); f.Journal.Begun.At = noon.Add(-4 * time.Hour) }, End, "too-long"},
		{"it sends over a slow line", func(f *Facts) { sends(f, 4*time.Hour) }, Follow, "works"},
		{"for too long", func(f *Facts) { sends(f, 15*time.Hour) }, End, "too-long"},
		{"one of before an upgrade of the agent", func(f *Facts) { sends(f, 4*time.Hour); f.Journal.Begun.Longer = 0 }, End, "too-long"},
		{"nobody knows whether it sends", func(f *Facts) { sends(f, 4*time.Hour); f.Sends = false }, End, "too-long"},
		{"a slow line, and a person asks for another one", func(f *Facts) { sends(f, 4*time.Hour); f.Asked = ReadAsked(Ask(noon, "")) }, End, "too-long"},
		{"a slow line, and a person asks soon", func(f *Facts) { sends(f, 30*time.Minute); f.Asked = ReadAsked(Ask(noon, "")) }, Follow, "works"},
		{"a slow line, for the person who asked", func(f *Facts) {
			sends(f, 4*time.Hour)
			f.Asked = ReadAsked(Ask(noon, ""))
			f.Journal.Begun.Asked = f.Asked.Text
		}, Follow, "works"},
		{"a slow line, for the person who asked, and the next one is due", func(f *Facts) {
			sends(f, 4*time.Hour)
			f.Asked = ReadAsked(Ask(noon, ""))
			f.Journal.Begun.Asked, f.Journal.Begun.Slot = f.Asked.Text, at(t, "2026-03-09T03:00:00Z")
		}, End, "too-long"},
		{"a slow line, and the next one is due", func(f *Facts) { sends(f, 4*time.Hour); f.Journal.Begun.Slot = at(t, "2026-03-09T03:00:00Z") }, End, "too-long"},
		{"a slow line of one that was not sent before", func(f *Facts) {
			sends(f, 4*time.Hour)
			f.Journal.Slot, f.Journal.Begun.Reason, f.Journal.Begun.Slot = f.Journal.Begun.Slot, Tend, time.Time{}
		}, Follow, "works"},
		{"it was told to end", func(f *Facts) { begun(f); f.Journal.Begun.Stop = "x" }, End, "stops"},
		{"it has ended", func(f *Facts) { begun(f); f.Works = false }, TakeIn, "ended"},
	} {
		f := well(t)
		c.change(&f)
		v := Decide(f)
		if v.Action != c.want || v.Rule != c.rule {
			t.Errorf("%s: %s by %s (%s), want %s by %s", c.name, v.Action, v.Rule, v.Why, c.want, c.rule)
		}
		if v.Action != TakeIn && v.Again <= 0 || v.Again > lookEvery {
			t.Errorf("%s: the next look is in %s", c.name, v.Again)
		}
		if (v.Action == Wait || v.Action == End) && v.Why == "" {
			t.Errorf("%s: no words", c.name)
		}
	}
}

// TestASendingWaitsForHoursAtMost: nothing says since when it is due, so each look says since when it waits.
func TestASendingWaitsForHoursAtMost(t *testing.T) {
	f := well(t)
	f.Unsent, f.Away = "b", []Absence{{Host: "cp-2", Why: "is drained"}}
	for _, at := range []time.Duration{0, time.Minute, patience - 1} {
		f.Now = noon.Add(at)
		v := Decide(f)
		if f.Held = v.Held; v.Action != Wait || !v.Held.Equal(noon) || !v.Due.IsZero() {
			t.Fatalf("after %s: %+v", at, v)
		}
	}
	f.Now = noon.Add(patience)
	v := Decide(f)
	if v.Action != Begin || v.Begins.ID != "b" || !v.Begins.Late || !v.Held.Equal(noon) {
		t.Fatalf("%+v", v)
	}
	f.Works, f.Journal.Begun = true, &v.Begins
	if v := Decide(f); v.Action != Follow || !v.Held.Equal(noon) {
		t.Errorf("it is ended by what it has waited for, or a try that fails would begin to wait anew: %+v", v)
	}
	f.Works, f.Journal.Begun, f.Unsent, f.Asked = false, nil, "", ReadAsked(Ask(f.Now, ""))
	if v := Decide(f); v.Action != Wait || !v.Held.IsZero() || v.Due.IsZero() {
		t.Errorf("a backup is due: %+v", v)
	}
}

// fullDisk is a disk on which no backup can be taken or sent, while a target lacks the newest one and
// an old one is not kept any more.
func fullDisk(f *Facts) {
	f.Free, f.Unsent, f.Spent = state.Known(uint64(1<<30)), "b", []string{"a"}
}

// keptFull is a disk that is full with what a killed run left: nothing is to be sent or removed.
func keptFull(f *Facts) { f.Free, f.Remains = state.Known(uint64(1<<30)), state.Known(true) }

func TestWhatAKilledRunLeftIsRemovedWithoutASending(t *testing.T) {
	f := well(t)
	keptFull(&f)
	f.Unsent, f.Journal.TendAgain = "b", noon.Add(time.Hour)
	v := Decide(f)
	if v.Action != Begin || v.Begins.Reason != Tend || v.Begins.ID != "" {
		t.Fatalf("%+v", v)
	}
	f.Free.Value = 100 << 30
	if v := Decide(f); v.Begins.Reason != Tend || v.Begins.ID != "" {
		t.Errorf("with room, in the pause of the target: %+v", v)
	}
	f.Journal.Begun = &v.Begins
	if j := f.Journal.Tended(noon, true, false); !j.TendAgain.Equal(f.Journal.TendAgain) || j.Tends != f.Journal.Tends {
		t.Errorf("it counts as a failed sending: %+v", j)
	}
	f.Journal.Begun = nil
	f.Unsent = ""
	var pauses []time.Duration
	for range 6 {
		f.Journal.Begun = &v.Begins
		f.Journal = f.Journal.Tended(noon, false, true)
		pauses = append(pauses, f.Journal.SweepAgain.Sub(noon))
	}
	if got := fmt.Sprint(pauses); got != "[10m0s 20m0s 40m0s 1h20m0s 2h40m0s 4h0m0s]" || Decide(f).Action != Rest {
		t.Errorf("it cannot be removed: %s, %+v", got, Decide(f))
	}
	f.Journal.Begun = &Begun{ID: "b", Reason: Tend}
	if j := f.Journal.Tended(noon, true, true); j.Sweeps != 6 {
		t.Errorf("a run that was to send counts as a try: %+v", j)
	}
	if j := f.Journal.Tended(noon, true, false); j.Sweeps != 0 || !j.SweepAgain.IsZero() {
		t.Errorf("it is gone: %+v", j)
	}
}

func TestOnAFullDiskATendRemovesAndSendsNothing(t *testing.T) {
	f := well(t)
	fullDisk(&f)
	if v := Decide(f); v.Begins.Reason != Tend || v.Begins.ID != "" {
		t.Errorf("%+v", v)
	}
	f.Free.Value = 100 << 30
	if v := Decide(f); v.Begins.ID != "b" {
		t.Errorf("with room: %+v", v)
	}
}

// TestTwoHostsNeverBeginTogether plays some days on each number of control planes: without a
// trouble, with all hosts off in the night, and with an etcd that takes no writes for some hours.
func TestTwoHostsNeverBeginTogether(t *testing.T) {
	for _, c := range []struct {
		name     string
		off      func(hour int) bool
		unusable func(hour int) bool
	}{
		{"well", never, never},
		{"off in the night", func(hour int) bool { return hour >= 22 || hour < 6 }, never},
		{"no quorum", never, func(hour int) bool { return hour >= 2 && hour < 10 }},
	} {
		for _, names := range [][]string{{"cp-1"}, {"cp-2", "cp-1"}, {"a", "b", "c"}} {
			for _, text := range []string{"0 3 * * *", "50 3 * * *", "@hourly"} {
				var begins []time.Time
				for _, name := range names {
					f := well(t)
					f.Schedule, f.Now = schedule(t, text, ""), at(t, "2026-03-01T00:00:00Z")
					f.Offset, f.Part = PartOf(name, names)
					f.Journal = Journal{Since: f.Now}
					for end := f.Now.AddDate(0, 0, 3); f.Now.Before(end); f.Now = f.Now.Add(time.Minute) {
						f.Etcd.Value.Writes = !c.unusable(f.Now.Hour())
						if v := Decide(f); v.Action == Begin && !c.off(f.Now.Hour()) {
							begins = append(begins, f.Now)
							f.Journal.Begun = &v.Begins
							f.Journal = f.Journal.Took("x")
						}
					}
				}
				for i, a := range begins {
					for _, b := range begins[:i] {
						if apart := a.Sub(b).Abs(); apart < 5*time.Minute {
							t.Errorf("%s, %v %s: %s and %s", c.name, names, text, a, b)
						}
					}
				}
				if least := len(names) * 3; len(begins) < least {
					t.Errorf("%s, %v %s: %d backups in three days", c.name, names, text, len(begins))
				}
			}
		}
	}
}

func never(int) bool { return false }

func TestFailuresWaitLongerAndLongerAndStayOpen(t *testing.T) {
	j, pauses := Journal{}, []time.Duration{}
	for range 7 {
		j.Begun = &Begun{Slot: noon}
		j = j.Lost(noon, "the disk")
		pauses = append(pauses, j.Again.Sub(noon))
	}
	if got := fmt.Sprint(pauses); got != "[10m0s 20m0s 40m0s 1h20m0s 2h40m0s 4h0m0s 4h0m0s]" || !j.Slot.IsZero() || j.Failed.Times != 7 || j.Failed.Why != "the disk" {
		t.Errorf("%s, %+v", got, j)
	}
	j.Begun, j.Sweeps, j.SweepAgain = &Begun{Slot: noon, Asked: "w"}, 2, noon.Add(time.Hour)
	if j = j.Took("id"); j.Sweeps != 0 || !j.SweepAgain.IsZero() || j.Failed != nil || !j.Again.IsZero() || j.Slot != noon || j.Asked != "w" || j.Answer.ID != "id" || j.Begun != nil {
		t.Errorf("%+v", j)
	}
}

func TestOneThatWasEndedBeforeItsTimeIsNoFailureAndStaysWished(t *testing.T) {
	j := Journal{Begun: &Begun{Slot: noon, Asked: "w", Stop: "a take-over"}}.Lost(noon, "it was ended")
	if j.Failed != nil || j.Asked != "" || !j.Slot.IsZero() || !j.Ended || j.Again.Sub(noon) != pause {
		t.Errorf("%+v", j)
	}
	j = Journal{Begun: &Begun{Slot: noon, Asked: "w"}}.Lost(noon, "no room")
	if j.Asked != "w" || j.Answer.Failed != "no room" {
		t.Errorf("a wish that failed is not answered: %+v", j)
	}
}

func TestAHostKnowsWhenTheNextOneIsDue(t *testing.T) {
	f := well(t)
	f.Offset = 30 * time.Minute
	if v := Decide(f); !v.Next.Equal(at(t, "2026-03-11T03:30:00Z")) {
		t.Errorf("%s", v.Next)
	}
	f.Journal.Slot, f.Journal.Again = at(t, "2026-03-09T03:00:00Z"), noon.Add(20*time.Minute)
	if v := Decide(f); !v.Next.Equal(noon.Add(20 * time.Minute)) {
		t.Errorf("after a failure: %s", v.Next)
	}
}

func TestTargetsOfAnEarlierJournalCountSinceItBegan(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	long := now.Add(-30 * 24 * time.Hour)
	for name, c := range map[string]struct {
		journal Journal
		want    time.Time
	}{
		"of an earlier build":    {Journal{Since: long}, long},
		"of this one":            {Journal{Since: long, Aimed: map[string]time.Time{}}, now},
		"known":                  {Journal{Since: long, Aimed: map[string]time.Time{"nas": now.Add(-time.Hour)}}, now.Add(-time.Hour)},
		"the clock was ahead":    {Journal{Since: long, Aimed: map[string]time.Time{"nas": now.Add(time.Hour)}}, now},
		"it begins":              {Journal{Since: now}, now},
		"it begins later by far": {Journal{Since: now.Add(time.Hour)}, now},
	} {
		if got := c.journal.Aim([]string{"nas"}, now).Aimed["nas"]; !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if got := c.journal.Aim(nil, now).Aimed; got == nil || len(got) > 0 {
			t.Errorf("%s, without targets: %v", name, got)
		}
	}
}
