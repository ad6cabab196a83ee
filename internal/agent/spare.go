package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/agent/machineconfig"
	pacemakerstate "github.com/holdfast/holdfast/internal/agent/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/agent/twonode"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// spare says whether the cluster carries on while this host boots, by what the host
// itself sees: the API may be served by a host that has just died.
type spare struct {
	// controlPlanes is their number in the site; zero on a worker, without which the
	// cluster always carries on.
	controlPlanes int
	view          func() state.NetworkView
	now           func() time.Time
	// pacemaker is the report of this host on two control planes, else nil.
	pacemaker func() pacemakerstatus.Report
	// members asks the members of etcd, by their addresses, for what they say of
	// themselves. Who does not answer is not in the result.
	members func(ctx context.Context, addresses map[string]string) map[string]etcd.MemberStatus
	// lead has another member of etcd lead, and reports whether one does; nil where the etcd
	// keeper does that, and on a site of one control plane.
	lead func(ctx context.Context, self string, addresses map[string]string) (bool, error)
	// keeper asks the etcd keeper of this host on two control planes, else nil.
	keeper func(ctx context.Context) (state.EtcdReport, error)
	// halt has the etcd keeper of this host stop etcd, which leaves in order, and unhalt start it
	// again.
	halt, unhalt func(ctx context.Context) error
	// own asks etcd of this host, which has an address, whether it runs, and whether it
	// serves as a voter.
	own func(ctx context.Context, address netip.Addr) (runs, serves state.Fact[bool])
}

// newSpare returns it for a host of a site.
func newSpare(s *site.Site, view func() state.NetworkView, pacemaker *pacemakerstate.Collector) spare {
	members := etcdMembers()
	out := spare{view: view, now: time.Now, members: members.Statuses, own: ownEtcd}
	if s.Role.ControlPlane() {
		out.controlPlanes = s.Topology().ControlPlanes
	}
	if s.Topology().Fencing {
		out.pacemaker = pacemaker.Report
		out.keeper = func(ctx context.Context) (state.EtcdReport, error) {
			return keeperclient.Report(ctx, state.EtcdSocketPath)
		}
		h := twonode.NewHost(io.Discard)
		out.halt, out.unhalt = h.Stop, func(ctx context.Context) error { return startAgain(ctx, records.Files{}, h.Start) }
	} else if out.controlPlanes > 1 {
		out.lead = members.GiveLead
	}
	return out
}

// tell has a host ask it before it boots.
func (s spare) tell(c *machineconfig.Cluster) {
	c.MayBoot, c.Idle, c.GiveLead = s.mayBoot, s.idle, s.giveLead
	if s.keeper != nil && s.controlPlanes == 2 {
		c.MayHalt, c.Halt, c.Unhalt = s.mayHalt, s.halt, s.unhalt
	}
}

// startAgain has etcd started by the parameters that Pacemaker gave the keeper last.
func startAgain(ctx context.Context, files records.Files, start func(context.Context, state.EtcdParameters) error) error {
	p, err := files.Parameters()
	if err == nil && !p.Known {
		err = errors.New("the etcd keeper has no parameters of etcd")
	}
	if err != nil {
		return err
	}
	return start(ctx, p.Value)
}

// keeperLimit bounds the question to the etcd keeper in a shutdown. A disk or a podman that hangs has
// it answer late, and what the host gives up next has some seconds only.
const keeperLimit = 2 * time.Second

// mayHalt returns whether etcd of this host has to be stopped in the place of Pacemaker, and
// the other host goes on.
func (s spare) mayHalt(ctx context.Context) (state.Fact[bool], string) {
	const unseen = "nobody has looked lately"
	p, name := s.pacemaker(), s.view().Host.NodeName
	switch {
	case s.now().Sub(p.At).Abs() > pacemakerstatus.Silence:
		return state.Fact[bool]{}, unseen
	case !rollout.LeftAlone(p.Status, name): // so in most shutdowns nobody waits for the keeper
		return state.Known(false), "Pacemaker stops etcd"
	}
	ctx, stop := context.WithTimeout(ctx, keeperLimit)
	defer stop()
	r, err := s.keeper(ctx)
	switch {
	case err != nil:
		return state.Fact[bool]{}, err.Error()
	case s.now().Sub(r.At).Abs() > pacemakerstatus.Silence:
		return state.Fact[bool]{}, unseen
	case !rollout.PairHalts(p.Status, name, r):
		return state.Known(false), "the other control plane cannot go on without it"
	}
	return state.Known(true), ""
}

// The move of etcd's lead takes some milliseconds. A host that boots does so without it.
const (
	leadLimit = 2 * time.Second
	leadLook  = 50 * time.Millisecond
)

