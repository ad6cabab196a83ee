package annotation

import (
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
)

// Record is the record of an upgrade, as it stands in the ConfigMap RecordName under
// RecordKey. The operator alone writes it; others read it.
type Record struct {
	Format    int      `json:"format"`
	Upgrade   string   `json:"upgrade,omitempty"`
	From      string   `json:"from,omitempty"`
	To        string   `json:"to,omitempty"`
	Started   bool     `json:"started,omitempty"`
	Returning bool     `json:"returning,omitempty"`
	NoWayBack bool     `json:"noWayBack,omitempty"`
	Turns     []string `json:"turns,omitempty"`
	// Attempts are of the turns. An operator of a release of before leaves them out: it takes a
	// second turn back at once.
	Attempts map[string]int `json:"attempts,omitempty"`
	// Planes is how many control planes the site had when the upgrade began. An operator of a
	// release of before leaves it out, and then no control plane of three is taken out in an upgrade.
	Planes int `json:"planes,omitempty"`
	// Healthy is in nanoseconds.
	Healthy time.Duration `json:"healthy,omitempty"`
	Seen    time.Time     `json:"seen,omitzero"`
	// Backup is the backup that the operator asked for last. An operator of a release of
	// before leaves it out, and one that comes after that asks anew.
	Backup cluster.BackupWish `json:"backup,omitzero"`
	// Rollout, Settled and Failed are of payload.FormatRollout: an operator of a release
	// that does not have it leaves them out.
	Rollout cluster.Rollout `json:"rollout,omitzero"`
	Settled bool            `json:"settled,omitempty"`
	Failed  string          `json:"failed,omitempty"`
}

// RecordOf returns a record as it is written.
func RecordOf(r cluster.Record) Record {
	return Record{
		Upgrade: r.Upgrade, From: r.From, To: r.To, Started: r.Started, Returning: r.Returning, NoWayBack: r.NoWayBack,
		Turns: r.Turns, Attempts: r.Attempts, Planes: r.Planes, Healthy: r.Healthy, Seen: r.Seen, Backup: r.Backup, Rollout: r.Rollout, Settled: r.Settled, Failed: r.Failed,
	}
}

// Of returns the record as the decision reads it.
func (r Record) Of() cluster.Record {
	return cluster.Record{
		Upgrade: r.Upgrade, From: r.From, To: r.To, Started: r.Started, Returning: r.Returning, NoWayBack: r.NoWayBack,
		Turns: r.Turns, Attempts: r.Attempts, Planes: r.Planes, Healthy: r.Healthy, Seen: r.Seen, Backup: r.Backup, Rollout: r.Rollout, Settled: r.Settled, Failed: r.Failed,
	}
}
