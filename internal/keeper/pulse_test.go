package keeper

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
)

var errLeaderless = errors.New("no leader")

func TestAWriteThatHangsIsNeverJoinedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes atomic.Int64
		hang := make(chan struct{})
		p := newPulse(errLeaderless, func() error { writes.Add(1); <-hang; return nil })
		p.state(true)
		go func() { _ = p.run(t.Context()) }()
		time.Sleep(time.Hour)
		if n := writes.Load(); n != 1 {
			t.Errorf("%d writes", n)
		}
		close(hang)
		time.Sleep(10 * time.Second)
		if n := writes.Load(); n < 5 {
			t.Errorf("it is not tested on: %d writes", n)
		}
		if _, sick := p.state(true); sick != "" {
			t.Errorf("the disk answers: %q", sick)
		}
	})
}

func TestAProcessThatWaitsForItsDiskIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse(errLeaderless, func() error { return nil })
		var blocked atomic.Bool
		p.blocked = blocked.Load
		blocked.Store(true)
		p.state(true)
		go func() { _ = p.run(t.Context()) }()
		time.Sleep(noticeAfter + sickAfter - time.Second)
		if _, sick := p.state(true); sick != "" {
			t.Errorf("it gets its time: %q", sick)
		}
		time.Sleep(3 * time.Second)
		if _, sick := p.state(true); !strings.Contains(sick, "waits for its disk") {
			t.Errorf("%q", sick)
		}
		blocked.Store(false)
		time.Sleep(2 * pulseEvery)
		if stalled, sick := p.state(true); stalled == 0 || sick != "" {
			t.Errorf("it runs again: %s, %q", stalled, sick)
		}
	})
}

func TestWhatWasFoundInAStallIsForgottenInTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := make(chan error, 1)
		err <- syscall.EIO
		p := newPulse(errLeaderless, func() error { return <-err })
		p.state(true)
		go func() { _ = p.run(t.Context()) }()
		time.Sleep(noticeAfter + pulseEvery)
		if _, sick := p.state(true); !strings.Contains(sick, "input/output error") {
			t.Fatalf("%q", sick)
		}
		p.moved(7) // clients write again
		time.Sleep(noticeAfter + time.Second)
		if stalled, sick := p.state(true); stalled == 0 || sick != "" {
			t.Errorf("%s, %q", stalled, sick)
		}
		close(err)
	})
}

func TestAnEtcdThatIsStoppedIsNotTested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse(nil, func() error { t.Error("written"); return nil })
		p.read = func(context.Context) error { t.Error("asked"); return nil }
		p.state(false)
		go func() { _ = p.run(t.Context()) }()
		time.Sleep(time.Minute)
		if stalled, sick := p.state(false); stalled != 0 || sick != "" {
			t.Errorf("%s, %q", stalled, sick)
		}
	})
}

func TestAReadThatHangsEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse(nil, func() error { return nil })
		p.read = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		p.state(true)
		time.Sleep(quietFor)
		begin := time.Now()
		p.beat(t.Context())
		if took := time.Since(begin); took != pulseTime {
			t.Errorf("%s", took)
		}
	})
}

func TestTheDiskIsTestedBesideTheData(t *testing.T) {
	path := filepath.Join(t.TempDir(), "canary")
	for range 2 { // the file must not grow
		if err := writeBlock(path); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 4096 || info.Mode().Perm() != 0o600 {
		t.Errorf("%+v, %v", info, err)
	}
	if err := writeBlock(filepath.Join(t.TempDir(), "gone", "canary")); err == nil || cause(err) != "no such file or directory" {
		t.Errorf("%v", err)
	}
	if got := cause(errLeaderless); got != "no leader" {
		t.Errorf("%q", got)
	}
}

// TestACommitNowAndThenEndsNoStall loses most packets: the stalled time counts
// on, less the time that was healthy.
func TestACommitNowAndThenEndsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse(errLeaderless, func() error { return nil })
		p.state(true)
		go func() { _ = p.run(t.Context()) }()
		index := uint64(1)
		stand := func(d time.Duration) time.Duration {
			time.Sleep(d)
			stalled, _ := p.state(true)
			index++
			p.moved(index)
			return stalled
		}
		want := func(what string, got, least, most time.Duration) {
			t.Helper()
			if got < least || got > most {
				t.Errorf("%s: stalled for %s, want %s to %s", what, got, least, most)
			}
		}
		want("once", stand(13*time.Second), 13*time.Second, 13*time.Second)
		want("a second of writes", stand(time.Second), 0, 0)
		want("again", stand(8*time.Second), 20*time.Second, 20*time.Second)
		for range 20 {
			want("all is well", stand(time.Second), 0, 0)
		}
		want("much later", stand(8*time.Second), 8*time.Second, 8*time.Second)
	})
}

func TestARestartThatHelpsNothingEndsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse(errLeaderless, func() error { return nil })
		p.state(true)
		go func() { _ = p.run(t.Context()) }()
		time.Sleep(12 * time.Second)
		p.state(true)
		p.state(false)
		if stalled, _ := p.state(true); stalled != 0 {
			t.Errorf("it gets its time: stalled for %s", stalled)
		}
		time.Sleep(8 * time.Second)
		if stalled, _ := p.state(true); stalled != 20*time.Second {
			t.Errorf("stalled for %s", stalled)
		}
	})
}

// TestADiskThatWasNotTestedYetGetsItsTime lets the disk hang again and again:
// the host has to find that out before it counts a stall.
func TestADiskThatWasNotTestedYetGetsItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hang atomic.Pointer[chan struct{}]
		p := newPulse(errLeaderless, func() error { <-*hang.Load(); return nil })
		p.state(true)
		go func() { _ = p.run(t.Context()) }()
		for round := range 3 {
			c := make(chan struct{})
			hang.Store(&c)
			for range 100 {
				time.Sleep(200 * time.Millisecond)
				if stalled, sick := p.state(true); stalled >= etcdmember.StallAfter && sick == "" {
					t.Fatalf("round %d: stalled for %s, and nothing was found", round, stalled)
				}
			}
			close(c)
			p.moved(uint64(round + 1))
			time.Sleep(time.Second)
		}
	})
}
