package keepalived

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"

	"github.com/holdfast/holdfast/internal/adapter/nftable"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
)

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// namespace puts the test into a network namespace of its own with eth0.
func namespace(t *testing.T, addresses ...string) { t.Helper(); netnstest.Pair(t, addresses, nil) }

func TestB17_OnlyTheNamedAddressesAreRemoved(t *testing.T) {
	namespace(t, "10.98.0.11/24", "10.98.0.5/32", "fd98::5/128", "fd98::11/64")
	vips := addrs("10.98.0.5", "fd98::5", "10.98.0.6")
	if held, err := HeldVIPs(vips); err != nil || fmt.Sprint(held) != "[10.98.0.5 fd98::5]" {
		t.Errorf("%v, %v", held, err)
	}
	if removed, err := RemoveVIPs(vips); err != nil || len(removed) != 2 {
		t.Errorf("%v, %v", removed, err)
	}
	if removed, err := RemoveVIPs(vips); err != nil || len(removed) != 0 {
		t.Errorf("again: %v, %v", removed, err)
	}
	if held, err := HeldVIPs(addrs("10.98.0.11", "fd98::11")); err != nil || len(held) != 2 {
		t.Errorf("own addresses left: %v, %v", held, err)
	}
}

func TestTheFilterIsWrittenOnceAndPutRightWhenItDiffers(t *testing.T) {
	namespace(t)
	f := Filter{Own: addrs("10.98.0.11", "fd98::11", "10.98.0.11"), Peers: map[uint8][]netip.Addr{90: addrs("10.98.0.12", "fd98::12")}}
	apply := func(what string, f Filter, want bool) {
		t.Helper()
		if changed, err := f.Apply(); err != nil || changed != want {
			t.Errorf("%s: changed %t, %v", what, changed, err)
		}
	}
	apply("first", f, true)
	apply("again", f, false)
	f.Peers = map[uint8][]netip.Addr{90: addrs("fd98::12", "10.98.0.13")}
	apply("another peer", f, true)
	apply("the same peer", f, false)
	f.Peers[153] = addrs("fd98::12", "10.98.0.13")
	apply("another VIP", f, true)
	f.Peers[153] = addrs("fd98::12")
	apply("a peer of one VIP alone", f, true)
	apply("with the VIP of another router id", f, false)
	out, err := exec.Command("nft", "list", "table", "inet", filterTable).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "10.98.0.13") || strings.Contains(string(out), "10.98.0.12") {
		t.Errorf("%v: %s", err, out)
	}
	peer := netip.MustParseAddr("10.98.0.13")
	f.Senders = map[netip.Addr][]string{peer: {"02:00:00:00:00:0d"}, netip.MustParseAddr("fd98::12"): {"02:00:00:00:00:0c", "02:00:00:00:00:1c"}}
	apply("a peer's NIC", f, true)
	apply("the same again", f, false)
	f.Senders[peer] = []string{"02:00:00:00:00:1d"}
	apply("another NIC", f, true)
	out, err = exec.Command("nft", "list", "table", "inet", filterTable).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "10.98.0.13 . 02:00:00:00:00:1d") || !strings.Contains(string(out), "@pairs6") {
		t.Errorf("%v: %s", err, out)
	}
	for what, edit := range map[string]string{
		"a rule that lets strangers in":             "insert rule inet holdfast_vrrp input accept",
		"a rule that lets all in, in place of ours": "replace rule inet holdfast_vrrp input handle %s accept",
		"a chain of somebody's":                     "add chain inet holdfast_vrrp mine",
		"another policy":                            "chain inet holdfast_vrrp input { policy drop; }",
		"a stranger among the peers":                "add element inet holdfast_vrrp peers4 { 10.98.0.99 }",
	} {
		if strings.Contains(edit, "%s") {
			edit = fmt.Sprintf(edit, firstRule(t))
		}
		if out, err := exec.Command("nft", edit).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", what, err, out)
		}
		apply(what, f, true)
		apply("after "+what, f, false)
	}
	if out, err := exec.Command("nft", "flush", "table", "inet", filterTable).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	apply("somebody emptied it", f, true)
	if n, err := DroppedAdverts(); err != nil || n != 0 {
		t.Errorf("dropped %d, %v", n, err)
	}
	if out, err := exec.Command("nft", "delete", "table", "inet", filterTable).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if n, err := DroppedAdverts(); err != nil || n != 0 {
		t.Errorf("without a table: dropped %d, %v", n, err)
	}
	apply("gone", f, true)
}

// firstRule returns the number that nft gave to the filter's first rule.
func firstRule(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("nft", "--handle", "list", "chain", "inet", filterTable, "input").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, rest, _ := strings.Cut(string(out), "drop # handle ")
	handle, _, _ := strings.Cut(rest, "\n")
	return handle
}

