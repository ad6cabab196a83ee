// Package place is the way from a command to its cluster: the API of a
// kubeconfig, this host, hosts that a command such as ssh reaches, or a lab. It
// alone declares the flags that name a place, and it reads nothing of the
// cluster but, where several ways lead to the API, which of them serves: commands
// give a Place to what gathers facts (ADR 0049).
package place

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
)

// Place is a cluster as a command reaches it.
type Place struct {
	// API lists the ways to the API, the best one first. Without one NoAPI says why.
	API   []kube.Access
	NoAPI error
	// Hosts are those of --hosts, or of the lab.
	Hosts []Host
	// Here is this host if it belongs to the cluster and is none of Hosts.
	Here *Host
	// LabLog is the path of the log of the lab's daemon, empty outside of a lab.
	LabLog string
}

// Host is a host and the way to it.
type Host struct {
	Name string
	// Run runs a command as root on the host. Read is for a command that only reads
	// and ends soon; in a lab it is quicker.
	Run, Read host.Runner
	// Root is the folder with the host's files. It is empty where this machine
	// cannot read them: elsewhere, and in a lab while the host is off.
	Root string
	// Worker is true for a worker of a lab. Elsewhere the kind is not known.
	Worker bool
	// Lab is true for a host of a lab.
	Lab bool
}

// ThisHost returns the host that this process runs on, whether it belongs to a
// cluster or not.
func ThisHost() (Host, error) {
	name, err := host.Name()
	if err != nil {
		return Host{}, err
	}
	return Host{Name: name, Run: host.Local, Read: host.Local, Root: "/"}, nil
}

// Open finds the place that the flags name. It contacts nothing but
// holdfast-lab.
func (f *Flags) Open(ctx context.Context) (Place, error) {
	if f.Lab != "" {
		return openLab(ctx, f.Lab)
	}
	var p Place
	for _, name := range f.Hosts {
		run := host.Through(f.Exec, name)
		p.Hosts = append(p.Hosts, Host{Name: name, Run: run, Read: run})
	}
	p.API, p.NoAPI = f.accesses()
	if !f.here() {
		return p, nil
	}
	own, err := ThisHost()
	if err != nil {
		return p, err
	}
	if !slices.ContainsFunc(p.Hosts, func(h Host) bool { return strings.EqualFold(h.Name, own.Name) }) {
		p.Here = &own
	}
	return p, nil
}

// OpenAPI returns the best way to the API, for a command that needs nothing else
// of the place. Where there are several it asks which one serves.
func (f *Flags) OpenAPI(ctx context.Context) (kube.Access, error) {
	p, err := f.Open(ctx)
	if err != nil {
		return kube.Access{}, err
	}
	return p.Access(ctx)
}

// Access returns the best way to the API.
func (p Place) Access(ctx context.Context) (kube.Access, error) {
	if len(p.API) == 0 {
		return kube.Access{}, p.NoAPI
	}
	return best(ctx, p.API), nil
}

// All returns the hosts, with this one last.
func (p Place) All() []Host {
	if p.Here == nil {
		return p.Hosts
	}
	return append(slices.Clip(p.Hosts), *p.Here)
}

// ControlPlanes returns the hosts that are not known to be workers, without this
// one.
func (p Place) ControlPlanes() []Host {
	return slices.DeleteFunc(slices.Clone(p.Hosts), func(h Host) bool { return h.Worker })
}
