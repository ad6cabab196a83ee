package leafcert

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// AcceptedPath is the file with an administrator's Accepted. It ends with the boot.
const AcceptedPath = "/run/holdfast/clock-accepted.json"

// AcceptLimit is the time for which Accepted counts. The agent looks many times
// meanwhile.
const AcceptLimit = time.Hour

// Accepted says that an administrator has looked at the clock of this host and found
// it right, although a certificate is from a later day.
type Accepted struct {
	// At is what the clock said.
	At time.Time `json:"at"`
}

// Counts reports whether it counts now. A clock that went back, or that nothing
// synchronises any more, is another clock.
func (a Accepted) Counts(now time.Time, synchronised bool) bool {
	return synchronised && !a.At.IsZero() && !now.Before(a.At) && now.Sub(a.At) < AcceptLimit
}

// ahead reports whether a certificate is valid from a later day on.
func (h Host) ahead(f File) bool { return h.Now.Before(f.From) }

// Ahead returns the files whose certificate is valid from a later day on, and those of
// which the authority is.
func (h Host) Ahead() (leaves, authorities []File) {
	for _, f := range h.Files {
		switch {
		case h.Now.Before(f.Issuer.From):
			authorities = append(authorities, f)
		case h.ahead(f):
			leaves = append(leaves, f)
		}
	}
	return leaves, authorities
}

// Refusal says why an administrator may not accept the clock of this host; empty if
// he may.
func (h Host) Refusal(synchronised state.Fact[bool]) string {
	_, authorities := h.Ahead()
	switch {
	case !synchronised.Known:
		return "whether the clock of this host is synchronised is unknown"
	case !synchronised.Value:
		return "the clock of this host is not synchronised with anything, so nobody knows that it is right: systemctl status chronyd, chronyc sources, timedatectl"
	case len(authorities) > 0:
		var names []string
		for _, f := range authorities {
			names = append(names, fmt.Sprintf("%s.crt (valid from %s on)", f.Authority, stamp(f.Issuer.From)))
		}
		slices.Sort(names)
		return "an authority is from a later day too, and no certificate of it can be valid before: " + strings.Join(slices.Compact(names), ", ") +
			". Replace it (holdfast ca rotate), or wait for that day"
	}
	return ""
}
