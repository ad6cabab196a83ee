// Package observer gathers the report of a host: from the host that this runs
// on, from the files of a host in a lab, or by asking the agent of another host.
// It changes nothing. What it cannot read is unknown in the report, with the
// reason; package decide/hostreport says what follows from a report.
package observer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/hostreport"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/explain"
)

// Host is a host whose files and daemons can be read. Boot, Identity, Pacemaker
// and Held reach beyond its files, and are nil where only these can be read.
type Host struct {
	Files records.Files
	Name  func() (string, error)
	Now   func() time.Time
	// Ask asks the etcd keeper that listens on a socket.
	Ask func(ctx context.Context, socket string) (state.EtcdReport, error)
	// Boot returns the id of this boot and its uptime, Identity what the SMBIOS
	// says.
	Boot      func() (id string, uptime time.Duration, err error)
	Identity  func() (uuid, serial string, err error)
	Pacemaker func(context.Context) (pacemaker.Status, error)
	// Held reports whether an etcd has the data of a folder open. Inspect examines
	// the data if none has.
	Held    func(dir string) (bool, error)
	Inspect func(ctx context.Context, dir string) (state.EtcdData, error)
	// Checks looks at what `holdfast doctor` checks, and measures etcd's disk if
	// that is asked for. It reaches far, so only programs that need it set it.
	Checks func(ctx context.Context, disk bool) doctor.Host
}

// This returns the observer of the host on which this process runs.
func This() Host {
	return Host{
		Name: host.Name, Now: time.Now, Ask: explain.Ask,
		Boot: observe.Boot, Identity: fence.OwnIdentity, Pacemaker: pacemaker.ReadStatus, Held: etcd.Locked, Inspect: etcd.Inspect,
	}
}

// Below returns a host whose files lie below a folder, such as one of a lab.
func Below(root, name string) Host {
	return Host{
		Files: records.Files{Root: root}, Name: func() (string, error) { return name, nil }, Now: time.Now, Ask: explain.Ask,
	}
}

// report is a report that is being gathered.
type report struct {
	hostreport.Report

	host Host
}

// Report gathers the parts that are asked for. It fails only if the host does
// not know its own name.
func (h Host) Report(ctx context.Context, parts ...hostreport.Part) (hostreport.Report, error) {
	name, err := h.Name()
	if err != nil {
		return hostreport.Report{}, err
	}
	r := report{Report: hostreport.Report{Host: name, At: h.Now(), Asked: parts}, host: h}
	// Evidence is needed only where the keeper does not answer, and is about the
	// peer that the devices name.
	for _, step := range []struct {
		part   hostreport.Part
		gather func(context.Context)
	}{
		{hostreport.Machine, r.machine},
		{hostreport.Agent, r.agent},
		{hostreport.Devices, r.devices},
		{hostreport.Etcd, r.etcd},
		{hostreport.Evidence, r.evidence},
		{hostreport.History, r.history},
		{hostreport.Incidents, r.incidents},
		{hostreport.Pacemaker, r.pacemaker},
		{hostreport.Checks, r.checks},
	} {
		if slices.Contains(parts, step.part) {
			step.gather(ctx)
		}
	}
	return r.Report, nil
}

// seen returns a fact of this report: a value, or why it is unknown.
func seen[T any](r *report, value T, err error) state.Seen[T] {
	if err == nil {
		return state.See(value, r.Host, r.At)
	}
	out := state.Seen[T]{From: r.Host, Why: err.Error()}
	switch {
	case errors.Is(err, fs.ErrPermission):
		out.Why, out.Lack = hostreport.Sudo, state.LackDenied
	case errors.Is(err, fs.ErrNotExist):
		out.Lack = state.LackAbsent
	}
	return out
}

// maybe is seen for a value that may not be there.
func maybe[T any](r *report, f state.Fact[T], err error) state.Seen[T] {
	if err == nil && !f.Known {
		return state.Seen[T]{From: r.Host, Lack: state.LackAbsent}
	}
	return seen(r, f.Value, err)
}

// file reads a JSON file of the host. The fact is of the time that the file
// itself names.
func file[T any](r *report, path string, at func(T) time.Time) state.Seen[T] {
	var value T
	path = r.host.Files.Path(path)
	data, err := os.ReadFile(path)
	if err == nil {
		if err = json.Unmarshal(data, &value); err != nil {
			err = fmt.Errorf("%s cannot be parsed: %w", path, err)
		}
	}
	out := seen(r, value, err)
	if out.Known {
		out.At = at(value)
	}
	return out
}

// machine reads the boot and the SMBIOS.
func (r *report) machine(context.Context) {
	if r.host.Boot != nil {
		id, up, err := r.host.Boot()
		r.Boot = seen(r, hostreport.Boot{ID: id, Uptime: up}, err)
	}
	if r.host.Identity != nil {
		uuid, serial, err := r.host.Identity()
		r.Identity = seen(r, hostreport.Identity{UUID: uuid, Serial: serial}, err)
	}
}

// pacemaker asks Pacemaker.
func (r *report) pacemaker(ctx context.Context) {
	if r.host.Pacemaker == nil {
		return
	}
	s, err := r.host.Pacemaker(ctx)
	r.Pacemaker = seen(r, hostreport.Cluster{Online: s.Online, Running: s.Running, Failures: s.Failures}, err)
}

// checks looks at what doctor checks.
func (r *report) checks(ctx context.Context) {
	if r.host.Checks != nil {
		r.Doctor = seen(r, r.host.Checks(ctx, slices.Contains(r.Asked, hostreport.Disk)), nil)
	}
}

// dataDir is etcd's folder.
func (r *report) dataDir() string { return filepath.Dir(r.host.Files.Path(state.EtcdRecordPath)) }
