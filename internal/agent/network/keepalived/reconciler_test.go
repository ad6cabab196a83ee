package keepalived

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keepalived"
	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/decide/deleted"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/keepalived"
)

var (
	_ network.Reconciler = (*Reconciler)(nil)
	_ network.Source     = (*Reconciler)(nil)
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// bench is a reconciler with its files in a folder and a clock that a test moves.
type bench struct {
	*Reconciler
	t   *testing.T
	now time.Time
}

func newBench(t *testing.T, pod string) *bench {
	b := &bench{t: t, now: start}
	o := Options{Root: t.TempDir(), Now: func() time.Time { return b.now }, NoFilter: true, NoProbe: true}
	if pod != "" {
		o.Pod = []byte(pod)
	}
	b.Reconciler = New(o)
	return b
}

func (b *bench) reconcile(v state.NetworkView) string {
	b.t.Helper()
	b.now = b.now.Add(time.Minute)
	changed, err := b.Reconcile(b.t.Context(), v)
	if err != nil {
		b.t.Fatal(err)
	}
	return changed
}

func (b *bench) read(path string) string {
	data, _ := os.ReadFile(filepath.Join(b.Root, path))
	return strings.TrimSpace(string(data))
}

func (b *bench) track(name string) string { return b.read(filepath.Join(render.TrackDir, name)) }

func viewOf(n int) state.NetworkView {
	v := state.NetworkView{
		Settings: state.NetworkSettings{Cluster: "shop", ManagedVIPs: true, ControlPlanes: 3, APIVIPs: []netip.Addr{netip.MustParseAddr("10.98.0.5")}},
		Role:     state.RoleMaster, Stage: state.StageInstalled,
		Host:      state.HostFacts{NodeName: "h1", Interface: "eth0"},
		Addresses: []state.HostAddress{{Interface: "eth0", Index: 2, Prefix: netip.MustParsePrefix("10.98.0.11/24"), Usable: true}},
		LocalAPI:  state.Known(true), Redirected: true,
		Balancer: state.Known(state.Balancer{Backends: map[string]bool{"h1": true}}),
	}
	var nodes []state.Node
	for i := range n {
		nodes = append(nodes, state.Node{
			Name: "h" + string(rune('1'+i)), Labels: map[string]string{state.LabelControlPlane: ""},
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 98, 0, byte(11 + i)})},
		})
	}
	v.Nodes = state.Known(nodes)
	return v
}

func TestAHostsFilesFollowTheViewAndARepetitionIsQuiet(t *testing.T) {
	b := newBench(t, "pod")
	said := b.reconcile(viewOf(3))
	if !strings.Contains(said, "api +25") || !strings.Contains(said, "1 instances") {
		t.Errorf("it says %q", said)
	}
	if b.track("api") != "25" || b.track("ingress") != "-254" || b.track("shop_API_0") != "0" {
		t.Errorf("api %s, ingress %s, instance %s", b.track("api"), b.track("ingress"), b.track("shop_API_0"))
	}
	if conf := b.read(render.ConfigPath); !strings.Contains(conf, "10.98.0.13 min_ttl 255") || !strings.Contains(conf, b.Root+render.TrackDir) {
		t.Error(conf)
	}
	if b.read(render.PodPath) != "pod" {
		t.Error("no static pod")
	}
	if said := b.reconcile(viewOf(3)); said != "" {
		t.Errorf("nothing changed, and it says %q", said)
	}
}

func TestHealthIsWrittenEvenWhereTheConfigurationCannotBe(t *testing.T) {
	b := newBench(t, "")
	if err := os.MkdirAll(filepath.Join(b.Root, render.ConfigPath), 0o755); err != nil { // a folder in its place
		t.Fatal(err)
	}
	if _, err := b.Reconcile(t.Context(), viewOf(3)); err == nil {
		t.Error("no error")
	}
	if b.track("api") != "25" {
		t.Errorf("api %q", b.track("api"))
	}
}

func TestAHostThatHoldsNothingGetsNoPodUnlessItHasOne(t *testing.T) {
	b := newBench(t, "pod")
	v := viewOf(3)
	v.Settings.ManagedVIPs = false
	b.reconcile(v)
	if b.read(render.PodPath) != "" {
		t.Error("a pod for nothing")
	}
	b.reconcile(viewOf(3))
	v = viewOf(3)
	v.MayHold = state.Known(false)
	b.reconcile(v)
	if b.read(render.PodPath) != "pod" || strings.Contains(b.read(render.ConfigPath), "vrrp_instance") || b.track("api") != "-254" {
		t.Errorf("pod %q, api %s:\n%s", b.read(render.PodPath), b.track("api"), b.read(render.ConfigPath))
	}
}

