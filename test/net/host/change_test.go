package host

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/haproxy"
	"github.com/holdfast/holdfast/internal/render/keepalived"
	"github.com/holdfast/holdfast/test/net/promise"
)

// ip runs the tool in the host's namespace.
func (h *host) ip(words string) {
	h.t.Helper()
	if out, err := exec.Command("ip", append([]string{"-n", h.own}, strings.Fields(words)...)...).CombinedOutput(); err != nil {
		h.t.Fatalf("ip %s: %v: %s", words, err, out)
	}
}

// peers returns the peers of the API's instance in keepalived's configuration.
func (h *host) peers() []string {
	_, rest, _ := strings.Cut(h.file(keepalived.ConfigPath), "vrrp_instance shop_API_0 ")
	_, rest, _ = strings.Cut(rest, "unicast_peer {")
	block, _, _ := strings.Cut(rest, "}")
	var out []string
	for word := range strings.FieldsSeq(block) {
		if strings.HasPrefix(word, "10.98.") {
			out = append(out, word)
		}
	}
	return out
}

// running starts the agent of an installed control plane beside an API with
// this node and another.
func running(t *testing.T) (*host, *api) {
	t.Helper()
	h := newHost(t, state.RoleMaster)
	a := newAPI(t, h)
	h.write("/etc/kubernetes/pki/ca.crt", a.ca)
	a.node("h-1", "10.98.0.11", state.LabelControlPlane, state.LabelMaster)
	a.node("h-2", "10.98.0.12", state.LabelControlPlane, state.LabelMaster)
	a.serve(h)
	h.start()
	h.until("keepalived knows its peer", func() bool { return slices.Equal(h.peers(), []string{"10.98.0.12"}) })
	return h, a
}

func TestHardCase14_PeersAndBackendsFollowAClusterThatGrowsAndShrinks(t *testing.T) {
	h, a := running(t)
	var present []string
	follows := func(what string) {
		t.Helper()
		want := slices.Clone(present)
		took := h.until(what, func() bool {
			conf := h.file(haproxy.HostPaths.Config)
			return slices.Equal(h.peers(), want) && !slices.ContainsFunc(want, func(p string) bool { return !strings.Contains(conf, p+":6443") })
		})
		t.Logf("%s: %s", what, took)
		if took > promise.Allowed(2*time.Second) {
			t.Errorf("%s: %s, more than 2 s and what a busy machine takes", what, took)
		}
	}
	present = []string{"10.98.0.12"}
	for n := 3; n <= 5; n++ {
		address := fmt.Sprintf("10.98.0.%d", 10+n)
		a.node(fmt.Sprintf("h-%d", n), address, state.LabelControlPlane, state.LabelMaster)
		present = append(present, address)
		follows(fmt.Sprintf("%d control planes", n))
	}
	// H10: step by step down to the number that the site has.
	for n := 5; n >= 4; n-- {
		a.remove(fmt.Sprintf("h-%d", n))
		present = present[:len(present)-1]
		follows(fmt.Sprintf("%d control planes again", n-1))
	}
	if conf := h.file(haproxy.HostPaths.Config); strings.Contains(conf, "10.98.0.14:6443") {
		t.Errorf("haproxy still has a node that is gone:\n%s", conf)
	}
	// From then on, a deleted Node still belongs to a control plane: the host
	// goes on, and nobody has taken it out of the site.
	a.remove("h-3")
	a.remove("h-2")
	a.node("late", "10.98.9.9")
	h.until("what came after the deletions is known", func() bool { return strings.Contains(h.file("/etc/holdfast/coredns/cluster.zone"), "late") })
	follows("the site's control planes, two of them without a Node")
}

func TestHardCase15_TheInterfaceMovesToABridge(t *testing.T) {
	h, _ := running(t)
	const bridge = "br-abcdefghijkl" // 15 characters, the longest name
	h.ip("link add " + bridge + " type bridge")
	h.ip("link set " + bridge + " up")
	h.ip("link set eth0 master " + bridge)
	h.ip("addr del 10.98.0.11/16 dev eth0")
	h.ip("addr add 10.98.0.11/16 dev " + bridge)
	took := h.until("keepalived is on the bridge", func() bool {
		conf := h.file(keepalived.ConfigPath)
		return strings.Contains(conf, "interface "+bridge+"\n") && !strings.Contains(conf, "interface eth0\n")
	})
	t.Logf("the configuration follows %s after the move", took)
	if took > promise.Allowed(2*time.Second) {
		t.Error("more than 2 s and what a busy machine takes")
	}
}

