package member

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ring returns the number of a membership.
func ring(seq uint64) uint64 { return seq<<state.RepresentativeBits | 1 }

// report is a membership as it is reported, and what the memory says then.
type report struct {
	sentence string
	// restart has the daemon start anew before.
	restart    bool
	ring       uint64
	contact    bool
	at, joined time.Duration
	// together is not compared if it is zero.
	together time.Duration
	unseen   bool
}

// remembers gives reports to a memory and compares what it says.
func remembers(t *testing.T, reports []report) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "memory.json")
	m, err := OpenMemory(path, "one")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		if r.restart {
			if m, err = OpenMemory(path, "one"); err != nil {
				t.Fatal(err)
			}
		}
		joined, err := m.Joined("one", r.ring, r.contact, r.at)
		if err != nil || joined != r.joined || m.Unseen() != r.unseen || r.together != 0 && m.Together() != r.together {
			t.Errorf("%s: joined at %s, together since %s, unseen %v, %v; want %+v", r.sentence, joined, m.Together(), m.Unseen(), err, r)
		}
	}
}

func TestAHostThatStaysAloneHasNotMetItsPeer(t *testing.T) {
	const s = time.Second
	remembers(t, []report{
		{"the peer joins", false, ring(0x62), true, 20 * s, 20 * s, 0, false},
		{"it is lost", false, ring(0x66), false, 30 * s, 20 * s, 0, false},
		{"packets of it still come in", false, ring(0x6a), false, 31 * s, 20 * s, 0, false},
		{"and again, while the daemon is away", true, ring(0x6e), false, 32 * s, 20 * s, 0, false},
		{"one membership was not seen", false, ring(0x76), false, 33 * s, 33 * s, 0, true},
		{"another host speaks for the next one", false, ring(0x7a) + 1, false, 34 * s, 34 * s, 0, true},
		{"the peer is back in the next one", false, ring(0x7e), true, 35 * s, 35 * s, 0, false},
		{"it leaves while the daemon is away", true, ring(0x82), false, 36 * s, 36 * s, 0, true},
	})
}

// corosync-quorumtool was seen to print the number of the present membership with the hosts of the
// former one, and the right list 0.3 s later. A fence of before the peer joined proves nothing of it,
// whatever was reported first, also after the daemon was started anew.
func TestAMembershipThatIsFirstReportedWithTheFormerHostsCountsOnceItIsRight(t *testing.T) {
	const s = time.Second
	remembers(t, []report{
		{"the peer joins", false, ring(0x62), true, 20 * s, 20 * s, 20 * s, false},
		{"it is fenced", false, ring(0x66), false, 30 * s, 20 * s, 30 * s, false},
		{"it is back, and is not listed yet", false, ring(0x6a), false, 90 * s, 20 * s, 90 * s, false},
		{"it is listed", false, ring(0x6a), true, 91 * s, 91 * s, 91 * s, false},
		{"nothing changed", false, ring(0x6a), true, 95 * s, 91 * s, 91 * s, false},
		{"a token is lost, and it is still listed", false, ring(0x6e), true, 200 * s, 200 * s, 91 * s, false},
		{"it is not listed any more", false, ring(0x6e), false, 201 * s, 200 * s, 201 * s, false},
		{"it is back, and is not listed yet", false, ring(0x72), false, 210 * s, 200 * s, 210 * s, false},
		{"the daemon starts anew, and it is listed", true, ring(0x72), true, 220 * s, 220 * s, 220 * s, false},
		{"it is lost, and still listed", false, ring(0x76), true, 230 * s, 230 * s, 220 * s, false},
		{"the daemon starts anew, and it is not listed: it may have come and gone", true, ring(0x76), false, 240 * s, 240 * s, 240 * s, true},
	})
}

