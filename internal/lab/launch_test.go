package lab

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestAWaitEndsWhenTheDaemonIsSilent(t *testing.T) {
	b := &Lab{Dir: t.TempDir()}
	if err := os.WriteFile(b.file(daemonLog), []byte("first\nout of memory\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := b.Wait(t.Context(), NewClient(b), time.Hour, func([]HostProgress, time.Duration) { t.Error("there is nothing to show") })
		if err == nil || !strings.Contains(err.Error(), "no longer answers (ask the lab daemon: ") || !strings.Contains(err.Error(), "out of memory") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took > daemonPatience+time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestADaemonThatHangsIsNotWaitedForForEver(t *testing.T) {
	b := &Lab{Dir: t.TempDir()}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", b.file(socketFile)) // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c := NewClient(b)
	c.patience = 20 * time.Millisecond
	if _, err := c.Status(t.Context()); err == nil || err.Error() != "ask the lab daemon: no answer within 20ms" {
		t.Errorf("got %v", err)
	}
}

func TestNoDaemonIsEndedAtOnce(t *testing.T) {
	for name, prepare := range map[string]func(*Lab) error{
		"no folder":         func(b *Lab) error { return os.Remove(b.Dir) },
		"no trace of one":   func(*Lab) error { return nil },
		"one that ended":    func(b *Lab) error { return writeJSON(b.file(daemonFile), processID{PID: os.Getpid(), Start: "1"}) },
		"one without a PID": func(b *Lab) error { return os.WriteFile(b.file(daemonLock), nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			b := &Lab{Dir: t.TempDir()}
			if err := prepare(b); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // so a wait of any length would fail
			if err := b.endDaemon(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestADaemonThatIsStartingIsWaitedForAndEnded(t *testing.T) {
	b := &Lab{Dir: t.TempDir()}
	release, err := lock(b.file(daemonLock))
	if err != nil {
		t.Fatal(err)
	}
	// It holds the lock and has not yet recorded its identity.
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	if err := b.endDaemon(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a daemon that is starting was passed over: %v", err)
	}
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := identify(cmd.Process.Pid)
	if err := errors.Join(err, writeJSON(filepath.Join(b.Dir, daemonFile), id)); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		release() // as the end of the process would
	}()
	if err := b.endDaemon(t.Context()); err != nil {
		t.Error(err)
	}
	if id.running() {
		t.Error("it still runs")
	}
}

func TestTheEndOfAProcessIsWaitedForNotForEver(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &initProcess{pid: cmd.Process.Pid, pidfd: fd}
	defer p.close()
	if p.endsWithin(20*time.Millisecond) || p.endsWithin(0) {
		t.Error("a living process has ended")
	}
	if err := p.signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !p.endsWithin(time.Minute) {
		t.Error("a killed process has not ended")
	}
	_ = cmd.Wait()
}
