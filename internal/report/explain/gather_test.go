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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// newHost returns one of two hosts in a folder: a survivor that was asked to
// confirm, and that fenced its peer in this boot.
func newHost(t *testing.T) Host {
	t.Helper()
	dir := t.TempDir()
	h := Host{
		Files: records.Files{Root: dir}, Socket: filepath.Join(dir, "agent.sock"), Data: filepath.Join(dir, "etcd"),
		Boot: func() (string, time.Duration, error) { return "b", time.Hour, nil },
		Held: func(string) (bool, error) { return false, nil },
		Inspect: func(context.Context, string) (state.EtcdData, error) {
			return state.EtcdData{Copy: state.CopyWhole, Cluster: 0xc, Member: 0xa}, nil
		},
		Name: func() (string, error) { return "cp-1", nil },
		Now:  func() time.Time { return time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC) },
	}
	for _, err := range []error{
		h.Files.WriteRecord(state.EtcdRecord{State: state.EtcdSole, Seq: 3, Cluster: 0xc, Member: 0xa}),
		h.Files.WriteConfirmation(state.Confirmation{Who: "ops", Why: "burnt", Boot: "b", At: 5}),
		h.Files.WriteFenced(state.EtcdFenced{Target: "cp-2", State: "Off", Boot: "b", At: 7}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	put(t, h.Files.Path(state.FencingDir+"/cp-2.json"), `{"target":"cp-2","address":"https://10.97.0.12","username":"admin","password":"hunter2"}`)
	return h
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

func gathered(t *testing.T, h Host) explain.Input {
	t.Helper()
	in, err := h.Etcd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestTheAgentIsAskedFirst(t *testing.T) {
	h := newHost(t)
	want := state.EtcdReport{Wish: state.EtcdStarted, Since: 3 * time.Second, Snapshot: state.EtcdSnapshot{Host: "cp-1", Peer: "cp-2"}}
	serve(t, h.Socket, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(want) })
	in := gathered(t, h)
	if in.Source != explain.FromAgent || in.Report.Since != want.Since || in.BMC != "https://10.97.0.12" || in.Unmanaged {
		t.Errorf("%+v", in)
	}
}

func TestWithoutTheAgentTheFilesSpeak(t *testing.T) {
	h := newHost(t)
	in := gathered(t, h)
	s := in.Report.Snapshot
	if in.Source != explain.FromFiles || s.Peer != "cp-2" || s.Record.Value.State != state.EtcdSole ||
		s.Proofs.Human.Value.Who != "ops" || s.Proofs.Fenced.Value.At != 7 {
		t.Errorf("%+v", in)
	}
	if !state.Is(s.Local.Running, false) || s.Data.Value.Copy != state.CopyWhole {
		t.Errorf("what the disk says was not read: %+v", s)
	}
	if s.Pacemaker.Contact.Known || len(in.Limits) == 0 {
		t.Errorf("what only the agent knows was guessed: %+v", s)
	}
	e := explain.Etcd(in)
	if e.Status != explain.Unknown || !strings.Contains(e.Summary, "which would start it, does not answer") || !strings.Contains(explain.Text(e, page.Style{}), "systemctl start podman-etcd") {
		t.Errorf("%s", explain.Text(e, page.Style{}))
	}
	for _, style := range []page.Style{{}, {Wide: true}} {
		if strings.Contains(explain.Text(e, style), "hunter2") {
			t.Error("the password of a BMC was printed")
		}
	}
}

func TestWhatCannotBeReadStaysUnknown(t *testing.T) {
	h := newHost(t)
	h.Held = func(string) (bool, error) { return false, errors.New("lock: input/output error") }
	in := gathered(t, h)
	if s := in.Report.Snapshot; s.Local.Running.Known || s.Data.Known || explain.Etcd(in).Status != explain.Unknown {
		t.Errorf("%+v", s)
	}
	h = newHost(t)
	h.Inspect = func(context.Context, string) (state.EtcdData, error) {
		return state.EtcdData{}, errors.New("no such program")
	}
	in = gathered(t, h)
	if s := in.Report.Snapshot; s.Data.Known || !slices.ContainsFunc(in.Limits, func(l string) bool { return strings.Contains(l, "no such program") }) {
		t.Errorf("%+v, %q", s, in.Limits)
	}
}

func TestAnAgentThatFailsIsNoAgent(t *testing.T) {
	h := newHost(t)
	serve(t, h.Socket, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) })
	if _, err := Ask(t.Context(), h.Socket); !errors.Is(err, ErrNoAgent) {
		t.Errorf("%v", err)
	}
	if in := gathered(t, h); in.Source != explain.FromFiles {
		t.Errorf("%+v", in)
	}
}

func TestASocketThatNobodyServesIsNoAgent(t *testing.T) {
	h := newHost(t)
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", h.Socket)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	if _, err := Ask(t.Context(), h.Socket); !errors.Is(err, ErrNoAgent) || !strings.Contains(err.Error(), "nothing listens") {
		t.Errorf("%v", err)
	}
	if _, err := Ask(t.Context(), h.Socket+".gone"); !errors.Is(err, ErrNoAgent) || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Ask(ctx, h.Socket); errors.Is(err, ErrNoAgent) {
		t.Errorf("an interrupt is not the agent's fault: %v", err)
	}
}

func TestOnlyRootIsAnswered(t *testing.T) {
	err := unanswered("/run/x", &net.OpError{Op: "dial", Err: &os.SyscallError{Syscall: "connect", Err: fs.ErrPermission}})
	if errors.Is(err, ErrNoAgent) || !strings.Contains(err.Error(), "sudo") {
		t.Errorf("%v", err)
	}
}

func TestAHostOfAnotherKindIsNotExplained(t *testing.T) {
	h := newHost(t)
	for _, path := range []string{h.Files.Path(state.FencingDir), filepath.Dir(h.Files.Path(state.EtcdRecordPath))} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	if in := gathered(t, h); !in.Unmanaged {
		t.Errorf("%+v", in)
	}
	serve(t, h.Socket, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(state.EtcdReport{}) })
	if in := gathered(t, h); !in.Unmanaged {
		t.Error("an agent that was never asked for anything is not one of two")
	}
}

func TestATornRecordIsUnknownAndSaidSo(t *testing.T) {
	h := newHost(t)
	put(t, h.Files.Path(state.EtcdRecordPath), `{"version":1,"sha`)
	in := gathered(t, h)
	if in.Report.Snapshot.Record.Known || in.Report.Verdict.Rule != "unknown.record" ||
		!slices.ContainsFunc(in.Limits, func(l string) bool { return strings.Contains(l, "torn") }) {
		t.Errorf("%+v", in)
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
