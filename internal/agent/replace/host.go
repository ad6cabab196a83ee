package replace

import (
	"bytes"
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
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/agent/twonode"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/decide/removal"
	"github.com/holdfast/holdfast/internal/decide/replace"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/explain"
)

// Options has what the agent knows of its host.
type Options struct {
	// Host is the name of the host, and Cluster the name from which the key of the two hosts
	// is made. ControlPlanes is the number that the site has for its life.
	Host, Cluster string
	ControlPlanes int
	// JoinKey is the site's own key of join secrets, which counts until another one was made.
	JoinKey []byte
	// Address returns this host's own address, empty while it is unknown. Manifest renders
	// etcd's manifest for one of two hosts. Only a site that grows or shrinks needs them.
	Address  func() string
	Manifest func(nodes []decide.Node, self string) ([]byte, error)
	// Pod renders the file from which kubelet runs the only etcd. Dress gives the cluster's
	// objects and this host what those of one control plane have, and starts the agent anew. Only
	// a site that shrinks needs them.
	Pod   func(self decide.Node) ([]byte, error)
	Dress func(context.Context) error
	// Hosts are the names of hosts in the configuration of the site that the agent was started
	// with, and NamedIn reports whether that configuration names the new host of a plan. Name
	// writes one that does, on this host and in the cluster, and starts the agent anew.
	Hosts   []string
	NamedIn func(replace.Plan) bool
	Name    func(ctx context.Context, plan replace.Plan, dev state.FencingDevice) error
	// Backup returns the time of the newest good backup. It may be nil: then that is unknown.
	Backup func(context.Context) state.Fact[time.Time]
	Log    *log.Logger
}

// here is this host, with functions that a test replaces.
type here struct {
	Options
	root   string
	files  records.Files
	store  fence.Store
	run    func(context.Context, host.Cmd) ([]byte, error)
	report func(context.Context) (state.EtcdReport, error)
	status func(context.Context) (pacemaker.Status, error)
	power  func(ctx context.Context, target string) (string, error)
	test   func(context.Context, state.FencingDevice) fence.Report
	off    func(ctx context.Context, target string) error
	own    func() (state.Machine, error)
	dial   func(ctx context.Context, address string) error
	open   func() (API, error)
	member func(context.Context) (etcd.MemberStatus, error)
	podman func(context.Context) (podman.Process, error)
	fences func(ctx context.Context, in decide.Input, drop []string) error
	now    func() time.Time

	watch watch
}

// ThisHost returns the World of this host.
func ThisHost(o Options) World { return thisHost(o).world() }

func thisHost(o Options) *here {
	return &here{
		Options: o, store: fence.NewStore(), run: host.Run, status: pacemaker.ReadStatus, power: fence.Power, test: carry.NewTested(fence.TestDevice, time.Now).Device, off: switchOff, now: time.Now,
		report: func(ctx context.Context) (state.EtcdReport, error) { return explain.Ask(ctx, state.EtcdSocketPath) },
		own: func() (state.Machine, error) {
			uuid, serial, err := fence.OwnIdentity()
			return state.Machine{UUID: uuid, Serial: serial}, err
		},
		dial: dial, open: openAPI, member: ownMember, podman: podman.State,
		fences: func(ctx context.Context, in decide.Input, drop []string) error {
			return twonode.NewHost(o.Log.Writer()).Fences(ctx, in, drop)
		},
	}
}

func openAPI() (API, error) {
	c, err := carry.Administrator()
	if err != nil {
		return nil, err
	}
	return client{c}, nil
}

// client adapts the API client to a replacement.
type client struct{ *kube.Client }

// Facts returns the facts that a Node has about its host. It is no error if there is no Node.
func (c client) Facts(ctx context.Context, name string) (NodeFacts, error) {
	n, err := c.Node(ctx, name)
	if err != nil || n == nil {
		return NodeFacts{}, err
	}
	is := kube.NodeOf(n)
	out := NodeFacts{Node: replace.Node{There: true, UID: string(n.UID), Ready: is.Ready}, MachineID: n.Status.NodeInfo.MachineID}
	out.Machine, _ = state.ParseMachine(is.Annotations[state.AnnotationMachine])
	if len(is.Addresses) > 0 {
		out.Address = is.Addresses[0].String()
	}
	return out, nil
}

