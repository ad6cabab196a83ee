package pacemakerstatus

import (
	"encoding/json"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
)

// Where a host keeps what it knows, for `holdfast status` without an API: what
// is now, which ends with the boot, and the last that was different.
const (
	LivePath = "/run/holdfast/pacemaker.json"
	KeptPath = "/var/lib/holdfast/pacemaker/status.json"
)

// Report is what a host knows and does about the status.
type Report struct {
	Host string    `json:"host"`
	At   time.Time `json:"at"` // when it was looked up
	// Writes is true where this host writes the status in the API; Why says why
	// it does or does not.
	Writes bool   `json:"writes"`
	Why    string `json:"why"`
	// Published is when the API last took what this host wrote, zero for never.
	Published time.Time `json:"published,omitzero"`
	// API is what keeps this host from writing, empty for nothing.
	API string `json:"api,omitempty"`
	// Lost is since when the peer is not in Corosync's membership, zero where it
	// is; TakeOver is how the last take-over by this host went.
	Lost     time.Time                     `json:"lost,omitzero"`
	TakeOver TakeOver                      `json:"takeOver,omitzero"`
	Status   etcdv1.PacemakerClusterStatus `json:"status"`
	// Known is what was known last of each condition (Known). An agent that
	// starts goes on with Status.
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
