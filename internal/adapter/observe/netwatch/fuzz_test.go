package netwatch

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/nodeaddress"
)

// FuzzChosen checks that the stored choice of an earlier boot, whatever lies on
// the disk, gives a host no address that it does not have.
func FuzzChosen(f *testing.F) {
	for _, seed := range []string{
		"", "null", `{"addresses":["10.98.0.22"],"interface":"eth0"}`, `{"addresses":[""]}`, `{"addresses":["10.98.0.5","::ffff:10.98.0.11","fe80::1%eth0"]}`,
		`{"addresses":null,"remote":true}`,
	} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "choice.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		kept, err := LoadChoice(path)
		if err != nil {
			t.Fatal(err)
		}
		have := at("10.98.0.11/24", "10.98.0.22/24", "fd98::11/64")
		got, err := nodeaddress.Decide(nodeaddress.Input{
			Addresses: have.Addresses, Networks: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24"), netip.MustParsePrefix("fd98::/64")}, Previous: kept,
		})
		if err != nil || len(got.Addresses) != 2 {
			t.Fatalf("%q: %+v, %v", data, got, err)
		}
		for _, a := range got.Addresses {
			if !slices.ContainsFunc(have.Addresses, func(h nodeaddress.Address) bool { return h.Prefix.Addr() == a }) {
				t.Errorf("%q: %s is not the host's", data, a)
			}
		}
	})
}
