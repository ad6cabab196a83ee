// Package life decides whether a host belongs to a former life of its site (docs/adr/0105). Such a
// host has the addresses and the authorities of the restored site, and data of before: if it served,
// clients would meet two clusters under one name.
package life

import (
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Succeeded says that the site of a host was restored, and that the restored one serves; empty if
// nobody says so. own is the life of the host, heard are those of the control planes that answered it.
//
// Where a control plane of the host's own life answers, the host belongs to a site that serves. A
// restored site answers beside it then, as a trial that somebody connected to the wrong network does:
// no living site gives way to that.
func Succeeded(own state.Life, heard []state.Life) string {
	next := own
	for _, l := range heard {
		if l.ID == own.ID {
			return ""
		}
		if l.Began.After(next.Began) {
			next = l
		}
	}
	if next.ID == own.ID {
		return ""
	}
	return "the site was restored from a backup, prepared at " + next.Began.UTC().Format(time.RFC3339) +
		", and serves: this host is of its former life"
}

// Other reports whether a control plane that proved to be of this site is of another life than own: a
// restore waits until it is off. One that knows of no lives runs an earlier release, so it is not of a
// life that a restore begins.
func Other(own, heard state.Life, knows bool) bool { return !knows || heard.ID != own.ID }
