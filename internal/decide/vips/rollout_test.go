package vips_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/vips"
	"github.com/holdfast/holdfast/internal/model/state"
)

var dual = vips.Plan{API: addrs("10.98.0.5", "fd98::5"), Ingress: addrs("10.98.0.6", "fd98::6")}

// settled returns hosts that have two pairs, held by cp-1 and w-1.
func settled() []vips.Host {
	hosts := one().Hosts
	for i := range hosts {
		r := &hosts[i].Report.Value
		r.VIPs = dual.All()
		if hosts[i].ControlPlane {
			r.Certificate = dual.API
		}
	}
	hosts[0].Report.Value.Holds = dual.API
	hosts[2].Report.Value.Holds, hosts[2].Report.Value.Router = dual.Ingress, true
	return hosts
}

// allAnswer returns answers in which every VIP answers.
func allAnswer() map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for _, a := range dual.All() {
		out[a] = ""
	}
	return out
}

func TestHowFarAClusterIs(t *testing.T) {
	for _, c := range []struct {
		sentence            string
		change              func([]vips.Host, map[netip.Addr]string)
		applied, everywhere bool
		words               string
	}{
		{"every host has the VIPs, and each has a holder and answers", func([]vips.Host, map[netip.Addr]string) {}, true, true, "3 of 3 hosts"},
		{"a host that has not heard of them is waited for", func(h []vips.Host, _ map[netip.Addr]string) {
			h[1].Report.Value.VIPs = addrs("10.98.0.5", "10.98.0.6")
		}, false, false, "2 of 3 hosts; cp-2: does not have fd98::5, fd98::6 yet"},
		{"a host that is off is not waited for, and catches up", func(h []vips.Host, _ map[netip.Addr]string) {
			h[1].Ready = false
			h[1].Report.Value.VIPs = addrs("10.98.0.5", "10.98.0.6")
		}, true, false, "2 of 3 hosts; cp-2: does not have fd98::5, fd98::6 yet; the node is not ready and catches up once it is"},
		{"a host that never said anything is waited for", func(h []vips.Host, _ map[netip.Addr]string) {
			h[2].Report = state.Fact[state.VIPReport]{}
			h[0].Report.Value.Holds = dual.All()
		}, false, false, "2 of 3 hosts; w-1: has not reported yet"},
		{"a VIP that was taken away is waited for until every host has let go", func(h []vips.Host, _ map[netip.Addr]string) {
			h[0].Report.Value.VIPs = append(slices.Clone(dual.All()), addr("fd98::7"))
		}, false, false, "2 of 3 hosts; cp-1: still has fd98::7"},
		{"so is one that an interface still has", func(h []vips.Host, _ map[netip.Addr]string) {
			h[0].Report.Value.Holds = append(slices.Clone(dual.API), addr("fd98::7"))
		}, false, false, "2 of 3 hosts; cp-1: still holds fd98::7"},
		{"a certificate that is not for the new VIP is waited for", func(h []vips.Host, _ map[netip.Addr]string) {
			h[1].Report.Value.Certificate = addrs("10.98.0.5")
		}, false, false, "2 of 3 hosts; cp-2: its API server's certificate is not valid for fd98::5 yet"},
		{"what a host cannot do is told in its words", func(h []vips.Host, _ map[netip.Addr]string) {
			h[1].Report.Value.Trouble = "keepalived: no such interface"
		}, false, false, "2 of 3 hosts; cp-2: keepalived: no such interface"},
		{"a VIP without a holder is not applied", func(h []vips.Host, _ map[netip.Addr]string) {
			h[0].Report.Value.Holds = addrs("10.98.0.5")
		}, false, true, "3 of 3 hosts; api VIP fd98::5: no host holds it"},
		{"what a host that is gone held last is not held", func(h []vips.Host, _ map[netip.Addr]string) {
			h[0].Ready = false
		}, false, true, "3 of 3 hosts; api VIP 10.98.0.5: no host holds it; api VIP fd98::5: no host holds it"},
		{"a VIP that does not answer is not applied", func(_ []vips.Host, a map[netip.Addr]string) {
			a[addr("fd98::5")] = "the certificate there is not for fd98::5"
		}, false, true, "3 of 3 hosts; api VIP fd98::5: does not answer: the certificate there is not for fd98::5"},
		{"a VIP that nobody has asked for is not applied", func(_ []vips.Host, a map[netip.Addr]string) {
			delete(a, addr("fd98::6"))
		}, false, true, "3 of 3 hosts; ingress VIP fd98::6: not checked yet"},
		{"without a router nobody holds the ingress VIPs, and that is right", func(h []vips.Host, a map[netip.Addr]string) {
			h[2].Report.Value.Holds, h[2].Report.Value.Router = nil, false
			a[addr("10.98.0.6")], a[addr("fd98::6")] = "nobody answers in time", "nobody answers in time"
		}, true, true, "3 of 3 hosts"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			hosts, answers := settled(), allAnswer()
			c.change(hosts, answers)
			r := vips.Follow(dual, hosts, answers)
			if r.Applied != c.applied || r.Everywhere != c.everywhere || r.Words() != c.words {
				t.Errorf("applied %v, everywhere %v, %q\nwant %v, %v, %q", r.Applied, r.Everywhere, r.Words(), c.applied, c.everywhere, c.words)
			}
		})
	}
	if r := vips.Follow(dual, nil, allAnswer()); r.Applied {
		t.Error("a cluster without nodes has applied something")
	}
	managed := dual
	managed.UserManaged = true
	hosts := settled()
	for i := range hosts {
		hosts[i].Report.Value = state.VIPReport{}
	}
	if r := vips.Follow(managed, hosts, nil); !r.Applied || !r.Everywhere {
		t.Errorf("the site's load balancer holds them: %s", r.Words())
	}
}

