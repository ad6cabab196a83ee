package vrrp_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
)

// edited returns a frame of frame_test.go with bytes from an offset on replaced.
func edited(t *testing.T, base string, at int, text string) []byte {
	t.Helper()
	b := frame(t, base)
	with, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	copy(b[at:], with)
	return b
}

func TestFramesOfOtherProtocolsSayNothing(t *testing.T) {
	for name, b := range map[string][]byte{
		"another Ethernet type":                     edited(t, garp, 12, "88cc"),
		"ARP about another protocol than IPv4":      edited(t, garp, 16, "86dd"),
		"ARP with hardware addresses of 8 bytes":    edited(t, garp, 18, "08"),
		"ARP with addresses of 16 bytes":            edited(t, garp, 19, "10"),
		"ARP of a host that still asks for itself":  edited(t, garp, 28, "00000000"),
		"IPv4 that calls itself another version":    edited(t, advert4, 14, "65"),
		"IPv4 with another protocol":                edited(t, advert4, 23, "06"),
		"IPv4 with a header shorter than any":       edited(t, advert4, 14, "44"),
		"IPv4 with a header longer than the frame":  edited(t, advert4, 14, "4f"),
		"IPv6 that calls itself another version":    edited(t, advert6, 14, "40"),
		"IPv6 with another protocol":                edited(t, advert6, 20, "06"),
		"VRRP of version 4":                         edited(t, advert4, 34, "41"),
		"VRRP of version 1":                         edited(t, advert4, 34, "11"),
		"VRRP of another type than adverts":         edited(t, advert4, 34, "32"),
		"a neighbour's question":                    edited(t, naFrame, 54, "87"),
		"a neighbour's answer that is cut short":    frame(t, naFrame)[:54+23],
		"an advert whose header is cut short":       frame(t, advert4)[:34+7],
		"an advert over IPv6 that is cut short too": frame(t, advert6)[:54+7],
	} {
		if f, ok := vrrp.ParseFrame(b); ok {
			t.Errorf("%s is read as %+v", name, f)
		}
	}
}

func TestWhatAFrameSaysBesideItsUsualForm(t *testing.T) {
	const sender, inside = "02:00:00:00:00:0c", "02:00:00:00:00:77"
	for name, c := range map[string]struct {
		frame     []byte
		mac       string
		announces string
	}{
		"VRRP of version 2":                             {edited(t, advert4, 34, "21"), sender, "10.98.0.5"},
		"an advert about no address":                    {edited(t, advert4, 37, "00")[:34+8], sender, ""},
		"an advert that counts more than it names":      {edited(t, advert4, 37, "09"), sender, "10.98.0.5"},
		"an advert that names more than it counts":      {append(frame(t, advert4), 10, 98, 0, 6), sender, "10.98.0.5"},
		"an advert whose last address is cut":           {append(edited(t, advert4, 37, "02"), 10, 98, 0), sender, "10.98.0.5"},
		"an advert behind options of IPv4":              {append(append(edited(t, advert4, 14, "46")[:34], 1, 1, 1, 1), frame(t, advert4)[34:]...), sender, "10.98.0.5"},
		"ARP counts by the address inside":              {edited(t, garp, 22, "020000000077"), inside, ""},
		"an answer counts by the address in its option": {edited(t, naFrame, 54+26, "020000000077"), inside, ""},
		"an answer without an option":                   {frame(t, naFrame)[:54+24], sender, ""},
		"an answer with another option":                 {edited(t, naFrame, 54+24, "0101020000000077"), sender, ""},
		"an answer with an option that is too long":     {edited(t, naFrame, 54+24, "0202020000000077"), sender, ""},
		"an answer with an option that is cut":          {edited(t, naFrame, 54+26, "020000000077")[:54+31], sender, ""},
		"an answer with an option that says no length":  {frame(t, naFrame)[:54+25], sender, ""},
		"an answer with an option and something behind": {append(edited(t, naFrame, 54+26, "020000000077"), 0, 0), inside, ""},
	} {
		f, ok := vrrp.ParseFrame(c.frame)
		var announces []string
		for _, a := range f.Announces {
			announces = append(announces, a.String())
		}
		if !ok || f.MAC != c.mac || strings.Join(announces, " ") != c.announces {
			t.Errorf("%s: %v %+v", name, ok, f)
		}
	}
}
