package lab

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/lab/bmc"
)

// FaultKind names a fault.
type FaultKind string

// The faults. Each is a state of the lab that Clear undoes, except
// FaultProcessKill, FaultReset and FaultEtcdDamage, which are over once they
// are done.
const (
	// FaultPowerCut pulls the plug of a host; its BMC stays. Clearing it
	// switches the host on.
	FaultPowerCut FaultKind = "power-cut"
	// FaultShutdown asks the host to end. Clearing it switches the host on.
	FaultShutdown FaultKind = "shutdown"
	// FaultReset cuts a host and switches it on again.
	FaultReset FaultKind = "reset"
	// FaultACLoss takes the power of host and BMC. Clearing it gives both back
	// and switches the host on.
	FaultACLoss FaultKind = "ac-loss"
	// FaultLinkDown pulls the cable of a NIC, or shuts its port of the switch:
	// both ends lose their carrier.
	FaultLinkDown FaultKind = "link-down"
	// FaultNoForward makes the switch's port of a NIC forward nothing, like a
	// port that a spanning tree blocks: the carrier stays, but no frame passes.
	FaultNoForward FaultKind = "no-forward"
	// FaultDrop drops every frame of one direction at the switch, including
	// those of ARP and neighbour discovery; the host's link stays up.
	FaultDrop FaultKind = "drop"
	// FaultPartition drops every packet between a host and the other hosts of
	// one network. Each still reaches its gateway, and clients reach both.
	FaultPartition FaultKind = "partition"
	// FaultFilterPort drops what goes to one Port, of the host (in), of others
	// (out) or both, on both networks, as a firewall with a wrong rule does.
	FaultFilterPort FaultKind = "filter-port"
	// FaultLoss drops Percent of the packets of both directions at random.
	FaultLoss FaultKind = "loss"
	// FaultDelay delays the packets of both directions by Delay each.
	FaultDelay FaultKind = "delay"
	// FaultProcessKill kills processes by SIGKILL, once.
	FaultProcessKill FaultKind = "process-kill"
	// FaultProcessStop stops processes. Clearing it lets them go on.
	FaultProcessStop FaultKind = "process-stop"
	// FaultFreezeCgroup freezes processes by their control group. Unlike a
	// signal this does not stop them, and SIGKILL ends them. Clearing it lets
	// them go on.
	FaultFreezeCgroup FaultKind = "freeze-cgroup"
	// FaultEtcdDamage damages Part of etcd's files on disk, once. A running
	// etcd may not notice before it is started again.
	FaultEtcdDamage FaultKind = "etcd-damage"
	// FaultDiskFull fills the file system that etcd writes to.
	FaultDiskFull FaultKind = "disk-full"
	// FaultSlowDisk makes every write and fsync of etcd's file system wait up
	// to Delay.
	FaultSlowDisk FaultKind = "slow-disk"
	// FaultHangDisk makes every write and fsync of etcd's file system wait
	// until the fault is cleared, across boots of the host.
	FaultHangDisk FaultKind = "hang-disk"
	// FaultBMC switches on a quirk of the host's BMC.
	FaultBMC FaultKind = "bmc"
)

// Directions as seen from the host.
const (
	DirectionIn   = "in"
	DirectionOut  = "out"
	DirectionBoth = "both"
)

// NICs by the network they are on.
const (
	OnMachine = "machine"
	OnFencing = "fencing"
)

