package narrow

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/decide/replace"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/install/readdress"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/state"
)

// subject is what a look is about: the plan, or the wish for one. members are those that etcd of this host
// lists, nil if it does not answer.
type subject struct {
	plan    narrow.Plan
	third   state.MemberID
	old     replace.Old
	peer    string
	members []state.EtcdMember
}

// about returns what a look is about. Without a plan the other host that stays is the one that etcd lists
// besides this one and the one that goes.
func (h *here) about(job Job, members []state.EtcdMember) subject {
	var s subject
	switch {
	case job.Plan != nil && !job.Plan.Stage.Over(), job.Plan != nil && job.Wish == nil:
		s.plan = *job.Plan
	case job.Wish != nil:
		s.plan = narrow.Plan{Survivor: h.Host, Old: job.Wish.Old, Third: job.Wish.Third, Accepts: job.Wish.Accepts}
		var others []string
		for _, m := range members {
			if !m.Learner && m.Name != "" && m.Name != h.Host && m.ID != s.plan.Third && m.Name != s.plan.Old.Name {
				others = append(others, m.Name)
			}
		}
		if len(others) == 1 {
			s.plan.Peer = others[0]
		}
	}
	s.third, s.old, s.peer = s.plan.Third, s.plan.Old, s.plan.Peer
	if s.peer == h.Host {
		s.peer = s.plan.Survivor
	}
	return s
}

// look gathers the facts about this host, its etcd, the other two and the cluster.
func (h *here) look(ctx context.Context, job Job) narrow.Facts {
	f := narrow.Facts{Host: h.Host, ControlPlanes: h.ControlPlanes, Plan: job.Plan, Wish: job.Wish}
	own, err := h.ownStatus(ctx)
	s := h.about(job, own.Members)
	f.Peer = s.peer
	if err == nil {
		s.members = own.Members
		voters, learner := carry.Members(own.Members)
		f.Serves, f.Voters, f.Learner = state.Known(own.Leader != 0 && own.Serves), state.Known(voters), state.Known(learner.ID)
		f.Listed = state.Known(slices.ContainsFunc(own.Members, func(m state.EtcdMember) bool { return m.ID == s.third }))
	}
	h.keeper(ctx, &f)
	h.disk(ctx, &f, s)
	h.cluster(ctx, &f, s)
	h.ring(ctx, &f, s)
	h.others(ctx, &f, s)
	h.bmcs(ctx, &f)
	f.Now = h.now()
	return f
}

func is(f state.Fact[bool]) bool { return state.Is(f, true) }

// keeper reads what the etcd keeper has on the disk, and asks it. It answers nothing of use before it was
// asked to run etcd; while kubelet has etcd there is no stand-in.
func (h *here) keeper(ctx context.Context, f *narrow.Facts) {
	kubelets, err := h.steps().KubeletHasEtcd()
	f.Kubelets = carry.Fact(kubelets, err)
	if r, err := h.files.Record(); err == nil {
		f.Record = state.Known(r.State)
	}
	f.Word, _ = h.files.Third()
	boot, err := h.boot()
	told, unread := h.files.Parameters() // a plan that was taken back in this boot leaves the wish, and no parameters
	f.Asked = carry.Fact(told.Known && h.files.Wish(boot).Wish == state.EtcdStarted, errors.Join(err, unread))
	if is(f.Kubelets) {
		f.StandIn = state.Known(false)
	}
	r, err := h.report(ctx)
	if s := r.Snapshot; err == nil && s.Peer != "" {
		f.Contact = s.Pacemaker.Contact
		f.StandIn = state.Fact[bool]{Known: s.Local.StandIn.Known, Value: s.Local.StandIn.Value != 0}
	}
}

// disk reads this host's own files and units.
func (h *here) disk(ctx context.Context, f *narrow.Facts, s subject) {
	steps := h.steps()
	f.Podmans = carry.Fact(steps.PodmanHasEtcd(ctx))
	f.Boots = state.Known(steps.KubeletBoots(ctx))
	f.Runs = carry.Fact(steps.RingRuns(ctx))
	f.Room = carry.Fact(etcd.Room(h.root))
	_, err := release.Current(h.path(""))
	f.Ships = state.Known(err == nil)
	trace, err := h.store.NarrowTrace()
	if err != nil {
		return // what this host has of two is unknown
	}
	paired, err := steps.Paired()
	f.Paired = carry.Fact(paired || trace.Began, err)
	targets, err := h.files.Targets()
	t, unread := h.store.NarrowTarget()
	f.Prepared = carry.Fact(trace.Equipped && slices.Contains(targets, s.peer) && t != nil && t.Plan == s.plan.ID, errors.Join(err, unread))
	f.Dressed = state.Known(h.ControlPlanes == 2)
	f.Plain = state.Known(h.ControlPlanes == 3 && !trace.Dressing)
}