// Said returns what the agent of a host says of an upgrade. A host that says nothing has no way
// that could be known.
func (c client) Said(ctx context.Context, name string) (annotation.Host, error) {
	n, err := c.Node(ctx, name)
	if err != nil {
		return annotation.Host{}, err
	}
	if n == nil || n.Annotations[annotation.HostOf] == "" {
		return annotation.Host{}, fmt.Errorf("node %s says nothing of its release", name)
	}
	return annotation.Decode[annotation.Host](n.Annotations[annotation.HostOf])
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

// Conditions returns what the operator says of the set-up of the two hosts.
func (c client) Conditions(ctx context.Context) ([]handover.Condition, error) {
	e, err := c.Etcd(ctx)
	if err != nil || e == nil {
		return nil, err
	}
	var out []handover.Condition
	for _, is := range e.Status.Conditions {
		out = append(out, handover.Of(is))
	}
	return out, nil
}

// switchOff cuts the power of a host as a fence does, and leaves it off.
func switchOff(ctx context.Context, target string) error {
	var errs bytes.Buffer
	if fence.Run(ctx, command.Streams{In: strings.NewReader(""), Out: io.Discard, Err: &errs}, []string{"--action=off", "--plug=" + target}) == 0 {
		return nil
	}
	return errors.New(strings.TrimSpace(errs.String()))
}

// dialTime bounds one try to reach the old host.
const dialTime = time.Second

func dial(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = c.Close()
	}
	return err
}

// plans returns the store of the replacement's files.
func (h *here) plans() replacement.Store { return replacement.Store{Root: h.root} }

func (h *here) path(p string) string { return filepath.Join("/", h.root, p) }

// look gathers the facts about this host, the old one and the newcomer. It reads the power of
// the old host last, because that must be fresh.
func (h *here) look(ctx context.Context, job Job) replace.Facts {
	f := replace.Facts{Host: h.Host, ControlPlanes: h.ControlPlanes}
	h.keeper(ctx, &f)
	h.newcomer(ctx, &f, job)
	h.disk(ctx, &f, job) // it compares the device with the newcomer
	// Later that costs minutes while the API is away, in which etcd would wait for kubelet.
	if job.Plan == nil || job.Plan.Stage != replace.Narrowing {
		h.cluster(ctx, &f, job)
	}
	h.old(ctx, &f, job)
	f.Now = h.now()
	return f
}

func (h *here) keeper(ctx context.Context, f *replace.Facts) {
	r, err := h.report(ctx)
	s := r.Snapshot
	if err != nil || s.Peer == "" {
		h.keeperless(ctx, f)
		return
	}
	f.Peer, f.Contact = s.Peer, s.Pacemaker.Contact
	f.Record = state.Fact[state.EtcdState]{Known: s.Record.Known, Value: s.Record.Value.State}
	f.Asked = state.Known(r.Wish == state.EtcdStarted)
	if s.Local.Running.Known {
		f.Serves = state.Known(s.Local.Running.Value && s.Local.Leader.Known && s.Local.Leader.Value != 0)
	}
	f.StandIn = state.Fact[bool]{Known: s.Local.StandIn.Known, Value: s.Local.StandIn.Value != 0}
	if s.Local.Members.Known {
		count(f, s.Local.Members.Value)
	}
}

func count(f *replace.Facts, members []state.EtcdMember) {
	voters, learner := carry.Members(members)
	f.Voters, f.Learner = state.Known(voters), state.Known(learner.ID)
}

