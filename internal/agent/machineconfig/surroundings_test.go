package machineconfig

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

const (
	proxied = "HTTP_PROXY=\"http://clerk:hush@p\"\nhttp_proxy=\"http://clerk:hush@p\"\n"
	noProxy = "# This site has no proxy.\n"
	noTrust = "# This site adds no authorities.\n"
)

// withWayOut returns a host whose units are there, and an API with configurations that
// have the two files.
func withWayOut(t *testing.T, certificate string) *world {
	t.Helper()
	w := withConfigs(t)
	for _, unit := range []string{"containerd.service", "holdfast-trust.service"} {
		w.put("/etc/systemd/system/"+unit, "[Service]")
	}
	w.reload()
	w.has("without", nil, nil)
	w.has("none", map[string]string{state.ProxyPath: noProxy, state.TrustPath: noTrust}, nil)
	w.has("proxy", map[string]string{state.ProxyPath: proxied, state.TrustPath: noTrust}, nil)
	w.has("both", map[string]string{state.ProxyPath: proxied, state.TrustPath: certificate}, nil)
	return w
}

func certificateOf(t *testing.T) string {
	t.Helper()
	return sitetest.New(t, sitetest.OneNone).Identity.KubernetesCA.Cert
}

const (
	restartsContainerd = "restart -- containerd.service"
	restartsBoth       = "restart -- holdfast-trust.service, restart -- containerd.service"
)

// gets gives the host a configuration, and returns what it ordered.
func (w *world) gets(name string) string {
	w.t.Helper()
	w.orders, w.units = nil, 0
	w.wish(name)
	w.settle(hour)
	if w.says() != "Done "+name+": " || w.boot != 0 || len(w.asked) > 0 {
		w.t.Fatalf("says %s after %d boots, asked %q", w.says(), w.boot, w.asked)
	}
	return strings.Join(w.orders, ", ")
}

// TestAnotherWayOutReachesAHostThatLives: it drains and boots nothing, the units are
// written before anything is restarted, and what is taken back is gone.
func TestAnotherWayOutReachesAHostThatLives(t *testing.T) {
	w := withWayOut(t, certificateOf(t))
	if got := w.gets("none"); got != "" || w.file(state.ProxyPath) != noProxy {
		t.Errorf("a host without either: %s", got)
	}
	if got := w.gets("proxy"); got != restartsContainerd || w.file(state.ProxyPath) != proxied || w.units != 1 {
		t.Errorf("a proxy: %s, units were written %d times", got, w.units)
	}
	if got := w.gets("both"); got != restartsBoth || w.file(state.TrustPath) != certificateOf(t) {
		t.Errorf("authorities: %s", got)
	}
	if got := w.gets("none"); got != restartsBoth || w.file(state.ProxyPath)+w.file(state.TrustPath) != noProxy+noTrust {
		t.Errorf("neither any more: %s", got)
	}
}

// TestAnUpgradeOfASiteWithAWayOutRestartsNothing: hosts have the bytes of their
// installation, which no configuration had until then.
func TestAnUpgradeOfASiteWithAWayOutRestartsNothing(t *testing.T) {
	w := withWayOut(t, certificateOf(t))
	w.put(state.ProxyPath, proxied)
	w.put(state.TrustPath, certificateOf(t))
	w.gets("without")
	if got := w.gets("both"); got != "" {
		t.Errorf("the same: %s", got)
	}
	if got := w.gets("without"); got != "" || w.file(state.ProxyPath) != proxied || w.file(state.TrustPath) != certificateOf(t) {
		t.Errorf("the way back: %s", got)
	}
	if got := w.gets("none"); got != restartsBoth {
		t.Errorf("the installation had another way out: %s", got)
	}
	if got := w.gets("without"); got != restartsBoth || w.file(state.ProxyPath) != proxied {
		t.Errorf("the way back: %s, %q", got, w.file(state.ProxyPath))
	}
}

// TestAHostThatJoinsWithItsWayOutRestartsNothing, and one whose Ignition config had
// another one has the right one before its kubelet starts.
func TestAHostThatJoinsWithItsWayOutRestartsNothing(t *testing.T) {
	for before, want := range map[string]string{proxied: "", noProxy: restartsContainerd} {
		w := withWayOut(t, certificateOf(t))
		w.put(state.ProxyPath, before)
		w.put(state.TrustPath, noTrust)
		w.first, w.unjoined, w.away = "proxy", true, true
		w.start()
		w.mayJoin()
		if got := strings.Join(w.orders, ", "); got != want || w.file(state.ProxyPath) != proxied {
			t.Errorf("with %q: %s", before, got)
		}
	}
}

// TestAWayOutThatAHostCannotTakeIsTakenBack, and no report has a word of it.
func TestAWayOutThatAHostCannotTakeIsTakenBack(t *testing.T) {
	w := withWayOut(t, certificateOf(t))
	w.gets("none")
	w.unitsFail = errors.New("no room")
	w.wish("both")
	if w.settle(hour); w.short() != "Degraded none" || !strings.Contains(w.says(), "no room") || strings.Contains(w.says(), "hush") || w.file(state.ProxyPath) != noProxy {
		t.Errorf("says %s, has %q", w.says(), w.file(state.ProxyPath))
	}
	w.unitsFail = nil
	w.put("/etc/systemd/system/containerd.service", "[Service]\nExecStart=/bad")
	w.reload()
	w.gets("none")
	w.has("other", map[string]string{state.ProxyPath: strings.ReplaceAll(proxied, "clerk", "porter"), state.TrustPath: noTrust}, nil)
	w.wish("other")
	if w.settle(hour); w.short() != "Degraded none" || strings.Contains(w.says(), "hush") || w.file(state.ProxyPath) != noProxy {
		t.Errorf("says %s, has %q", w.says(), w.file(state.ProxyPath))
	}
}

// TestACutOnTheWayToAnotherWayOutIsMadeUpFor: whatever the agent was about to do, both
// restarts come after it.
func TestACutOnTheWayToAnotherWayOutIsMadeUpFor(t *testing.T) {
	for left := 0; ; left++ {
		w := withWayOut(t, certificateOf(t))
		w.gets("none")
		w.left = left
		w.wish("both")
		w.settle(hour)
		cut := w.left < 0
		if got := strings.Join(w.orders, ", "); w.says() != "Done both: " || !strings.HasSuffix(got, restartsBoth) || w.file(state.ProxyPath) != proxied || w.units == 0 {
			t.Fatalf("cut after %d effects: says %s, ordered %s", left, w.says(), got)
		}
		if !cut {
			return
		}
	}
}