// The rules are as the kernel lists them: with counted packets, and without the
// numbers that the sets had in our transaction. Rules that say something else
// are not ours, even if their number is the same.
func TestTheFiltersRulesAreComparedByWhatTheySay(t *testing.T) {
	w := Filter{Own: addrs("10.98.0.11"), Peers: map[uint8][]netip.Addr{90: addrs("10.98.0.12")}}.content()
	listed := func() []*nftables.Rule {
		var out []*nftables.Rule
		for _, exprs := range w.rules {
			r := &nftables.Rule{}
			for _, e := range exprs {
				switch own := e.(type) {
				case *expr.Counter:
					e = &expr.Counter{Packets: 7, Bytes: 7 * 40}
				case *expr.Lookup:
					named := *own
					named.SetID = 0
					e = &named
				}
				r.Exprs = append(r.Exprs, e)
			}
			out = append(out, r)
		}
		return out
	}
	if !nftable.SameRules(listed(), w.rules) {
		t.Error("our own rules are not known")
	}
	last := len(w.rules[0]) - 1
	for what, edit := range map[string]func([]*nftables.Rule) []*nftables.Rule{
		"one drops no more": func(l []*nftables.Rule) []*nftables.Rule {
			l[0].Exprs[last] = &expr.Verdict{Kind: expr.VerdictAccept}
			return l
		},
		"one is of another table": func(l []*nftables.Rule) []*nftables.Rule { l[0].Exprs[3] = equal([]byte{6}); return l },
		"one asks another set": func(l []*nftables.Rule) []*nftables.Rule {
			l[0].Exprs[5] = &expr.Lookup{SourceRegister: 1, SetName: "mine"}
			return l
		},
		"one says less":      func(l []*nftables.Rule) []*nftables.Rule { l[0].Exprs = l[0].Exprs[1:]; return l },
		"they change places": func(l []*nftables.Rule) []*nftables.Rule { l[0], l[1] = l[1], l[0]; return l },
		"one is missing":     func(l []*nftables.Rule) []*nftables.Rule { return l[1:] },
		"one is too many":    func(l []*nftables.Rule) []*nftables.Rule { return append(l, l[0]) },
	} {
		if nftable.SameRules(edit(listed()), w.rules) {
			t.Errorf("%s: it passes for ours", what)
		}
	}
	chain := *w.chain
	if !nftable.SameChain(&chain, w.chain) {
		t.Error("our own chain is not known")
	}
	chain.Priority = nftables.ChainPriorityMangle
	if nftable.SameChain(&chain, w.chain) {
		t.Error("a chain that comes elsewhere passes for ours")
	}
}

func equal(data []byte) *expr.Cmp { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }

func TestARefusalIsAnAnswerAndSilenceIsNot(t *testing.T) {
	namespace(t, "10.98.0.11/24")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	// The dialler's threads must be in the namespace; this thread is.
	ask := func(a string) bool { return answers(ctx, netip.AddrPortFrom(netip.MustParseAddr(a), 6443)) }
	if !ask("127.0.0.1") {
		t.Error("a refused connection is no answer")
	}
	if ask("10.98.0.12") {
		t.Error("nobody is there, and it answers")
	}
}

func TestOnlyKeepalivedIsFoundByItsPIDFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vrrp.pid")
	for _, c := range []struct{ content, want string }{
		{"", "found"}, {"1\n", "found"}, {"nonsense", "found"}, {fmt.Sprint(os.Getpid()), "found"}, {"999999999", "found"},
	} {
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, found, runs, err := ByPIDFile(path); err != nil || !found || runs {
			t.Errorf("%q: found %t, runs %t, %v", c.content, found, runs, err)
		}
	}
	if _, found, runs, err := ByPIDFile(path + "x"); err != nil || found || runs {
		t.Errorf("no file: found %t, runs %t, %v", found, runs, err)
	}
}

func TestAProcessIsKnownByItsNameAndSleeps(t *testing.T) {
	// A program named keepalived, as the kernel sees it.
	dir := t.TempDir()
	shell, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "keepalived"), shell, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "keepalived"), "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	path := filepath.Join(dir, "pid")
	if err := os.WriteFile(path, fmt.Appendln(nil, cmd.Process.Pid), 0o600); err != nil {
		t.Fatal(err)
	}
	var d Daemon
	for began := time.Now(); ; {
		var runs bool
		if d, _, runs, err = ByPIDFile(path); runs || time.Since(began) > 5*time.Second {
			break
		}
	}
	if d.PID != cmd.Process.Pid {
		t.Fatalf("not found: %v", err)
	}
	if _, err := d.ReadState(); err != nil {
		t.Error(err)
	}
	if err := d.Poke(); err != nil {
		t.Error(err)
	}
	if err := d.Kill(); err != nil {
		t.Error(err)
	}
	if err := d.AwaitEnd(t.Context()); err != nil {
		t.Error(err)
	}
	if _, _, runs, _ := ByPIDFile(path); runs { // nobody has waited for it yet
		t.Error("a dead process runs")
	}
}

// Listen hears who has an address, in both families, but not the host's own
// frames.
func TestWhoAnswersForAnAddressIsHeard(t *testing.T) {
	netnstest.Pair(t, []string{"10.98.0.11/24", "fd98::11/64"}, []string{"10.98.0.5/24", "fd98::5/64"})
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); link.Attrs().OperState != netlink.OperUp && time.Since(began) < 5*time.Second; {
		link, _ = netlink.LinkByName("eth0")
	}
	own, heard, err := Listen(t.Context(), "eth0", addrs("10.98.0.5", "fd98::5", "10.98.0.6"), 1500*time.Millisecond)
	if err != nil || own != link.Attrs().HardwareAddr.String() {
		t.Fatalf("%s, %v", own, err)
	}
	var claims []netip.Addr
	for _, f := range heard {
		if _, err := net.ParseMAC(f.MAC); err != nil || f.MAC == own {
			t.Errorf("%+v", f)
		}
		claims = append(claims, f.Claims)
	}
	for _, a := range addrs("10.98.0.5", "fd98::5") {
		if !slices.Contains(claims, a) {
			t.Errorf("%s was not heard: %v", a, claims)
		}
	}
	if slices.Contains(claims, netip.MustParseAddr("10.98.0.6")) {
		t.Error("nobody has 10.98.0.6")
	}
	if _, _, err := Listen(t.Context(), "no-such-nic", nil, time.Millisecond); err == nil {
		t.Error("no error")
	}
}
