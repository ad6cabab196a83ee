package vrrp

import (
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Found holds what looks for foreign hosts have found.
type Found struct {
	Claims, Namesakes []state.VIPClaim
	Forged            []state.ForgedAdvert
	// Unheard are the instances that the last look could not look at.
	Unheard []Instance
}

// Look returns what a look found. Of the instances with an interface in deaf, which
// nobody could listen on, it keeps what was known before: an empty answer would
// free a VIP that a foreign host has.
func Look(h Heard, v state.NetworkView, instances []Instance, deaf []string, before Found) Found {
	var out Found
	var heard []Instance
	for _, i := range instances {
		if slices.Contains(deaf, i.Device) || slices.Contains(deaf, i.Interface) {
			out.Unheard = append(out.Unheard, i)
		} else {
			heard = append(heard, i)
		}
	}
	out.Claims, out.Namesakes = Claims(h, v, heard)
	out.Forged = Forged(h, v, heard)
	for _, i := range out.Unheard {
		for _, c := range before.Claims {
			about := c.VIP == i.VIP || !c.VIP.IsValid() && c.RouterID == i.RouterID
			if about && !slices.Contains(out.Claims, c) {
				out.Claims = append(out.Claims, c)
			}
		}
		for _, f := range before.Forged {
			if f.VIP == i.VIP {
				out.Forged = append(out.Forged, f)
			}
		}
	}
	return out
}
