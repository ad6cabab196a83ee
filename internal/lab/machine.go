package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Signals that ask systemd as an init to end (systemd(1)).
const (
	sigPowerOff = unix.Signal(34 + 4)
	// Exit status of a container whose init called reboot(2) in its pid
	// namespace: the kernel ends it by SIGHUP to restart (reboot(2)).
	exitRestart = 128 + int(unix.SIGHUP)
)

// Power is a host's power as seen from outside.
type Power string

// The power states. In PowerPOST the machine tests itself and boots soon.
const (
	PowerOff  Power = "off"
	PowerOn   Power = "on"
	PowerPOST Power = "post"
)

// machine is the power of one host. It alone starts and kills the host's
// container and moves its NICs. The BMC switches it.
type machine struct {
	ctx  context.Context // of the daemon; ends what the machine does by itself
	lab  *Lab
	host Host
	log  *slog.Logger
	// cutPorts returns the switch ports that a fault keeps down.
	cutPorts func() map[string]bool
	// holdsDisk reports whether a fault has etcd's disk of a host open.
	holdsDisk func(Host) bool

	mu     sync.Mutex
	init   *initProcess // nil while off
	reboot *time.Timer  // set while the host restarts itself
	since  time.Time
	noAC   bool

	initPID atomic.Int64 // of init, for callers that must not wait for mu; 0 while off
}

// errNoAC reports that a machine without mains power cannot be switched on.
var errNoAC = errors.New("the machine has no mains power")

// adopt takes over a host that already runs, after the daemon was restarted. If
// the daemon before it was killed in the middle of a boot, adopt waits for it. A
// host that was killed meanwhile is off.
func (m *machine) adopt(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := waitForPodman(ctx, m.lab.Layout.Spec.Name, m.host.Container); err != nil {
		return err
	}
	if !containerExists(ctx, m.host) {
		return nil // not made yet, so it is off
	}
	st, err := inspect(ctx, m.host)
	if err != nil || !st.Running {
		return err
	}
	killed, err := noteKilled(ctx, m.host, st)
	if err != nil {
		return err
	}
	if killed {
		m.log.Info("killed while no daemon ran", "host", m.host.Name)
		return m.ended(ctx)
	}
	if err := m.watchInit(ctx); err != nil {
		return err
	}
	m.weigh(m.init, sharesOfHost) // the daemon that would have done it is gone
	return nil
}

// Power reports whether the host is powered.
func (m *machine) Power(context.Context) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.init != nil || m.reboot != nil, nil
}

// state returns the power, the pid of the host's init (0 while off) and the
// time of the last change.
func (m *machine) state() (Power, int, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.reboot != nil:
		return PowerPOST, 0, m.since
	case m.init != nil:
		return PowerOn, m.init.pid, m.since
	}
	return PowerOff, 0, m.since
}

// PowerOn boots the host and returns once its init runs.
func (m *machine) PowerOn(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopReboot()
	return m.boot(ctx)
}

// boot starts the host. The caller holds mu.
func (m *machine) boot(ctx context.Context) error {
	if m.noAC {
		return errNoAC
	}
	if m.init != nil {
		return nil
	}
	if err := settle(ctx, m.host); err != nil {
		return err
	}
	if err := m.plugged(ctx); err != nil {
		return err
	}
	if err := m.lab.renewNameServers(ctx, m.host); err != nil {
		return fmt.Errorf("name servers of host %s: %w", m.host.Name, err)
	}
	if err := nicsUp(m.lab.Layout, m.host, m.cutPorts()); err != nil {
		return fmt.Errorf("network of host %s: %w", m.host.Name, err)
	}
	// A podman that is killed in the middle leaves a host that runs, and that
	// podman neither knows to run nor starts again. close waits for the boot.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startPatience)
	defer cancel()
	if _, err := podman(ctx, "start", m.host.Container); err != nil {
		return errors.Join(fmt.Errorf("boot host %s: %w", m.host.Name, err), portsDown(m.lab.Layout, m.host))
	}
	m.log.Info("booted", "host", m.host.Name)
	if err := m.watchInit(ctx); err != nil {
		return err
	}
	if err := grantCPU(m.init.pid); err != nil {
		m.log.Warn("no processor time of its own, or no real-time scheduling for Corosync", "host", m.host.Name, "error", err)
	}
	m.weigh(m.init, sharesOfBooting)
	p := m.init
	time.AfterFunc(bootsFor, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.init == p {
			m.weigh(p, sharesOfHost)
		}
	})
	return nil
}

// weigh gives the host its weight against the other hosts. The caller holds mu.
func (m *machine) weigh(p *initProcess, shares int) {
	if err := weigh(p.pid, shares); err != nil {
		m.log.Warn("no weight of its own", "host", m.host.Name, "error", err)
	}
}

// startPatience bounds the time that podman needs to start a host.
const startPatience = 2 * time.Minute

