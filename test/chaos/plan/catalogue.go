package plan

import (
	"math/rand/v2"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
)

// trait is a property of a step that may conflict with another step.
type trait uint

const (
	ofDisk   trait = 1 << iota // etcd's disk
	destroys                   // a data directory of etcd is lost
	unproven                   // its host cannot be proven to be off
)

// choice is one step that may be drawn. Its kind is that of its fault, if it is
// one.
type choice struct {
	kind   string
	traits trait
	make   func(*rand.Rand) Step
}

func fault(kind lab.FaultKind, make func(*rand.Rand) lab.Fault, traits ...trait) choice {
	c := choice{kind: string(kind), make: func(r *rand.Rand) Step {
		f := make(r)
		return Step{Fault: &f}
	}}
	for _, t := range traits {
		c.traits |= t
	}
	return c
}

func plain(*rand.Rand) lab.Fault { return lab.Fault{} }

func script(kind, do, undo string) choice {
	return choice{kind: kind, make: func(*rand.Rand) Step { return Step{Script: do, Undo: undo} }}
}

func nic(r *rand.Rand) lab.Fault {
	if r.IntN(4) == 0 {
		return lab.Fault{NIC: lab.OnFencing}
	}
	return lab.Fault{NIC: lab.OnMachine}
}

func process(r *rand.Rand) lab.Fault { return lab.Fault{Process: pick(r, lab.Processes())} }

// Ports between the hosts: etcd, Corosync, API server, kubelet.
var ports = []lab.Fault{
	{Port: 2379, Protocol: "tcp"},
	{Port: 2380, Protocol: "tcp"},
	{Port: 5405, Protocol: "udp"},
	{Port: 6443, Protocol: "tcp"},
	{Port: 10250, Protocol: "tcp"},
}

// quirks lists the possible faults of a BMC.
var quirks = []lab.Fault{
	{Quirk: "slow-off", Value: "10s"},
	{Quirk: "delay", Value: "5s"},
	{Quirk: "conflict-when-off"},
	{Quirk: "conflict-when-on"},
	{Quirk: "error-yet-acts"},
	{Quirk: "mute"},
	{Quirk: "auth-status", Value: "401"},
	{Quirk: "says", Value: "null"},
	{Quirk: "powering-off-sticks"},
	{Quirk: "accept-and-ignore"},
}

// everywhere lists the choices for every host.
var everywhere = []choice{
	fault(lab.FaultPowerCut, plain),
	fault(lab.FaultReset, plain),
	fault(lab.FaultShutdown, plain),
	fault(lab.FaultACLoss, plain, unproven),
	fault(lab.FaultLinkDown, nic),
	fault(lab.FaultNoForward, nic),
	fault(lab.FaultPartition, nic),
	fault(lab.FaultDrop, func(r *rand.Rand) lab.Fault {
		f := nic(r)
		f.Direction = pick(r, []string{lab.DirectionIn, lab.DirectionOut})
		return f
	}),
	fault(lab.FaultLoss, func(r *rand.Rand) lab.Fault { return lab.Fault{Percent: 1 + r.IntN(40)} }),
	fault(lab.FaultDelay, func(r *rand.Rand) lab.Fault {
		return lab.Fault{Delay: time.Duration(1+r.IntN(15)) * 10 * time.Millisecond}
	}),
	script("reboot", "systemctl --no-block reboot", ""),
	script("forced reboot", "systemctl --no-block --force --force reboot", ""),
	script("node deleted", kubectl+"delete node $HOST --wait=false", ""),
}

const kubectl = "timeout 30 kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 10s "

// ofControlPlanes lists the choices for a control plane.
var ofControlPlanes = append([]choice{
	fault(lab.FaultFilterPort, func(r *rand.Rand) lab.Fault {
		f := pick(r, ports)
		f.Direction = pick(r, []string{lab.DirectionIn, lab.DirectionOut, lab.DirectionBoth})
		return f
	}),
	fault(lab.FaultProcessKill, process),
	fault(lab.FaultProcessKill, process),
	fault(lab.FaultProcessStop, process),
	fault(lab.FaultProcessStop, process),
	fault(lab.FaultFreezeCgroup, func(*rand.Rand) lab.Fault { return lab.Fault{Process: "etcd"} }),
	fault(lab.FaultDiskFull, plain, ofDisk),
	fault(lab.FaultHangDisk, plain, ofDisk),
	fault(lab.FaultSlowDisk, func(r *rand.Rand) lab.Fault {
		return lab.Fault{Delay: time.Duration(1+r.IntN(8)) * 100 * time.Millisecond}
	}, ofDisk),
	fault(lab.FaultEtcdDamage, func(r *rand.Rand) lab.Fault { return lab.Fault{Part: pick(r, lab.DamageParts())} }, ofDisk, destroys),
	fault(lab.FaultBMC, func(r *rand.Rand) lab.Fault { return pick(r, quirks) }),
	script("standby", "pcs node standby $HOST", "pcs node unstandby $HOST"),
	script("cluster stop", "timeout 120 pcs cluster stop --force", "pcs cluster start"),
	script("resource restart", "timeout 120 pcs resource restart etcd-clone $HOST", ""),
	script("resource cleanup", "pcs resource cleanup", ""),
	script("stonith fence", "timeout 120 pcs stonith fence $PEER", ""),
	script("pods deleted", kubectl+"--namespace kube-system delete pods --all --wait=false", ""),
	script("run directory emptied", "rm -rf /run/holdfast/etcd/*", ""),
}, everywhere...)

// ofWorkers lists the choices for a worker.
var ofWorkers = append([]choice{
	fault(lab.FaultProcessKill, func(r *rand.Rand) lab.Fault { return lab.Fault{Process: pick(r, []string{"kubelet", "containerd"})} }),
	fault(lab.FaultProcessStop, func(r *rand.Rand) lab.Fault { return lab.Fault{Process: pick(r, []string{"kubelet", "containerd"})} }),
}, everywhere...)
