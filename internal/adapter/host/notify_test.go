package host

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSystemdIsToldWhereItListens(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Notify("READY=1"); err != nil {
		t.Errorf("nobody listens: %v", err)
	}
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	t.Setenv("NOTIFY_SOCKET", path)
	if err := Notify("WATCHDOG=1"); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 100)
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(said); err != nil || string(said[:n]) != "WATCHDOG=1" {
		t.Errorf("%q, %v", said[:n], err)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "nowhere"))
	if Notify("READY=1") == nil {
		t.Error("a socket that is not there is no error")
	}
}

func TestTheWatchdogIsFedTwiceInItsTime(t *testing.T) {
	for micros, want := range map[string]time.Duration{"": 0, "0": 0, "x": 0, "60000000": 30 * time.Second} {
		t.Setenv("WATCHDOG_USEC", micros)
		if got, on := WatchdogInterval(); got != want || on != (want > 0) {
			t.Errorf("%q: %s, %t", micros, got, on)
		}
	}
}

func TestAProgramDoesNotSpeakForTheServiceThatStartsIt(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "systemd"))
	t.Setenv("WATCHDOG_USEC", "1000000")
	t.Setenv("WATCHDOG_PID", "1")
	t.Setenv("HOLDFAST_NOTIFY", "stays")
	out, err := Run(t.Context(), Command("env"))
	if err != nil {
		t.Fatal(err)
	}
	if env := string(out); strings.Contains(env, "NOTIFY_SOCKET") || strings.Contains(env, "WATCHDOG_") || !strings.Contains(env, "HOLDFAST_NOTIFY=stays\n") {
		t.Errorf("a program has %s", env)
	}
}
