package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/etcdhealth"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/state"
)

// StaticPodPath is the manifest by which kubelet runs etcd until the hand-over.
const StaticPodPath = "/etc/kubernetes/manifests/etcd.yaml"

// process runs etcd in podman.
type process struct {
	effects
	files      records.Files
	parameters state.EtcdParameters
	starts     etcdhealth.Starts // used only by the loop
	missed     string            // the error of the last attempt that made no process

	mu   sync.Mutex
	read manifest

	unnoted unnoted
}

// data returns the folder of etcd's data.
func (p *process) data() string { return p.files.Path(state.EtcdDataDir) }

// stopped reports whether Pacemaker stopped etcd without its keeper.
func (p *process) stopped() bool {
	boot, _, err := p.boot()
	return err == nil && p.files.Wish(boot).Wish == state.EtcdStopped
}

// manifest is the container of a pod manifest, as of the last read.
type manifest struct {
	changed time.Time
	size    int64
	spec    podman.Spec
}

// Foreign reports whether kubelet's manifest of etcd exists.
func (p *process) Foreign() bool {
	_, err := os.Stat(p.files.Path(StaticPodPath))
	return err == nil
}

// clockTick is the unit of the start times of processes that the kernel reports
// (proc(5); USER_HZ is 100 on every architecture that Linux still supports).
const clockTick = 10 * time.Millisecond

func (p *process) State(uptime time.Duration) etcdhealth.Process {
	s, err := p.look(context.Background()) // it only reads /proc
	if err != nil || !s.Running {
		return etcdhealth.Process{}
	}
	blocked, err := p.blocked(s)
	held, unseen := p.locked(p.data())
	return etcdhealth.Process{
		Runs: true, Stopped: s.Frozen(), Blocked: blocked || err != nil, Empty: unseen == nil && !held,
		Defragments: p.defragments(uptime), Size: p.size(),
		Age: uptime - time.Duration(s.Started)*clockTick, //nolint:gosec // far below the limit of a duration
	}
}

// defragments reports whether a defragmentation may block etcd at a time since boot.
func (p *process) defragments(uptime time.Duration) bool {
	return etcdhealth.Defragments(p.files.Defragmentation(), uptime)
}

// size returns the size of etcd's database, zero if it is not known.
func (p *process) size() int64 {
	info, err := os.Stat(filepath.Join(p.data(), "member/snap/db"))
	if err != nil {
		return 0
	}
	return info.Size()
}

// held reports whether etcd holds the lock of its data, which counts as
// running. A "no" is a promise to the peer, which may take over on it. So held
// returns false only if no process can take the data at any moment: no process
// of etcd lives, and kubelet starts none.
func (p *process) held() (bool, error) {
	held, err := p.locked(p.data())
	if err != nil || held {
		return held, err
	}
	if p.Foreign() {
		return false, errors.New("kubelet may start etcd at any moment")
	}
	s, err := p.look(context.Background())
	if err == nil && s.Running {
		err = fmt.Errorf("etcd process %d runs but has not locked its data yet", s.PID)
	}
	return false, err
}

// wanted returns the container that the manifest describes. It reads the file
// again only after a change.
func (p *process) wanted() (podman.Spec, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info, err := os.Stat(p.parameters.PodManifest)
	if err != nil {
		return podman.Spec{}, err
	}
	if p.read.changed.Equal(info.ModTime()) && p.read.size == info.Size() {
		return p.read.spec, nil
	}
	spec, err := p.readManifest()
	if err == nil {
		p.read = manifest{info.ModTime(), info.Size(), spec}
	}
	return spec, err
}

// sharesOfEtcd has etcd come before pods and daemons where a host has more to do than it has
// processors: as much as all pods of ten processors have together. An etcd that gets none
// acknowledges nothing, and each pod that starts or ends asks the API server for much.
const sharesOfEtcd = 10 * 1024

func (p *process) readManifest() (podman.Spec, error) {
	text, err := os.ReadFile(p.parameters.PodManifest)
	if err != nil {
		return podman.Spec{}, err
	}
	container, err := etcdpod.Parse(text)
	if err != nil {
		return podman.Spec{}, err
	}
	spec := podman.Spec{Container: container, CPUShares: sharesOfEtcd}
	restricted, err := p.restrictOOM()
	if !restricted || p.parameters.OOM >= 0 {
		spec.OOMScore = &p.parameters.OOM
	}
	return spec, err
}

