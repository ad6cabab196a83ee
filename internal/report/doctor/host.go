package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/clock"
	filter "github.com/holdfast/holdfast/internal/adapter/firewall"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/observe/netwatch"
	"github.com/holdfast/holdfast/internal/adapter/redfish"
	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/ports"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Site holds the facts that a host knows of its cluster without asking anybody.
type Site struct {
	Settings state.NetworkSettings
	Workers  int
	// ControlPlane is true on a control plane. Flannel is true if Holdfast provides
	// the pod network.
	ControlPlane bool
	Flannel      bool
}

// Observer observes one host.
type Observer struct {
	// Root is the host's root folder.
	Root string
	// Site is unknown on a host that belongs to no cluster.
	Site state.Fact[Site]
	// DataDir is etcd's folder. Disk requests the measurement of its disk.
	DataDir string
	Disk    bool
	Now     func() time.Time

	// The rest reaches out of the process; tests replace it.
	Name    func() (string, error)
	Called  func() (string, error)
	Run     func(context.Context, host.Cmd) ([]byte, error)
	Network func() (netwatch.Snapshot, error)
	Resolve func(context.Context, string) ([]string, error)
	Get     func(ctx context.Context, url string) ([]byte, error)
	Space   func(dir string) (free, size uint64, err error)
	Kernel  func() (synchronised bool, err error)
	BMC     func(context.Context, bmc.Address) (redfish.Shown, error)
	// Table reports whether the host has Holdfast's table of ports. Firewalls
	// returns the firewalls of the site.
	Table     func() (bool, error)
	Firewalls func(context.Context, ports.Kind, ports.Place) ([]state.SiteFirewall, error)
}

// NewObserver returns the observer of the host that this process runs on. site holds the
// known facts of the cluster. If disk is true, it measures etcd's disk by writing
// to it.
func NewObserver(site state.Fact[Site], disk bool) Observer {
	return Observer{
		Root: "/", Site: site, DataDir: state.EtcdDataDir, Disk: disk, Now: time.Now,
		Name: host.Name, Called: host.Called,
		Run:     host.Run,
		Network: func() (netwatch.Snapshot, error) { return netwatch.Read(nil) },
		Resolve: net.DefaultResolver.LookupHost,
		Get:     get, Space: host.Space, Kernel: clock.Synchronised, BMC: shownBy,
		Table: filter.Table{}.There, Firewalls: filter.ThisSite().Inspect,
	}
}

// ObserveThisHost looks at the host that this process runs on. If disk is true, it measures
// etcd's disk by writing to it.
func ObserveThisHost(ctx context.Context, disk bool) decide.Host {
	site, err := ReadSite()
	h := NewObserver(site, disk).Observe(ctx)
	if err != nil {
		h.Trouble = append(h.Trouble, err.Error())
	}
	return h
}

// Bounds of one question.
const (
	toolTime = 5 * time.Second
	nameTime = 3 * time.Second
	maxFile  = 8 << 20
)

// observation is one observation of a host.
type observation struct {
	Observer

	h       decide.Host
	network netwatch.Snapshot
	// blind is why the network could not be read.
	blind error
	units map[string]string
}

// Observe gathers the facts of the host.
func (e Observer) Observe(ctx context.Context) decide.Host {
	l := observation{Observer: e}
	l.h.From = e.Now()
	name, err := e.Name()
	l.note("own name", err)
	l.h.Name = name
	l.h.Called = fact(&l, "name of the kernel", e.Called)
	if e.Site.Known {
		s := e.Site.Value
		l.h.Topology = state.Known(decide.Topology{ControlPlanes: s.Settings.ControlPlanes, Workers: s.Workers, Fencing: s.Settings.Fencing})
	}
	l.network, err = e.Network()
	l.note("network", err)
	l.blind = err
	l.units, err = l.activeUnits(ctx)
	l.note("units", err)
	l.h.Clock = fact(&l, "clock", l.clock)
	l.h.Addresses = fact(&l, "own addresses", l.ownAddresses)
	l.h.Swap = fact(&l, "swap", l.swap)
	l.h.Rebooters = fact(&l, "automatic reboots", l.rebooters)
	l.h.Names = fact(&l, "names", func() ([]decide.Name, error) { return l.names(ctx) })
	l.h.NICs = fact(&l, "interfaces", l.nics)
	l.h.Certificates = fact(&l, "certificates", l.certificates)
	l.h.Mirrors = fact(&l, "mirrors", l.mirrors)
	l.h.Etcd = fact(&l, "metrics of etcd", func() (decide.Etcd, error) { return l.etcd(ctx) })
	if e.Site.Known {
		l.h.Firewall = fact(&l, "firewalls", func() (decide.Firewall, error) { return l.firewall(ctx) })
	}
	if e.Site.Known && e.Site.Value.Settings.Fencing {
		l.twoNodes(ctx)
	}
	if e.Disk {
		l.h.Disk = fact(&l, "disk", func() (decide.Disk, error) { return measure(ctx, e.path(e.DataDir), diskBounds, e.Now) })
	}
	l.h.To = e.Now()
	return l.h
}

// twoNodes gathers the facts that exist only on hosts that fence each other.
func (l *observation) twoNodes(ctx context.Context) {
	switches := l.switches(ctx)
	l.h.Watchdogs = fact(l, "watchdogs", l.watchdogs)
	l.h.Rings = fact(l, "ring", func() ([]decide.Ring, error) { return l.rings(ctx, switches) })
	l.h.RingLacks = fact(l, "encryption of the ring", l.ringLacks)
	l.h.BMCs = fact(l, "fence devices", func() ([]decide.BMC, error) { return l.bmcs(ctx, switches) })
	l.h.Devices = fact(l, "Pacemaker's configuration", func() ([]decide.Device, error) { return l.devices(ctx) })
}

func (e Observer) path(name string) string { return filepath.Join(e.Root, name) }

// note records why a fact is unknown.
func (l *observation) note(what string, err error) {
	if err != nil {
		l.h.Trouble = append(l.h.Trouble, what+": "+err.Error())
	}
}

// fact calls ask. If that fails, the fact is unknown and the reason is noted.
func fact[T any](l *observation, what string, ask func() (T, error)) state.Fact[T] {
	v, err := ask()
	if err != nil {
		l.note(what, err)
		return state.Fact[T]{}
	}
	return state.Known(v)
}

// tool runs a program with a short time limit.
func (l *observation) tool(ctx context.Context, name string, args ...string) ([]byte, error) {
	return l.ask(ctx, host.Command(name, args...))
}

func (l *observation) ask(ctx context.Context, c host.Cmd) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, toolTime, fmt.Errorf("no answer in %s", toolTime))
	defer cancel()
	return l.Run(ctx, c)
}

// read reads a small file of the host.
func (l *observation) read(name string) ([]byte, error) {
	f, err := os.Open(l.path(name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d MiB", name, maxFile>>20)
	}
	return data, err
}

func (l *observation) exists(name string) bool {
	_, err := os.Stat(l.path(name))
	return err == nil
}

// get reads a page from this host's loopback address.
func get(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, toolTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, errors.New(res.Status)
	}
	return io.ReadAll(io.LimitReader(res.Body, maxFile))
}
