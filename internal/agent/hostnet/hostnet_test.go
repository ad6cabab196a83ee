package hostnet

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/agent/network/balancer"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/coredns"
)

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// view returns the view of cp-1 of a site with two control planes and a worker.
func view() state.NetworkView {
	controlPlane := map[string]string{state.LabelControlPlane: "", state.LabelMaster: ""}
	return state.NetworkView{
		Settings: state.NetworkSettings{
			Cluster: "shop", Domain: "shop.example.test", ManagedVIPs: true, ControlPlanes: 2, Fencing: true,
			APIVIPs: addrs("10.98.0.5", "fd98::5"), IngressVIPs: addrs("10.98.0.6", "fd98::6"),
			MachineNetworks: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24"), netip.MustParsePrefix("fd98::/64")},
		},
		Role: state.RoleMaster, Stage: state.StageInstalled,
		Host: state.HostFacts{NodeName: "cp-1", Addresses: addrs("10.98.0.11", "fd98::11"), Interface: "eth0"},
		Addresses: []state.HostAddress{
			{Interface: "eth0", Index: 2, Prefix: netip.MustParsePrefix("10.98.0.11/24"), Usable: true},
			{Interface: "eth0", Index: 2, Prefix: netip.MustParsePrefix("fd98::11/64"), Usable: true},
			{Interface: "eth0", Index: 2, Prefix: netip.MustParsePrefix("10.98.0.5/32"), Usable: true},
		},
		Routes: []state.HostRoute{{Destination: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("10.98.0.1"), Interface: "eth0", Index: 2}},
		Nodes: state.Known([]state.Node{
			{Name: "cp-1", Labels: controlPlane, Addresses: addrs("10.98.0.11", "fd98::11"), Ready: true},
			{Name: "cp-2", Labels: controlPlane, Addresses: addrs("10.98.0.12", "fd98::12"), Ready: true},
			{Name: "w-1", Addresses: addrs("10.98.0.31", "fd98::31"), Ready: true},
		}),
		LocalAPI: state.Known(true), MayHold: state.Known(true), LocalDNS: state.Known(true), Redirected: true,
		Balancer:  state.Known(state.Balancer{Backends: map[string]bool{"cp-1": true, "cp-2": false}}),
		Upstreams: []netip.AddrPort{netip.MustParseAddrPort("10.98.0.1:53")},
	}
}

