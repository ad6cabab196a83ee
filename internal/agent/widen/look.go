package widen

import (
	"context"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/decide/replace"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/install/readdress"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/state"
)

// look gathers the facts about this host, its etcd, the third host and the cluster.
func (h *here) look(ctx context.Context, job Job) widen.Facts {
	f := widen.Facts{Host: h.Host, ControlPlanes: h.ControlPlanes, Plan: job.Plan, Wish: job.Wish}
	kubelets, err := h.steps().KubeletHasEtcd()
	f.Kubelets = carry.Fact(kubelets, err)
	h.keeper(ctx, &f)
	h.disk(ctx, &f)
	h.hands(ctx, &f)
	h.others(ctx, &f)
	h.newcomer(&f)
	// While the etcd of this host is stopped the next act needs no API, and asking it costs time.
	if !is(f.Halted) || is(f.Kubelets) {
		h.cluster(ctx, &f)
	}
	f.Now = h.now()
	return f
}

func is(f state.Fact[bool]) bool { return state.Is(f, true) }

// keeper asks the etcd keeper. Once kubelet runs etcd, the keeper knows nothing of it.
func (h *here) keeper(ctx context.Context, f *widen.Facts) {
	if is(f.Kubelets) {
		h.keeperless(ctx, f)
		return
	}
	r, err := h.report(ctx)
	s := r.Snapshot
	if err != nil || s.Peer == "" {
		return
	}
	f.Peer, f.Contact = s.Peer, s.Pacemaker.Contact
	f.Record = state.Fact[state.EtcdState]{Known: s.Record.Known, Value: s.Record.Value.State}
	if s.Statement.Known && s.Statement.Value.Ring == s.Pacemaker.Ring && is(s.Pacemaker.Contact) {
		f.PeerRecord = state.Known(s.Statement.Value.Record.State)
	}
	if s.Local.Running.Known {
		f.Serves = state.Known(s.Local.Running.Value && s.Local.Leader.Known && s.Local.Leader.Value != 0)
	}
	f.StandIn = state.Fact[bool]{Known: s.Local.StandIn.Known, Value: s.Local.StandIn.Value != 0}
	if s.Local.Members.Known {
		count(f, s.Local.Members.Value)
	}
	f.Word, f.Behind = s.Third.Word, s.Third.Behind
	if p := f.Plan; p != nil && p.Stage == widen.Coming && p.Third != 0 {
		f.Behind = h.behind(ctx, *p)
	}
}

// behind measures how much of this host's log the third member lacks, as the etcd keeper does once the
// plan's word names that member. The third one is asked first: what is written in between counts.
func (h *here) behind(ctx context.Context, p widen.Plan) state.Fact[uint64] {
	address, err := netip.ParseAddr(p.New.Address)
	if err != nil {
		return state.Fact[uint64]{}
	}
	ask, stop := context.WithTimeout(ctx, carry.EtcdTime)
	defer stop()
	id, has, err := h.applied(ask, etcdpod.ClientURL(address))
	if err != nil || id != p.Third {
		return state.Fact[uint64]{}
	}
	own, err := h.ownStatus(ctx)
	if err != nil || own.RaftIndex == 0 {
		return state.Fact[uint64]{}
	}
	return state.Known(own.RaftIndex - min(own.RaftIndex, has))
}

func (h *here) keeperless(ctx context.Context, f *widen.Facts) {
	if r, err := h.files.Record(); err == nil {
		f.Record = state.Known(r.State)
	}
	f.Word, _ = h.files.Third()
	f.StandIn = state.Known(false)
	if s, err := h.ownStatus(ctx); err == nil {
		f.Serves = state.Known(s.Leader != 0 && s.Serves)
		count(f, s.Members)
	}
}

func count(f *widen.Facts, members []state.EtcdMember) {
	voters, learner := carry.Members(members)
	f.Voters, f.Learner, f.LearnerName = state.Known(voters), state.Known(learner.ID), learner.Name
}

// disk reads this host's own files.
func (h *here) disk(_ context.Context, f *widen.Facts) {
	f.Dressed = state.Known(h.ControlPlanes > 2)
	if f.Target = state.Known(is(f.Dressed)); h.Target != nil && h.ControlPlanes == 2 {
		f.Target = state.Known(h.Target() == nil)
	}
	f.Room = carry.Fact(etcd.Room(h.root))
	_, err := release.Current(h.path(""))
	f.Ships = state.Known(err == nil)
}

// hands reads what only the steps need by which etcd goes to kubelet.
func (h *here) hands(ctx context.Context, f *widen.Facts) {
	if f.Plan == nil || f.Plan.Stage != widen.Handing && f.Plan.Stage != widen.Ending && f.Plan.Stage != widen.Dressing {
		return
	}
	has := carry.HandsOf(ctx, h.steps(), is(f.Kubelets), func() ([]byte, error) { return h.pod(*f.Plan) })
	f.Podmans, f.Pod, f.Boots, f.Runs, f.Paired = has.Podmans, has.Pod, has.Boots, has.Runs, has.Paired
	h.maintained(ctx, f)
}