// docs/runbook/vip.md: a host that nobody reaches, and that hears nobody, must not hold a VIP.
func TestAPodThatAnAdministratorKeepsAwayStaysAway(t *testing.T) {
	b := newBench(t, "pod")
	b.reconcile(viewOf(3))
	pod, list := filepath.Join(b.Root, render.PodPath), filepath.Join(b.Root, deleted.LeavePath)
	for _, step := range []struct {
		what, list string
		back       bool
	}{
		{"not in the list", "/etc/kubernetes/manifests/haproxy.yaml\n", true},
		{"in the list", "/etc/kubernetes/manifests/haproxy.yaml\n" + render.PodPath + "\n", false},
		{"out of it again", "\n", true},
	} {
		if err := errors.Join(os.RemoveAll(pod), os.MkdirAll(filepath.Dir(list), 0o755), os.WriteFile(list, []byte(step.list), 0o600)); err != nil {
			t.Fatal(err)
		}
		if b.reconcile(viewOf(3)); (b.read(render.PodPath) == "pod") != step.back {
			t.Errorf("%s: %q", step.what, b.read(render.PodPath))
		}
	}
}

func TestB1_AViewThatKnowsTooLittleLeavesTheConfiguration(t *testing.T) {
	b := newBench(t, "")
	b.reconcile(viewOf(3))
	before := b.read(render.ConfigPath)
	v := viewOf(0)
	v.Balancer = state.Fact[state.Balancer]{}
	b.reconcile(v)
	if b.read(render.ConfigPath) != before {
		t.Error("the configuration changed")
	}
	if b.track("api") != "5" { // B2
		t.Errorf("health is not told: api %s", b.track("api"))
	}
}

// B15: the address is on its way from a network card to a bridge.
func TestAnInstanceWithoutItsOwnAddressIsBarredUntilItIsBack(t *testing.T) {
	b := newBench(t, "")
	b.reconcile(viewOf(3))
	v := viewOf(3)
	v.Addresses = []state.HostAddress{{Interface: "lo", Prefix: netip.MustParsePrefix("127.0.0.1/8")}}
	b.reconcile(v)
	if b.track("shop_API_0") != "1" {
		t.Error("it is not barred")
	}
	v.Addresses = append(v.Addresses, state.HostAddress{Interface: "br0", Prefix: netip.MustParsePrefix("10.98.0.11/24")})
	b.reconcile(v)
	if b.track("shop_API_0") != "0" || !strings.Contains(b.read(render.ConfigPath), "interface br0") {
		t.Error("it is still barred, or on the old interface")
	}
}

func TestTrackFilesOfFormerInstancesAreRemoved(t *testing.T) {
	b := newBench(t, "")
	b.reconcile(viewOf(3))
	v := viewOf(3)
	v.Settings.APIVIPs = nil
	v.Settings.IngressVIPs = []netip.Addr{netip.MustParseAddr("10.98.0.6")}
	b.reconcile(v)
	list, err := os.ReadDir(filepath.Join(b.Root, render.TrackDir))
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); err != nil || got != "api ingress shop_INGRESS_0" {
		t.Errorf("%s, %v", got, err)
	}
}

// A VIP is taken only after others were asked who has it. One for which
// keepalived already takes part is not asked about again.
func TestANewVIPIsAskedAboutOnce(t *testing.T) {
	b := newBench(t, "")
	b.NoProbe = false
	b.reconcile(viewOf(3))
	if b.track("shop_API_0") != "1" {
		t.Error("it is taken unasked")
	}
	instances, fresh := b.asking()
	if len(fresh) != 1 || len(instances) != 1 {
		t.Errorf("%v %v", instances, fresh)
	}
	b.looked(instances, vrrp.Found{})
	if b.track("shop_API_0") != "0" {
		t.Error("it is not taken")
	}
	again := newBench(t, "")
	again.Root, again.files, again.NoProbe = b.Root, files{b.Root}, false
	again.reconcile(viewOf(3))
	if again.track("shop_API_0") != "0" {
		t.Error("another run of the agent gave it up to ask")
	}
	b.looked(instances, vrrp.Found{Claims: []state.VIPClaim{{VIP: instances[0].VIP, By: "02:00:00:00:00:01", Host: "h2"}}})
	if b.track("shop_API_0") != "0" {
		t.Error("a VIP that another host left behind is not taken")
	}
	b.looked(instances, vrrp.Found{Claims: []state.VIPClaim{{VIP: instances[0].VIP, By: "02:00:00:00:00:01"}}})
	if b.track("shop_API_0") != "1" {
		t.Error("a stranger's VIP is taken")
	}
}

