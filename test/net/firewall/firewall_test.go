// Package firewall_test tests our table of ports in the kernel, with hosts that
// are network namespaces on one switch, and a pod behind one of them.
package firewall_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/holdfast/holdfast/internal/adapter/firewall"
	"github.com/holdfast/holdfast/internal/decide/ports"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
)

func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// site is a switch with two control planes, a worker, a foreign host and a BMC,
// and a pod on cp-1 whose packets leave cp-1 with its address.
type site struct {
	t      *testing.T
	prefix string
	spaces map[string]netns.NsHandle
}

var addresses = map[string][]string{
	"cp-1": {"10.98.0.11/24", "fd98::11/64"}, "cp-2": {"10.98.0.12/24", "fd98::12/64"}, "worker": {"10.98.0.21/24", "fd98::21/64"},
	"stranger": {"10.98.0.77/24", "fd98::77/64"}, "bmc": {"10.98.0.99/24"},
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, prefix: fmt.Sprintf("hffw-%d", os.Getpid()), spaces: map[string]netns.NsHandle{}}
	sw := netnstest.New(t, s.prefix+"-sw")
	netnstest.Switch(t, sw)
	for name, list := range addresses {
		s.spaces[name] = netnstest.New(t, s.prefix+"-"+name)
		netnstest.Plug(t, sw, name, s.spaces[name], "eth0")
		netnstest.Give(t, s.spaces[name], "eth0", list...)
	}
	s.spaces["pod"] = netnstest.New(t, s.prefix+"-pod")
	netnstest.Join(t, s.spaces["cp-1"], "cni0", s.spaces["pod"], "eth0")
	netnstest.Give(t, s.spaces["cp-1"], "cni0", "10.128.1.1/24")
	netnstest.Give(t, s.spaces["pod"], "eth0", "10.128.1.7/24")
	run(t, "ip", "-n", s.prefix+"-pod", "route", "add", "default", "via", "10.128.1.1")
	s.in("cp-1", "sysctl", "-qw", "net.ipv4.ip_forward=1")
	s.nft("cp-1", "table ip podnet { chain post { type nat hook postrouting priority srcnat; ip saddr 10.128.0.0/14 oifname eth0 masquerade; }; }")
	return s
}

func (s *site) in(name, program string, args ...string) string {
	s.t.Helper()
	return run(s.t, "ip", append([]string{"netns", "exec", s.prefix + "-" + name, program}, args...)...)
}

func (s *site) nft(name, script string) string { s.t.Helper(); return s.in(name, "nft", script) }

func (s *site) table(name string) firewall.Table { return firewall.Table{NetNS: int(s.spaces[name])} }

// listen makes a host answer at a TCP port, on both families.
func (s *site) listen(name string, port int) {
	s.t.Helper()
	var l net.Listener
	err := netnstest.Do(s.spaces[name], func() (err error) {
		l, err = (&net.ListenConfig{}).Listen(s.t.Context(), "tcp", fmt.Sprintf(":%d", port))
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("here"))
			_ = c.Close()
		}
	}()
}

// reaches reports whether a host or the pod gets an answer.
func (s *site) reaches(from, address string) bool {
	s.t.Helper()
	err := netnstest.Do(s.spaces[from], func() error {
		c, err := (&net.Dialer{Timeout: 500 * time.Millisecond}).DialContext(s.t.Context(), "tcp", address)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_, err = c.Read(make([]byte, 4))
		return err
	})
	return err == nil
}

