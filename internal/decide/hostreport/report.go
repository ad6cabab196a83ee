// Package hostreport is what one host reports about itself, and what other
// decisions take from it: the input of an explanation, the facts of a status,
// and the health of two hosts that fence each other. All of them see a host
// through the same report, so they cannot disagree about it (ADR 0049).
package hostreport

import (
	"time"

	"github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Part is a part of a report. The caller names those that it needs: some cost
// time.
type Part string

// The parts.
const (
	Agent     Part = "agent"     // what the host's agent last wrote: network, loops, Pacemaker
	Etcd      Part = "etcd"      // the report of the etcd keeper, and the record
	Evidence  Part = "evidence"  // where the keeper does not answer: etcd's data, and the proofs
	Devices   Part = "devices"   // whom the host can fence
	History   Part = "history"   // its fences, and the confirmations given on it
	Incidents Part = "incidents" // the reports of incidents that it keeps
	Pacemaker Part = "pacemaker" // Pacemaker's own answer
	Machine   Part = "machine"   // its boot and its SMBIOS identity
	Checks    Part = "checks"    // what `holdfast doctor` checks of it
	Disk      Part = "disk"      // with the checks, a measurement of etcd's disk, which writes to it
)

// Parts returns all parts that only read.
func Parts() []Part {
	return []Part{Agent, Etcd, Evidence, Devices, History, Incidents, Pacemaker, Machine, Checks}
}

// ForExplanation returns the parts for an explanation of etcd.
func ForExplanation() []Part { return []Part{Machine, Devices, Etcd, Evidence} }

// ForStanding returns the parts for a status.
func ForStanding() []Part { return []Part{Agent, Etcd, History, Incidents} }

// ForFencing returns the parts for a test of fencing.
func ForFencing() []Part { return []Part{Machine, Devices, Etcd, Pacemaker, History} }

// Report is what one host reports about itself. It holds no secret.
type Report struct {
	// Host is the host's own name, At the time by its own clock.
	Host string    `json:"host"`
	At   time.Time `json:"at"`
	// Asked lists the parts that were asked for. Facts of other parts are unknown.
	Asked []Part `json:"asked"`

	// Part agent. Watched is the agent's last report on Pacemaker.
	Network state.Seen[state.NetworkStatus]    `json:"network"`
	Loops   state.Seen[state.LoopsStatus]      `json:"loops"`
	Watched state.Seen[pacemakerstatus.Report] `json:"watched"`
	// Space is about the space of etcd; only a control plane has it.
	Space state.Seen[etcdspace.Report] `json:"space"`

	// Part etcd. Record is the record on the disk. Deleted lists what the agent finds missing
	// on the host. Ousted is what the host wrote down about another machine in its place.
	Keeper state.Seen[state.EtcdReport] `json:"keeper"`
	Record state.Seen[state.EtcdRecord] `json:"record"`

	Deleted state.Seen[state.DeletedStatus] `json:"deleted"`
	Ousted  state.Seen[string]              `json:"ousted"`

	// Part evidence, unknown if the keeper answers. Fenced is the proof that the
	// peer was fenced in this boot.
	Running      state.Seen[bool]               `json:"running"`
	Data         state.Seen[state.EtcdData]     `json:"data"`
	Confirmation state.Seen[state.Confirmation] `json:"confirmation"`
	Fenced       state.Seen[state.EtcdFenced]   `json:"fenced"`

	// Part devices. Targets are the hosts that this one can fence, BMC is the
	// address of its peer's BMC.
	Targets state.Seen[[]string] `json:"targets"`
	BMC     state.Seen[string]   `json:"bmc"`

	// Part history, the oldest first.
	Fences        state.Seen[[]state.FenceEntry]        `json:"fences"`
	Confirmations state.Seen[[]state.ConfirmationEntry] `json:"confirmations"`

	// Part incidents, the newest first.
	Incidents state.Seen[[]standing.Incident] `json:"incidents"`

	// Part pacemaker.
	Pacemaker state.Seen[Cluster] `json:"pacemaker"`

	// Part machine.
	Boot     state.Seen[Boot]     `json:"boot"`
	Identity state.Seen[Identity] `json:"identity"`

	// Part checks.
	Doctor state.Seen[doctor.Host] `json:"doctor"`
}

// Boot is one boot of a host.
type Boot struct {
	ID     string        `json:"id"`
	Uptime time.Duration `json:"uptimeNanoseconds"`
}

// Identity is the identity of a host in its SMBIOS.
type Identity struct {
	UUID   string `json:"uuid,omitempty"`
	Serial string `json:"serial,omitempty"`
}

// Cluster is Pacemaker's status.
type Cluster struct {
	Online []string `json:"online,omitempty"`
	// Running lists for each resource the nodes on which it runs.
	Running  map[string][]string `json:"running,omitempty"`
	Failures []string            `json:"failures,omitempty"`
}

// Peer returns the one other host that this one could fence, empty if there is
// none.
func (r Report) Peer() string {
	for _, t := range r.Targets.Value { // without fencing the host is not one of two
		if t != r.Host {
			return t
		}
	}
	return ""
}