// ring asks Corosync and Pacemaker, from the stage on in which they begin.
func (h *here) ring(ctx context.Context, f *narrow.Facts, s subject) {
	if p := s.plan; p.Stage != narrow.Pairing && p.Stage != narrow.Handing && p.Stage != narrow.Parting {
		return
	}
	in, err := h.input(ctx, s.plan)
	if err != nil {
		return
	}
	f.Ring = carry.Fact(h.steps().InPair(ctx, in))
	if !is(f.Ring) {
		return
	}
	if status, err := h.steps().Status(ctx); err == nil && !f.Contact.Known {
		f.Contact = state.Known(online(status, h.Host, s.peer))
	}
	text, err := h.run(ctx, pacemaker.Configuration())
	if err != nil {
		return
	}
	cib, err := decide.ParseCIB(text)
	if err != nil {
		return
	}
	missing, err := decide.Steps(cib, decide.Wanted(in))
	f.SetUp = carry.Fact(len(missing) == 0, err)
	f.Maintained = state.Known(slices.Contains(cib.Properties, decide.Setting{Name: "maintenance-mode", Value: "true"}))
}

// addresses returns where the etcds of the two other members are, as far as that is known.
func (h *here) addresses(ctx context.Context, s subject) map[string]string {
	at := map[string]string{}
	if s.old.Address != "" {
		at[s.old.Name] = s.old.Address
	}
	if s.peer == "" {
		return at
	}
	nodes, _ := h.nodes(ctx, s.plan)
	for _, n := range nodes {
		if n.Name == s.peer {
			at[n.Name] = n.Address
		}
	}
	if at[s.peer] != "" {
		return at
	}
	// Somebody may have deleted the Node of a host that is lost.
	if address := h.listedAt(ctx, s.member(s.peer)); address != "" {
		at[s.peer] = address
	}
	return at
}

// member returns the member of a host as etcd of this host lists it, zero if it does not.
func (s subject) member(name string) state.MemberID {
	for _, m := range s.members {
		if m.Name == name {
			return m.ID
		}
	}
	return 0
}

// listedAt returns the address at which etcd of this host looks for a member, empty if that is unknown.
func (h *here) listedAt(ctx context.Context, id state.MemberID) string {
	if id == 0 {
		return ""
	}
	c, err := h.etcd()
	if err != nil {
		return ""
	}
	_, urls, err := c.PeerURLs(ctx)
	if errors.Join(err, c.Close()) != nil {
		return ""
	}
	for _, url := range urls[id] {
		if at, err := netip.ParseAddrPort(strings.TrimPrefix(url, "https://")); err == nil {
			return at.Addr().String()
		}
	}
	return ""
}

// others asks the etcds of the two other members, and whether the one that goes still serves the API.
func (h *here) others(ctx context.Context, f *narrow.Facts, s subject) {
	ctx, stop := context.WithTimeout(ctx, carry.EtcdTime)
	defer stop()
	at := h.addresses(ctx, s)
	all := h.statuses(ctx, at)
	removed := func(name string) bool { return name != "" && s.members != nil && s.member(name) == 0 }
	votes := func(name string) state.Fact[bool] {
		answer, told := all[name]
		return state.Fact[bool]{Known: at[name] != "" || removed(name), Value: told && answer.Votes()}
	}
	f.PeerHere, f.ThirdHere = votes(s.peer), votes(s.old.Name)
	if at[s.peer] != "" { // a word that this host is lost counts once it is silent
		_, told := all[s.peer]
		silent := h.silent(s.peer, told)
		f.PeerHere.Known = f.PeerHere.Value || silent || removed(s.peer)
	}
	if s.plan.Stage != narrow.Forgetting || s.old.Address == "" {
		return
	}
	_, told := all[s.old.Name]
	f.Answers = h.answers(s.old.Name, told, h.serves(ctx, s.old.Address))
}

// quietFor is how long a host must be silent until it counts as one that answers no more. One that is off
// refuses nothing, and a busy one may miss a look. Between two looks that are further apart than quietGap,
// since an act took long, it may have answered: two BMCs that do not answer take 80 s of a look.
const (
	quietFor = 15 * time.Second
	quietGap = 2 * time.Minute
)

// silence is the time of the first and of the last look in a row to which a host did not answer.
type silence struct{ since, last time.Time }

// silent reports whether a host has been silent for long enough. answers is true if it answers this look.
func (h *here) silent(name string, answers bool) bool {
	if answers {
		delete(h.quiet, name)
		return false
	}
	now := h.now()
	q, began := h.quiet[name]
	if !began || now.Sub(q.last) > quietGap {
		q.since = now
	}
	q.last = now
	if h.quiet == nil {
		h.quiet = map[string]silence{}
	}
	h.quiet[name] = q
	return now.Sub(q.since) >= quietFor
}

// answers reports whether the API server or etcd of the host that goes answers. One that says that it does
// not serve is known not to; silence is unknown at first.
func (h *here) answers(name string, etcd bool, api state.Fact[bool]) state.Fact[bool] {
	answers := etcd || is(api)
	silent := h.silent(name, answers)
	return state.Fact[bool]{Known: answers || api.Known || silent, Value: answers}
}

