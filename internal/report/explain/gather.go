package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Host holds the places and functions of a host from which the input comes.
type Host struct {
	Files        records.Files
	Socket, Data string
	// Boot returns the id of this boot and its uptime.
	Boot func() (id string, uptime time.Duration, err error)
	// Held reports whether an etcd has the data of a folder open. Inspect examines
	// the data if none has.
	Held    func(dir string) (bool, error)
	Inspect func(ctx context.Context, dir string) (state.EtcdData, error)
	Name    func() (string, error)
	Now     func() time.Time
}

// This returns the host that this process runs on.
func This() Host {
	return Host{
		Socket: state.EtcdSocketPath, Data: filepath.Dir(state.EtcdRecordPath),
		Boot: observe.Boot, Held: etcd.Locked, Inspect: etcd.Inspect, Name: os.Hostname, Now: time.Now,
	}
}

// Etcd returns the input about etcd on the host: the etcd keeper's report or,
// if the keeper does not answer, the contents of its files.
func (h Host) Etcd(ctx context.Context) (explain.Input, error) {
	report, err := Ask(ctx, h.Socket)
	switch {
	case err == nil:
		// Without a peer, Pacemaker never asked the keeper for anything.
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

// files builds the input from the disk. The presence of the peer stays unknown,
// because only the etcd keeper can tell it.
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
	record, err := h.Files.Record()
	if errors.Is(err, fs.ErrPermission) {
		return in, fmt.Errorf("only root may read this: run it with sudo: %w", err)
	}
	if err != nil {
		in.Limits = append(in.Limits, err.Error())
	}
	s.Record = state.Fact[state.EtcdRecord]{Known: err == nil, Value: record}
	if s.Peer == "" && !h.Files.HasRecord() {
		in.Unmanaged, in.Report.Snapshot = true, s
		return in, nil
	}
	h.copy(ctx, &in, &s)
	h.proofs(&in, &s)
	in.Limits = append(in.Limits, "unknown without the etcd keeper: whether the peer is present, and its statement")
	in.Report = state.EtcdReport{Wish: state.EtcdNotAsked, Snapshot: s, Verdict: etcdmember.Decide(s), At: s.Now}
	in.BMC = h.bmc(s.Peer)
	return in, nil
}

// inspectTime bounds the examination of a data directory.
const inspectTime = 20 * time.Second

// copy finds out whether etcd runs, and examines the data if it does not.
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
	var err error
	if s.Proofs.Human, err = h.Files.Confirmation(); err != nil {
		in.Limits = append(in.Limits, err.Error())
	}
	if s.Peer == "" {
		return
	}
	if s.Proofs.Fenced, err = h.Files.Fenced(s.Peer); err != nil {
		in.Limits = append(in.Limits, err.Error())
	}
}

// peer returns the one other host that this one could fence; empty if there is
// none.
func (h Host) peer(own string) (string, error) {
	targets, err := h.Files.Targets()
	if errors.Is(err, fs.ErrPermission) {
		return "", fmt.Errorf("only root may read this: run it with sudo: %w", err)
	}
	for _, t := range targets { // without fencing the host is not one of two
		if t != own {
			return t, nil
		}
	}
	return "", nil
}

// bmc returns the address of a host's BMC, as one would open it in a browser;
// empty if it is not known here.
func (h Host) bmc(peer string) string {
	dev, err := h.Files.Device(peer)
	if err != nil {
		return ""
	}
	return dev.Address
}

// Snapshot reads the input from a file in the format of test/corpus/etcd, or
// from a bare snapshot or report.
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
			return explain.Input{}, fmt.Errorf("recorded snapshot %s: neither a snapshot nor a report with one", path)
		}
	}
	return explain.Input{Source: explain.FromSnapshot, Report: state.EtcdReport{
		Wish: file.Wish, Snapshot: *file.Snapshot, Verdict: etcdmember.Decide(*file.Snapshot),
		At: file.At, Since: file.Since, Problem: file.Problem, StandIn: file.StandIn,
	}}, nil
}
