package lb

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
	"github.com/holdfast/holdfast/test/net/promise"
)

// addPod puts a pod on a host: a namespace behind it, whose traffic leaves the
// host with the host's own address, as in most pod networks.
func (s *site) addPod(h *node, number int) *namespace {
	s.t.Helper()
	pod := &namespace{t: s.t, name: fmt.Sprintf("%s-pod%d", s.prefix, number)}
	pod.handle = netnstest.New(s.t, pod.name)
	netnstest.Join(s.t, h.handle, "pod0", pod.handle, "eth0")
	var masquerade []string
	for _, f := range []struct {
		on               bool
		pod, host, first string
		family, sysctl   string
	}{
		{s.v4, fmt.Sprintf("10.244.%d.2/24", number), fmt.Sprintf("10.244.%d.1", number), "-4", "ip", "net.ipv4.ip_forward=1"},
		{s.v6, fmt.Sprintf("fd44:%d::2/64", number), fmt.Sprintf("fd44:%d::1", number), "-6", "ip6", "net.ipv6.conf.all.forwarding=1"},
	} {
		if !f.on {
			continue
		}
		bits := f.pod[strings.IndexByte(f.pod, '/'):]
		pod.add(f.pod)
		netnstest.Give(s.t, h.handle, "pod0", f.host+bits)
		must(s.t, "ip", "-n", pod.name, f.first, "route", "add", "default", "via", f.host)
		h.run("sysctl", "-qw", f.sysctl)
		masquerade = append(masquerade, fmt.Sprintf("%s saddr %s oifname eth0 masquerade", f.family, netip.MustParsePrefix(f.pod).Masked()))
	}
	h.nft("table inet podnet { chain post { type nat hook postrouting priority srcnat; " + strings.Join(masquerade, "; ") + "; }; }")
	return pod
}

// everybody returns each kind of client: a host that holds the VIP and one that
// does not, a pod on each, and an external client.
func (s *site) everybody() map[string]*namespace {
	return map[string]*namespace{
		"holder": s.hosts[0].namespace, "other host": s.hosts[1].namespace, "external": s.client,
		"pod on the holder": s.addPod(s.hosts[0], 1), "pod on another host": s.addPod(s.hosts[1], 2),
	}
}

// reachable checks that every client reaches every API server by every VIP.
func reachable(t *testing.T, s *site, all map[string]*namespace) {
	t.Helper()
	for name, from := range all {
		for _, vip := range s.vips {
			t.Log(name)
			balanced(t, s, from, vip, "cp-1", "cp-2")
		}
	}
}

// The rules that kube-proxy writes in its modes, for the Service kubernetes.
const (
	serviceIP    = "10.96.0.1"
	kubeProxyNft = `table ip kube-proxy {
		map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
		chain endpoint-1 { meta l4proto tcp dnat to 10.97.0.11:6443; }
		chain endpoint-2 { meta l4proto tcp dnat to 10.97.0.12:6443; }
		chain service-kubernetes { numgen random mod 2 vmap { 0 : goto endpoint-1, 1 : goto endpoint-2 }; }
		chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }
		chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }
		chain nat-output { type nat hook output priority -100; jump services; }
		chain nat-postrouting { type nat hook postrouting priority srcnat; ct status dnat masquerade; }
	}
	add element ip kube-proxy service-ips { 10.96.0.1 . tcp . 443 : goto service-kubernetes }`
	firewalld = `table inet firewalld
	delete table inet firewalld
	table inet firewalld {
		chain nat_PREROUTING { type nat hook prerouting priority dstnat + 10; policy accept; }
		chain nat_OUTPUT { type nat hook output priority -90; policy accept; }
		chain filter_INPUT {
			type filter hook input priority filter + 10; policy drop;
			ct state { established, related } accept
			ct status dnat accept
			iifname lo accept
			meta l4proto { icmp, ipv6-icmp } accept
			tcp dport 6443 accept
			reject with icmpx admin-prohibited
		}
		chain filter_FORWARD { type filter hook forward priority filter + 10; policy accept; }
	}`
)

func iptablesKubeProxy(h *node) {
	for _, rule := range []string{
		"-N KUBE-SERVICES", "-A PREROUTING -j KUBE-SERVICES", "-A OUTPUT -j KUBE-SERVICES",
		"-N KUBE-SEP-1", "-N KUBE-SEP-2", "-N KUBE-MARK-MASQ", "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000",
		"-A KUBE-SERVICES -d " + serviceIP + " -p tcp --dport 443 -j KUBE-MARK-MASQ",
		"-A KUBE-SERVICES -d " + serviceIP + " -p tcp --dport 443 -m statistic --mode random --probability 0.5 -j KUBE-SEP-1",
		"-A KUBE-SERVICES -d " + serviceIP + " -p tcp --dport 443 -j KUBE-SEP-2",
		"-A KUBE-SEP-1 -p tcp -j DNAT --to-destination 10.97.0.11:6443",
		"-A KUBE-SEP-2 -p tcp -j DNAT --to-destination 10.97.0.12:6443",
		"-A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE",
	} {
		h.run("iptables", append([]string{"-t", "nat"}, strings.Fields(rule)...)...)
	}
}

