package ports_test

import (
	"flag"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/decide/ingress"
	. "github.com/holdfast/holdfast/internal/decide/ports"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/coredns"
	"github.com/holdfast/holdfast/internal/render/haproxy"
	"github.com/holdfast/holdfast/internal/render/operator"
	_ "github.com/holdfast/holdfast/internal/testkit/golden" // for -update
)

func TestTheTableHasThePortsThatOthersListenOn(t *testing.T) {
	for who, port := range map[string]int{
		"the API server": site.APIPort, "the configuration server": site.ConfigServerPort, "the etcd keeper": state.RacePort,
		"CoreDNS": coredns.HealthPort, "holdfast-operator": operator.HealthPort,
	} {
		if got := Owner(int32(port)); got != who {
			t.Errorf("port %d is %s's in other packages, and %q's in the table", port, who, got)
		}
	}
	for _, port := range []int{haproxy.MonitorPort, haproxy.StatsPort, apilb.BalancerPort} {
		if got := Owner(int32(port)); got != "haproxy" {
			t.Errorf("port %d is haproxy's in other packages, and %q's in the table", port, got)
		}
	}
	if got := Owner(operator.MetricsPort); got != "holdfast-operator" {
		t.Errorf("%q", got)
	}
	for _, port := range []int32{ingress.HTTPPort, ingress.HTTPSPort, ingress.StatsPort} {
		if got := Owner(port); got != "" {
			t.Errorf("a router may not have its own port %d: it is %s's", port, got)
		}
	}
}

func TestTheTableIsInOrderAndSaysAllOfEachPort(t *testing.T) {
	list := Table()
	if !slices.IsSortedFunc(list, func(a, b Port) int { return int(a.First) - int(b.First) }) {
		t.Error("not in the order of ports")
	}
	for _, p := range list {
		if p.Who == "" || p.On == "" || p.From == "" || p.Proof == "" || p.Last < p.First || len(p.Protocols) == 0 || (p.Why == "") != (p.From == Itself) {
			t.Errorf("%+v", p)
		}
	}
}

// pods is the default network of pods.
var pods = []netip.Prefix{netip.MustParsePrefix("10.128.0.0/14")}

func TestThePagesAreWhatTheTableSays(t *testing.T) {
	for page, want := range map[string]string{
		"../../../docs/ports.md": Page(), "../../../docs/runbook/firewall.md": Commands(pods),
	} {
		const begin, end = "<!-- written by the test of internal/decide/ports, with -update -->\n", "<!-- end -->"
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		head, rest, ok := strings.Cut(string(text), begin)
		got, tail, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no place for it: %q ... %q", page, begin, end)
		}
		if f := flag.Lookup("update"); f.Value.String() == "true" {
			if err := os.WriteFile(page, []byte(head+begin+want+end+tail), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got != want {
			t.Errorf("%s is not what the table says: run this test with -update, and read the page", page)
		}
	}
}