// disk reads this host's own files, and asks Pacemaker.
func (h *here) disk(ctx context.Context, f *replace.Facts, job Job) {
	if conf, err := h.conf(); err == nil {
		var names []string
		if !decide.CorosyncOf(conf).Example() {
			for _, n := range conf.Nodes {
				names = append(names, n.Name)
				if job.Plan != nil && n.Name == job.Plan.Old.Name {
					f.Number = n.Number
				}
			}
		}
		f.Ring = state.Known(names)
	} else if errors.Is(err, fs.ErrNotExist) {
		f.Ring = state.Known[[]string](nil)
	}
	if s, err := h.status(ctx); err == nil {
		f.Known = state.Known(s.Nodes)
	}
	if key, err := os.ReadFile(h.path(twonode.CorosyncKey)); err == nil && job.Secrets.Token != "" {
		f.Key = state.Known(bytes.Equal(key, h.key(job.Secrets.Token)))
	}
	if r, err := h.files.Retired(); err == nil {
		f.Retirement = state.Known(r.Known)
		f.Misnamed = r.Known && h.peer(r.Value.Peer) != r.Value.Peer
	}
	h.grows(ctx, f, job)
	h.shrinks(ctx, f, job)
	f.Room = carry.Fact(etcd.Room(h.root))
	_, err := release.Current(h.path(""))
	f.Ships = state.Known(err == nil)
	if job.Plan != nil && !job.Plan.Shrinks {
		h.fencing(ctx, f, job)
		h.named(f, *job.Plan)
	}
}

func (h *here) conf() (corosync.Conf, error) {
	text, err := os.ReadFile(h.path(corosync.Path))
	if err != nil {
		return corosync.Conf{}, err
	}
	return corosync.Parse(text)
}

// key returns Corosync's key, which is made from a token.
func (h *here) key(token string) []byte {
	return decide.CorosyncKey(decide.Input{Cluster: h.Cluster, Token: token})
}

// fencing looks for the new host's device in its file and in Pacemaker.
func (h *here) fencing(ctx context.Context, f *replace.Facts, job Job) {
	p := job.Plan
	dev, err := h.files.Device(p.New.Name)
	switch {
	case err == nil:
		f.Device = state.Known(dev.Address == p.New.BMC && dev.UUID == f.Asks.Machine.UUID && dev.Serial == f.Asks.Machine.Serial)
	case errors.Is(err, fs.ErrNotExist):
		f.Device = state.Known(false)
	}
	text, err := h.run(ctx, pacemaker.Configuration())
	if err != nil {
		return
	}
	cib, err := decide.ParseCIB(text)
	if err != nil {
		return
	}
	want := decide.Wanted(h.input(job))
	if p.Grows && p.Stage != replace.Joining {
		want = decide.Alone(h.two(job))
	}
	steps, err := decide.Steps(cib, want)
	f.Fences = state.Fact[bool]{Known: err == nil, Value: len(steps) == 0 && len(h.strange(cib, p)) == 0}
}

// strange returns our resources of Pacemaker that are only about the old host.
func (h *here) strange(cib decide.Config, p *replace.Plan) (out []string) {
	for _, r := range cib.Resources {
		if p.Old.Name != "" && p.Old.Name != p.New.Name && r.ID == decide.DeviceOf(p.Old.Name) {
			out = append(out, r.ID)
		}
	}
	return out
}

// address returns the address of a host in corosync.conf, empty if it has none there.
func (h *here) address(name string) string {
	conf, err := h.conf()
	if err != nil {
		return ""
	}
	for _, n := range conf.Nodes {
		if n.Name == name && len(n.Addresses) > 0 {
			return n.Addresses[0]
		}
	}
	return ""
}

// input is the set-up of this host and the newcomer.
func (h *here) input(job Job) decide.Input {
	in := decide.Input{Cluster: h.Cluster, Self: h.Host, Token: job.Secrets.Token}
	if own := h.address(h.Host); own != "" {
		in.Nodes = append(in.Nodes, decide.Node{Name: h.Host, Address: own})
	}
	in.Nodes = append(in.Nodes, decide.Node{Name: job.Plan.New.Name, Address: job.Plan.Newcomer.Address})
	return in
}