// Fault is one fault in force on a host. Fields that its kind does not name
// are empty.
type Fault struct {
	Kind FaultKind `json:"kind"`
	Host string    `json:"host"`
	// NIC is machine or fencing; default machine.
	NIC string `json:"nic,omitempty"`
	// Direction is in or out, from the host's point of view, or both.
	Direction string `json:"direction,omitempty"`
	// Port is the filtered port, of Protocol or, without one, of tcp and udp.
	Port     int    `json:"port,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	// Percent of packets, 1 to 100.
	Percent int `json:"percent,omitempty"`
	// Delay of a packet or of the disk.
	Delay time.Duration `json:"delay,omitempty"`
	// Process is the name of the affected processes.
	Process string `json:"process,omitempty"`
	// Part is the part of etcd's directory to damage.
	Part string `json:"part,omitempty"`
	// Quirk and Value name a quirk of the BMC and its value.
	Quirk string    `json:"quirk,omitempty"`
	Value string    `json:"value,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// faultKinds marks the fields that each kind needs.
var faultKinds = map[FaultKind]struct{ nic, direction, percent, delay, process, part, quirk, port bool }{
	FaultPowerCut:     {},
	FaultShutdown:     {},
	FaultReset:        {},
	FaultACLoss:       {},
	FaultLinkDown:     {nic: true},
	FaultNoForward:    {nic: true},
	FaultDrop:         {nic: true, direction: true},
	FaultFilterPort:   {port: true},
	FaultPartition:    {nic: true},
	FaultLoss:         {nic: true, percent: true},
	FaultDelay:        {nic: true, delay: true},
	FaultProcessKill:  {process: true},
	FaultProcessStop:  {process: true},
	FaultFreezeCgroup: {process: true},
	FaultEtcdDamage:   {part: true},
	FaultDiskFull:     {},
	FaultSlowDisk:     {delay: true},
	FaultHangDisk:     {},
	FaultBMC:          {quirk: true},
}

// FaultKinds lists all kinds, sorted.
func FaultKinds() []FaultKind { return slices.Sorted(maps.Keys(faultKinds)) }

// maxDelay bounds delays: a longer one would be a cut.
const maxDelay = time.Minute

// Check returns every mistake of a fault. It fills in the default NIC and
// direction.
func (f *Fault) Check() error {
	needs, ok := faultKinds[f.Kind]
	if !ok {
		return fmt.Errorf("fault %q: there is no such fault", f.Kind)
	}
	if needs.nic && f.NIC == "" {
		f.NIC = OnMachine
	}
	if needs.port && f.Direction == "" {
		f.Direction = DirectionBoth
	}
	return errors.Join(
		check(!needs.nic || f.NIC == OnMachine || f.NIC == OnFencing, "%s: NIC %q: must be machine or fencing", f.Kind, f.NIC),
		check(!needs.direction || f.Direction == DirectionIn || f.Direction == DirectionOut, "%s: direction %q: must be in or out", f.Kind, f.Direction),
		check(!needs.percent || f.Percent >= 1 && f.Percent <= 100, "%s: percent %d: must be 1 to 100", f.Kind, f.Percent),
		check(!needs.delay || f.Delay >= time.Millisecond && f.Delay <= maxDelay, "%s: delay %s: must be 1ms to %s", f.Kind, f.Delay, maxDelay),
		check(!needs.process || f.Process != "", "%s: name a process, for example etcd", f.Kind),
		check(!needs.part || slices.Contains(DamageParts(), f.Part), "%s: part %q: must be one of %s", f.Kind, f.Part, strings.Join(DamageParts(), ", ")),
		f.checkPort(needs.port),
		f.checkQuirk(needs.quirk),
	)
}

func (f *Fault) checkPort(needed bool) error {
	if !needed {
		return nil
	}
	return errors.Join(
		check(f.Port >= 1 && f.Port <= 65535, "%s: port %d: must be 1 to 65535, for example 2380/tcp", f.Kind, f.Port),
		check(slices.Contains([]string{"", "tcp", "udp"}, f.Protocol), "%s: protocol %q: must be tcp or udp, or none for both", f.Kind, f.Protocol),
		check(slices.Contains([]string{DirectionIn, DirectionOut, DirectionBoth}, f.Direction), "%s: direction %q: must be in, out or both", f.Kind, f.Direction),
	)
}

func (f *Fault) checkQuirk(needed bool) error {
	if !needed {
		return nil
	}
	return new(bmc.Quirks).Set(f.Quirk, f.Value)
}

// lasting reports whether the fault is in force until it is cleared.
func (f Fault) lasting() bool {
	return f.Kind != FaultProcessKill && f.Kind != FaultReset && f.Kind != FaultEtcdDamage
}

// same reports whether g replaces f: the same fault at the same place, possibly
// of another strength.
func (f Fault) same(g Fault) bool {
	return f.Kind == g.Kind && f.Host == g.Host && f.NIC == g.NIC && f.Direction == g.Direction &&
		f.Process == g.Process && f.Quirk == g.Quirk && f.Port == g.Port && f.Protocol == g.Protocol
}

// String describes the fault as the command line that makes it.
func (f Fault) String() string {
	words := []string{string(f.Kind), f.Host}
	add := func(flag, value string) {
		if value != "" {
			words = append(words, "--"+flag, value)
		}
	}
	if f.Port != 0 {
		words = append(words, f.port())
	}
	add("nic", f.NIC)
	add("direction", f.Direction)
	if f.Percent != 0 {
		add("percent", fmt.Sprint(f.Percent))
	}
	if f.Delay != 0 {
		add("delay", f.Delay.String())
	}
	if strings.Contains(f.Process, " ") {
		words = append(words, "--process", strconv.Quote(f.Process))
	} else {
		add("process", f.Process)
	}
	add("part", f.Part)
	if f.Quirk != "" {
		words = append(words, strings.TrimSuffix(f.Quirk+"="+f.Value, "="))
	}
	return strings.Join(words, " ")
}

// port returns the filtered port and protocol as they stand in the command
// line.
func (f Fault) port() string {
	return strings.TrimSuffix(fmt.Sprintf("%d/%s", f.Port, f.Protocol), "/")
}

// SetPort sets port and protocol from PORT or PORT/PROTOCOL.
func (f *Fault) SetPort(text string) error {
	number, protocol, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(number)
	if err != nil {
		return fmt.Errorf("port %q: must be a number, optionally with /tcp or /udp", text)
	}
	f.Port, f.Protocol = n, protocol
	return nil
}
