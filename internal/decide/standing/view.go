package standing

import (
	"time"

	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
)

// Answer is the answer to a question, or Unknown.
type Answer string

// The answers.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown"
)

// View describes the state of a cluster in words. A terminal, a program and the
// dashboard show the same one.
type View struct {
	Cluster string    `json:"cluster"`
	At      time.Time `json:"at"`
	// Status is one of the words of `holdfast explain`, with the same exit
	// code.
	Status explain.Status `json:"status"`
	// Summary is one sentence about the whole.
	Summary    string            `json:"summary"`
	Redundancy Redundancy        `json:"redundancy"`
	Hosts      []HostLine        `json:"hosts"`
	Fencing    []FencingLine     `json:"fencing,omitempty"`
	VIPs       []VIPLine         `json:"vips,omitempty"`
	Findings   []finding.Finding `json:"findings"`
	// Upgrade is nil unless one is wanted, or hosts run different releases.
	Upgrade *people.Brief `json:"upgrade,omitempty"`
	// Backup is nil if no host reports its backups.
	Backup *BackupBrief `json:"backup,omitempty"`
	// Incidents are nil where nobody told of any.
	Incidents []Incident   `json:"incidents,omitempty"`
	Sources   []SourceLine `json:"sources"`
}

// Redundancy describes what the loss of a host would lead to.
type Redundancy struct {
	Survives Answer `json:"survives"`
	Sentence string `json:"sentence"`
	// Cause is the sentence without what changes by itself, empty for the same.
	Cause string `json:"-"`
	// Losses has one entry for each control plane.
	Losses []Loss `json:"losses,omitempty"`
}

// Loss describes what the loss of one host would lead to.
type Loss struct {
	Host     string `json:"host"`
	Survives Answer `json:"survives"`
	// Because says why not, in a few words; Detail has everything that is
	// reported.
	Because string `json:"because,omitempty"`
	Detail  string `json:"detail,omitempty"`
}

// Cell is a word or a few about a host. Good is empty if the text is neither
// good nor bad.
type Cell struct {
	Text string `json:"text"`
	// State is the text without what changes by itself, empty for the same.
	State string `json:"-"`
	Good  Answer `json:"good,omitempty"`
	// From is the source, At the time of the fact.
	From string    `json:"from,omitempty"`
	At   time.Time `json:"at,omitzero"`
}

// HostLine describes one host.
type HostLine struct {
	Name      string   `json:"name"`
	Role      string   `json:"role"`
	Addresses []string `json:"addresses,omitempty"`
	Power     Cell     `json:"power"`
	Kubelet   Cell     `json:"kubelet"`
	// Record is empty unless the host is one of two control planes.
	Record Cell `json:"record,omitzero"`
	// Etcd and Lag are empty on a worker.
	Etcd Cell `json:"etcd,omitzero"`
	Lag  Cell `json:"lag,omitzero"`
	// Doing is what its etcd keeper says it does.
	Doing string `json:"doing,omitempty"`
}

// FencingLine says whether one host can be fenced: Able now, Verified when that
// was last shown, and Last its last fence.
type FencingLine struct {
	Host     string `json:"host"`
	Able     Cell   `json:"able"`
	Verified Cell   `json:"verified"`
	Last     Cell   `json:"last"`
}

// VIPLine describes one VIP.
type VIPLine struct {
	Address string `json:"address"`
	Kind    string `json:"kind"`
	Holder  Cell   `json:"holder"`
}

// SourceLine describes one source of facts.
type SourceLine struct {
	Kind     SourceKind `json:"kind"`
	Name     string     `json:"name"`
	Answered bool       `json:"answered"`
	Text     string     `json:"text"`
	Limits   []string   `json:"limits,omitempty"`
}

// Serious counts the findings that need attention: all but notes.
func (v View) Serious() int {
	n := 0
	for _, f := range v.Findings {
		if f.Severity != finding.Note {
			n++
		}
	}
	return n
}
