package holders

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/state"
)

func TestAClaimSaysWhoAndWhatToDo(t *testing.T) {
	for words, c := range map[string]state.VIPClaim{
		"02:00:00:00:00:99 10.98.0.5 docs/runbook":                           {VIP: netip.MustParseAddr("10.98.0.5"), By: "02:00:00:00:00:99"},
		"10.98.0.200 77 holdfast.io/vrrp-router-ids infrastructures/cluster": {By: "10.98.0.200", RouterID: 77},
	} {
		text := Describe(c)
		for w := range strings.FieldsSeq(words) {
			if !strings.Contains(text, w) {
				t.Errorf("%q lacks %q", text, w)
			}
		}
	}
}
