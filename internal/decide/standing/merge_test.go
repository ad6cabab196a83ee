package standing

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhatAHostSaysOfItselfGoesBeforeWhatTheAPIHas(t *testing.T) {
	vip := netip.MustParseAddr("10.98.0.5")
	old := Host{Name: "cp-1", Holds: Know([]netip.Addr(nil), "the API", now), Kubelet: ready(since)}
	own := Host{Name: "cp-1", ControlPlane: true, Holds: Know([]netip.Addr{vip}, "cp-1", now)}
	f := Merge(Facts{Hosts: []Host{own}, VIPs: []VIP{{Address: vip}}}, Facts{Hosts: []Host{old}, VIPs: []VIP{{Address: vip, Claims: []string{"x"}, Left: []string{"cp-2"}, Forged: []string{"y"}}}})
	if len(f.Hosts) != 1 || f.Hosts[0].Holds.From != "cp-1" || !f.Hosts[0].Kubelet.Known || len(f.VIPs) != 1 || len(f.VIPs[0].Claims)+len(f.VIPs[0].Left)+len(f.VIPs[0].Forged) != 3 {
		t.Errorf("%+v", f)
	}
	if !slices.Equal(f.VIPs[0].Holders.Value, []string{"cp-1"}) {
		t.Errorf("%+v", f.VIPs[0])
	}
}

func TestTheNewestReportOfPacemakerCounts(t *testing.T) {
	var a, b Facts
	a.Pacemaker.Known, a.Pacemaker.From, a.Pacemaker.At = true, "cp-1", now.Add(-time.Hour)
	b.Pacemaker.Known, b.Pacemaker.From, b.Pacemaker.At = true, "the API", now
	if f := Merge(a, b); f.Pacemaker.From != "the API" {
		t.Error(f.Pacemaker.From)
	}
	if f := Merge(b, a); f.Pacemaker.From != "the API" {
		t.Error(f.Pacemaker.From)
	}
}

func TestThatNobodyHasAVIPIsKnownOnlyWhereAllWereHeard(t *testing.T) {
	vip := netip.MustParseAddr("10.98.0.5")
	heard := Host{Name: "cp-1", Holds: Know([]netip.Addr{}, "cp-1", now)}
	f := Merge(Facts{Hosts: []Host{heard, {Name: "cp-2"}}, VIPs: []VIP{{Address: vip, Kind: "API"}}})
	if h := f.VIPs[0].Holders; h.Known || !strings.Contains(h.Why, "cp-2") {
		t.Errorf("%+v", h)
	}
	f = Merge(Facts{Hosts: []Host{heard}, VIPs: []VIP{{Address: vip, Kind: "API"}}})
	if h := f.VIPs[0].Holders; !h.Known || len(h.Value) != 0 {
		t.Errorf("%+v", h)
	}
}

func TestTheLastFenceIsTheNewestOfBothHosts(t *testing.T) {
	fence := func(at time.Time, by string) Facts {
		return Facts{Hosts: []Host{{Name: "cp-2", LastFence: Know(Fence{At: at, By: by}, by, at)}}}
	}
	f := Merge(fence(now.Add(-time.Hour), "cp-1"), fence(now, "cp-3"))
	if f.Hosts[0].LastFence.Value.By != "cp-3" {
		t.Errorf("%+v", f.Hosts[0].LastFence)
	}
}

func TestAMemberIsFilledFromWhoeverKnows(t *testing.T) {
	asked := Host{Name: "cp-1", Member: Know(Member{Behind: state.Known(uint64(7)), Leader: true}, "etcd", now)}
	listed := Host{Name: "cp-1", Member: Know(Member{Running: state.Known(true), Listed: state.Known(true)}, "cp-1", now)}
	m := Merge(Facts{Hosts: []Host{asked}}, Facts{Hosts: []Host{listed}}).Hosts[0].Member.Value
	if !m.Leader || !state.Is(m.Running, true) || !state.Is(m.Listed, true) || !state.Is(m.Behind, 7) {
		t.Errorf("%+v", m)
	}
}

func TestTimeThatPassesIsNoChange(t *testing.T) {
	for name, f := range situations(t) {
		before, after := Describe(f), f
		after.Now = after.Now.Add(2 * time.Second)
		if c := Changes(before, Describe(after)); len(c) > 0 {
			t.Errorf("%s: %q", name, c)
		}
	}
}

func TestTheFindingsOfAViewAreToldApart(t *testing.T) {
	for name, f := range situations(t) {
		list := Describe(f).Findings
		for i, a := range list {
			if slices.ContainsFunc(list[i+1:], a.Same) {
				t.Errorf("%s: another finding counts as the same as %q", name, a.Problem)
			}
		}
	}
}

func TestOnlyWhatHappensIsAChange(t *testing.T) {
	all := situations(t)
	before, after := Describe(all["healthy-pair"]), all["healthy-pair"]
	after.Now = after.Now.Add(time.Minute)
	after.Pacemaker.At = after.Now
	after.Hosts[1].Member.Value.Behind = state.Known(uint64(9))
	if c := Changes(before, Describe(after)); len(c) > 0 {
		t.Errorf("that time has passed: %q", c)
	}
	c := strings.Join(Changes(before, Describe(all["peer-lost"])), "\n")
	for _, want := range []string{"status: degraded", "no, because cp-2 is absent", "cp-2: etcd not a member", "ingress VIP 10.98.0.6: cp-1", "warning: cp-2 is absent"} {
		if !strings.Contains(c, want) {
			t.Errorf("%q is missing in:\n%s", want, c)
		}
	}
	if c := Changes(Describe(all["peer-lost"]), before); !slices.ContainsFunc(c, func(s string) bool { return strings.HasPrefix(s, "resolved: cp-2 is absent") }) {
		t.Errorf("%q", c)
	}
}
