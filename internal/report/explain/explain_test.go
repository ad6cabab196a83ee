package explain

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// shortPath returns a path for a socket, which must be short.
func shortPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ex") //nolint:usetesting // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "agent.sock")
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// serve answers on a socket like the etcd keeper.
func serve(t *testing.T, socket string, answer http.HandlerFunc) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /report", answer)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
}

func TestAnAgentThatFailsIsNoAgent(t *testing.T) {
	socket := shortPath(t)
	serve(t, socket, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) })
	if _, err := Ask(t.Context(), socket); !errors.Is(err, ErrNoAgent) {
		t.Errorf("%v", err)
	}
}

func TestASocketThatNobodyServesIsNoAgent(t *testing.T) {
	socket := shortPath(t)
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	if _, err := Ask(t.Context(), socket); !errors.Is(err, ErrNoAgent) || !strings.Contains(err.Error(), "nothing listens") {
		t.Errorf("%v", err)
	}
	if _, err := Ask(t.Context(), socket+".gone"); !errors.Is(err, ErrNoAgent) || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Ask(ctx, socket); errors.Is(err, ErrNoAgent) {
		t.Errorf("an interrupt is not the agent's fault: %v", err)
	}
}

func TestOnlyRootIsAnswered(t *testing.T) {
	err := unanswered("/run/x", &net.OpError{Op: "dial", Err: &os.SyscallError{Syscall: "connect", Err: fs.ErrPermission}})
	if errors.Is(err, ErrNoAgent) || !strings.Contains(err.Error(), "sudo") {
		t.Errorf("%v", err)
	}
}

func TestARecordedSnapshotComesInThreeForms(t *testing.T) {
	snap := state.EtcdSnapshot{Host: "alpha", Peer: "beta", Record: state.Known(state.EtcdRecord{State: state.EtcdNone})}
	for name, v := range map[string]any{
		"a snapshot": snap, "a report": state.EtcdReport{Snapshot: snap}, "an incident": map[string]any{"says": "x", "snapshot": snap},
	} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "s.json")
		put(t, path, string(b))
		in, err := Snapshot(path)
		if err != nil || in.Report.Snapshot.Host != "alpha" || in.Report.Verdict.Rule == "" {
			t.Errorf("%s: %+v, %v", name, in, err)
		}
	}
	for _, text := range []string{"", "[]", "{}", `{"snapshot":3}`} {
		path := filepath.Join(t.TempDir(), "s.json")
		put(t, path, text)
		if _, err := Snapshot(path); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
