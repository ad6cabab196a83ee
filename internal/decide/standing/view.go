package standing

import (
	"time"

	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/finding"
)

// Answer is the answer to a question that may have none.
type Answer string

// The answers.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown"
)

// View is where a cluster stands, in words. A terminal, a program and the
// dashboard show the same one.
type View struct {
	Cluster string    `json:"cluster"`
	At      time.Time `json:"at"`
	// Status is the same word as that of `holdfast explain`, with the same exit
	// code.
	Status explain.Status `json:"status"`
	// Summary is one sentence.
	Summary    string            `json:"summary"`
	Redundancy Redundancy        `json:"redundancy"`
	Hosts      []HostLine        `json:"hosts"`
	Fencing    []FencingLine     `json:"fencing,omitempty"`
	VIPs       []VIPLine         `json:"vips,omitempty"`
	Findings   []finding.Finding `json:"findings"`
	// Incidents are nil where nobody told of any.
	Incidents []Incident   `json:"incidents,omitempty"`
	Sources   []SourceLine `json:"sources"`
}

// Redundancy is what the loss of a host would come to.
type Redundancy struct {
	Survives Answer `json:"survives"`
	Sentence string `json:"sentence"`
	// Losses has one entry a control plane.
	Losses []Loss `json:"losses,omitempty"`
}

// Loss is what the loss of one host would come to.
type Loss struct {
	Host     string `json:"host"`
	Survives Answer `json:"survives"`
	// Because says why not, in a few words; Detail is all that is reported.
	Because string `json:"because,omitempty"`
	Detail  string `json:"detail,omitempty"`
}

// Cell is one word, or a few, about a host. Good is empty where it is neither
// good nor bad.
type Cell struct {
	Text string `json:"text"`
	Good Answer `json:"good,omitempty"`
	// From is who said it, At when it was so.
	From string    `json:"from,omitempty"`
	At   time.Time `json:"at,omitzero"`
}

// HostLine is one host.
type HostLine struct {
	Name      string   `json:"name"`
	Role      string   `json:"role"`
	Addresses []string `json:"addresses,omitempty"`
	Power     Cell     `json:"power"`
	Kubelet   Cell     `json:"kubelet"`
	// Record is empty on a host that is not one of two.
	Record Cell `json:"record,omitzero"`
	// Etcd and Lag are empty on a worker.
	Etcd Cell `json:"etcd,omitzero"`
	Lag  Cell `json:"lag,omitzero"`
	// Doing is what its agent of etcd says it does.
	Doing string `json:"doing,omitempty"`
}

// FencingLine says whether one host can be fenced. Able is so at the moment,
// Verified when that was last shown, Last the last fence of the host.
type FencingLine struct {
	Host     string `json:"host"`
	Able     Cell   `json:"able"`
	Verified Cell   `json:"verified"`
	Last     Cell   `json:"last"`
}

// VIPLine is one virtual IP.
type VIPLine struct {
	Address string `json:"address"`
	Kind    string `json:"kind"`
	Holder  Cell   `json:"holder"`
}

// SourceLine is where facts are from.
type SourceLine struct {
	Kind     SourceKind `json:"kind"`
	Name     string     `json:"name"`
	Answered bool       `json:"answered"`
	Text     string     `json:"text"`
	Limits   []string   `json:"limits,omitempty"`
}

// Serious counts the findings that call for somebody.
func (v View) Serious() int {
	n := 0
	for _, f := range v.Findings {
		if f.Severity != finding.Note {
			n++
		}
	}
	return n
}
