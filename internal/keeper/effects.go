package keeper

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/observe/reach"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/state"
)

// effects are the calls by which a keeper reads and changes what lies outside of
// its process. They decide nothing: hostEffects names one function of an adapter
// for each, so that a test can play a whole keeper against a world of values.
// Files are read and written below the root of records.Files.
type effects struct {
	// boot returns the id of this boot and the time since it began.
	boot        func() (id string, uptime time.Duration, err error)
	freeSpace   func(dir string) (uint64, error)
	restrictOOM func() (bool, error)
	// awaitEnd returns once a process has ended.
	awaitEnd   func(ctx context.Context, pid int) error
	watchFiles func(ctx context.Context, wake func(), dirs ...string) error
	// writeBlock makes a block durable in a file. It may never return.
	writeBlock func(path string) error

	// run starts etcd's container; look reads its process, stop asks it to end,
	// and kill ends it. adopt asks podman for the spec of a process without a note.
	run     func(context.Context, podman.Spec) error
	look    func(context.Context) (podman.Process, error)
	adopt   func(ctx context.Context, name string, p podman.Process) (spec string, err error)
	blocked func(podman.Process) (bool, error)
	stop    func(ctx context.Context, grace time.Duration) error
	kill    func(context.Context) error

	open func(etcd.Config) (etcdClient, error)
	// applied asks another host's etcd how far it is.
	applied func(ctx context.Context, clientURL string) (state.MemberID, uint64, error)
	// locked reports whether a process holds etcd's data in a folder.
	locked  func(dir string) (bool, error)
	inspect func(ctx context.Context, dir string) (state.EtcdData, error)
	settle  func(ctx context.Context, dir string) error
	backup  func(ctx context.Context, dir, backupDir string, keep int, maxBytes int64) (string, error)
	// setAside keeps the data of a folder in another one.
	setAside func(dir, backupDir string, keep int, precious bool) (string, error)
	empty    func(dir string) error

	standIn      func() (etcd.StandIn, error)
	startStandIn func(etcd.StandInRequest) (pid int, err error)
	stopStandIn  func(context.Context) error

	// watchMembers passes on Corosync's membership now and at each change.
	watchMembers func(ctx context.Context, changed func(state.Fact[state.Membership])) error
	publish      func(ctx context.Context, name, value string) error
	// attributes returns what each host has published.
	attributes func(ctx context.Context, name string) (map[string]string, error)
	// shutsDown reports whether Pacemaker of a host was told to stop.
	shutsDown      func(ctx context.Context, node string) (bool, error)
	fencingAllowed func(ctx context.Context, resource string) error
	fence          func(ctx context.Context, node string, budget time.Duration, anew bool) error
	grantQuorum    func(context.Context) error

	// power asks the BMC of a host, and returns how long the next question has to wait
	// at least. confirmOff leaves evidence if the BMC says Off.
	power      func(ctx context.Context, node string) (power string, wait time.Duration, err error)
	confirmOff func(ctx context.Context, node string) error

	addresses  func() (addresses []netip.Addr, hardware []string, err error)
	answers    func(ctx context.Context, addresses []netip.Addr, hardware []string) (state.Fact[bool], error)
	watchReach func(ctx context.Context, p *reach.Prober, contact reach.Contact, hurry <-chan struct{}, changed func(state.Reach), failed func(error)) error
	askPeer    func(p pairTLS, ctx context.Context, port int, addresses []netip.Addr, back bool) (state.RaceAnswer, error)
	servePeer  func(p pairTLS, ctx context.Context, port int, answer func(back bool) state.RaceAnswer, log *slog.Logger) error
}

// etcdClient asks the local etcd and changes its membership.
type etcdClient interface {
	Status(context.Context) (etcd.MemberStatus, error)
	Confirm(context.Context) error
	Pulse(context.Context) error
	AddLearner(ctx context.Context, peerURL string) (state.MemberID, error)
	Promote(ctx context.Context, id state.MemberID) error
	RemoveMember(ctx context.Context, id state.MemberID) error
	Mark(ctx context.Context, id state.MemberID, seq uint64) error
	MoveLeader(ctx context.Context, to state.MemberID) error
	Close() error
}

// hostEffects returns the effects on this host.
func hostEffects() effects {
	return effects{
		boot: observe.Boot, freeSpace: host.FreeSpace, restrictOOM: observe.RestrictOOM, awaitEnd: host.AwaitEnd,
		watchFiles: watchFiles, writeBlock: writeBlock,
		run: podman.Run, look: podman.State, adopt: podman.Adopt, blocked: podman.Blocked, stop: podman.Stop, kill: podman.Kill,
		open: openEtcd, applied: etcd.Applied, locked: etcd.Locked, inspect: etcd.Inspect, settle: etcd.Settle, backup: etcd.Backup, setAside: etcd.SetAside, empty: etcd.Empty,
		standIn: etcd.StandInState, startStandIn: etcd.StartStandIn, stopStandIn: etcd.StopStandIn,
		watchMembers: pacemaker.Watch, publish: pacemaker.Publish, attributes: pacemaker.PrivateAttributes,
		shutsDown: pacemaker.ShutdownRequested, fencingAllowed: pacemaker.FencingAllowed, fence: pacemaker.Fence,
		grantQuorum: pacemaker.GrantQuorum, power: fence.NewWatch().Power, confirmOff: fence.ConfirmOff,
		addresses: reach.Own, answers: reach.Answers, watchReach: reach.Watch,
		askPeer: pairTLS.ask, servePeer: pairTLS.serve,
	}
}

func openEtcd(c etcd.Config) (etcdClient, error) { return etcd.Open(c) }

// uptime returns the time since this host booted, zero if the kernel does not tell
// it.
func (e effects) uptime() time.Duration {
	_, up, err := e.boot()
	if err != nil {
		return 0
	}
	return up
}

// standingFor returns the member for which a stand-in votes on this host, zero for
// none.
func (e effects) standingFor() (state.MemberID, error) {
	s, err := e.standIn()
	return s.Member, err
}