// hears reports whether a UDP packet arrives.
func (s *site) hears(at, from, address string) bool {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(address)
	var conn net.PacketConn
	err := netnstest.Do(s.spaces[at], func() (err error) {
		conn, err = (&net.ListenConfig{}).ListenPacket(s.t.Context(), "udp", ":"+port)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	err = netnstest.Do(s.spaces[from], func() error {
		c, err := (&net.Dialer{}).DialContext(s.t.Context(), "udp", address)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_, err = c.Write([]byte("x"))
		return err
	})
	if err != nil && !errors.Is(err, os.ErrPermission) {
		s.t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	_, _, err = conn.ReadFrom(make([]byte, 1))
	return err == nil
}

func view(role state.Role) (state.NetworkView, ports.Host) {
	node := func(name, label string) state.Node {
		n := state.Node{Name: name, Labels: map[string]string{label: ""}}
		for _, a := range addresses[name] {
			n.Addresses = append(n.Addresses, netip.MustParsePrefix(a).Addr())
		}
		return n
	}
	v := state.NetworkView{
		Role: role, Settings: state.NetworkSettings{
			ControlPlanes: 2, Fencing: true, MachineNetworks: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24"), netip.MustParsePrefix("fd98::/64")},
			PodNetworks: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/14"), netip.MustParsePrefix("fd01::/48")},
		},
		Nodes: state.Known([]state.Node{node("cp-1", state.LabelControlPlane), node("cp-2", state.LabelControlPlane), node("worker", state.LabelWorker)}),
	}
	return v, ports.Host{
		Flannel: true,
		BMCs:    []netip.Addr{netip.MustParseAddr("10.98.0.99")},
	}
}

func (s *site) close(name string, r ports.Rules) {
	s.t.Helper()
	if _, err := s.table(name).Set(r); err != nil {
		s.t.Fatal(err)
	}
}

func TestStrangersWorkersAndPodsReachNoPortThatIsNotTheirs(t *testing.T) {
	s := newSite(t)
	v, h := view(state.RoleMaster)
	for _, host := range []string{"cp-1", "cp-2"} {
		for _, port := range []int{22, 2379, 2382, 6443, 9444, 22623} {
			s.listen(host, port)
		}
		s.close(host, ports.Decide(v, h, true))
	}
	s.listen("bmc", 443)
	for _, c := range []struct {
		from, to string
		open     bool
	}{
		{"cp-1", "10.98.0.12:2379", true},
		{"cp-1", "[fd98::12]:2379", true},
		{"cp-2", "10.98.0.11:2379", true},
		{"cp-2", "127.0.0.1:2379", true},
		{"cp-2", "10.98.0.12:2379", true},
		{"worker", "10.98.0.12:2379", false},
		{"worker", "[fd98::12]:2379", false},
		{"stranger", "10.98.0.11:2379", false},
		{"pod", "10.98.0.11:2379", false},
		{"pod", "10.98.0.12:2379", false}, // its source would be cp-1
		{"pod", "10.128.1.1:22623", false},
		{"pod", "10.98.0.12:22623", false},
		{"pod", "10.98.0.12:2382", false},
		{"pod", "10.98.0.12:6443", true},
		{"pod", "10.98.0.11:6443", true},
		{"pod", "10.98.0.99:443", false},
		{"cp-1", "10.98.0.99:443", true},
		{"worker", "10.98.0.12:22623", true},
		{"stranger", "10.98.0.12:2382", true},
		{"stranger", "10.98.0.12:9444", true},
		{"stranger", "10.98.0.12:22", true},
		{"stranger", "[fd98::12]:6443", true},
	} {
		if got := s.reaches(c.from, c.to); got != c.open {
			t.Errorf("%s to %s: %t", c.from, c.to, got)
		}
	}
	for from, open := range map[string]bool{"cp-1": true, "worker": true, "stranger": false, "pod": false} {
		if got := s.hears("cp-2", from, "10.98.0.12:8472"); got != open {
			t.Errorf("VXLAN from %s: %t", from, got)
		}
	}
	for from, open := range map[string]bool{"cp-1": true, "worker": false, "pod": false} {
		if got := s.hears("cp-2", from, "10.98.0.12:5405"); got != open {
			t.Errorf("Corosync from %s: %t", from, got)
		}
	}
	s.close("cp-2", ports.Decide(v, h, false))
	if !s.reaches("stranger", "10.98.0.12:2379") {
		t.Error("while nothing is settled the machine network is let in")
	}
	h.Off = true
	s.close("cp-2", ports.Decide(v, h, true))
	if !s.reaches("worker", "10.98.0.12:2379") || strings.Contains(s.nft("cp-2", "list ruleset"), firewall.TableName) {
		t.Error("a person wants no rules")
	}
}

func TestTheKernelHasWhatTheRulesSayAndChangesAreNoticed(t *testing.T) {
	s := newSite(t)
	v, h := view(state.RoleMaster)
	r, table := ports.Decide(v, h, true), s.table("cp-1")
	for i, want := range []bool{true, false} {
		if changed, err := table.Set(r); err != nil || changed != want {
			t.Errorf("%d: changed %t, %v", i, changed, err)
		}
	}
	const name = "inet " + firewall.TableName
	for _, damage := range []string{
		"flush ruleset", "delete table " + name, "flush chain " + name + " forward", "add rule " + name + " input tcp dport 22 drop",
		"add chain " + name + " more", "add element " + name + " hosts4 { 10.0.0.1 }", "delete element " + name + " hosts6 { fd98::12 }", "flush set " + name + " bmcs4",
	} {
		s.nft("cp-1", damage)
		if same, err := table.Matches(r); err != nil || same {
			t.Errorf("%s: not noticed (%v)", damage, err)
		}
		if _, err := table.Set(r); err != nil {
			t.Errorf("%s: %v", damage, err)
		}
	}
	path := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(path, []byte("flush ruleset\n"+s.nft("cp-1", "list ruleset")), 0o600); err != nil {
		t.Fatal(err)
	}
	s.in("cp-1", "nft", "-f", path)
	if !s.reachesNothing() {
		t.Error("what nft listed and read back does not keep a worker out")
	}
}

// reachesNothing reports whether cp-1's etcd refuses a worker but not its peer.
func (s *site) reachesNothing() bool {
	s.t.Helper()
	s.listen("cp-1", 2380)
	return !s.reaches("worker", "10.98.0.11:2380") && s.reaches("cp-2", "10.98.0.11:2380")
}

func TestTheKernelTakesTheAddressesOfThousandsOfHosts(t *testing.T) {
	s := newSite(t)
	v, h := view(state.RoleMaster)
	a := netip.MustParseAddr("10.64.0.1")
	for i := range 5000 {
		v.Nodes.Value = append(v.Nodes.Value, state.Node{Name: fmt.Sprint("w", i), Labels: map[string]string{state.LabelWorker: ""}, Addresses: []netip.Addr{a}})
		a = a.Next()
	}
	r := ports.Decide(v, h, true)
	began := time.Now()
	s.close("cp-1", r)
	same, err := s.table("cp-1").Matches(r)
	if err != nil || !same {
		t.Errorf("%t, %v", same, err)
	}
	t.Logf("written and compared in %v", time.Since(began))
}

func TestFirewallsOfOthersAreFound(t *testing.T) {
	s := newSite(t)
	s.nft("cp-1", "table inet firewalld { chain filter_INPUT { type filter hook input priority filter + 10; policy accept; ct state established accept; jump zones; reject with icmpx admin-prohibited; }; chain zones { tcp dport 22 accept; }; }")
	s.nft("cp-1", "table ip filter { chain FORWARD { type filter hook forward priority filter; policy drop; }; }")
	s.nft("cp-1", "table inet harmless { chain input { type filter hook input priority filter; policy accept; tcp dport 7 drop; }; }")
	v, h := view(state.RoleMaster)
	s.close("cp-1", ports.Decide(v, h, true))
	found, err := s.table("cp-1").Others()
	if got := fmt.Sprint(found); err != nil || got != "[chain filter_INPUT of table inet firewalld chain FORWARD of table ip filter]" {
		t.Errorf("%s, %v", got, err)
	}
	if !strings.Contains(s.nft("cp-1", "list table inet firewalld"), "reject with icmpx admin-prohibited") {
		t.Error("somebody else's table was changed")
	}
}
