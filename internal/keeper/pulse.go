package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Timing of the pulse of a pair. While clients write, etcd's commit index moves
// and shows at no cost that all is well. If it stands still, a read that needs
// a quorum is tried.
const (
	pulseEvery = time.Second
	// quietFor is the time without a commit after which a read is tried;
	// pulseTime bounds that read.
	quietFor  = 2 * time.Second
	pulseTime = 2 * time.Second
	// writeAfter is the time for which the index stands still before a write is
	// tried: where heartbeats pass and entries do not, a read still finds a
	// quorum.
	writeAfter = 10 * time.Second
	// noticeAfter is the time without a commit that counts as a stall, and
	// after which this host begins to test itself.
	noticeAfter = 4 * time.Second
	// sickAfter is the longest time that one write may wait for the disk: at
	// their worst, SSDs and controllers take 5 to 15 s and recover. With
	// noticeAfter it is well below etcdmember.StallAfter.
	sickAfter = 8 * time.Second
	// carryUntested bounds how much earlier stalls count until this host has
	// tested itself in the present one: a disk that hangs must be found before
	// etcdmember.StallAfter.
	carryUntested = 3 * time.Second
)

// canaryPath is the file, beside etcd's data, whose write tests the disk.
const canaryPath = state.EtcdDataDir + "/holdfast-canary"

// pulse watches whether the local etcd can commit anything, and tests this host
// while it cannot.
type pulse struct {
	uptime func() time.Duration
	// read needs a quorum, and put commits an entry of some size. write makes a
	// few bytes durable on etcd's disk; it may never return. blocked reports
	// whether etcd's process waits for a disk.
	read    func(context.Context) error
	put     func(context.Context) error
	write   func() error
	blocked func() bool
	// excused reports whether a defragmentation blocks etcd: it answers nothing then, and what
	// it commits is not seen. It ends by itself (etcdhealth.Defragments).
	excused func() bool

	mu      sync.Mutex
	running bool
	index   uint64
	indexAt time.Duration // when index last moved
	last    time.Duration // when something was last proven to be committed
	stalled time.Duration // the stall as of the last look at a running etcd
	carried time.Duration // earlier stalls, less the healthy time since
	tested  bool          // a write that began in this stall has returned
	writing time.Duration // when the write under way began; zero for none
	failed  string        // the error of the last write
	waiting time.Duration // since when the process waits for a disk; zero if it does not
}

// moved takes the commit index that etcd reports. An etcd that waits for a
// leader or does not answer reports none; one whose data were replaced begins
// with a lower one.
func (p *pulse) moved(index uint64) {
	if index == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if index > p.index {
		p.well()
		p.indexAt = p.last
	}
	p.index = index
}

// well notes that something was committed: earlier findings belong to another
// stall. Where most packets are lost, a commit passes now and then and ends
// nothing: the stalled time carries over, less the time that was healthy.
func (p *pulse) well() {
	now := p.uptime()
	if stood := now - p.last; stood >= noticeAfter {
		p.carried = min(p.carried+stood, etcdmember.StallAfter)
	} else {
		p.carried = max(p.carried-stood, 0)
	}
	p.fresh()
}

// fresh resets the stall: all is well at this moment.
func (p *pulse) fresh() { p.last, p.failed, p.waiting, p.tested = p.uptime(), "", 0, false }

// stood returns for how long nothing could be committed, zero while that is too
// short to be a stall.
func (p *pulse) stood() time.Duration {
	now := p.uptime() - p.last
	switch {
	case now < noticeAfter:
		return 0
	case p.tested:
		return now + p.carried
	default:
		return now + min(p.carried, carryUntested)
	}
}

// state returns for how long nothing was committed, recent stalls included, and
// what this host found wrong with itself. For a stopped etcd it returns the
// last values from when it ran. An etcd that starts gets new time, but if the
// restart did not help, the stall before it counts on.
func (p *pulse) state(running bool) (stalled time.Duration, sick string) {
	excused := p.excused()
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.uptime()
	if running && excused { // the time counts neither for nor against etcd
		p.running, p.stalled = true, 0
		p.fresh()
		p.indexAt = p.last
		return 0, ""
	}
	if running && !p.running {
		p.fresh()
		p.indexAt, p.carried = p.last, min(p.stalled, etcdmember.StallAfter)
	}
	p.running = running
	if running {
		p.stalled = p.stood()
	}
	if p.stalled == 0 {
		return 0, ""
	}
	return p.stalled, p.sick(now)
}

func (p *pulse) sick(now time.Duration) string {
	switch {
	case p.writing != 0 && now-p.writing >= sickAfter:
		return "the disk of etcd's data does not answer: a write hangs"
	case p.failed != "":
		return "the disk of etcd's data cannot be written: " + p.failed
	case p.waiting != 0 && now-p.waiting >= sickAfter:
		return "etcd waits for its disk and cannot be stopped"
	}
	return ""
}

// run checks the pulse until the context ends.
func (p *pulse) run(ctx context.Context) error {
	for {
		p.beat(ctx)
		if err := host.Sleep(ctx, pulseEvery); err != nil {
			return err
		}
	}
}

func (p *pulse) beat(ctx context.Context) {
	if p.excused() {
		return
	}
	p.mu.Lock()
	running, quiet, stood := p.running, p.uptime()-p.last, p.uptime()-p.indexAt
	p.mu.Unlock()
	if !running || quiet < quietFor {
		return
	}
	if quiet >= noticeAfter {
		p.test()
	}
	ctx, cancel := context.WithTimeout(ctx, pulseTime)
	defer cancel()
	try := p.read
	if stood >= writeAfter {
		try = p.put
	}
	if try(ctx) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.well()
}

// test begins a write unless one is still under way: at most one write hangs.
func (p *pulse) test() {
	blocked := p.blocked()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !blocked:
		p.waiting = 0
	case p.waiting == 0:
		p.waiting = p.uptime()
	}
	if p.writing != 0 {
		return
	}
	began := p.uptime()
	p.writing = began
	go func() {
		err := p.write()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.writing, p.failed, p.tested = 0, "", p.tested || began > p.last
		if err != nil {
			p.failed = cause(err)
		}
	}()
}

// cause returns an error without its path and its number of bytes, so that the
// text stays the same.
func cause(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	return err.Error()
}

// writeBlock makes a block durable in a file beside etcd's data.
func writeBlock(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("test etcd's disk: %w", err)
	}
	_, err = f.WriteAt(make([]byte, 4096), 0)
	if err == nil {
		err = syscall.Fdatasync(int(f.Fd()))
	}
	return errors.Join(err, f.Close())
}