// settlePatience bounds the time until podman notices that a host ended.
const settlePatience = 30 * time.Second

// settle waits until podman has noticed that the host ended.
func settle(ctx context.Context, h Host) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settlePatience, errors.New("podman still reports the stopped host as running"))
	defer cancel()
	st, err := inspect(ctx, h)
	if err != nil || !st.Running {
		return err
	}
	_, err = podman(ctx, "wait", h.Container)
	return err
}

// watchInit begins to watch the host's init. The caller holds mu.
func (m *machine) watchInit(ctx context.Context) error {
	p, err := openInit(ctx, m.host)
	if err != nil {
		return err
	}
	m.init, m.since = p, time.Now()
	m.initPID.Store(int64(p.pid))
	go m.watch(p) //nolint:contextcheck // it outlives the request that booted the host
	return nil
}

// watch waits for the end of a host that nobody cut: the host powered itself
// off, or it restarts.
func (m *machine) watch(p *initProcess) {
	p.wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	defer p.close() // nobody else does: PowerOff waits on it while it holds mu
	if m.init != p {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), time.Minute)
	defer cancel()
	if err := m.ended(ctx); err != nil {
		m.log.Error("host ended", "host", m.host.Name, "error", err)
	}
	if m.restarts(ctx) && !m.noAC {
		m.schedule()
	}
}

// close waits for a boot that goes on, and cancels one that is scheduled. The
// host keeps the power that it has.
func (m *machine) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopReboot()
}

// press acts as a hand on the power button: the host boots after its self-test.
func (m *machine) press(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.noAC {
		return errNoAC
	}
	if m.lab.Options.Spec.POSTDelay == 0 {
		return m.boot(ctx)
	}
	if m.init == nil && m.reboot == nil {
		m.schedule()
	}
	return nil
}

// restarts reports whether the host ended in order to restart.
func (m *machine) restarts(ctx context.Context) bool {
	if settle(ctx, m.host) != nil {
		return false
	}
	st, err := inspect(ctx, m.host)
	m.log.Info("host ended by itself", "host", m.host.Name, "exit", st.ExitCode)
	return err == nil && st.ExitCode == exitRestart
}

// schedule boots the host after its self-test. The caller holds mu.
func (m *machine) schedule() {
	m.since = time.Now()
	m.reboot = time.AfterFunc(m.lab.Options.Spec.POSTDelay, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.reboot == nil {
			return
		}
		m.reboot = nil
		if err := m.boot(m.ctx); err != nil {
			m.log.Error("reboot", "host", m.host.Name, "error", err)
		}
	})
}

// stopReboot cancels a scheduled boot. The caller holds mu.
func (m *machine) stopReboot() {
	if m.reboot != nil {
		m.reboot.Stop()
		m.reboot = nil
	}
}

// cutPatience bounds the time until a killed host ends. A disk that stalls
// delays the end by one stall, at most maxDelay.
const cutPatience = maxDelay + 30*time.Second

// endsWithin reports whether the process ends in time.
func (p *initProcess) endsWithin(d time.Duration) bool {
	poll := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	for end := time.Now().Add(d); ; {
		left := max(0, time.Until(end))
		n, err := unix.Poll(poll, int(left.Milliseconds()))
		if n > 0 || left == 0 || !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// PowerOff cuts the power: first the host's cables go dead, then its processes die,
// then etcd's disk loses what nobody has synced. It returns once nothing of the host
// runs or answers. A process that lived on beside a disk that has lost its files would
// see, and note, errors that no host without power sees.
func (m *machine) PowerOff(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopReboot()
	if m.init == nil {
		return nil
	}
	err := portsDown(m.lab.Layout, m.host)
	if killErr := m.init.signal(unix.SIGKILL); killErr != nil {
		return errors.Join(err, fmt.Errorf("kill host %s: %w", m.host.Name, killErr))
	}
	ends := m.init.endsWithin(cutPatience)
	m.forget()
	if !ends {
		return errors.Join(err, fmt.Errorf("host %s has not stopped within %s: one of its processes hangs in the kernel", m.host.Name, cutPatience))
	}
	m.log.Info("cut", "host", m.host.Name)
	return errors.Join(err, m.ended(ctx))
}

// ended cleans up after a host whose processes are gone. The caller holds mu.
func (m *machine) ended(ctx context.Context) error {
	m.init, m.since = nil, time.Now()
	m.initPID.Store(0)
	return errors.Join(portsDown(m.lab.Layout, m.host), resetNetwork(ctx, m.host))
}

// Shutdown asks the host to power itself off, and does not wait for it.
func (m *machine) Shutdown(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.init == nil {
		return nil
	}
	return m.init.signal(sigPowerOff)
}

// setMains gives or takes the mains power. Taking it does not yet cut the host;
// PowerOff does.
func (m *machine) setMains(present bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noAC = !present
}

func (m *machine) withoutMains() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.noAC
}
