package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/lab/bmc"
)

// faults holds the faults in force on a lab. The list and the lab always agree:
// each change is first applied and then saved.
type faults struct {
	lab *Lab
	log *slog.Logger
	// These functions reach into the daemon.
	machines func(name string) (*machine, error)
	power    func(context.Context, PowerRequest) error
	bmcOf    func(*machine) *bmc.Server

	mu      sync.Mutex
	inForce []Fault
	relays  map[string]*relay   // by switch port
	stalls  map[string]*staller // by host
	hangs   map[string]*staller // by host
	cut     map[string]bool     // switch ports without a cable
}

func newFaults(d *daemon) *faults {
	return &faults{
		lab: d.lab, log: d.log, machines: d.machine, power: d.power, bmcOf: d.bmcOf,
		relays: map[string]*relay{}, stalls: map[string]*staller{}, hangs: map[string]*staller{}, cut: map[string]bool{},
	}
}

// load puts the faults in force again that were in force before the daemon was
// restarted.
func (f *faults) load(ctx context.Context) error {
	var list []Fault
	if err := readJSON(f.lab.file(faultsFile), &list); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	for _, fault := range list {
		if err := f.apply(ctx, fault, true); err != nil {
			f.log.Error("fault is lost", "fault", fault.String(), "error", err)
			continue
		}
		f.mu.Lock()
		f.inForce = append(f.inForce, fault)
		f.mu.Unlock()
	}
	return f.reload(ctx)
}

func (f *faults) list() []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.inForce)
}

// cutPorts returns the switch ports that stay down when a host boots.
func (f *faults) cutPorts() map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]bool{}
	for port := range f.cut {
		out[port] = true
	}
	return out
}

// inject puts a fault in force. It replaces the same fault of another strength.
func (f *faults) inject(ctx context.Context, fault Fault) error {
	if err := fault.Check(); err != nil {
		return err
	}
	fault.Since = time.Now().UTC()
	if err := f.apply(ctx, fault, false); err != nil {
		return fmt.Errorf("fault %s: %w", fault, err)
	}
	if !fault.lasting() {
		return nil
	}
	f.mu.Lock()
	f.inForce = append(slices.DeleteFunc(f.inForce, fault.same), fault)
	f.mu.Unlock()
	return errors.Join(f.reload(ctx), f.keep())
}

// clear undoes the faults that match the request and returns them. A fault that
// could not be undone stays in the list.
func (f *faults) clear(ctx context.Context, r ClearRequest) ([]Fault, error) {
	var done []Fault
	var errs []error
	for _, fault := range undoFirst(f.list()) {
		if r.Host != "" && r.Host != fault.Host || r.Kind != "" && r.Kind != fault.Kind {
			continue
		}
		f.drop(fault)
		if err := f.undo(ctx, fault); err != nil {
			errs = append(errs, fmt.Errorf("clear %s: %w", fault, err))
			f.restore(fault)
			continue
		}
		done = append(done, fault)
	}
	return done, errors.Join(append(errs, f.reload(ctx), f.keep())...)
}

// undoFirst sorts faults into the order in which to undo them: hanging disks
// first, because while a disk hangs nothing on it can be undone.
func undoFirst(list []Fault) []Fault {
	hangs := func(f Fault) bool { return f.Kind == FaultHangDisk }
	rest := slices.DeleteFunc(slices.Clone(list), hangs)
	return append(slices.DeleteFunc(list, func(f Fault) bool { return !hangs(f) }), rest...)
}

func (f *faults) drop(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inForce = slices.DeleteFunc(f.inForce, fault.same)
}

func (f *faults) restore(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inForce = append(f.inForce, fault)
}

func (f *faults) keep() error { return writeJSON(f.lab.file(faultsFile), f.list()) }

// reload makes the switch's packet rules those of the faults in force.
func (f *faults) reload(ctx context.Context) error {
	return applyRules(ctx, namespace(f.lab.Layout.Switch()), packetRules(f.lab.Layout, f.list()))
}

// close ends everything that faults run in this process. The list stays, and
// the next daemon puts it in force again.
func (f *faults) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, list := range []map[string]*staller{f.stalls, f.hangs} {
		for _, s := range list {
			s.stop()
		}
	}
	for _, r := range f.relays {
		if err := r.stop(); err != nil {
			f.log.Error("end of a delay", "port", r.nic.Port, "error", err)
		}
	}
}

