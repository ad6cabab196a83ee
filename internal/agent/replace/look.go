package replace

import (
	"cmp"
	"context"
	"errors"
	"net"
	"runtime"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/decide/installation"
	"github.com/holdfast/holdfast/internal/decide/removal"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/install/readdress"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// newcomer reads who asked to enter, and tests the BMC of the new host. It tests it first against
// this host's own identity, which no other machine may have.
func (h *here) newcomer(ctx context.Context, f *replace.Facts, job Job) {
	// A request from before the plan is that of an earlier plan's newcomer.
	if r, err := h.plans().Request(); err == nil && r != nil && job.Plan != nil && !r.At.Before(job.Plan.Begun) {
		f.Asks, f.AskedAt = replace.Newcomer{Machine: r.Machine, Address: r.Address}, r.At
		f.Arch = state.Known(r.Arch == runtime.GOARCH)
	}
	if job.Order == nil || job.Order.Wish.Shrinks || job.begun() && f.Asks == (replace.Newcomer{}) {
		return
	}
	own, err := h.own()
	if err != nil {
		return
	}
	dev := job.Order.Device
	dev.UUID, dev.Serial, dev.SystemID = own.UUID, own.Serial, "" // what a person named says nothing of this host
	switch r := h.test(ctx, dev); r.Identity {
	case fence.IdentityDiffers:
		f.Reached, f.Ours = state.Known(true), state.Known(false)
	case fence.IdentityMatches:
		f.Reached, f.Ours = state.Known(true), state.Known(true)
	case fence.IdentityUnknown, fence.IdentityNamed:
		f.Reached = state.Known(false)
	}
	if f.Asks == (replace.Newcomer{}) {
		return
	}
	dev.UUID, dev.Serial, dev.SystemID = f.Asks.Machine.UUID, f.Asks.Machine.Serial, job.Order.Device.SystemID
	switch r := h.test(ctx, dev); {
	case r.Err() == nil:
		f.Matches = state.Known(true)
	case r.Identity == fence.IdentityDiffers:
		f.Matches = state.Known(false)
	}
}

// ports are the ports at which a control plane answers: kubelet, the API server, etcd.
var ports = []string{"10250", "6443", "2380"}

// old looks at the lost host: whether it answers, its power, and its Lease. It looks at nothing
// once the device of its name here is the newcomer's.
func (h *here) old(ctx context.Context, f *replace.Facts, job Job) {
	wish, name := "", ""
	switch {
	case job.Plan != nil && !job.Plan.Stage.Over():
		if p := job.Plan; p.Stage == replace.Joining || p.Stage == replace.Narrowing || yes(f.Device) && p.Displaces(f.Asks.Machine) {
			return // the device is the newcomer's by now, or nobody's
		}
		wish, name = job.Plan.ID, job.Plan.Old.Name
		f.OldAddress, f.OldMachine = job.Plan.Old.Address, job.Plan.Old.Machine
	case job.Order != nil:
		wish, name = job.Order.Wish.ID, job.Order.Wish.Old
	}
	if name == "" {
		return // the site grows
	}
	if f.OldAddress != "" {
		f.Answers = h.answers(ctx, f.OldAddress)
	}
	f.PowerAt = h.now()
	power, err := h.power(ctx, name)
	if err != nil {
		f.Unread = cmp.Or(redfish.ReasonOf(err), bmc.Unexplained)
		if f.Silent = replace.Silence(f.Unread) && ctx.Err() == nil; f.Silent {
			f.PowerAt = h.now() // it gave no answer until now
			h.lease(ctx, f, wish, name)
		}
		return
	}
	f.Power = state.Known(power)
	h.lease(ctx, f, wish, name)
}

func yes(f state.Fact[bool]) bool { return state.Is(f, true) }

// answers tries each port once. A port that refuses the connection also shows a running host.
func (h *here) answers(ctx context.Context, address string) state.Fact[bool] {
	for _, port := range ports {
		err := h.dial(ctx, net.JoinHostPort(address, port))
		if err == nil || errors.Is(err, syscall.ECONNREFUSED) {
			return state.Known(true)
		}
	}
	return state.Fact[bool]{Known: ctx.Err() == nil}
}

// leaseTime is how long an unchanged Lease must have been watched. kubelets renew theirs
// several times in that time.
const leaseTime = 20 * time.Second

// watch is what was read of a Lease for one wish: what came before says nothing of a host that ran
// since then, or of another one.
type watch struct {
	wish, host string
	// seen is the time in the host's Lease when its BMC was first read as Off or was silent, which
	// was at since.
	seen, since time.Time
}

// lease compares the old host's Lease with the one that was read when the host was first seen off
// or silent. Only a change counts, because the time in the Lease is of the old host's clock.
func (h *here) lease(ctx context.Context, f *replace.Facts, wish, name string) {
	if h.watch.wish != wish || h.watch.host != name {
		h.watch = watch{wish: wish, host: name}
	}
	if f.Power.Known && f.Power.Value != state.PowerOff {
		f.Alive, h.watch.since = state.Known(false), time.Time{} // the plan switches it off first
		return
	}
	api, err := h.open()
	if err != nil {
		return
	}
	last, err := api.NodeLastSeen(ctx, name)
	if err != nil {
		return
	}
	if h.watch.since.IsZero() {
		h.watch.seen, h.watch.since = last, h.now()
	}
	// The Lease is deleted after its Node: that is no sign of life.
	if changed := !last.IsZero() && !last.Equal(h.watch.seen); changed || h.now().Sub(h.watch.since) > leaseTime {
		f.Alive = state.Known(changed)
	}
}

// The names of the objects in the cluster, and of their keys.
const (
	system    = replace.LockNamespace
	lockName  = replace.LockName
	lockKey   = replace.LockKey
	lockCopy  = replace.LockCopy
	etcdSpace = "openshift-etcd"
	tokenName = "pacemaker-auth"
	tokenKey  = "token"
)

// API is the part of the cluster's API that a replacement needs.
type API interface {
	readdress.Places
	ConfigMap(ctx context.Context, namespace, name string) (map[string]string, error)
	Nodes(ctx context.Context) ([]state.Node, error)
	Secret(ctx context.Context, namespace, name string) (map[string][]byte, error)
	PutSecret(ctx context.Context, namespace, name string, data map[string][]byte) error
	DeleteSecret(ctx context.Context, namespace, name string) error
	Retired(ctx context.Context, name string) (retired.List, error)
	Retire(ctx context.Context, h retired.Host) error
	Lock(ctx context.Context, namespace, name string, data map[string]string) error
	SetLocked(ctx context.Context, namespace, name, key, value string, data map[string]string) error
	Unlock(ctx context.Context, namespace, name, key, value string) error
	PodsOn(ctx context.Context, node string) ([]corev1.Pod, error)
	DeletePodsOn(ctx context.Context, node string) error
	DeleteNode(ctx context.Context, name, uid string) error
	VolumesOf(ctx context.Context, node string) ([]string, error)
	NodeLastSeen(ctx context.Context, node string) (time.Time, error)
	Facts(ctx context.Context, node string) (NodeFacts, error)
	// Said returns what the agent of a host says of an upgrade.
	Said(ctx context.Context, node string) (annotation.Host, error)
	Conditions(ctx context.Context) ([]handover.Condition, error)
}

// NodeFacts has the facts that a Node shows about its host.
type NodeFacts struct {
	replace.Node
	Address string
	Machine state.Machine
	// MachineID is the machine id of the operating system.
	MachineID string
}

// cluster reads the facts from the API. A fact that it does not have stays unknown.
func (h *here) cluster(ctx context.Context, f *replace.Facts, job Job) {
	api, err := h.open()
	if err != nil {
		return
	}
	lock, err := api.ConfigMap(ctx, system, lockName)
	f.Lock, f.Copied, f.InForce = carry.Fact(lock[lockKey], err), replace.StageOf(lock), replace.InForce(lock)
	f.Moves = readdress.Keeps(ctx, api)
	name, next := names(job)
	if name != "" {
		h.oldInAPI(ctx, f, api, name, job.Plan)
	}
	record, err := api.ConfigMap(ctx, annotation.RecordNamespace, annotation.RecordName)
	text := carry.Fact(record[annotation.RecordKey], err)
	f.Work = carry.Work(ctx, api, text, name)
	said, wrong := api.Said(ctx, f.Host)
	f.Upgrade = carry.Fact(hold.OfLost(text, carry.Fact(said, wrong)), err)
	if h.Backup != nil {
		f.Backup = h.Backup(ctx)
	}
	h.refused(ctx, f, api, job)
	h.taken(ctx, f, api, job)
	if job.Plan == nil {
		return
	}
	h.secrets(ctx, f, api, job, next)
	if name != "" {
		graves, err := api.Retired(ctx, name)
		grave, there := graves.Of(name)
		f.Tombstone = carry.Fact(there && grave.UID == job.Plan.Old.UID, err)
		f.Given = carry.Fact(there && !grave.Open(), err)
		bound(ctx, f, api, name, grave.When)
	}
	if job.Plan.Grows {
		graves, err := api.Retired(ctx, next)
		grave, there := graves.Of(next)
		f.Given = carry.Fact(!there || !grave.Open(), err)
	}
	conditions, err := api.Conditions(ctx)
	// The tests of both BMCs are among its Jobs: the new token made all of them begin anew.
	f.Verified = carry.Fact(installation.OfTwoNode(conditions).Done, err)
}

// bound reads the pods that are bound to the old name. Without the tombstone of the old host each of them
// may be one of that host.
func bound(ctx context.Context, f *replace.Facts, api API, name string, out time.Time) {
	if !state.Is(f.Tombstone, true) {
		out = time.Time{}
	}
	pods, err := api.PodsOn(ctx, name)
	hold, others := removal.Bound(pods, out)
	f.Pods, f.Bound = carry.Fact(len(hold), err), others
}

// oldInAPI reads what the API has of the old host.
func (h *here) oldInAPI(ctx context.Context, f *replace.Facts, api API, name string, plan *replace.Plan) {
	node, err := api.Facts(ctx, name)
	f.OldNode, f.OldAddress, f.OldMachine = carry.Fact(node.Node, err), node.Address, node.Machine
	h.remember(f, name, plan)
	volumes, err := api.VolumesOf(ctx, name)
	f.Volumes = carry.Fact(volumes, err)
}

// remember fills in what this host knows about the old one, if the Node does not show it. A newcomer that
// was lost before it was listed may be known by the last plan alone.
func (h *here) remember(f *replace.Facts, name string, plan *replace.Plan) {
	if f.OldAddress == "" {
		f.OldAddress = h.address(name)
	}
	if dev, err := h.files.Device(name); err == nil && f.OldMachine == (state.Machine{}) {
		f.OldMachine = state.Machine{UUID: dev.UUID, Serial: dev.Serial}
	}
	if plan != nil && plan.Lost(name) {
		f.OldAddress = cmp.Or(f.OldAddress, plan.Newcomer.Address)
		if f.OldMachine == (state.Machine{}) {
			f.OldMachine = plan.Newcomer.Machine
		}
	}
}

// begun reports whether a plan is under way that can no longer be taken back. One that is over
// says nothing of the next.
func (j Job) begun() bool {
	return j.Plan != nil && !j.Plan.Stage.Over() && j.Plan.Stage != replace.Planned
}

func names(job Job) (old, next string) {
	if job.Plan != nil && !job.Plan.Stage.Over() {
		return job.Plan.Old.Name, job.Plan.New.Name
	}
	if job.Order != nil {
		return job.Order.Wish.Old, job.Order.Wish.New.Name
	}
	return "", ""
}