// bmcs tests the BMCs, in the stages that ask for it: those of both hosts with the accounts that were typed
// and, once this host has its files of two, the other one with the account in force. A person may have
// changed that since.
func (h *here) bmcs(ctx context.Context, f *narrow.Facts) {
	stage := narrow.Planned
	if f.Plan != nil {
		stage = f.Plan.Stage
	}
	switch stage {
	case narrow.Planned, narrow.Preparing:
	case narrow.Pairing, narrow.Parting:
		if dev, err := h.files.Device(f.Peer); err == nil {
			f.Tested = h.tested(ctx, []state.FencingDevice{dev}, f.Peer)
		}
		return
	case narrow.Whole, narrow.Aborted:
		if f.Wish == nil {
			return
		}
		stage = narrow.Planned
	case narrow.Dressing, narrow.TakingBack, narrow.Handing, narrow.Forgetting:
		return
	}
	t, err := h.store.NarrowTarget()
	if err != nil {
		return
	}
	if stage == narrow.Planned {
		f.Target = state.Known(t != nil && h.Possible(t.Site) == nil)
	}
	if t == nil {
		return
	}
	f.Tested = h.tested(ctx, t.Devices, h.Host, f.Peer)
}

// tested reports whether the BMC of each host answers, takes its account, and is part of its machine.
func (h *here) tested(ctx context.Context, devices []state.FencingDevice, hosts ...string) state.Fact[bool] {
	well := 0
	for _, d := range devices {
		if !slices.Contains(hosts, d.Target) {
			return state.Known(false)
		}
		r := h.test(ctx, d)
		if r.Err() == nil && (r.Identity == fence.IdentityMatches || r.Identity == fence.IdentityNamed) {
			well++
		}
	}
	if ctx.Err() != nil {
		return state.Fact[bool]{}
	}
	return state.Known(well == len(hosts))
}

// cluster reads the facts from the API. If it does not answer the first question, it is asked no
// other one.
func (h *here) cluster(ctx context.Context, f *narrow.Facts, s subject) {
	ctx, stop := context.WithTimeout(ctx, carry.APITime)
	defer stop()
	api, err := h.open()
	if err != nil {
		return
	}
	lock, err := api.ConfigMap(ctx, replace.LockNamespace, replace.LockName)
	if err != nil {
		return
	}
	f.Lock, f.Told = locked(lock)
	f.InForce = replace.InForce(lock)
	if f.Plan != nil && (f.Plan.Stage.Over() || f.Lock.Value.ID != f.Plan.ID) {
		of, err := whose(ctx, api)
		f.Left = carry.Fact(of == f.Plan.ID, err)
	}
	if s.old.Name == "" {
		return
	}
	f.Moves = readdress.Keeps(ctx, api)
	if h.Backup != nil {
		f.Backup = h.Backup(ctx)
	}
	h.oldNode(ctx, api, f, s)
	record, err := api.ConfigMap(ctx, annotation.RecordNamespace, annotation.RecordName)
	f.Work = carry.Work(ctx, api, carry.Fact(record[annotation.RecordKey], err), s.goes(is(f.Leaves)))
}

// goes returns the host that goes if its work keeps no plan from beginning: a person said that it is gone,
// or it is emptied for good already.
func (s subject) goes(emptied bool) string {
	if s.plan.Accepts.Gone || emptied {
		return s.old.Name
	}
	return ""
}

// oldNode reads what the cluster has of the host that goes.
func (h *here) oldNode(ctx context.Context, api API, f *narrow.Facts, s subject) {
	node, err := api.NodeOf(ctx, s.old.Name)
	if err != nil {
		return
	}
	f.Leaves, f.Empty = state.Known(!node.There || node.Leaves), state.Known(!node.There || node.Empty)
	graves, err := api.Retired(ctx, s.old.Name)
	grave, there := graves.Of(s.old.Name)
	f.Node = carry.Fact(node.There || !there || !grave.Open(), err)
	if f.Plan == nil || f.Plan.Stage == narrow.Planned || f.Plan.Stage.Over() {
		if f.Node.Known && !node.There {
			f.Node = state.Known(false) // for a gate, whatever its tombstone says
		}
		f.Volumes = carry.Fact(api.VolumesOf(ctx, s.old.Name))
	}
}

// locked reads the lock. What is no plan of this kind is only known by its ID.
func locked(data map[string]string) (state.Fact[narrow.Copy], state.Fact[narrow.Progress]) {
	id, plan, told := carry.Locked[narrow.Plan, narrow.Progress](data, func(p narrow.Plan, id string) bool { return p.Narrows && p.ID == id })
	c := narrow.Copy{ID: id}
	if plan != nil {
		c.Plan = *plan
	}
	return state.Known(c), told
}
