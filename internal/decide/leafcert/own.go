package leafcert

import "time"

// Own is a certificate that an agent makes for Holdfast itself, in one file with its key. It begins
// with its authority, so nothing in it tells its life: that of a new one counts.
type Own struct {
	Ends time.Time
	Life time.Duration
	// Damaged is true if the file cannot be read, or its key is that of another certificate.
	// Written is the time at which it was written.
	Damaged bool
	Written time.Time
}

// Late returns from when on it should have been made anew. A sixth of a life is left then, half of what
// is left when an agent does that. One that is of no use is made anew at once.
func (o Own) Late() time.Time {
	if o.Damaged {
		return o.Written
	}
	return o.Ends.Add(-o.Life / 6)
}