func TestHardCase21_EverybodyReachesTheVIPsBesideOtherRules(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules func(*node)
		// service is set if the rules redirect the Service's address.
		service bool
	}{
		{"alone", func(*node) {}, false},
		{"kube-proxy with iptables", iptablesKubeProxy, true},
		{"kube-proxy with nftables", func(h *node) { h.nft(kubeProxyNft) }, true},
		{"firewalld", func(h *node) { h.nft(firewalld) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, dual, 2)
			for _, h := range s.hosts {
				c.rules(h)
			}
			s.up()
			s.hold(s.hosts[0])
			all := s.everybody()
			reachable(t, s, all)
			if !c.service {
				return
			}
			must(t, "ip", "-n", s.hosts[0].name, "route", "add", serviceIP, "dev", "eth0")
			for name, from := range map[string]*namespace{"holder": all["holder"], "pod": all["pod on the holder"]} {
				if _, err := s.ask(from, netip.AddrPortFrom(netip.MustParseAddr(serviceIP), 443)); err != nil {
					t.Errorf("%s: the Service kubernetes: %v", name, err)
				}
			}
		})
	}
}

func TestHardCase21_AFlushIsMendedWithinASecondAndMovesNothing(t *testing.T) {
	for name, script := range map[string]string{
		"nft flush ruleset": "flush ruleset",
		"our table deleted": "delete table inet holdfast_api",
		"its rules flushed": "flush table inet holdfast_api",
		// firewalld and nftables.service do this when they are restarted.
		"everything replaced": "flush ruleset\n" + firewalld,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, dual, 2)
			s.up()
			h := s.hosts[0]
			s.hold(h)
			l := s.start(s.client, api(s.vips[0]), 40)
			w := s.watchOf(s.client, api(s.vips[1]), "cp-2")
			time.Sleep(500 * time.Millisecond)
			fault := time.Now()
			h.nft(script)
			within(t, time.Second, "the table is back", func() bool {
				return strings.Contains(h.run("nft", "list", "ruleset"), "dnat ip6 to [fd97::5]:9445")
			})
			time.Sleep(500 * time.Millisecond)
			if !h.redirected() {
				t.Error("the view saw it gone")
			}
			balanced(t, s, s.client, s.vips[1], "cp-1", "cp-2")
			l.stop()
			got := l.loss(fault)
			t.Logf("%v; a watch went on: %v", got, !w.ended.Load())
			if got.lastFailed > promise.Allowed(time.Second) {
				t.Error("requests were lost for too long:", got)
			}
		})
	}
}

// B37: the port is translated and not the address. haproxy and the connection's
// own host see the original VIP, as do programs that balance below the
// firewall.
func TestB37_TheAddressStaysTheVIP(t *testing.T) {
	s := newSite(t, dual, 2)
	s.up()
	h := s.hosts[0]
	s.hold(h)
	for name, from := range s.everybody() {
		for _, vip := range s.vips {
			c := s.idleWatches(from, api(vip), 1)[0]
			if c == nil {
				continue
			}
			local := netip.AddrPortFrom(vip, apilb.BalancerPort).String()
			remote := netip.MustParseAddrPort(c.LocalAddr().String()).Port()
			if out := h.run("ss", "-Htn", "state", "established", "src", local); !strings.Contains(out, fmt.Sprintf(":%d", remote)) {
				t.Errorf("%s: haproxy has no connection at %s from port %d:\n%s", name, local, remote, out)
			}
		}
	}
}

// A host translates only for its own addresses. It leaves packets that pass
// through it to the holder, which may have no haproxy at that moment.
func TestWhatPassesThroughAHostIsLeftToTheHolder(t *testing.T) {
	s := newSite(t, dual, 2)
	s.up()
	s.hold(s.hosts[0])
	pod := s.addPod(s.hosts[1], 1)
	s.hosts[0].signal(syscall.SIGKILL)
	within(t, 2*time.Second, "the holder's redirect is off", func() bool { return !s.hosts[0].redirected() })
	if !s.hosts[1].redirected() {
		t.Fatal("the other host's is off too: this shows nothing")
	}
	for _, vip := range s.vips {
		if name, err := s.ask(pod, api(vip)); err != nil || name != "cp-1" {
			t.Errorf("%v: %q %v", vip, name, err)
		}
	}
}

// A replacement is one transaction: no packet ever sees half of it, and
// translated connections stay translated.
func TestTheTableIsReplacedWithoutAGap(t *testing.T) {
	s := newSite(t, onlyV4, 2)
	s.up()
	h := s.hosts[0]
	s.hold(h)
	w := s.watchOf(s.client, api(s.vips[0]), "cp-2")
	l := s.start(s.client, api(s.vips[0]), 100)
	start := time.Now()
	other := netip.MustParseAddr("fd97::5")
	for range 20 {
		both := h.board.View().Settings
		both.APIVIPs = append([]netip.Addr{other}, s.vips...)
		one := both
		one.APIVIPs = s.vips
		for _, settings := range []state.NetworkSettings{both, one} {
			h.setVIPs(settings)
			time.Sleep(40 * time.Millisecond)
		}
	}
	l.stop()
	if got := l.loss(start); got.failed > 0 {
		t.Error(got)
	}
	if w.ended.Load() || !w.moves(t) {
		t.Error("the watch was cut")
	}
}

// H4: after a change of the VIPs the old one leads nowhere.
func TestH4_AnotherVIPReplacesTheOldOne(t *testing.T) {
	s := newSite(t, onlyV4, 2)
	s.up()
	h := s.hosts[0]
	s.hold(h)
	settings := h.board.View().Settings
	settings.APIVIPs = []netip.Addr{netip.MustParseAddr("10.97.0.7")}
	h.setVIPs(settings)
	within(t, time.Second, "the table leads the new VIP", func() bool {
		rules := h.run("nft", "list", "table", "inet", "holdfast_api")
		return strings.Contains(rules, "10.97.0.7") && !strings.Contains(rules, "10.97.0.5")
	})
}
