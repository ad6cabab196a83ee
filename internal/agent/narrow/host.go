package narrow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/probe"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/agent/twonode"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/decide/removal"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/install/readdress"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/explain"
)

// Options has what the agent knows of its host. A target is the site of two with the accounts of BMCs.
type Options struct {
	// Host is the name of the host, and Cluster the name from which the key of the two hosts is made.
	// ControlPlanes is the number of control planes in the site.json with which the agent was started.
	Host, Cluster string
	ControlPlanes int
	// Own returns this host's site.json.
	Own func() (*site.Site, error)
	// Manifest renders etcd's manifest for one of two hosts.
	Manifest func(nodes []decide.Node, self string) ([]byte, error)
	// Possible returns why the cluster's objects cannot become those of a target.
	Possible func(target *site.Site) error
	// Equip gives this host the packages, files and units of one of two, Strip takes them away.
	Equip, Strip func(ctx context.Context, target *site.Site) error
	// Dress gives the cluster, on the host that carries the plan, and this host what those of two have,
	// site.json last. Undress gives both what those of three have.
	Dress, Undress func(ctx context.Context, plan narrow.Plan, target *site.Site) error
	// Restart starts the agent anew. It returns when this process is to end.
	Restart func(context.Context) error
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
	Secret(ctx context.Context, namespace, name string) (map[string][]byte, error)
	PutSecret(ctx context.Context, namespace, name string, data map[string][]byte) error
	DeleteSecret(ctx context.Context, namespace, name string) error
	Retired(ctx context.Context, name string) (retired.List, error)
	Retire(ctx context.Context, h retired.Host) error
	DeletePodsOn(ctx context.Context, node string) error
	DeleteNode(ctx context.Context, name, uid string) error
	NodeOf(ctx context.Context, name string) (Node, error)
	VolumesOf(ctx context.Context, name string) ([]string, error)
}

// Node is what the API has of a host.
type Node struct {
	There          bool
	UID, MachineID string
	Machine        state.Machine
	Address        string
	// Leaves is true if the host is to be emptied, Empty if it is.
	Leaves, Empty bool
}

// Etcd is the etcd of this host.
type Etcd interface {
	Status(ctx context.Context) (etcd.MemberStatus, error)
	PeerURLs(ctx context.Context) (self state.MemberID, at map[state.MemberID][]string, err error)
	RemoveMember(ctx context.Context, id state.MemberID) error
	io.Closer
}

// here is this host, with functions that a test replaces.
type here struct {
	Options
	root   string
	files  records.Files
	store  replacement.Store
	steps  func() *twonode.Host
	run    func(context.Context, host.Cmd) ([]byte, error)
	report func(context.Context) (state.EtcdReport, error)
	boot   func() (string, error)
	open   func() (API, error)
	etcd   func() (Etcd, error)
	// statuses asks the etcds at several addresses, by name. lead moves the lead from the one of a name
	// to another one, and reports whether another one has it.
	statuses func(ctx context.Context, addresses map[string]string) map[string]etcd.MemberStatus
	lead     func(ctx context.Context, of string, addresses map[string]string) (bool, error)
	serves   func(ctx context.Context, address string) state.Fact[bool]
	test     func(context.Context, state.FencingDevice) fence.Report
	token    func() string
	now      func() time.Time

	// quiet has the silences of the other hosts, by name, only used by the loop.
	quiet map[string]silence
}

// ThisHost returns the World of this host.
func ThisHost(o Options) World { return thisHost(o).world() }

func thisHost(o Options) *here {
	all := &etcd.Members{}
	h := &here{
		Options: o, store: replacement.ThisStore(), run: host.Run, now: time.Now, open: openAPI, statuses: all.Statuses, lead: all.GiveLead, token: newToken,
		steps:  func() *twonode.Host { return twonode.NewHost(o.Log.Writer()) },
		report: func(ctx context.Context) (state.EtcdReport, error) { return explain.Ask(ctx, state.EtcdSocketPath) },
		boot:   func() (string, error) { id, _, err := observe.Boot(); return id, err },
		serves: func(ctx context.Context, address string) state.Fact[bool] {
			return probe.Serves(ctx, net.JoinHostPort(address, strconv.Itoa(site.APIPort)), state.KubernetesCA)
		},
		test: carry.NewTested(fence.TestDevice, time.Now).Device,
	}
	h.etcd = h.openEtcd
	return h
}

