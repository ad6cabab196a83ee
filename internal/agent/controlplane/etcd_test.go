package controlplane

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// TestEveryMemberOfASiteHasItsQuotaWhoeverRendersIt: the member with the lowest quota stops the writes
// of all. The operator's way has a test of its own (internal/operator/twonode).
func TestEveryMemberOfASiteHasItsQuotaWhoeverRendersIt(t *testing.T) {
	for sentence, c := range map[string]struct {
		config string
		want   []string
	}{
		"a site that chooses one":         {"etcdQuotaGiB: 4\n", []string{"quota-backend-bytes=4294967296", "snapshot-catchup-entries=30000"}},
		"a site that names etcd's own":    {"etcdQuotaGiB: 2\n", nil},
		"a site without the field":        {"", nil},
		"a site with the largest of them": {"etcdQuotaGiB: 8\n", []string{"quota-backend-bytes=8589934592", "snapshot-catchup-entries=60000"}},
	} {
		for _, shape := range []string{sitetest.OneNone, sitetest.TwoDual, sitetest.ThreeV6} {
			for way, text := range pods(t, sitetest.New(t, shape+c.config)) {
				if diff := cmp.Diff(c.want, quotaFlags(text)); diff != "" {
					t.Errorf("%s, %s: %s\n%s", sentence, way, diff, text)
				}
			}
		}
	}
}

// quotaFlags returns the flags of the quota in a text, as NAME=VALUE. kubeadm's configuration has them as a
// list of names and values.
func quotaFlags(text string) []string {
	text = regexp.MustCompile(`name: (\S+)\n\s+value: "?(\w+)"?`).ReplaceAllString(text, "--$1=$2")
	var out []string
	for _, found := range regexp.MustCompile(`--((?:quota-backend-bytes|snapshot-catchup-entries)=\w+)`).FindAllStringSubmatch(text, -1) {
		out = append(out, found[1])
	}
	slices.Sort(out)
	return out
}

// pods returns what each way makes for a site, by the way.
func pods(t *testing.T, s *site.Site) map[string]string {
	t.Helper()
	e := EtcdOf(s)
	e.bundle = filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(e.bundle, []byte("an authority\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	three := []decide.Node{{Name: "cp-1", Address: "10.98.0.11"}, {Name: "cp-2", Address: "10.98.0.12"}, {Name: "cp-3", Address: "10.98.0.13"}}
	out := map[string]string{}
	for way, render := range map[string]func() ([]byte, error){
		"kubeadm": func() ([]byte, error) {
			return kubeadm.Init(s, state.HostFacts{NodeName: "cp-1", Addresses: []netip.Addr{netip.MustParseAddr("10.98.0.11")}}, false)
		},
		"alone":   func() ([]byte, error) { return e.Alone(three[0]) },
		"one of":  func() ([]byte, error) { return e.OneOf("cp-2", three) },
		"joining": func() ([]byte, error) { return e.Joining("cp-3", three) },
		"pair":    func() ([]byte, error) { return e.OfPair(three[:2], "cp-2") },
	} {
		text, err := render()
		if err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		out[way] = string(text)
	}
	return out
}