// giveLead has another member of etcd lead before this one ends. Members that lose their
// leader without a word wait for a second or more before they elect another one, and nobody
// can write meanwhile.
func (s spare) giveLead(ctx context.Context) {
	if s.lead == nil {
		return
	}
	ctx, stop := context.WithTimeout(ctx, leadLimit)
	defer stop()
	_, addresses := s.controls()
	_ = etcd.LeadGiven(ctx, leadLook, func(ctx context.Context) (bool, error) {
		return s.lead(ctx, s.view().Host.NodeName, addresses)
	})
}

// etcdMembers returns a way to the members of etcd, with the pair of the operator
// that each control plane keeps.
func etcdMembers() *etcd.Members {
	pair := filepath.Join(render.EtcdFolder, render.EtcdPair)
	return &etcd.Members{Identity: etcd.Identity{CA: filepath.Join(render.EtcdFolder, render.EtcdAuthorities), Cert: pair, Key: pair}}
}

// mayBoot returns the answer, and the reason of one that is not yes.
func (s spare) mayBoot(ctx context.Context) (state.Fact[bool], string) {
	self := s.view().Host.NodeName
	var all map[string]rollout.Spare
	switch {
	case s.controlPlanes < 2:
		return state.Known(true), ""
	case s.pacemaker != nil:
		r := s.pacemaker()
		status := r.Status
		status.LastUpdated = metav1.NewTime(r.At)
		all = rollout.PairSpares(status, s.now())
	default:
		serves, why := s.serves(ctx)
		if why != "" {
			return state.Fact[bool]{}, why
		}
		all = rollout.QuorumSpares(serves)
	}
	own, known := all[self]
	if !known {
		return state.Fact[bool]{}, "nobody says anything of " + self
	}
	return own.Carries, own.Why
}

// idle reports whether this host is known to carry nothing of the cluster, so that a boot
// takes nothing away, whoever is absent. mayBoot does not know that of a host that its
// configuration has cut off the network: it sees nobody who carries on.
func (s spare) idle(ctx context.Context) bool {
	if s.keeper != nil {
		r, err := s.keeper(ctx)
		return err == nil && s.now().Sub(r.At).Abs() <= pacemakerstatus.Silence && rollout.PairIdle(r.Snapshot)
	}
	self, v := netip.Addr{}, s.view()
	for _, n := range v.Nodes.Value {
		if n.Name == v.Host.NodeName && len(n.Addresses) > 0 {
			self = n.Addresses[0]
		}
	}
	if s.controlPlanes < 2 || !self.IsValid() {
		return false
	}
	runs, own := s.own(ctx, self)
	serves, why := s.serves(ctx)
	if why != "" {
		return state.Is(runs, false)
	}
	if own.Known {
		serves[v.Host.NodeName] = own
	}
	return rollout.QuorumIdle(v.Host.NodeName, runs, serves)
}

// ownEtcd asks etcd of this host also where it answers while it waits for a leader.
func ownEtcd(ctx context.Context, address netip.Addr) (runs, serves state.Fact[bool]) {
	c, err := etcd.Open(etcd.Config{ClientURL: etcdpod.LocalURL(address), PeerURL: etcdpod.PeerURL(address)})
	if err != nil {
		return runs, serves
	}
	defer func() { _ = c.Close() }()
	if c.Refused(ctx) {
		return state.Known(false), state.Known(false)
	}
	status, err := c.Status(ctx)
	if err != nil {
		return runs, serves
	}
	return state.Known(true), state.Known(status.Votes())
}

// serves asks each control plane whether its etcd serves as a voter.
func (s spare) serves(ctx context.Context) (map[string]state.Fact[bool], string) {
	named, addresses := s.controls()
	if len(named) < s.controlPlanes {
		return nil, fmt.Sprintf("of %d control planes it knows %d: %s", s.controlPlanes, len(named), strings.Join(named, ", "))
	}
	out := map[string]state.Fact[bool]{}
	for _, name := range named {
		out[name] = state.Fact[bool]{}
	}
	for name, member := range s.members(ctx, addresses) {
		out[name] = state.Known(member.Votes())
	}
	return out, ""
}

// controls returns the names of the control planes that the view knows, and their addresses.
func (s spare) controls() (named []string, addresses map[string]string) {
	addresses = map[string]string{}
	for _, n := range s.view().Nodes.Value {
		if !n.ControlPlane() {
			continue
		}
		named = append(named, n.Name)
		if len(n.Addresses) > 0 {
			addresses[n.Name] = n.Addresses[0].String()
		}
	}
	return named, addresses
}
