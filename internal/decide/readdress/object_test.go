package readdress_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/readdress"
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
