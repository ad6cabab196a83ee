package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/lab/namednetns"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAMoveIsSeenByTheSwitchByHostsThatBootAndByThoseThatAreToldSo: hosts are empty
// namespaces with the NICs of running ones.
func TestAMoveIsSeenByTheSwitchByHostsThatBootAndByThoseThatAreToldSo(t *testing.T) {
	w := startWired(t)
	before := w.layout
	w.layout = NewLayout(moved(t, before.Spec))
	w.give(machineNIC, "cp-1", "10.98.0.5/32") // as keepalived does
	if err := createNetwork(t.Context(), w.layout); err != nil {
		t.Fatal(err)
	}
	w.has(w.layout.Switch(), machineBridge, "10.77.0.1/24 fd77::1/64", "")
	w.has(w.layout.Switch(), fencingBridge, "10.99.0.1/24 fd99::1/64", "")
	for _, name := range []string{"cp-1", "cp-2"} { // they run, and nobody has told them
		h, _ := before.Host(name)
		w.has(h.Namespace, machineNIC, prefixesOf(h.Machine.Addresses...), "10.98.0.1 fd98::1", "10.98.0.5/32")
	}
	for range 2 { // the second time is that after an interruption
		if err := moveNICs(w.layout, w.host("cp-1")); err != nil {
			t.Fatal(err)
		}
		w.has(w.host("cp-1").Namespace, machineNIC, "10.77.0.11/24 fd77::11/64", "10.77.0.1 fd77::1", "10.98.0.5/32")
		w.has(w.host("cp-1").Namespace, fencingNIC, "10.99.0.11/24 fd99::11/64", "")
	}
	if err := resetNetwork(t.Context(), w.host("cp-2")); err != nil {
		t.Fatal(err)
	}
	if err := nicsUp(w.layout, w.host("cp-2"), nil); err != nil {
		t.Fatal(err)
	}
	w.has(w.host("cp-2").Namespace, machineNIC, "10.77.0.12/24 fd77::12/64", "10.77.0.1 fd77::1")
	w.eventually("the hosts reach each other", func() bool { return w.seen("cp-2", "cp-1") == whole && w.seen("cp-1", "cp-2") == whole })
	w.names("cp-1", "10.77.0.5", "fd77::5")

	w.layout = before // and back
	if err := createNetwork(t.Context(), w.layout); err != nil {
		t.Fatal(err)
	}
	w.has(w.layout.Switch(), machineBridge, "10.98.0.1/24 fd98::1/64", "")
	if err := moveNICs(w.layout, w.host("cp-1")); err != nil {
		t.Fatal(err)
	}
	w.has(w.host("cp-1").Namespace, machineNIC, "10.98.0.11/24 fd98::11/64", "10.98.0.1 fd98::1", "10.98.0.5/32")
}