// Start starts etcd on its present data. Until the hand-over, only kubelet does
// that.
func (p *process) Start(ctx context.Context) error {
	if p.Foreign() {
		return errors.New("etcd is not started here: until the hand-over kubelet runs it as a static pod")
	}
	if p.stopped() {
		return errors.New("etcd was stopped by Pacemaker while the etcd keeper did not answer; it is started when Pacemaker asks for it again")
	}
	spec, err := p.wanted()
	if err != nil {
		return err
	}
	free, err := p.freeSpace(p.data())
	if err != nil {
		return err
	}
	at := p.uptime()
	if err = p.prepare(ctx); err == nil {
		err = p.run(ctx, spec)
	}
	made := err == nil || errors.Is(err, podman.ErrEnded)
	err = p.await(ctx, err)
	switch {
	case ctx.Err() != nil: // we ended it ourselves, so this says nothing against the data
	case made:
		p.starts = p.starts.Next(at, free)
	default: // nothing has read the data
		p.starts, p.missed = p.starts.Miss(at, free), err.Error()
	}
	return err
}

// undoTime bounds the killing of a process whose start failed.
const undoTime = 5 * time.Second

// await returns once the started etcd holds its data. It kills what a failed
// start left behind: that process would take the data later, after the peer was
// told that etcd is down.
func (p *process) await(ctx context.Context, started error) error {
	if started == nil {
		started = p.awaitHeld(ctx)
	}
	if started == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	return errors.Join(started, p.kill(ctx))
}

// examine inspects the data. Data that look whole, but with which etcd ends
// again and again, count as damaged, unless the disk is full. What keeps etcd from
// being started says nothing against them, and is told with its reason.
func (p *process) examine(ctx context.Context) (state.EtcdData, error) {
	d, err := p.inspect(ctx, p.data())
	if err != nil || d.Copy != state.CopyWhole {
		return d, err
	}
	free, err := p.freeSpace(p.data())
	if err != nil {
		return d, err
	}
	d.NoSpace = p.starts.Crowded(free)
	if p.starts.Barred() {
		d.NoStart, d.Reason = true, p.missed
	}
	if p.starts.Hopeless(p.uptime(), free) {
		d.Copy = state.CopyDamaged
		d.Reason = fmt.Sprintf("it looks whole, but etcd ended %d times in a row within %s of its start", p.starts.Failed, etcdhealth.Lasting)
	}
	return d, nil
}

