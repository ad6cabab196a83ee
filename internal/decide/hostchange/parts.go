package hostchange

import (
	"reflect"
	"slices"

	"github.com/coreos/ignition/v2/config/v3_5/types"
)

func files(from, to []types.File) []Change {
	var out []Change
	for _, p := range pairs(from, to, func(f types.File) string { return f.Path }) {
		c := Change{Kind: File, Name: p.name, Verb: p.verb(), before: contents(p.old), after: contents(p.now)}
		if c.Verb == Changed {
			c.Parts = fileParts(*p.old, *p.now)
			if len(c.Parts) == 0 {
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

func fileParts(old, now types.File) []string {
	return different(
		part{"contents", old.Contents, now.Contents},
		part{"mode", old.Mode, now.Mode},
		part{"owner", old.User, now.User},
		part{"group", old.Group, now.Group},
	)
}

func units(from, to []types.Unit) []Change {
	var out []Change
	for _, p := range pairs(from, to, func(u types.Unit) string { return u.Name }) {
		c := Change{Kind: Unit, Name: p.name, Verb: p.verb(), was: p.old, is: p.now}
		if c.Verb == Changed {
			c.Parts = unitParts(*p.old, *p.now)
			if len(c.Parts) == 0 {
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

func unitParts(old, now types.Unit) []string {
	parts := different(
		part{"contents", old.Contents, now.Contents},
		part{"enabled", old.Enabled, now.Enabled},
		part{"masked", old.Mask, now.Mask},
	)
	for _, p := range pairs(old.Dropins, now.Dropins, func(d types.Dropin) string { return d.Name }) {
		if !reflect.DeepEqual(p.old, p.now) {
			parts = append(parts, "drop-in "+p.name)
		}
	}
	return parts
}

func keys(from, to []types.PasswdUser) []Change {
	var out []Change
	for _, p := range pairs(from, to, func(u types.PasswdUser) string { return u.Name }) {
		if p.verb() != Changed || !slices.Equal(p.old.SSHAuthorizedKeys, p.now.SSHAuthorizedKeys) {
			out = append(out, Change{Kind: Keys, Name: p.name, Verb: p.verb()})
		}
	}
	return out
}

// part is one field of two values.
type part struct {
	name     string
	old, now any
}

// different returns the names of the parts that differ.
func different(parts ...part) []string {
	var out []string
	for _, p := range parts {
		if !reflect.DeepEqual(p.old, p.now) {
			out = append(out, p.name)
		}
	}
	return out
}
