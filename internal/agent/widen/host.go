package widen

import (
	"context"
	"io"
	"log"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/adapter/probe"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/agent/twonode"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/install/readdress"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/explain"
)

// Options has what the agent knows of its host.
type Options struct {
	// Host is the name of the host. ControlPlanes is the number of control planes in the site.json
	// with which the agent was started.
	Host          string
	ControlPlanes int
	// Target returns an error if the site of three cannot be made of what this host has.
	Target func() error
	// Pod renders the file from which kubelet runs etcd of one of several members.
	Pod func(self string, members []decide.Node) ([]byte, error)
	// Dress gives this host the files of one of three and, on the host that carries the plan, the
	// cluster the objects. It starts the agent anew.
	Dress func(ctx context.Context, plan widen.Plan) error
	// Backup returns the time of the newest good backup.
	Backup func(context.Context) state.Fact[time.Time]
	Log    *log.Logger
}

// API is the part of the cluster's API that the plan needs.
type API interface {
	carry.LockAPI
	readdress.Places
	ConfigMap(ctx context.Context, namespace, name string) (map[string]string, error)
	Nodes(ctx context.Context) ([]state.Node, error)
	Retired(ctx context.Context, name string) (retired.List, error)
	Retire(ctx context.Context, h retired.Host) error
	GiveAgain(ctx context.Context, name string, now time.Time) error
	DeletePodsOn(ctx context.Context, node string) error
	DeleteNode(ctx context.Context, name, uid string) error
	NodeOf(ctx context.Context, name string) (Node, error)
}

// Node is what the API has of a host.
type Node struct {
	There, Ready   bool
	UID, MachineID string
}

// Etcd is the etcd of this host.
type Etcd interface {
	Status(ctx context.Context) (etcd.MemberStatus, error)
	AddLearner(ctx context.Context, peerURL string) (state.MemberID, error)
	RemoveMember(ctx context.Context, id state.MemberID) error
	MoveLeader(ctx context.Context, to state.MemberID) error
	io.Closer
}

// here is this host, with functions that a test replaces.
type here struct {
	Options
	root   string
	files  records.Files
	run    func(context.Context, host.Cmd) ([]byte, error)
	report func(context.Context) (state.EtcdReport, error)
	boot   func() (string, error)
	open   func() (API, error)
	etcd   func() (Etcd, error)
	// applied asks an etcd which member it is, and up to which entry it has applied the log.
	applied func(ctx context.Context, clientURL string) (state.MemberID, uint64, error)
	// statuses asks the etcds at several addresses, by name.
	statuses func(ctx context.Context, addresses map[string]string) map[string]etcd.MemberStatus
	// silentSince is when the third member was first seen not to serve, zero while it does.
	silentSince time.Time
	serves      func(ctx context.Context, address string) state.Fact[bool]
	podman      func(context.Context) (podman.Process, error)
	halt        func(context.Context) error
	now         func() time.Time
}

// ThisHost returns the World of this host.
func ThisHost(o Options) World { return thisHost(o).world() }

func thisHost(o Options) *here {
	h := &here{
		Options: o, run: host.Run, now: time.Now, podman: podman.State, open: openAPI, applied: etcd.Applied,
		report:   func(ctx context.Context) (state.EtcdReport, error) { return explain.Ask(ctx, state.EtcdSocketPath) },
		boot:     func() (string, error) { id, _, err := observe.Boot(); return id, err },
		statuses: (&etcd.Members{}).Statuses,
		serves: func(ctx context.Context, address string) state.Fact[bool] {
			return probe.Serves(ctx, net.JoinHostPort(address, strconv.Itoa(site.APIPort)), state.KubernetesCA)
		},
	}
	h.etcd = h.openEtcd
	h.halt = func(ctx context.Context) error { return h.steps().HaltEtcd(ctx) }
	return h
}

func openAPI() (API, error) {
	c, err := carry.Administrator()
	if err != nil {
		return nil, err
	}
	return client{c}, nil
}

type client struct{ *kube.Client }

// NodeOf returns what the API has of a host. It is no error if it has nothing.
func (c client) NodeOf(ctx context.Context, name string) (Node, error) {
	n, err := c.Node(ctx, name)
	if err != nil || n == nil {
		return Node{}, err
	}
	return Node{There: true, Ready: kube.NodeOf(n).Ready, UID: string(n.UID), MachineID: n.Status.NodeInfo.MachineID}, nil
}

// openEtcd opens the etcd of this host.
func (h *here) openEtcd() (Etcd, error) { return carry.OpenEtcd(h.files, h.Host) }

// ownStatus asks the etcd of this host.
func (h *here) ownStatus(ctx context.Context) (etcd.MemberStatus, error) {
	return carry.EtcdStatus(ctx, h.etcd)
}

// steps returns the steps of a host of two, on this host.
func (h *here) steps() *twonode.Host {
	steps := twonode.NewHost(h.Log.Writer())
	steps.Root, steps.Run, steps.Report, steps.Container = h.root, h.run, h.report, h.podman
	return steps
}

func (h *here) plans() replacement.Store { return replacement.Store{Root: h.root} }

func (h *here) path(p string) string { return filepath.Join("/", h.root, p) }