func (w wired) give(nic, host, address string) {
	w.t.Helper()
	nl, err := namespace(w.host(host).Namespace).handle()
	if err != nil {
		w.t.Fatal(err)
	}
	defer nl.Close()
	link, err := nl.LinkByName(nic)
	if err == nil {
		err = addAddress(nl, link, netip.MustParsePrefix(address))
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// has checks the addresses of a link, but for link-local ones and those of may, and the
// gateways of its namespace's default routes.
func (w wired) has(ns, nic, addresses, gateways string, may ...string) {
	w.t.Helper()
	nl, err := namespace(ns).handle()
	if err != nil {
		w.t.Fatal(err)
	}
	defer nl.Close()
	link, err := nl.LinkByName(nic)
	if err != nil {
		w.t.Fatal(err)
	}
	var got, by []string
	list, err := nl.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, a := range list {
		if text := a.IPNet.String(); a.Scope != unix.RT_SCOPE_LINK && !slices.Contains(may, text) {
			got = append(got, text)
		}
	}
	routes, err := nl.RouteList(link, netlink.FAMILY_ALL)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range routes {
		if r.Gw != nil {
			by = append(by, r.Gw.String())
		}
	}
	slices.Sort(got)
	slices.Sort(by)
	if strings.Join(got, " ") != addresses || strings.Join(by, " ") != gateways {
		w.t.Errorf("%s of %s has %v by %v, want %s by %s", nic, ns, got, by, addresses, gateways)
	}
}

func prefixesOf(list ...netip.Prefix) string { return strings.Trim(fmt.Sprint(list), "[]") }

// names asks the gateways of a host's network for the API's addresses.
func (w wired) names(host string, v4, v6 string) {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	defer stop()
	d := &daemon{lab: &Lab{Layout: w.layout}, log: slog.New(slog.DiscardHandler)}
	if err := d.startDNS(ctx); err != nil {
		w.t.Fatal(err)
	}
	for _, gw := range w.layout.Machine.Gateways {
		for kind, want := range map[uint16]string{dns.TypeA: v4, dns.TypeAAAA: v6} {
			conn, err := namespace(w.host(host).Namespace).dial(ctx, "udp", netip.AddrPortFrom(gw, 53).String())
			if err != nil {
				w.t.Fatal(err)
			}
			query := new(dns.Msg).SetQuestion("api."+w.layout.ClusterDomain()+".", kind)
			reply, _, err := new(dns.Client).ExchangeWithConnContext(ctx, query, &dns.Conn{Conn: conn})
			if err != nil || len(reply.Answer) != 1 || !strings.HasSuffix(reply.Answer[0].String(), "\t"+want) {
				w.t.Errorf("%s says %v (%v), want %s", gw, reply, err, want)
			}
			_ = conn.Close()
		}
	}
}

// unmade is a lab whose daemon runs and whose hosts have namespaces, and no containers yet.
func unmade(t *testing.T) (*Lab, *Builder) {
	t.Helper()
	needLab(t)
	name := "v" + realName[len("self"):]
	b, err := New(t.TempDir(), Options{Spec: Spec{Name: name, ControlPlanes: 2, Families: []Family{V4, V6}, Bare: true, POSTDelay: time.Hour}})
	if err == nil {
		err = errors.Join(os.MkdirAll(b.Dir, 0o700), b.save(), createNetwork(t.Context(), b.Layout))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.endDaemon(context.Background()), removeNamespaces(name)); err != nil {
			t.Error(err)
		}
		_ = os.Remove(namednetns.Dir) // other labs may have namespaces there
	})
	if _, err := b.EnsureDaemon(t.Context(), testLauncher); err != nil {
		t.Fatal(err)
	}
	return b, &Builder{Root: filepath.Dir(b.Dir), Launch: testLauncher, Log: io.Discard}
}

