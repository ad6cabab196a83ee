package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAnOustedHostWritesItDownAndSwitchesItselfOff(t *testing.T) {
	entry := &retired.Host{Name: "cp-2", Machine: "old", ControlPlane: true, When: time.Unix(1, 0), Again: time.Unix(2, 0)}
	out := replace.Self{Installed: true, MachineID: "old", Etcd: state.Known(false), Entry: state.Known(entry), Node: state.Known("new")}
	member := out
	member.Node = state.Known("old")
	var self replace.Self
	var did []string
	full, unarmed := true, errors.New("no space left on device")
	p := &place{
		log: slog.New(slog.DiscardHandler), self: func(context.Context, bool) replace.Self { return self },
		note: func(string) error {
			if full {
				return errors.New("no space left on device")
			}
			did = append(did, "note")
			return nil
		},
		off: func(context.Context) error { did = append(did, "off"); return nil },
		arm: func(context.Context) (bool, error) { return !full, unarmed },
	}
	soon := time.Duration(0)
	look := func(s replace.Self, wantErr bool, want ...string) {
		t.Helper()
		self = s
		r, err := p.step(t.Context())
		if err != nil != wantErr || !slices.Equal(did, want) {
			t.Errorf("%v, %v, want %v", did, err, want)
		}
		soon = r.Again
	}
	look(out, true) // two looks have to agree; the unit of the next boot is not written yet
	unarmed = nil
	look(member, false)
	if soon != 0 {
		t.Errorf("a member looks again after %s", soon)
	}
	look(out, false)
	if soon != placeAgain {
		t.Errorf("after a look that says that the host is out it looks again after %s", soon)
	}
	look(out, true) // it stays on until it has written it down, or it would act again after a boot
	unarmed = errors.New("no space left on device")
	full = false
	look(out, false, "note", "off") // no error of that unit keeps it on
}

// docs/facts/loss.md#hard-cases-of-loss, L4: somebody confirmed on the old host before it could
// learn that it was replaced. It is told, and nothing is ended.
func TestL4AReplacedHostWhoseEtcdRunsIsToldAndLeftAlone(t *testing.T) {
	self := replace.Self{Installed: true, MachineID: "old", Etcd: state.Known(true)}
	asked := 0
	p := &place{
		log: slog.New(slog.DiscardHandler),
		self: func(_ context.Context, serving bool) replace.Self {
			s := self
			if serving {
				asked++
			} else {
				s.Told = ""
			}
			return s
		},
		note: func(string) error { t.Error("it is written down as out"); return nil },
		off:  func(context.Context) error { t.Error("it is switched off"); return nil },
		arm:  func(context.Context) (bool, error) { return true, nil },
	}
	looks := func(n int, want string) {
		t.Helper()
		for range n {
			if _, err := p.step(t.Context()); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Fatalf("look %d: %v, want %q", p.looks, err, want)
			}
		}
	}
	looks(eachServing, "")
	self.Told = "another machine takes the place of cp-2 since 2026-11-20"
	looks(eachServing, "since 2026-11-20, but etcd runs here")
	self.Told = ""
	looks(eachServing, "")
	self.Told = "another machine takes the place of cp-2 since 2026-11-20"
	looks(1, "two clusters")
	if self.Etcd, self.Told = state.Known(false), ""; asked != 4 {
		t.Errorf("asked %d times in %d looks", asked, p.looks)
	}
	looks(1, "")
}

// A service that is never ready is started again and again: seen in the lab on a host of a former life.
func TestAnAgentThatOnlyAsksForItsPlaceIsReadyAndAlive(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = systemd.Close() })
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "20000")
	log := slog.New(slog.DiscardHandler)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- rest(ctx, loop.New(time.Now, log), log) }()
	for _, want := range []string{"READY=1", "WATCHDOG=1"} {
		said := make([]byte, 64)
		n, err := systemd.Read(said)
		if got := string(said[:n]); got != want || err != nil {
			t.Errorf("it says %q, %v, want %q", got, err, want)
		}
	}
	end()
	if err := <-ended; err != nil {
		t.Errorf("it was asked to end, and says %v", err)
	}
}