// A peer whose NIC was changed while nobody could be told is let in at once: to
// drop its adverts would give the VIP two holders.
func TestAPeerIsBoundToItsNICUntilTheKernelReachesItElsewhere(t *testing.T) {
	const own, other = "02:00:00:00:00:0c", "02:00:00:00:00:63"
	b := newBench(t, "")
	v := viewOf(3)
	peer := v.Nodes.Value[1].Addresses[0]
	v.Nodes.Value[1].Annotations = map[string]string{state.AnnotationVIPs: state.FormatAnnotation(state.VIPReport{Hardware: map[netip.Addr][]string{peer: {own}}})}
	b.reconcile(v)
	for _, c := range []struct {
		index int
		at    string
		bound bool
		said  string
	}{
		{2, own, true, ""},
		{3, other, true, ""}, // another interface than that of the adverts
		{2, other, false, "10.98.0.12 is reached at " + other + " but reports " + own + ": its adverts are let in from any hardware address"},
		{2, other, false, ""},
		{2, "", true, ""},
		{2, other, false, "10.98.0.12 is reached at " + other},
	} {
		b.neighbour(keepalived.Neighbour{Index: c.index, Addr: peer}, c.at)
		b.mu.Lock()
		list, said := b.senders()
		b.mu.Unlock()
		if _, bound := list[peer]; bound != c.bound || !strings.HasPrefix(strings.Join(said, ""), c.said) || c.said == "" && len(said) > 0 {
			t.Errorf("%+v: bound %t, it says %q", c, bound, said)
		}
	}
}

// A health that must last is believed when it has lasted, without another change.
func TestAChangeOfHealthIsBelievedOnceItHasLasted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "")
		b.Now = time.Now
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.believe(ctx) }()
		held := viewOf(3)
		held.Addresses = append(held.Addresses, state.HostAddress{Interface: "eth0", Prefix: netip.MustParsePrefix("10.98.0.5/32")})
		b.reconcile(held)
		held.Balancer = state.Known(state.Balancer{Backends: map[string]bool{"h1": false}})
		b.reconcile(held)
		time.Sleep(vrrp.HolderFall - time.Millisecond)
		synctest.Wait()
		if b.track("api") != "25" {
			t.Errorf("too early: %s", b.track("api"))
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if b.track("api") != "5" {
			t.Errorf("too late: %s", b.track("api"))
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// keepalived is told again of a configuration that an earlier run wrote before it
// was killed.
func TestAnUntoldConfigurationIsTold(t *testing.T) {
	b := newBench(t, "")
	b.reconcile(viewOf(3))
	if err := os.WriteFile(filepath.Join(b.Root, toldPath), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := b.reconcile(viewOf(3)); !strings.Contains(said, "instances") {
		t.Errorf("it says %q", said)
	}
}

// Fifty nodes come within ten seconds: keepalived is told a few times, the last
// time of all of them.
func TestHardCase27_ManyChangesAreFewReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "")
		b.Now = time.Now
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.believe(ctx) }()
		reloads, before := 0, ""
		for n := 1; n <= 50; n++ {
			v := viewOf(1)
			v.Nodes.Value[0].Addresses[0] = netip.MustParseAddr("10.98.0.11")
			for i := range n {
				v.Nodes.Value = append(v.Nodes.Value, state.Node{
					Name: fmt.Sprint("n", i), Labels: map[string]string{state.LabelControlPlane: ""}, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 98, 0, byte(100 + i)})},
				})
			}
			b.reconcile(v)
			if now := b.read(toldPath); now != before {
				reloads, before = reloads+1, now
			}
			time.Sleep(200 * time.Millisecond)
		}
		time.Sleep(reloadEvery)
		synctest.Wait()
		if conf := b.read(render.ConfigPath); !strings.Contains(conf, "10.98.0.149 ") || reloads > 12 {
			t.Errorf("%d reloads, and the last one is of all nodes: %t", reloads, strings.Contains(conf, "10.98.0.149 "))
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// Gateways with our router id are there for good, and whoever forges adverts can
// be any number of machines.
func TestNamesakesAreToldOfOnceAndNotWithoutEnd(t *testing.T) {
	b, lines := newBench(t, ""), 0
	b.Logf = func(string, ...any) { lines++ }
	pair := []state.VIPClaim{{By: "10.98.0.2", RouterID: 231}, {By: "10.98.0.3", RouterID: 231}}
	for range 5 {
		b.met(pair)
	}
	if lines != 2 {
		t.Errorf("%d lines about two gateways", lines)
	}
	for i := range 1000 {
		b.met([]state.VIPClaim{{By: fmt.Sprint("stranger-", i), RouterID: 231}})
	}
	if lines > mostNamesakes {
		t.Errorf("%d lines", lines)
	}
}