// answers checks that the lab's name server is at the gateway of a layout's network.
func answers(t *testing.T, l Layout) {
	t.Helper()
	conn, err := namespace(l.Switch()).dial(t.Context(), "tcp", netip.AddrPortFrom(l.Machine.Gateways[0], 53).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	query := new(dns.Msg).SetQuestion("api."+l.ClusterDomain()+".", dns.TypeA)
	reply, _, err := new(dns.Client).ExchangeWithConnContext(t.Context(), query, &dns.Conn{Conn: conn})
	if err != nil || len(reply.Answer) != 1 || !strings.HasSuffix(reply.Answer[0].String(), "\t"+l.APIVIPs[0].String()) {
		t.Errorf("%s says %v (%v), want %s", l.Machine.Gateways[0], reply, err, l.APIVIPs[0])
	}
}

func TestTheDaemonOfAMovedLabIsThatOfTheNewNetwork(t *testing.T) {
	b, u := unmade(t)
	status := func() DaemonStatus {
		t.Helper()
		st, err := NewClient(b).Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	before := status()
	answers(t, b.Layout)
	for _, step := range []struct {
		move Move
		in   string
	}{{Move{}, "10.77.0.0/24"}, {Move{Live: true}, "10.77.0.0/24"}, {Move{Back: true}, "10.98.0.0/24"}} {
		after, running, err := u.Move(t.Context(), b.Options.Spec.Name, step.move)
		if err != nil || len(running) != 0 || after.Layout.Machine.Prefixes[0].String() != step.in {
			t.Fatalf("%+v: %v run, %v", step.move, running, err)
		}
		answers(t, after.Layout)
		if st := status(); st.API != before.API || len(st.Hosts) != 2 || st.PID == before.PID {
			t.Errorf("%+v: the daemon was %+v, and is %+v", step.move, before, st)
		}
	}
	// A move that was killed: the spec is saved, and the daemon is that of the first network.
	o := b.Options
	o.Spec = moved(t, o.Spec)
	if err := writeJSON(b.file(optionsFile), o); err != nil {
		t.Fatal(err)
	}
	after, _, err := u.Move(t.Context(), b.Options.Spec.Name, Move{})
	if err != nil {
		t.Fatal(err)
	}
	answers(t, after.Layout)
}

func TestALabIsNotMovedWhileAHostIsInItsSelfTest(t *testing.T) {
	b, u := unmade(t)
	if err := NewClient(b).Power(t.Context(), PowerRequest{Host: "cp-2", Action: ActionOn}); err != nil {
		t.Fatal(err)
	}
	_, _, err := u.Move(t.Context(), b.Options.Spec.Name, Move{})
	if err == nil || !strings.HasPrefix(err.Error(), "host cp-2 is in its power-on self-test: wait until 'holdfast lab status --name "+b.Options.Spec.Name+"'") {
		t.Errorf("%v", err)
	}
	if again, err := Open(u.Root, b.Options.Spec.Name); err != nil || again.Options.Spec.Moved() {
		t.Errorf("it was moved: %v", err)
	}
}

// TestAHostThatBootsAfterAMoveHasTheNameServersThere: renewNameServers is what a boot does
// before the host starts.
func TestAHostThatBootsAfterAMoveHasTheNameServersThere(t *testing.T) {
	b, u := unmade(t)
	h := b.Layout.Hosts[0]
	h.Role = state.RoleWorker // without a disk for etcd
	u, err := testBuilder(u.Root, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	image, err := HostImage("/", u.Packages)
	if err == nil {
		err = image.Ensure(t.Context(), u.Cache, t.Output())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeContainers(context.Background(), b.Options.Spec.Name); err != nil {
			t.Error(err)
		}
	})
	if err := b.createContainer(t.Context(), h, image.Ref()); err != nil {
		t.Fatal(err)
	}
	asks := func() (text string) {
		t.Helper()
		err := withFiles(t.Context(), h, func(root string) error {
			data, err := os.ReadFile(filepath.Join(root, "etc/resolv.conf"))
			text = string(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, step := range []struct {
		other bool
		want  string
	}{{false, "nameserver 10.98.0.1\nnameserver fd98::1\n"}, {true, "nameserver 10.77.0.1\nnameserver fd77::1\n"}, {false, "nameserver 10.98.0.1\nnameserver fd98::1\n"}} {
		spec, err := b.Options.Spec.In(step.other)
		if err != nil {
			t.Fatal(err)
		}
		b.Options.Spec, b.Layout = spec, NewLayout(spec)
		if err := b.renewNameServers(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if got := asks(); got != step.want {
			t.Errorf("moved %t: it asks %q, want %q", step.other, got, step.want)
		}
	}
	own := "search office.test\nnameserver 10.98.0.53\n"
	if err := withFiles(t.Context(), h, func(root string) error {
		return os.WriteFile(filepath.Join(root, "etc/resolv.conf"), []byte(own), 0o644)
	}); err != nil {
		t.Fatal(err)
	}
	if err := b.renewNameServers(t.Context(), h); err != nil || asks() != own {
		t.Errorf("what is not of the other network became %q (%v)", asks(), err)
	}
}
