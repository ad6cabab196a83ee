package readdress_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/readdress"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestNoHostComesWhileAMoveIsAnnounced: its plan has the hosts of that day. At the new place a host that
// was lost on the way must be replaceable, since the move cannot be taken back there.
func TestNoHostComesWhileAMoveIsAnnounced(t *testing.T) {
	announced := func(change func(*readdress.Plan)) string {
		p := plan()
		change(&p)
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	withoutVIPs := func(p *readdress.Plan) {
		p.From.APIVIPs, p.From.IngressVIPs, p.To.APIVIPs, p.To.IngressVIPs = nil, nil, nil, nil
	}
	as := func(*readdress.Plan) {}
	for sentence, c := range map[string]struct {
		text string
		vips []netip.Addr
		nets []netip.Prefix
		says string // empty if a host may come
	}{
		"no move is announced":                     {"", []netip.Addr{addr("10.98.0.5"), addr("10.98.0.6")}, nil, ""},
		"the site is where it was":                 {announced(as), []netip.Addr{addr("10.98.0.5"), addr("10.98.0.6")}, nil, "the move move-1 of ada is announced"},
		"it is unknown where the site is":          {announced(as), nil, nil, "the move move-1 of ada is announced"},
		"it has virtual IPs of neither place":      {announced(as), []netip.Addr{addr("10.98.0.5"), addr("10.98.0.9")}, nil, "ship the site first, or take the move back"},
		"the site is at the new place":             {announced(as), []netip.Addr{addr("10.77.0.5"), addr("10.77.0.6")}, nil, ""},
		"a site without virtual IPs has not moved": {announced(withoutVIPs), nil, []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24")}, "is announced"},
		"a site without virtual IPs has moved":     {announced(withoutVIPs), nil, []netip.Prefix{netip.MustParsePrefix("10.77.0.0/24")}, ""},
		"the announcement cannot be read":          {"{", []netip.Addr{addr("10.77.0.5")}, nil, "cannot be read"},
	} {
		got := readdress.Object{Announced: c.text, VIPs: c.vips, Networks: c.nets}.Keeps()
		if (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q", sentence, got)
		}
	}
}

// TestANetworkFollowsVIPsOfNeitherPlaceOnlyWhereNothingHasMoved: at the new place nobody can hold those.
func TestANetworkFollowsVIPsOfNeitherPlaceOnlyWhereNothingHasMoved(t *testing.T) {
	from, to, neither := state.Known(readdress.From), state.Known(readdress.To), state.Fact[readdress.Side]{}
	announced := readdress.Announced([]netip.Addr{addr("10.98.0.11")})
	began := announced.Begun(readdress.To, []netip.Addr{addr("10.77.0.11")})
	moved := began.Written("b1").Arrived()
	back := moved.SettledAt(readdress.To).Begun(readdress.From, []netip.Addr{addr("10.98.0.11")}).Written("b2").Arrived()
	for sentence, c := range map[string]struct {
		journal readdress.Journal
		objects state.Fact[readdress.Side]
		want    bool
	}{
		"announced, and the site is there":            {announced, from, true},
		"announced, and the cluster has moved":        {announced, to, false},
		"announced, with a virtual IP that was added": {announced, neither, true},
		"on the way": {began, from, false},
		"on the way, with a virtual IP that was added":     {began, neither, false},
		"moved, and the cluster has not":                   {moved, from, false},
		"moved, with a virtual IP that was added":          {moved, neither, false},
		"moved, and so has the cluster":                    {moved, to, true},
		"carried back, and the cluster has not":            {back, to, false},
		"carried back, with another virtual IP over there": {back, neither, false},
		"carried back, and so is the cluster":              {back.SettledAt(readdress.From), neither, true},
		"moved and settled, and one was added there":       {moved.SettledAt(readdress.To), neither, true},
		"over": {moved.Ended(), neither, true},
	} {
		if got := c.journal.Follows(c.objects); got != c.want {
			t.Errorf("%s: %t", sentence, got)
		}
	}
}
