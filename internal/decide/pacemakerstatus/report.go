package pacemakerstatus

import (
	"encoding/json"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
)

// Files in which a host keeps its report, so that `holdfast status` works without
// an API. LivePath holds the current report and ends with the boot; KeptPath holds
// the last report that differed from the one before.
const (
	LivePath = "/run/holdfast/pacemaker.json"
	KeptPath = "/var/lib/holdfast/pacemaker/status.json"
)

// Report holds a host's knowledge of the status, and whether the host writes the
// status to the API.
type Report struct {
	Host string    `json:"host"`
	At   time.Time `json:"at"` // time of the reading
	// Writes is true where this host writes the status in the API; Why gives the
	// reason in either case.
	Writes bool   `json:"writes"`
	Why    string `json:"why"`
	// Published is when the API last accepted a status from this host, zero for
	// never.
	Published time.Time `json:"published,omitzero"`
	// API describes what keeps this host from writing, empty for nothing.
	API string `json:"api,omitempty"`
	// Lost is the time since when the peer is missing in Corosync's membership,
	// zero where it is there. TakeOver describes the last take-over by this host.
	Lost     time.Time                     `json:"lost,omitzero"`
	TakeOver TakeOver                      `json:"takeOver,omitzero"`
	Status   etcdv1.PacemakerClusterStatus `json:"status"`
	// Known holds the last known value of each condition (func Known). An agent
	// that starts continues from Status.
	Known etcdv1.PacemakerClusterStatus `json:"-"`
}

// MarshalJSON writes the status as the API gets it.
func (r Report) MarshalJSON() ([]byte, error) {
	type plain Report
	return json.Marshal(struct {
		plain

		Status json.RawMessage `json:"status"`
	}{plain(r), JSON(r.Status)})
}

// NodeNames returns the names of the nodes in a status.
func NodeNames(s etcdv1.PacemakerClusterStatus) []string {
	var out []string
	if s.Nodes != nil {
		for _, n := range *s.Nodes {
			out = append(out, n.NodeName)
		}
	}
	return out
}