func TestHardCase22_ASecondPairIsTakenOverWhileTheFirstStays(t *testing.T) {
	h, a := running(t)
	h.ip("addr add fd98::11/64 dev eth0 nodad")
	h.until("B9: the host tells its address, though kubelet does not", func() bool {
		return strings.Contains(h.file("/var/lib/holdfast/network/nodes.json"), "fd98::11")
	})
	a.vips(`"10.98.0.5","fd98::5"`, `"10.98.0.6","fd98::6"`)
	first := ""
	took := h.until("keepalived has the second pair", func() bool {
		conf := h.file(keepalived.ConfigPath)
		if first == "" {
			first = instance(conf, "shop_API_0")
		}
		return strings.Contains(conf, "fd98::5") && strings.Contains(conf, "fd98::6")
	})
	h.until("so has the zone", func() bool { return strings.Contains(h.file("/etc/holdfast/coredns/cluster.zone"), "fd98::5") })
	t.Logf("the second pair is in the configuration after %s", took)
	if got := instance(h.file(keepalived.ConfigPath), "shop_API_0"); got != first || got == "" {
		t.Errorf("the first pair's instance changed:\n%s\nwas:\n%s", got, first)
	}
	// Hard case 24: the same addresses in another spelling.
	h.until("the status has them", func() bool { return len(h.status().View.Settings.VIPs()) == 4 })
	before := h.status()
	a.vips(`"10.98.0.5","FD98:0::0005"`, `"::ffff:10.98.0.6","fd98::6"`)
	time.Sleep(time.Second)
	if after := h.status(); fmt.Sprint(after.View.Settings) != fmt.Sprint(before.View.Settings) {
		t.Errorf("settings are %+v, they were %+v", after.View.Settings, before.View.Settings)
	}
	a.vips(`"10.98.0.5"`, `"10.98.0.6"`)
	h.until("the second pair is gone", func() bool { return !strings.Contains(h.file(keepalived.ConfigPath), "fd98::5") })
}

// instance returns the block of one instance.
func instance(conf, name string) string {
	_, rest, _ := strings.Cut(conf, "vrrp_instance "+name+" {")
	block, _, _ := strings.Cut(rest, "\n}")
	return block
}

// Hard case 2, the part of the agent: after kill -9 it comes back and uses what
// exists.
func TestHardCase02_AKilledAgentChangesNothingAndGoesOn(t *testing.T) {
	h, a := running(t)
	conf, zone := h.file(keepalived.ConfigPath), h.file("/etc/holdfast/coredns/cluster.zone")
	if err := h.proc.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.proc.Wait() // it was killed
	h.proc = nil
	a.node("h-3", "10.98.0.13", state.LabelControlPlane, state.LabelMaster)
	if h.file(keepalived.ConfigPath) != conf || h.file("/etc/holdfast/coredns/cluster.zone") != zone {
		t.Error("a file changed with nobody there")
	}
	h.start()
	took := h.until("it knows what happened meanwhile", func() bool { return slices.Equal(h.peers(), []string{"10.98.0.12", "10.98.0.13"}) })
	t.Logf("in step %s after its start", took)
}

// The machine with the API disappears silently: neither the watch nor a request
// may wait for it.
func TestHardCase09_AConnectionThatLeadsNowhereIsGivenUp(t *testing.T) {
	h, _ := running(t)
	if out, err := exec.Command("ip", "-n", h.near, "link", "set", "eth0", "down").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	took := h.until("the watch is given up", func() bool { return strings.Contains(h.log.String(), "no API server gives a valid answer") })
	t.Logf("given up after %s", took)
	if took > promise.Allowed(15*time.Second) { // by then it has tried all addresses, two seconds each
		t.Error("more than 15 s")
	}
}
