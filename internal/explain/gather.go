package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/etcd"
	"github.com/holdfast/holdfast/internal/observe"
	"github.com/holdfast/holdfast/internal/state"
)

// Host is where things lie on a host.
type Host struct {
	Socket, Record, Data, Confirmation, Fenced, Fencing string
	// Boot names this boot and tells how long it has lasted.
	Boot func() (id string, uptime time.Duration, err error)
	// Held reports whether an etcd has the data of a folder open; Inspect
	// examines them where none has.
	Held    func(dir string) (bool, error)
	Inspect func(ctx context.Context, dir string) (state.EtcdData, error)
	Name    func() (string, error)
	Now     func() time.Time
}

// This is the host that the process runs on.
func This() Host {
	return Host{
		Socket: state.EtcdSocketPath, Record: state.EtcdRecordPath, Data: filepath.Dir(state.EtcdRecordPath),
		Confirmation: state.EtcdConfirmationPath, Fenced: state.FencedDir, Fencing: state.FencingDir,
		Boot: observe.Boot, Held: etcd.Locked, Inspect: etcd.Inspect, Name: os.Hostname, Now: time.Now,
	}
}

// Etcd returns what can be explained about etcd on the host: its agent's
// report, or where that does not answer what its files say.
func (h Host) Etcd(ctx context.Context) (explain.Input, error) {
	report, err := Ask(ctx, h.Socket)
	switch {
	case err == nil:
		// An agent without a peer was never asked for anything by Pacemaker.
		return explain.Input{
			Source: explain.FromAgent, Report: report, BMC: h.bmc(report.Snapshot.Peer), Unmanaged: report.Snapshot.Peer == "",
		}, nil
	case !errors.Is(err, ErrNoAgent):
		return explain.Input{}, err
	}
	in, failed := h.files(ctx)
	if failed != nil {
		return explain.Input{}, failed
	}
	if !in.Unmanaged {
		in.Limits = append([]string{err.Error()}, in.Limits...)
	}
	return in, nil
}

// files decides on what the disk says. Whether the peer is there only the agent
// can tell: that stays unknown.
func (h Host) files(ctx context.Context) (explain.Input, error) {
	in := explain.Input{Source: explain.FromFiles}
	name, err := h.Name()
	if err != nil {
		return in, fmt.Errorf("name of this host: %w", err)
	}
	s := state.EtcdSnapshot{Host: name, Now: h.Now()}
	if s.Boot, s.Uptime, err = h.Boot(); err != nil {
		in.Limits = append(in.Limits, err.Error())
	}
	if s.Peer, err = h.peer(name); err != nil {
		return in, err
	}
	hasRecord, err := h.record(&s)
	if errors.Is(err, fs.ErrPermission) {
		return in, fmt.Errorf("only root may: run it with sudo: %w", err)
	}
	if err != nil {
		in.Limits = append(in.Limits, err.Error())
	}
	if s.Peer == "" && !hasRecord && err == nil {
		in.Unmanaged, in.Report.Snapshot = true, s
		return in, nil
	}
	h.copy(ctx, &in, &s)
	h.proofs(&in, &s)
	in.Limits = append(in.Limits, "whether the peer is there, and what it says, only the agent can tell")
	in.Report = state.EtcdReport{Wish: state.EtcdNotAsked, Snapshot: s, Verdict: etcdmember.Decide(s), At: s.Now}
	in.BMC = h.bmc(s.Peer)
	return in, nil
}

// record reads the durable record.
func (h Host) record(s *state.EtcdSnapshot) (exists bool, err error) {
	b, err := os.ReadFile(h.Record)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.Record = state.Known(state.EtcdRecord{State: state.EtcdNone})
		return false, nil
	case err != nil:
		return true, fmt.Errorf("read record of etcd: %w", err)
	}
	r, err := state.DecodeEtcdRecord(b)
	if err != nil {
		return true, fmt.Errorf("%s: %w", h.Record, err)
	}
	s.Record = state.Known(r)
	return true, nil
}