// apply puts a fault in force. again is set if it was in force before the
// daemon was restarted; the power of the hosts is then as the fault left it.
func (f *faults) apply(ctx context.Context, fault Fault, again bool) error {
	m, err := f.machines(fault.Host)
	if err != nil {
		return err
	}
	switch fault.Kind {
	case FaultPowerCut, FaultShutdown, FaultReset, FaultACLoss:
		return f.applyPower(ctx, m, fault, again)
	case FaultLinkDown:
		return f.plugged(m.host, fault.NIC, false)
	case FaultDelay:
		return f.startRelay(nicOf(m.host, fault.NIC), fault)
	case FaultProcessKill:
		return signalProcesses(ctx, m.host, fault.Process, sigKill)
	case FaultProcessStop:
		if again {
			return nil
		}
		return signalProcesses(ctx, m.host, fault.Process, sigStop)
	case FaultFreezeCgroup:
		if again {
			return nil
		}
		return freezeProcesses(ctx, m.host, fault.Process)
	case FaultDiskFull:
		return f.written(ctx, m, fillDisk)
	case FaultEtcdDamage:
		return f.written(ctx, m, func(dir string) error { return damageEtcd(dir, fault.Part) })
	case FaultHangDisk:
		return f.hangDisk(ctx, m)
	case FaultSlowDisk:
		return f.startStalls(ctx, m, fault.Delay)
	case FaultBMC:
		return f.setQuirk(m, fault, false) //nolint:contextcheck // the controller outlives the request
	case FaultDrop, FaultLoss, FaultPartition, FaultNoForward, FaultFilterPort: // they need only packet rules
	}
	return nil
}

//nolint:exhaustive // the others are not about power
var powerFaults = map[FaultKind]PowerAction{
	FaultPowerCut: ActionCut, FaultShutdown: ActionShutdown, FaultReset: ActionReset, FaultACLoss: ActionACLoss,
}

func (f *faults) applyPower(ctx context.Context, m *machine, fault Fault, again bool) error {
	if again && fault.Kind != FaultACLoss {
		return nil
	}
	return f.power(ctx, PowerRequest{Host: m.host.Name, Action: powerFaults[fault.Kind]})
}

// undo ends a fault that is no longer in the list.
func (f *faults) undo(ctx context.Context, fault Fault) error {
	m, err := f.machines(fault.Host)
	if err != nil {
		return err
	}
	switch fault.Kind {
	case FaultACLoss:
		back := f.power(ctx, PowerRequest{Host: m.host.Name, Action: ActionACBack})
		return errors.Join(back, m.press(ctx))
	case FaultPowerCut, FaultShutdown:
		return m.press(ctx)
	case FaultLinkDown:
		return f.plugged(m.host, fault.NIC, true)
	case FaultDelay:
		return f.stopRelay(nicOf(m.host, fault.NIC))
	case FaultProcessStop:
		return ignoreNoProcess(signalProcesses(ctx, m.host, fault.Process, sigCont))
	case FaultFreezeCgroup:
		return thawProcesses(ctx, m.host, fault.Process)
	case FaultHangDisk:
		f.releaseDisk(m.host)
		return nil
	case FaultDiskFull:
		return f.written(ctx, m, emptyDisk)
	case FaultSlowDisk:
		f.stopStalls(m.host)
		return nil
	case FaultBMC:
		return f.setQuirk(m, fault, true) //nolint:contextcheck // the controller outlives the request
	case FaultDrop, FaultLoss, FaultPartition, FaultNoForward, FaultFilterPort, FaultProcessKill, FaultReset, FaultEtcdDamage:
	}
	return nil
}

func (f *faults) setQuirk(m *machine, fault Fault, back bool) error {
	server := f.bmcOf(m)
	q := server.Quirks()
	var err error
	if back {
		err = q.Clear(fault.Quirk)
	} else {
		err = q.Set(fault.Quirk, fault.Value)
	}
	if err == nil {
		server.SetQuirks(q)
	}
	return err
}

// plugged connects or pulls the cable of a NIC. If the host is off, a connected
// cable gets its carrier only when the host boots.
func (f *faults) plugged(h Host, network string, in bool) error {
	nic := nicOf(h, network)
	f.mu.Lock()
	if in {
		delete(f.cut, nic.Port)
	} else {
		f.cut[nic.Port] = true
	}
	f.mu.Unlock()
	m, err := f.machines(h.Name)
	if err != nil {
		return err
	}
	power, _, _ := m.state()
	return setPort(f.lab.Layout, nic, in && power == PowerOn)
}

func nicOf(h Host, network string) NIC {
	if network == OnFencing {
		return h.Fencing
	}
	return h.Machine
}