// standing is a cluster that has everything it should have.
func standing() vips.Standing {
	return vips.Standing{
		Platform: vips.BareMetal, Plan: dual, Decision: vips.Decision{Outcome: vips.Settled}, Rollout: vips.Follow(dual, settled(), allAnswer()),
	}
}

// tell lists conditions, and omits the reason and message of one that is as expected.
func tell(list []vips.Condition) string {
	var out []string
	for _, c := range list {
		words := c.Type + "=" + c.Status
		if c.Reason != vips.ReasonAsExpected {
			words += " " + c.Reason + ": " + c.Message
		}
		out = append(out, words)
	}
	return strings.Join(out, "\n")
}

func TestWhatTheConditionsSay(t *testing.T) {
	fine := "Accepted=True\nProgressing=False\nApplied=True\nAvailable=True\nDegraded=False"
	refused := func(s *vips.Standing) {
		snapshot := one()
		add("fd98::5", "fd98::5")(&snapshot)
		s.Decision = vips.Decide(snapshot)
	}
	refusal := `spec.platformSpec.baremetal.ingressIPs[1]: Duplicate value: "fd98::5": is the same as spec.platformSpec.baremetal.apiServerInternalIPs[1] (rule distinct: no address is listed twice, in either list and however it is written)`
	behind := func(s *vips.Standing) {
		hosts := settled()
		hosts[1].Report.Value.VIPs = addrs("10.98.0.5", "10.98.0.6")
		s.Rollout = vips.Follow(dual, hosts, allAnswer())
	}
	away := func(s *vips.Standing) {
		hosts := settled()
		hosts[0].Report.Value.Holds = nil
		s.Rollout = vips.Follow(dual, hosts, allAnswer())
		s.AppliedBefore = dual.All()
	}
	const waiting = "2 of 3 hosts; cp-2: does not have fd98::5, fd98::6 yet"
	const nobody = "api VIP 10.98.0.5: no host holds it; api VIP fd98::5: no host holds it"
	for _, c := range []struct {
		sentence string
		change   func(*vips.Standing)
		lasts    time.Duration
		want     string
	}{
		{"all is as it should be", func(*vips.Standing) {}, 0, fine},
		{
			"a refusal names the rule at once", refused, 0,
			"Accepted=False RuleBroken: " + refusal + "\nProgressing=False\nApplied=True\nAvailable=True\nDegraded=False",
		},
		{
			"a refusal that nobody mends is a trouble", refused, 2 * time.Minute,
			"Accepted=False RuleBroken: " + refusal + "\nProgressing=False\nApplied=True\nAvailable=True\nDegraded=True RuleBroken: " + refusal,
		},
		{
			"progress is told as n of m hosts", behind, 0,
			"Accepted=True\nProgressing=True RollingOut: " + waiting + "\nApplied=False RollingOut: " + waiting + "\nAvailable=True\nDegraded=False",
		},
		{
			"a change that does not end is a trouble", behind, 2 * time.Minute,
			"Accepted=True\nProgressing=True RollingOut: " + waiting + "\nApplied=False RollingOut: " + waiting +
				"\nAvailable=True\nDegraded=True RollingOut: " + waiting,
		},
		{"a VIP that is away for a moment is no unfinished change", away, time.Minute, fine},
		{
			"a VIP that stays away is a trouble of its own", away, 2 * time.Minute,
			"Accepted=True\nProgressing=False\nApplied=True\nAvailable=False VirtualIPNotAnswering: " + nobody +
				"\nDegraded=True VirtualIPNotAnswering: " + nobody,
		},
		{"B77: an API that is away for a moment is no trouble", func(s *vips.Standing) { *s = vips.Standing{Failure: "connection refused"} }, 119 * time.Second, fine},
		{
			"B77: an API that stays away is one", func(s *vips.Standing) { *s = vips.Standing{Failure: "connection refused"} }, 2 * time.Minute,
			"Accepted=True\nProgressing=False\nApplied=True\nAvailable=True\nDegraded=True SyncFailed: connection refused",
		},
		{"what is not known is told as that", func(s *vips.Standing) {
			snapshot := one()
			add("fd98::5", "fd98::6")(&snapshot)
			snapshot.Found = nil
			s.Decision = vips.Decide(snapshot)
		}, 0, "Accepted=Unknown Checking: no host has yet reported whether fd98::5 is in use; no host has yet reported whether fd98::6 is in use\n" +
			"Progressing=True Checking: no host has yet reported whether fd98::5 is in use; no host has yet reported whether fd98::6 is in use\n" +
			"Applied=True\nAvailable=True\nDegraded=False"},
		{
			"platform none has none", func(s *vips.Standing) { s.Platform, s.Decision.Outcome = "None", vips.Unmanaged }, time.Hour,
			"Accepted=True NoVirtualIPs: platform None has no virtual IPs that hosts hold\n" +
				"Progressing=False NoVirtualIPs: platform None has no virtual IPs that hosts hold\n" +
				"Applied=True NoVirtualIPs: platform None has no virtual IPs that hosts hold\nAvailable=True\nDegraded=False",
		},
		{
			"vSphere's are not managed here, and it says so", func(s *vips.Standing) { s.Platform, s.Decision.Outcome = vips.VSphere, vips.Unmanaged }, time.Hour,
			"Accepted=False NotManagedHere: virtual IPs of platform VSphere are not managed by Holdfast: change them at its load balancer\n" +
				"Progressing=False NotManagedHere: virtual IPs of platform VSphere are not managed by Holdfast: change them at its load balancer\n" +
				"Applied=False NotManagedHere: virtual IPs of platform VSphere are not managed by Holdfast: change them at its load balancer\n" +
				"Available=True\nDegraded=False",
		},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			before := vips.Conditions(standing(), vips.Trouble{}, nil, noon)
			s := standing()
			c.change(&s)
			trouble := s.Trouble().Lasting(vips.Trouble{}, noon)
			if got := tell(vips.Conditions(s, trouble, before, noon.Add(c.lasts))); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestOpenStacksMistakesAreToldThoughItIsNotManagedHere(t *testing.T) {
	snapshot := one()
	snapshot.Platform = vips.OpenStack
	add("fd98::5", "fd98::5")(&snapshot)
	s := standing()
	s.Platform, s.Decision = vips.OpenStack, vips.Decide(snapshot)
	got := vips.Conditions(s, vips.Trouble{}, nil, noon)[0]
	if got.Reason != vips.ReasonRuleBroken || !strings.Contains(got.Message, "not managed by Holdfast") || !strings.Contains(got.Message, "rule distinct") {
		t.Errorf("got %+v", got)
	}
}

func TestB77_ATroubleThatComesAndGoesNeverLasts(t *testing.T) {
	trouble, now := vips.Trouble{}, noon
	for range 20 {
		trouble = vips.Trouble{Reason: vips.ReasonSyncFailed}.Lasting(trouble, now)
		now = now.Add(90 * time.Second)
		if got, _ := degraded(trouble, now); got.Status != vips.False {
			t.Fatal("it is told of a moment's trouble")
		}
		trouble = vips.Trouble{}.Lasting(trouble, now)
	}
}

func degraded(trouble vips.Trouble, now time.Time) (vips.Condition, bool) {
	list := vips.Conditions(standing(), trouble, nil, now)
	return list[len(list)-1], true
}

func TestATroubleThatWasToldIsToldOnByAnOperatorThatWasJustStarted(t *testing.T) {
	before := []vips.Condition{{Type: vips.ConditionDegraded, Status: vips.True, Reason: vips.ReasonSyncFailed, Changed: noon}}
	trouble := vips.Trouble{Reason: vips.ReasonSyncFailed, Message: "gone", Since: noon.Add(time.Hour)}
	got := vips.Conditions(standing(), trouble, before, noon.Add(time.Hour))[4]
	if got.Status != vips.True || !got.Changed.Equal(noon) {
		t.Errorf("got %+v", got)
	}
}

func TestAConditionKeepsTheTimeOfItsLastChange(t *testing.T) {
	first := vips.Conditions(standing(), vips.Trouble{}, nil, noon)
	again := vips.Conditions(standing(), vips.Trouble{}, first, noon.Add(time.Hour))
	if !vips.Same(first, again) || !slices.EqualFunc(first, again, func(a, b vips.Condition) bool { return a.Changed.Equal(b.Changed) }) {
		t.Errorf("%v became %v", first, again)
	}
	s := standing()
	s.Decision.Outcome = vips.Undecided
	if got := vips.Conditions(s, vips.Trouble{}, again, noon.Add(2*time.Hour)); !got[0].Changed.Equal(noon.Add(2*time.Hour)) || !got[2].Changed.Equal(noon) {
		t.Errorf("got %+v", got)
	}
}

func TestOnlyNewsAreEvents(t *testing.T) {
	fine := vips.Conditions(standing(), vips.Trouble{}, nil, noon)
	if got := vips.News(nil, fine); len(got) != 0 {
		t.Errorf("that all is well from the beginning is news: %s", tell(got))
	}
	s := standing()
	s.Rollout.Applied = false
	rolling := vips.Conditions(s, vips.Trouble{}, fine, noon)
	s.Rollout.Hosts[0].Waiting = "this and that"
	further := vips.Conditions(s, vips.Trouble{}, rolling, noon)
	for _, c := range []struct {
		before, now []vips.Condition
		want        string
	}{{fine, rolling, "Applied"}, {rolling, further, ""}, {further, fine, "Applied"}, {fine, fine, ""}} {
		var got []string
		for _, n := range vips.News(c.before, c.now) {
			got = append(got, n.Type)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("news are %v, want %q", got, c.want)
		}
	}
}

func TestAHostReportsWhatItHas(t *testing.T) {
	own := func(iface, prefix string) state.HostAddress {
		return state.HostAddress{Interface: iface, Prefix: netip.MustParsePrefix(prefix), Usable: true}
	}
	view := state.NetworkView{
		Settings: state.NetworkSettings{
			ManagedVIPs: true, APIVIPs: dual.API, IngressVIPs: dual.Ingress,
			MachineNetworks: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24"), netip.MustParsePrefix("fd98::/64")},
		},
		Host: state.HostFacts{NodeName: "cp-1", Addresses: addrs("10.98.0.11", "fd98::11")},
		Addresses: []state.HostAddress{
			own("lo", "::1/128"), own("eth0", "fd98::11/64"), own("eth0", "10.98.0.11/24"), own("eth0", "10.98.0.5/32"),
			own("eth0", "fd98::7/128"), own("eth0", "fe80::1/64"), own("cni0", "10.128.0.1/24"),
		},
		Hardware: map[string][]string{"eth0": {"02:00:00:00:00:0b"}, "cni0": {"02:00:00:00:00:99"}},
		Routes: []state.HostRoute{
			{Destination: netip.MustParsePrefix("0.0.0.0/0"), Gateway: addr("10.98.0.1")},
			{Destination: netip.MustParsePrefix("0.0.0.0/0"), Gateway: addr("10.98.0.1"), Metric: 2},
			{Destination: netip.MustParsePrefix("::/0"), Gateway: addr("fe80::9")},
			{Destination: netip.MustParsePrefix("10.1.0.0/16"), Gateway: addr("10.98.0.3")},
		},
		Router: state.Known(state.Router{Ready: true}),
	}
	before := state.VIPReport{VIPs: addrs("fd98::7")}
	got := state.FormatAnnotation(vips.ReportOf(view, before, addrs("10.98.0.11", "10.98.0.5"), ""))
	want := `{"vips":["10.98.0.5","fd98::5","10.98.0.6","fd98::6"],"holds":["10.98.0.5","fd98::7"],"certificate":["10.98.0.5"],` +
		`"addresses":["10.98.0.11/24","fd98::11/64"],"hardware":{"10.98.0.11":["02:00:00:00:00:0b"],"fd98::11":["02:00:00:00:00:0b"]},"gateways":["10.98.0.1"],"router":true}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if again := state.ParseAnnotation[state.VIPReport](got); state.FormatAnnotation(again.Value) != got {
		t.Errorf("it is read as %+v", again)
	}
	// Without machine networks the report has the addresses on the host's interface
	// and those in the network of a VIP.
	view.Settings.MachineNetworks, view.Host.Interface = nil, "eth1"
	view.Addresses = append(view.Addresses, own("eth1", "10.97.0.11/24"), own("eth2", "10.96.0.11/24"))
	if got := fmt.Sprint(vips.ReportOf(view, before, nil, "").Addresses); got != "[10.97.0.11/24 10.98.0.11/24 fd98::11/64]" {
		t.Errorf("without machine networks it tells %s", got)
	}
}

func TestControlPlanesTakeACertificateOneAfterTheOther(t *testing.T) {
	node := func(name string, ready bool, certificate ...string) state.Node {
		n := state.Node{Name: name, Ready: ready, Labels: map[string]string{state.LabelControlPlane: ""}}
		if len(certificate) > 0 {
			n.Annotations = map[string]string{state.AnnotationVIPs: state.FormatAnnotation(state.VIPReport{Certificate: addrs(certificate...)})}
		}
		return n
	}
	worker := state.Node{Name: "a-worker", Ready: true}
	nodes := []state.Node{worker, node("cp-1", true, "10.98.0.5", "fd98::5"), node("cp-2", true, "10.98.0.5"), node("cp-3", false)}
	for self, want := range map[string]string{"cp-1": "", "cp-2": "", "cp-3": "cp-2", "cp-4": "cp-2"} {
		if got := vips.Turn(self, dual.API, nodes); got != want {
			t.Errorf("%s waits for %q, want %q", self, got, want)
		}
	}
	nodes[2] = node("cp-2", false)
	if got := vips.Turn("cp-4", dual.API, nodes); got != "" {
		t.Errorf("a node that is not ready is waited for: %s", got)
	}
}

func TestAPairIsWishedForOnce(t *testing.T) {
	s := one()
	got, err := s.WithPair("fd98::5", "fd98::6")
	if err != nil || !slices.Equal(got.API, []string{"10.98.0.5", "fd98::5"}) || !slices.Equal(got.Ingress, []string{"10.98.0.6", "fd98::6"}) {
		t.Errorf("%v, %v", got, err)
	}
	if len(s.Spec.API) != 1 {
		t.Error("the snapshot changed")
	}
	s = two()
	if _, err := s.WithPair("FD98::5", "fd98:0::6"); !errors.Is(err, vips.ErrNothingToDo) {
		t.Errorf("the same pair in other words: %v", err)
	}
	if _, err := s.WithPair("fd98::7", "fd98::8"); err == nil || !strings.Contains(err.Error(), "holdfast vip remove") {
		t.Errorf("another pair: %v", err)
	}
	if got, err := s.WithoutPair(); err != nil || len(got.API) != 1 || len(got.Ingress) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	s = one()
	if _, err := s.WithoutPair(); !errors.Is(err, vips.ErrNothingToDo) {
		t.Errorf("no second pair: %v", err)
	}
	s.Spec = vips.Values{}
	if got, err := s.WithPair("fd98::5", "fd98::6"); err != nil || len(got.MachineNetworks) != 2 || len(got.API) != 2 {
		t.Errorf("an empty spec: %v, %v", got, err)
	}
	for _, p := range []vips.Platform{"None", vips.VSphere, ""} {
		s.Platform = p
		if _, err := s.WithPair("fd98::5", "fd98::6"); err == nil {
			t.Errorf("platform %q has VIPs", p)
		}
	}
}