// inspectTime bounds the examination of a copy.
const inspectTime = 20 * time.Second

// copy finds out whether etcd runs, and examines the data of one that does not.
func (h Host) copy(ctx context.Context, in *explain.Input, s *state.EtcdSnapshot) {
	held, err := h.Held(h.Data)
	if err != nil {
		in.Limits = append(in.Limits, err.Error())
		return
	}
	s.Local.Running = state.Known(held)
	if held {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTime)
	defer cancel()
	data, err := h.Inspect(ctx, h.Data)
	if err != nil {
		in.Limits = append(in.Limits, err.Error())
		return
	}
	s.Data = state.Known(data)
}

func (h Host) proofs(in *explain.Input, s *state.EtcdSnapshot) {
	if c, ok, err := readJSON[state.Confirmation](h.Confirmation); err != nil {
		in.Limits = append(in.Limits, err.Error())
	} else if ok {
		s.Proofs.Human = state.Known(c)
	}
	if s.Peer == "" {
		return
	}
	if f, ok, err := readJSON[state.EtcdFenced](filepath.Join(h.Fenced, s.Peer+".json")); err != nil {
		in.Limits = append(in.Limits, err.Error())
	} else if ok {
		s.Proofs.Fenced = state.Known(f)
	}
}

// peer is the one other host that this one could fence, empty without one.
func (h Host) peer(own string) (string, error) {
	entries, err := os.ReadDir(h.Fencing)
	if errors.Is(err, fs.ErrPermission) {
		return "", fmt.Errorf("read %s: only root may: run it with sudo: %w", h.Fencing, fs.ErrPermission)
	}
	if err != nil {
		return "", nil //nolint:nilerr // without fencing the host is not one of two
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && name != own && !strings.HasPrefix(name, ".") {
			return name, nil
		}
	}
	return "", nil
}

// bmc is the address of a host's BMC as a person would open it, empty where it
// is not known here. The account beside it stays in the file.
func (h Host) bmc(peer string) string {
	dev, ok, err := readJSON[struct {
		Address string `json:"address"`
	}](filepath.Join(h.Fencing, filepath.Base(peer)+".json"))
	if err != nil || !ok {
		return ""
	}
	return dev.Address
}

// readJSON reads a file, which need not exist.
func readJSON[T any](path string) (v T, ok bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return v, false, nil
	}
	if err != nil {
		return v, false, err
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return v, false, fmt.Errorf("%s is not understood: %w", path, err)
	}
	return v, true, nil
}

// Snapshot decides on a file of test/corpus/etcd's form, or on a bare snapshot
// or report.
func Snapshot(path string) (explain.Input, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return explain.Input{}, fmt.Errorf("recorded snapshot: %w", err)
	}
	var file struct {
		Snapshot *state.EtcdSnapshot `json:"snapshot"`
		At       time.Time           `json:"at"`
		Since    time.Duration       `json:"since"`
		Wish     state.EtcdWish      `json:"wish"`
		Problem  string              `json:"problem"`
		StandIn  string              `json:"standIn"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return explain.Input{}, fmt.Errorf("recorded snapshot %s: not JSON of a snapshot: %w", path, err)
	}
	if file.Snapshot == nil {
		file.Snapshot = &state.EtcdSnapshot{}
		if err := json.Unmarshal(b, file.Snapshot); err != nil || file.Snapshot.Host == "" {
			return explain.Input{}, fmt.Errorf("recorded snapshot %s: it holds neither a snapshot nor a report of one", path)
		}
	}
	return explain.Input{Source: explain.FromSnapshot, Report: state.EtcdReport{
		Wish: file.Wish, Snapshot: *file.Snapshot, Verdict: etcdmember.Decide(*file.Snapshot),
		At: file.At, Since: file.Since, Problem: file.Problem, StandIn: file.StandIn,
	}}, nil
}