// maintained asks Pacemaker. Only in maintenance a stop was the plan's: else Pacemaker stops etcd
// because its host goes down, and starts it again.
func (h *here) maintained(ctx context.Context, f *widen.Facts) {
	text, err := h.run(ctx, pacemaker.Configuration())
	if err != nil {
		return
	}
	cib, err := decide.ParseCIB(text)
	if err != nil {
		return
	}
	f.Maintained = state.Known(slices.Contains(cib.Properties, decide.Setting{Name: "maintenance-mode", Value: "true"}))
	boot, err := h.boot()
	f.Halted = carry.Fact(is(f.Maintained) && h.files.Wish(boot).Wish == state.EtcdStopped, err)
}

// others asks the etcds of the two other members. Only the steps from the vote on need that, and the
// way back from there.
func (h *here) others(ctx context.Context, f *widen.Facts) {
	p := f.Plan
	if p == nil || p.Stage != widen.LettingIn && p.Stage != widen.Handing && (p.Stage != widen.TakingBack || !p.Gone) {
		return
	}
	s := h.serving(ctx, *p)
	f.PeerServes, f.ThirdServes = s.peer, s.third
	f.Silent = h.silent(s.third)
}

// silent returns for how long the third member has not served.
func (h *here) silent(serves state.Fact[bool]) time.Duration {
	now := h.now()
	if !state.Is(serves, false) {
		h.silentSince = time.Time{}
		return 0
	}
	if h.silentSince.IsZero() {
		h.silentSince = now
	}
	return max(0, now.Sub(h.silentSince))
}

// served says which of the other members serve.
type served struct{ peer, third state.Fact[bool] }

// serving asks both in this moment. Who does not answer does not serve.
func (h *here) serving(ctx context.Context, p widen.Plan) served {
	nodes, err := h.nodes(p)
	if err != nil {
		return served{}
	}
	ctx, stop := context.WithTimeout(ctx, carry.EtcdTime)
	defer stop()
	at := map[string]string{}
	for _, n := range nodes {
		if n.Name != h.Host {
			at[n.Name] = n.Address
		}
	}
	all := h.statuses(ctx, at)
	votes := func(name string) state.Fact[bool] { return state.Known(all[name].Votes()) }
	other := p.Survivor
	if other == h.Host {
		other = p.Peer
	}
	return served{peer: votes(other), third: votes(p.New.Name)}
}

// newcomer reads who asked to enter.
func (h *here) newcomer(f *widen.Facts) {
	r, err := h.plans().Request()
	if err != nil || r == nil || f.Plan == nil {
		return
	}
	f.Asks, f.AskedAt = r.Installed(), r.At
	f.Arch = state.Known(r.Arch == runtime.GOARCH)
}

// cluster reads the facts from the API. If it does not answer the first question, it is asked no
// other one.
func (h *here) cluster(ctx context.Context, f *widen.Facts) {
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
	f.Moves = readdress.Keeps(ctx, api)
	record, err := api.ConfigMap(ctx, annotation.RecordNamespace, annotation.RecordName)
	f.Work = carry.Work(ctx, api, carry.Fact(record[annotation.RecordKey], err), "")
	if h.Backup != nil {
		f.Backup = h.Backup(ctx)
	}
	next := h.next(f)
	if next.Name == "" {
		return
	}
	graves, err := api.Retired(ctx, next.Name)
	grave, there := graves.Of(next.Name)
	f.Given = carry.Fact(!there || !grave.Open(), err)
	node, err := api.NodeOf(ctx, next.Name)
	f.Node = carry.Fact(node.There, err)
	if f.Plan != nil && f.Plan.Stage == widen.LettingIn {
		if f.Ready = carry.Fact(node.Ready, err); is(f.Ready) {
			f.Ready = h.serves(ctx, next.Address)
		}
	}
}

// next returns the new host that the facts are about.
func (h *here) next(f *widen.Facts) replace.New {
	switch {
	case f.Plan != nil && !f.Plan.Stage.Over():
		return f.Plan.New
	case f.Wish != nil:
		return f.Wish.New
	}
	return replace.New{}
}

// locked reads the lock. What is no plan of this kind is only known by its ID.
func locked(data map[string]string) (state.Fact[widen.Copy], state.Fact[widen.Progress]) {
	id, plan, told := carry.Locked[widen.Plan, widen.Progress](data, func(p widen.Plan, id string) bool { return p.Widens && p.ID == id })
	c := widen.Copy{ID: id}
	if plan != nil {
		c.Plan = *plan
	}
	return state.Known(c), told
}
