package settings

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// FuzzLoad checks that a site has virtual IPs that are addresses, whatever lies
// on the disk as the settings of an earlier run.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", `{"BareMetal":true,"APIVIPs":["10.98.0.7"],"IngressVIPs":["10.98.0.8"]}`,
		`{"BareMetal":true,"APIVIPs":[""],"IngressVIPs":["10.98.0.8"]}`, `{"BareMetal":true,"UserManaged":true}`,
	} {
		f.Add([]byte(seed))
	}
	s := sitetest.New(f, sitetest.TwoDual)
	path := filepath.Join(f.TempDir(), "settings.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Load(s, path)
		if err != nil {
			t.Fatal(err)
		}
		if got.ManagedVIPs != (len(got.APIVIPs) > 0 && len(got.IngressVIPs) > 0) {
			t.Errorf("%q: %+v", data, got)
		}
		for _, a := range got.VIPs() {
			if !a.IsValid() {
				t.Errorf("%q: %v", data, got.VIPs())
			}
		}
	})
}