// prepare settles the data for a plain start; a learner that joins has none yet.
func (p *process) prepare(ctx context.Context) error {
	_, err := os.Stat(filepath.Join(p.data(), "member"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return p.settle(ctx, p.data())
}

// awaitHeld returns once etcd holds its data, or has ended.
func (p *process) awaitHeld(ctx context.Context) error {
	for {
		if held, err := p.locked(p.data()); err != nil || held {
			return err
		}
		if s, err := p.look(ctx); err == nil && !s.Running {
			return p.ended()
		}
		if err := host.Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// ended returns an error with the likely reason why etcd ended right after its
// start.
func (p *process) ended() error {
	if free, err := p.freeSpace(p.data()); err == nil && free < etcdhealth.LeastSpace {
		return fmt.Errorf("etcd ended as soon as it was started: %d MiB are free on the disk of %s; make room", free>>20, state.EtcdDataDir)
	}
	return errors.New("etcd ended as soon as it was started; see: tail " + state.EtcdLogFile + "; podman logs etcd")
}

// stopGrace is the time that etcd gets to end in order. It waits for watches to
// end, which they never do; an end by force loses nothing.
const stopGrace = 4 * time.Second

func (p *process) Stop(ctx context.Context) error {
	if p.Foreign() {
		return errors.New("kubelet runs etcd as a static pod until the hand-over; it cannot be stopped here")
	}
	return p.released(ctx, p.stop(ctx, stopGrace))
}

func (p *process) Kill(ctx context.Context) error { return p.released(ctx, p.kill(ctx)) }

// releaseTime is the time that the kernel gets to close the files of a process
// that has ended: its threads end one after the other.
const releaseTime = 2 * time.Second

// released returns the error of an end, or an error if something still holds
// the data: a process that was not found has not ended.
func (p *process) released(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	var held bool
	for end := time.Now().Add(releaseTime); ; {
		if held, err = p.locked(p.data()); err != nil || !held || time.Now().After(end) {
			break
		}
		if err := host.Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	if err == nil && held {
		err = errors.New("etcd was stopped, but an unknown process still holds its data; find it with: fuser -v " +
			filepath.Join(state.EtcdDataDir, "member/snap/db"))
	}
	return err
}

func (p *process) Outdated() (bool, error) {
	spec, err := p.wanted()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // the next manifest is on its way, or somebody removed it: leave the running etcd alone
	}
	if err != nil {
		return false, err
	}
	now, err := p.look(context.Background())
	if err != nil || !now.Running {
		return false, err
	}
	runs, err := p.specOf(now, spec.Name)
	return err == nil && runs != spec.Hash(), err
}

// unnoted is what podman said of a process that has no note of its spec.
type unnoted struct {
	mu      sync.Mutex
	pid     int
	started uint64
	spec    string
	err     error
	at      time.Time // of the question
}

// askAgain is the least time between two questions to podman about one process. Every
// report and every round want the answer, and a podman that hangs costs seconds each time.
const askAgain = time.Minute

// specOf returns the hash of the spec from which a running process was started. Without
// a note only podman knows it.
func (p *process) specOf(now podman.Process, name string) (string, error) {
	if now.Spec != "" {
		return now.Spec, nil
	}
	u := &p.unnoted
	u.mu.Lock()
	defer u.mu.Unlock()
	same := !u.at.IsZero() && u.pid == now.PID && u.started == now.Started
	if same && (u.err == nil || time.Since(u.at) < askAgain) {
		return u.spec, u.err
	}
	u.pid, u.started = now.PID, now.Started
	u.spec, u.err = p.adopt(context.Background(), name, now)
	u.at = time.Now()
	return u.spec, u.err
}

func (p *process) Restart(ctx context.Context) error {
	if err := p.Stop(ctx); err != nil {
		return err
	}
	return p.Start(ctx)
}

// copies handles the data of an etcd that is down.
type copies struct {
	effects
	dir        string
	parameters state.EtcdParameters
	// emptied is called after the data were removed, so that the next ones are
	// judged anew.
	emptied func()
}

// There reports whether data lie on the disk, whole or not.
func (c copies) There() (bool, error) {
	_, err := os.Stat(filepath.Join(c.dir, "member"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// maxBackup bounds one backup, in bytes; it is more than the largest quota of a
// site and the log beside it.
const maxBackup = 10 << 30

func (c copies) Backup(ctx context.Context) error {
	if c.parameters.Backups == 0 {
		return nil
	}
	_, err := c.backup(ctx, c.dir, c.parameters.BackupDir, c.parameters.Backups, maxBackup)
	return err
}

func (c copies) SetAside(precious bool) (string, error) {
	return c.setAside(c.dir, c.parameters.BackupDir, c.parameters.Backups, precious)
}

func (c copies) Empty(context.Context) error {
	err := c.empty(c.dir)
	if err == nil {
		c.emptied()
	}
	return err
}

// standIn casts the vote of a fenced member.
type standIn struct {
	effects
	address netip.Addr
	tried   time.Time
	// index is the furthest position at which the log of cluster was seen: a
	// log that has lost its end since then gets no vote.
	cluster state.MemberID
	index   uint64
}

func (s *standIn) reached(cluster state.MemberID, index uint64) {
	if cluster != s.cluster {
		s.cluster, s.index = cluster, 0
	}
	s.index = max(s.index, index)
}

// standInPause is the least time between two starts of a stand-in: one that
// refuses would refuse again at once.
const standInPause = time.Second

func (s *standIn) Start(_ context.Context, target state.MemberID, r state.EtcdRecord) error {
	if time.Since(s.tried) < standInPause {
		return nil
	}
	s.tried = time.Now()
	var least uint64
	if s.cluster == r.Cluster {
		least = s.index
	}
	const pki = state.EtcdPKIDir
	_, err := s.startStandIn(etcd.StandInRequest{
		Evidence: r.TakeOver.ID, Cluster: r.Cluster, Target: target, Survivor: r.Member,
		PeerURL: etcdpod.PeerURL(s.address), ClientURL: etcdpod.ClientURL(s.address),
		LeastIndex: least, TLS: etcd.StandInTLS{CA: pki + "/ca.crt", Cert: pki + "/peer.crt", Key: pki + "/peer.key"},
	})
	return err
}

func (s *standIn) Stop(ctx context.Context) error { return s.stopStandIn(ctx) }

// other acts on the peer's host.
type other struct {
	effects
	name string
}

// fenceBudget is the time that Pacemaker has for one fence, as its
// stonith-timeout.
const fenceBudget = 240 * time.Second

func (o other) MayFence(ctx context.Context) error {
	return o.fencingAllowed(ctx, twonode.Etcd)
}

func (o other) Fence(ctx context.Context, anew bool) error {
	return o.fence(ctx, o.name, fenceBudget, anew)
}

func (o other) ConfirmOff(ctx context.Context) error { return o.confirmOff(ctx, o.name) }

func (o other) GrantQuorum(ctx context.Context) error { return o.grantQuorum(ctx) }