// TestMembershipsOfTheSameHostsAreOneTimeTogether loses packets, so that
// Corosync forms one membership of both hosts after the other.
func TestMembershipsOfTheSameHostsAreOneTimeTogether(t *testing.T) {
	const s = time.Second
	m, err := OpenMemory(filepath.Join(t.TempDir(), "memory.json"), "one")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		sentence string
		ring     uint64
		contact  bool
		at, want time.Duration
	}{
		{"the peer joins", ring(0x62), true, 20 * s, 20 * s},
		{"packets are lost", ring(0x66), true, 30 * s, 20 * s},
		{"more of them", ring(0x6a), true, 40 * s, 20 * s},
		{"one membership was not seen", ring(0x72), true, 50 * s, 50 * s},
		{"the peer is lost", ring(0x76), false, 60 * s, 60 * s},
		{"and is back", ring(0x7a), true, 70 * s, 70 * s},
	} {
		if _, err := m.Joined("one", c.ring, c.contact, c.at); err != nil || m.Together() != c.want {
			t.Errorf("%s: %s, %v; want %s", c.sentence, m.Together(), err, c.want)
		}
	}
}

func TestAPeerThatMayHaveJoinedUnseenCountsAsHavingJoinedNow(t *testing.T) {
	const s = time.Second
	path := filepath.Join(t.TempDir(), "memory.json")
	open := func(boot string) *Memory {
		m, err := OpenMemory(path, boot)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := open("one")
	for _, c := range []struct {
		sentence string
		do       func()
		ring     uint64
		contact  bool
		at, want time.Duration
	}{
		{"alone since boot: never joined", nil, 4, false, 10 * s, 0},
		{"the peer joins", nil, 8, true, 20 * s, 20 * s},
		{"nothing changed", nil, 8, true, 25 * s, 20 * s},
		{"it leaves", nil, 12, false, 30 * s, 20 * s},
		{"alone in another membership: it may have come and gone", nil, 20, false, 40 * s, 40 * s},
		{"it joins again", nil, 24, true, 50 * s, 50 * s},
		{"the daemon restarts and nothing changed", func() { m = open("one") }, 24, true, 60 * s, 50 * s},
		{"the daemon restarts and the peer is gone: unseen", func() { m = open("one") }, 36, false, 70 * s, 70 * s},
		{"another boot begins anew", func() { m = open("two") }, 40, false, 5 * s, 0},
	} {
		if c.do != nil {
			c.do()
		}
		boot := m.m.Boot
		if got, err := m.Joined(boot, c.ring, c.contact, c.at); err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", c.sentence, got, err, c.want)
		}
	}
}

func TestWhatWasHeardIsRememberedForTheBoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.json")
	m, err := OpenMemory(path, "one")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Hear("one"); err != nil || m.Heard() != "one" {
		t.Fatal(m.Heard(), err)
	}
	if m, _ = OpenMemory(path, "one"); m.Heard() != "one" {
		t.Error("a restart of the daemon must not forget")
	}
	if m, _ = OpenMemory(path, "two"); m.Heard() != "" {
		t.Error("another boot must forget")
	}
}

func TestStallsAreCountedOnceEachAndForgotten(t *testing.T) {
	m, err := OpenMemory(filepath.Join(t.TempDir(), "memory"), "boot")
	if err != nil {
		t.Fatal(err)
	}
	if m.Quarantine() != 0 {
		t.Error("nothing has stalled")
	}
	for _, c := range []struct{ at, wait time.Duration }{
		{time.Hour, etcdmember.Quarantine(1)},
		{time.Hour + sameStall - 1, etcdmember.Quarantine(1)}, // the same stall
		{2 * time.Hour, etcdmember.Quarantine(2)},
		{8*time.Hour + time.Second, etcdmember.Quarantine(1)}, // long after the last
	} {
		if err := m.Stall(c.at); err != nil {
			t.Fatal(err)
		}
		begun := c.at
		if c.at == time.Hour+sameStall-1 {
			begun = time.Hour
		}
		if got := m.Quarantine(); got != begun+c.wait {
			t.Errorf("at %s: until %s, want %s", c.at, got, begun+c.wait)
		}
	}
}

// TestWhatIsRememberedHasRoom: a full /run must not end the etcd keeper's loop.
func TestWhatIsRememberedHasRoom(t *testing.T) {
	dir := t.TempDir()
	m, err := OpenMemory(filepath.Join(dir, "memory.json"), "one")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Hear("one"); err != nil || !host.Exists(filepath.Join(dir, reserve)) {
		t.Errorf("no room is kept: %v", err)
	}
}
