package network

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAHostGivesItsVIPsAwayBeforeItBoots plays keepalived, which follows the view.
func TestAHostGivesItsVIPsAwayBeforeItBoots(t *testing.T) {
	vip := netip.MustParseAddr("10.98.0.5")
	two := state.Known([]state.Node{{Name: "cp-1"}, {Name: "cp-2"}})
	for name, c := range map[string]struct {
		nodes state.Fact[[]state.Node]
		// held: it has the VIP; kept: nobody takes it.
		held, kept bool
		// says: the API has it that the host keeps the VIP, until heard after a while.
		says  bool
		heard time.Duration
		want  time.Duration
	}{
		"another host takes it":     {nodes: two, held: true, want: 100*time.Millisecond + leaveAfter},
		"the API is told first":     {nodes: two, held: true, says: true, heard: 300 * time.Millisecond, want: 300*time.Millisecond + heardWithin + 100*time.Millisecond + leaveAfter},
		"the API does not take it":  {nodes: two, held: true, says: true, heard: time.Minute, want: saysLimit + heardWithin + 100*time.Millisecond + leaveAfter},
		"nobody takes it":           {nodes: two, held: true, kept: true, want: leaveLimit + leaveAfter},
		"it has none":               {nodes: two},
		"there is no other host":    {nodes: state.Known([]state.Node{{Name: "cp-1"}}), held: true},
		"other hosts are not known": {held: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keeps := func(said bool) state.Fact[[]state.Node] {
					if !said {
						return c.nodes
					}
					return state.Known([]state.Node{{Name: "cp-1", Annotations: map[string]string{vrrp.HoldsAnnotation: vip.String()}}, {Name: "cp-2"}})
				}
				v := state.NetworkView{Host: state.HostFacts{NodeName: "cp-1"}, Settings: state.NetworkSettings{APIVIPs: []netip.Addr{vip}}, Nodes: keeps(c.says)}
				if c.held {
					v.Addresses = []state.HostAddress{{Interface: "eth0", Prefix: netip.PrefixFrom(vip, 32)}}
				}
				views := NewViewStore(v)
				began := time.Now()
				if c.heard > 0 {
					go func() {
						time.Sleep(c.heard)
						views.Update(func(v *state.NetworkView) { v.Nodes = keeps(false) })
					}()
				}
				go func() {
					for range 10_000 { // keepalived follows the view
						if views.View().Leaving {
							break
						}
						time.Sleep(time.Millisecond)
					}
					time.Sleep(100 * time.Millisecond)
					if !c.kept {
						views.Update(func(v *state.NetworkView) { v.Addresses = nil })
					}
				}()
				stay := views.Leave(t.Context())
				if took := time.Since(began); took.Round(100*time.Millisecond) != c.want {
					t.Errorf("it took %s, want %s", took, c.want)
				}
				if !views.View().Leaving {
					t.Error("it may have them again before it boots")
				}
				if stay(); views.View().Leaving {
					t.Error("it does not boot, and may not have them again")
				}
				synctest.Wait()
				time.Sleep(time.Minute) // keepalived's part ends too
			})
		})
	}
}

// TestTheVIPsComeBackOnceNobodyWhoHadThemLeaveIsLeft: an upgrade and a shutdown may do so at once, and
// each takes back only what it did, once.
func TestTheVIPsComeBackOnceNobodyWhoHadThemLeaveIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		views := NewViewStore(state.NetworkView{Host: state.HostFacts{NodeName: "cp-1"}})
		away := func(what string, want bool) {
			t.Helper()
			if v := views.View(); v.Leaving != want || v.Announces != want {
				t.Errorf("%s: leaving %t, announced %t", what, v.Leaving, v.Announces)
			}
		}
		upgrade, shutdown := views.Leave(t.Context()), views.Leave(t.Context())
		away("both", true)
		upgrade()
		away("the upgrade is over", true)
		upgrade()
		away("the upgrade says so twice", true)
		again := views.Leave(t.Context())
		shutdown()
		away("another upgrade", true)
		again()
		away("nobody is left", false)
		shutdown()
		views.Leave(t.Context())
		away("the next one", true)
	})
}