func openAPI() (API, error) {
	c, err := carry.Administrator()
	if err != nil {
		return nil, err
	}
	return client{c}, nil
}

// client adapts the API client to a plan.
type client struct{ *kube.Client }

// NodeOf returns what the API has of a host. It is no error if it has nothing.
func (c client) NodeOf(ctx context.Context, name string) (Node, error) {
	n, err := c.Node(ctx, name)
	if err != nil || n == nil {
		return Node{}, err
	}
	is := kube.NodeOf(n)
	out := Node{
		There: true, UID: string(n.UID), MachineID: n.Status.NodeInfo.MachineID, Leaves: n.Annotations[drain.Wanted] != "", Empty: drain.HasWanted(n.Annotations) && n.Spec.Unschedulable,
	}
	out.Machine, _ = state.ParseMachine(n.Annotations[state.AnnotationMachine])
	if len(is.Addresses) > 0 {
		out.Address = is.Addresses[0].String()
	}
	return out, nil
}

// VolumesOf returns the volumes whose data lie on one host alone, by name, sorted.
func (c client) VolumesOf(ctx context.Context, name string) ([]string, error) {
	volumes, err := c.Volumes(ctx)
	var out []string
	for i := range volumes {
		if removal.OnlyOn(&volumes[i], name) {
			out = append(out, volumes[i].Name)
		}
	}
	slices.Sort(out)
	return out, err
}

// openEtcd opens the etcd of this host.
func (h *here) openEtcd() (Etcd, error) { return carry.OpenEtcd(h.files, h.Host) }

// ownStatus asks the etcd of this host.
func (h *here) ownStatus(ctx context.Context) (etcd.MemberStatus, error) {
	return carry.EtcdStatus(ctx, h.etcd)
}

// in opens the cluster and calls do with it.
func (h *here) in(do func(API) error) error { return carry.In(h.open, do) }

func (h *here) path(p string) string { return filepath.Join("/", h.root, p) }

// listed returns the two hosts as Corosync's file lists them, nil if it lists others or none.
func (h *here) listed(hosts ...string) []decide.Node {
	text, err := os.ReadFile(h.path(corosync.Path))
	if err != nil {
		return nil
	}
	conf, err := corosync.Parse(text)
	if err != nil {
		return nil
	}
	var out []decide.Node
	for _, n := range conf.Nodes {
		if slices.Contains(hosts, n.Name) && len(n.Addresses) > 0 {
			out = append(out, decide.Node{Name: n.Name, Address: n.Addresses[0]})
		}
	}
	if len(out) != len(hosts) || len(conf.Nodes) != len(hosts) {
		return nil
	}
	return out
}

// nodes returns the two hosts that stay, sorted by name: as Corosync lists them, which needs no API, and
// else as the cluster does.
func (h *here) nodes(ctx context.Context, p narrow.Plan) ([]decide.Node, error) {
	hosts := []string{p.Survivor, p.Peer}
	slices.Sort(hosts)
	if known := h.listed(hosts...); known != nil {
		return known, nil
	}
	var out []decide.Node
	err := h.in(func(api API) error {
		for _, name := range hosts {
			n, err := api.NodeOf(ctx, name)
			if err != nil {
				return err
			}
			if n.Address == "" {
				return fmt.Errorf("the address of %s is not known", name)
			}
			out = append(out, decide.Node{Name: name, Address: n.Address})
		}
		return nil
	})
	return out, err
}

// input returns the set-up of the two hosts, without secrets.
func (h *here) input(ctx context.Context, p narrow.Plan) (decide.Input, error) {
	nodes, err := h.nodes(ctx, p)
	return decide.Input{Cluster: h.Cluster, Self: h.Host, Nodes: nodes}, err
}

// target returns the site of two that is written down on this host.
func (h *here) target() (*replacement.NarrowTarget, error) {
	t, err := h.store.NarrowTarget()
	if err == nil && t == nil {
		err = fmt.Errorf("%s: %w", replacement.NarrowTargetPath, fs.ErrNotExist)
	}
	return t, err
}

var errNow = errors.New("one of the other members of etcd does not serve in this moment")

// online reports whether hosts take part in Pacemaker.
func online(s pacemaker.Status, hosts ...string) bool {
	return !slices.ContainsFunc(hosts, func(name string) bool { return !slices.Contains(s.Online, name) })
}