func TestTheAPIIsLookedForAtTheVIPsThenHereThenAtTheOthers(t *testing.T) {
	worker, without := view(), view()
	worker.Role, worker.Host = state.RoleWorker, state.HostFacts{NodeName: "w-1", Addresses: addrs("10.98.0.31")}
	without.Settings.ManagedVIPs, without.Settings.APIVIPs = false, nil
	for _, c := range []struct {
		name string
		v    state.NetworkView
		want []string
	}{
		{"a control plane", view(), []string{"10.98.0.5", "[fd98::5]", "10.98.0.11", "[fd98::11]", "10.98.0.12"}},
		{"a worker", worker, []string{"10.98.0.5", "[fd98::5]", "10.98.0.11", "10.98.0.12"}},
		{"no VIPs", without, []string{"api-int.shop.example.test", "10.98.0.11", "[fd98::11]", "10.98.0.12"}},
	} {
		var want []string
		for _, h := range c.want {
			want = append(want, "https://"+h+":6443")
		}
		if diff := cmp.Diff(want, apiServers(c.v, "api-int.shop.example.test")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		for i, h := range c.want {
			want[i] = h + ":22623"
		}
		if diff := cmp.Diff(want, at(site.ConfigServerPort, c.v, "api-int.shop.example.test")); diff != "" {
			t.Errorf("%s, configuration servers (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestAViewIsReadAsItWasWritten(t *testing.T) {
	for name, value := range map[string]any{"a view": view(), "a status": network.Status{NetworkStatus: state.NetworkStatus{View: view()}}} {
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadView(data)
		if err != nil || !reflect.DeepEqual(got, view()) {
			t.Errorf("%s: %v\n%s", name, err, cmp.Diff(view(), got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
				cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })))
		}
	}
	for _, bad := range []string{"", "[]", "{}", `{"settings":{}}`, `{"view":{"settings":7}}`} {
		if _, err := ReadView([]byte(bad)); err == nil {
			t.Errorf("%q was taken for a view", bad)
		}
	}
}

// root returns a host's root directory with the files that rendering reads.
func root(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files := []state.File{
		{Path: balancer.CAPath, Data: []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")},
		{Path: "/etc/resolv.conf", Data: []byte("nameserver 10.98.0.1\n")},
	}
	if _, err := host.WriteFiles(dir, files); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestEveryPartIsRenderedFromAView(t *testing.T) {
	dir := root(t)
	for part, words := range map[string][]string{
		"keepalived": {"shop_API_0", "10.98.0.5", "fd98::5", "10.98.0.12"},
		"haproxy":    {"10.98.0.11:6443", "10.98.0.12:6443", "9445"},
		"coredns":    {"w-1", "10.98.0.31", "fd98::31", "10.98.0.1"},
		"resolver":   {"nameserver 10.98.0.11\n", "shop.example.test"},
	} {
		r, err := Render(part, view(), dir)
		if err != nil || len(r.Files) == 0 || r.Why == "" {
			t.Errorf("%s: %+v, %v", part, r, err)
		}
		var text strings.Builder
		for _, f := range r.Files {
			text.Write(f.Data)
		}
		for _, w := range words {
			if !strings.Contains(text.String(), w) {
				t.Errorf("%s lacks %q:\n%s", part, w, text.String())
			}
		}
	}
	if _, err := Render("ntp", view(), dir); err == nil {
		t.Error("a part that there is not was rendered")
	}
}

func TestNothingIsRenderedFromAViewThatKnowsTooLittle(t *testing.T) {
	little := state.NetworkView{Settings: view().Settings, Role: state.RoleMaster, Stage: state.StageInstalled}
	for _, part := range Parts() {
		r, err := Render(part, little, root(t))
		if err != nil || len(r.Files) != 0 || !strings.Contains(r.Why, "existing files are kept") {
			t.Errorf("%s: %d files, %q, %v", part, len(r.Files), r.Why, err)
		}
	}
}

func TestWhereTheLoadBalancerIsTheSitesSoAreTheNames(t *testing.T) {
	dir, v := root(t), view()
	v.Settings.ManagedVIPs, v.Settings.APIVIPs, v.Settings.IngressVIPs = false, nil, nil
	v.LocalDNS = state.Known(false)
	r, err := Render("coredns", v, dir)
	if err != nil || len(r.Files) != 0 || !strings.Contains(r.Why, "the site's") {
		t.Errorf("%d files, %q, %v", len(r.Files), r.Why, err)
	}
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	if f, err := Monitor("coredns", network.Status{NetworkStatus: state.NetworkStatus{At: now, View: v}}, dir, now); err != nil || !f.InStep {
		t.Errorf("a name server that is not wanted is missed: %+v, %v", f, err)
	}
	if _, err := host.WriteFiles(dir, []state.File{{Path: coredns.PodPath, Data: []byte("pod")}}); err != nil {
		t.Fatal(err)
	}
	if r, err := Render("coredns", v, dir); err != nil || len(r.Files) != 3 {
		t.Errorf("one that is there stays: %d files, %q, %v", len(r.Files), r.Why, err)
	}
}

func TestAMonitorSaysWhatIsNotInStep(t *testing.T) {
	dir, now := root(t), time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	status := network.Status{NetworkStatus: state.NetworkStatus{At: now, Holds: addrs("10.98.0.5"), View: view()}}
	for _, part := range Monitored() {
		f, err := Monitor(part, status, dir, now)
		if err != nil || f.InStep || !strings.Contains(strings.Join(f.Trouble, "\n"), "does not exist") {
			t.Errorf("%s without its files: %+v, %v", part, f, err)
		}
		r, err := Render(part, status.View, dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := host.WriteFiles(dir, r.Files); err != nil {
			t.Fatal(err)
		}
		if f, err := Monitor(part, status, dir, now); err != nil || !f.InStep || len(f.Facts) < 3 {
			t.Errorf("%s with its files: %+v, %v", part, f, err)
		}
		if f, _ := Monitor(part, status, dir, now.Add(time.Hour)); f.InStep {
			t.Errorf("%s: a silent agent is not noticed", part)
		}
		if err := os.WriteFile(filepath.Join(dir, r.Files[0].Path), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if f, _ := Monitor(part, status, dir, now); f.InStep {
			t.Errorf("%s: a foreign change is not noticed", part)
		}
		if _, err := host.WriteFiles(dir, r.Files); err != nil {
			t.Fatal(err)
		}
	}
	broken := status
	broken.View.Balancer, broken.View.LocalDNS = state.Fact[state.Balancer]{}, state.Known(false)
	broken.View.Claims = []state.VIPClaim{{VIP: addrs("10.98.0.5")[0], By: "02:00:00:00:00:99"}}
	broken.View.Forged = []state.ForgedAdvert{{VIP: addrs("10.98.0.5")[0], As: addrs("10.98.0.12")[0], By: "02:00:00:00:00:99"}}
	broken.Reconcilers = []network.ReconcilerState{{Loop: state.Loop{Name: "names", Error: "no disk", Failures: 3, FailingSince: now}}}
	for _, part := range Monitored() {
		if f, err := Monitor(part, broken, dir, now); err != nil || f.InStep || len(f.Trouble) == 0 {
			t.Errorf("%s in trouble: %+v, %v", part, f, err)
		} else if part == "keepalived" && !strings.Contains(strings.Join(f.Trouble, "\n"), "in the name of 10.98.0.12") {
			t.Errorf("a forged advert is not told: %v", f.Trouble)
		}
	}
}
