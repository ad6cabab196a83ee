package state

import "time"

// Life is one life of a site: what begins with an installation or a restore. All hosts of a life
// have the same one, also those that join later.
type Life struct {
	// ID differs from that of every other life. It is empty in the life that an installation
	// began.
	ID string `json:"id,omitempty"`
	// Began is when the administrator prepared the restore. It is later than that of the life
	// whose backup was taken, whatever the clock said.
	Began time.Time `json:"began,omitzero"`
}

// Next returns the life that a restore begins, from a backup of this one.
func (l Life) Next(id string, now time.Time) Life {
	began := now.UTC().Truncate(time.Second)
	if least := l.Began.Add(time.Second); began.Before(least) {
		began = least
	}
	return Life{ID: id, Began: began}
}
