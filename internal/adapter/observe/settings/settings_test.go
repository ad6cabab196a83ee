package settings

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func TestASiteBeginsWithItsConfiguration(t *testing.T) {
	got, err := FromSite(sitetest.New(t, sitetest.TwoDual))
	want := state.NetworkSettings{
		Cluster: "shop", Domain: "shop.example.test", ManagedVIPs: true, ControlPlanes: 2, Fencing: true,
		APIVIPs: addrs("10.98.0.5", "fd98::5"), IngressVIPs: addrs("10.98.0.6", "fd98::6"),
		MachineNetworks: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24"), netip.MustParsePrefix("fd98::/64")},
		PodNetworks:     []netip.Prefix{netip.MustParsePrefix("10.128.0.0/14"), netip.MustParsePrefix("fd44::/56")},
		ServiceNetworks: []netip.Prefix{netip.MustParsePrefix("172.30.0.0/16"), netip.MustParsePrefix("fd96::/112")},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, _ := FromSite(sitetest.New(t, sitetest.OneNone)); got.ManagedVIPs || len(got.VIPs()) != 0 || got.Fencing {
		t.Errorf("a site without VIPs: %+v", got)
	}
}

func TestWhatTheAPISaysIsBelievedOnlyIfItIsWhole(t *testing.T) {
	before, _ := FromSite(sitetest.New(t, sitetest.TwoDual))
	whole := kube.Infrastructure{BareMetal: true, APIVIPs: addrs("10.98.0.7"), IngressVIPs: addrs("10.98.0.8")}
	for name, c := range map[string]struct {
		in      kube.Infrastructure
		believe bool
		vips    int
	}{
		"whole":             {whole, true, 2},
		"no ingress":        {kube.Infrastructure{BareMetal: true, APIVIPs: addrs("10.98.0.7")}, false, 4},
		"nothing":           {kube.Infrastructure{BareMetal: true}, false, 4},
		"another platform":  {kube.Infrastructure{}, false, 4},
		"the site balances": {kube.Infrastructure{BareMetal: true, UserManaged: true, APIVIPs: addrs("10.98.0.7")}, true, 0},
	} {
		got, ok := Apply(before, c.in)
		if ok != c.believe || len(got.VIPs()) != c.vips || got.ManagedVIPs != (c.vips > 0) {
			t.Errorf("%s: %v, %+v", name, ok, got)
		}
		if len(got.MachineNetworks) != 2 {
			t.Errorf("%s: the machine networks are gone", name)
		}
	}
}

func TestWhoMayAskForNamesFollowsTheAPI(t *testing.T) {
	before, _ := FromSite(sitetest.New(t, sitetest.TwoDual))
	in := kube.Infrastructure{
		BareMetal: true, APIVIPs: addrs("10.98.0.5"), IngressVIPs: addrs("10.98.0.6"),
		MachineNetworks: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24"), netip.MustParsePrefix("10.99.0.0/24")},
		NameClients:     []netip.Prefix{netip.MustParsePrefix("10.7.0.0/16")},
	}
	after, ok := Apply(before, in)
	if !ok || !reflect.DeepEqual(after.MachineNetworks, in.MachineNetworks) || !reflect.DeepEqual(after.NameClients, in.NameClients) {
		t.Errorf("%v, %+v", ok, after)
	}
	if !reflect.DeepEqual(after.PodNetworks, before.PodNetworks) || len(after.ServiceNetworks) != 2 {
		t.Errorf("the networks of pods and Services are gone: %+v", after)
	}
	in.NameClients = nil
	if after, _ = Apply(after, in); after.NameClients != nil {
		t.Errorf("%v may still ask", after.NameClients)
	}
}

const object = `{"type":"%s","object":{"metadata":{"name":"cluster","resourceVersion":"%d"},"status":{"platformStatus":{"type":"BareMetal",
"baremetal":{"apiServerInternalIPs":[%s],"ingressIPs":[%s],"machineNetworks":["10.98.0.0/24"]}}}}}`

const end = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}`

func TestVIPsThatChangeOnALiveClusterAreTakenOverAndKept(t *testing.T) {
	lines := make(chan string, 10)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for {
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case l := <-lines:
				_, _ = fmt.Fprintln(w, l)
			}
		}
	}))
	dir := t.TempDir()
	conf := filepath.Join(dir, "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"x","cluster":{"server":"http://x"}}],"contexts":[{"name":"x","context":{"cluster":"x"}}],"current-context":"x"}`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := sitetest.New(t, sitetest.TwoDual)
	s := &Source{
		Servers: &kube.Servers{Kubeconfig: conf, Addresses: func() []string { return []string{api.URL} }},
		Path:    filepath.Join(dir, "settings.json"), Logf: t.Logf,
	}
	first, err := Load(cluster, s.Path)
	if err != nil {
		t.Fatal(err)
	}
	view := state.NetworkView{Settings: first}
	views := make(chan []netip.Addr, 10)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run(ctx, func(change func(*state.NetworkView)) { change(&view); views <- view.Settings.VIPs() })
	}()
	defer func() { stop(); <-done; api.Close() }()
	lines <- fmt.Sprintf(object, "ADDED", 5, `"10.98.0.5"`, `"10.98.0.6"`)
	lines <- end
	lines <- fmt.Sprintf(object, "MODIFIED", 11, `"10.98.0.5","fd98::5"`, ``) // half written
	lines <- fmt.Sprintf(object, "MODIFIED", 12, `"10.98.0.5","fd98::5"`, `"10.98.0.6","fd98::6"`)
	for _, want := range [][]netip.Addr{
		addrs("10.98.0.5", "10.98.0.6"), addrs("10.98.0.5", "10.98.0.6"), addrs("10.98.0.5", "fd98::5", "10.98.0.6", "fd98::6"),
	} {
		select {
		case got := <-views:
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the view does not change")
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for kept := first; len(kept.VIPs()) != 4 || len(kept.MachineNetworks) != 1; kept, _ = Load(cluster, s.Path) {
		if time.Now().After(deadline) {
			t.Fatalf("a boot would begin with %+v", kept)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := os.WriteFile(s.Path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := Load(cluster, s.Path); err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("a damaged file: %+v, %v", again, err)
	}
}

// The disk was full as the virtual IPs changed, and they change once in years.
func TestSettingsThatCouldNotBeWrittenAreWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, dir := sitetest.New(t, sitetest.TwoDual), t.TempDir()
		s := &Source{Path: filepath.Join(dir, "network", "settings.json"), Logf: t.Logf}
		if err := os.WriteFile(filepath.Dir(s.Path), []byte("a file in the place of the folder"), 0o600); err != nil {
			t.Fatal(err)
		}
		in := kube.Infrastructure{BareMetal: true, APIVIPs: addrs("10.98.0.7"), IngressVIPs: addrs("10.98.0.8")}
		s.keep(t.Context(), in)
		in.APIVIPs = addrs("10.98.0.9")
		s.keep(t.Context(), in)
		if err := os.Remove(filepath.Dir(s.Path)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(storeAgain)
		synctest.Wait()
		if got, err := Load(cluster, s.Path); err != nil || !reflect.DeepEqual(got.VIPs(), addrs("10.98.0.9", "10.98.0.8")) {
			t.Errorf("a boot would begin with %v, %v", got.VIPs(), err)
		}
	})
}
