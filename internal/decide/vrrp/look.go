package vrrp

import (
	"net/netip"
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Found holds what looks for foreign hosts have found.
type Found struct {
	Claims, Namesakes []state.VIPClaim
	Forged            []state.ForgedAdvert
	// Unheard are the instances that the last look could not look at.
	Unheard []Instance
	// More counts the claims and forged adverts that are not named.
	More int
}

// mostStrangers bounds the machines that are named for one virtual IP, or for the adverts with one
// router id: whoever sends frames can pretend to be any number of them.
const mostStrangers = 16

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
	out.bound()
	return out
}

// bound leaves out what is too much. Of each virtual IP some strangers stay: one is enough to keep it
// from this host. Hosts of the cluster stay.
func (f *Found) bound() {
	type kind struct {
		vip netip.Addr
		id  uint8
	}
	claims, forged := map[kind]int{}, map[netip.Addr]int{}
	f.Claims = slices.DeleteFunc(f.Claims, func(c state.VIPClaim) bool {
		k := kind{c.VIP, c.RouterID}
		if c.Host == "" {
			claims[k]++
		}
		return c.Host == "" && f.over(claims[k])
	})
	f.Forged = slices.DeleteFunc(f.Forged, func(a state.ForgedAdvert) bool {
		forged[a.VIP]++
		return f.over(forged[a.VIP])
	})
}

func (f *Found) over(n int) bool {
	if n <= mostStrangers {
		return false
	}
	f.More++
	return true
}
