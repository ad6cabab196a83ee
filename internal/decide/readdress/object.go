package readdress

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// WithdrawCommand takes the announcement of a move back.
const WithdrawCommand = "holdfast site readdress withdraw"

// Object is what the Infrastructure object says of a move, and of the place of the site.
type Object struct {
	// Announced is the plan of the move as text, empty for none.
	Announced string
	// Settled is the text of a Settled, empty for none.
	Settled string
	// VIPs are the virtual IPs of the site, those of the API first.
	VIPs     []netip.Addr
	Networks []netip.Prefix
}

// Settled says that the objects of the cluster have the addresses of a side of a plan. A control
// plane writes it beside the announcement: a site may keep its virtual IPs, or have none.
type Settled struct {
	Plan string `json:"plan"`
	At   Side   `json:"at"`
}

// SideOf says which place of a plan the cluster's objects have. Of a plan of which no control
// plane has written that, it is the one to which the virtual IPs belong; of a site without any,
// its machine networks.
func (o Object) SideOf(p Plan) state.Fact[Side] {
	var s Settled
	if json.Unmarshal([]byte(o.Settled), &s) == nil && s.Plan == p.ID && s.Plan != "" && (s.At == From || s.At == To) {
		return state.Known(s.At)
	}
	for _, side := range []Side{From, To} {
		place := p.Place(side)
		vips, err := place.VIPs()
		nets, err2 := place.Networks()
		if err != nil || err2 != nil {
			continue
		}
		if len(vips) > 0 && slices.Equal(o.VIPs, vips) || len(vips) == 0 && slices.Equal(o.Networks, nets) {
			return state.Known(side)
		}
	}
	return state.Fact[Side]{}
}

// Follows reports whether the network of a host follows the cluster's objects, by the side that they
// have. Those of neither side, as after a virtual IP was added to the site, count only on a host that
// is where the cluster has been told to be: else they have addresses that nobody can hold there.
func (j Journal) Follows(objects state.Fact[Side]) bool {
	switch {
	case j.Over:
		return true
	case !objects.Known:
		return j.Moving == "" && j.Settled == j.At
	}
	return objects.Value == j.At && j.Moving == ""
}

// Keeps says why no host comes, and none is replaced, while a move is announced: its plan has
// the hosts of that day, so nobody gives another one's address a successor, neither on that
// host nor in what its peers have of it. It is empty without an announcement, and once the site
// is at the new place: a host that is lost on the way can be replaced only there.
func (o Object) Keeps() string {
	if o.Announced == "" {
		return ""
	}
	var p Plan
	if json.Unmarshal([]byte(o.Announced), &p) != nil {
		return "a move of the site is announced, and the annotation of the Infrastructure object cannot be read: remove it"
	}
	if state.Is(o.SideOf(p), To) {
		return ""
	}
	return fmt.Sprintf("the move %s of %s is announced for the hosts that the site has now: ship the site first, or take the move back", p.ID, p.By)
}
