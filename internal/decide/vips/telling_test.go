package vips_test

import (
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/decide/vips"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/viprule"
)

var errPlain = errors.New("a rule is broken")

func onNIC(nic, prefix string) state.HostAddress {
	return state.HostAddress{Interface: nic, Prefix: netip.MustParsePrefix(prefix), Usable: true}
}

// reporting is the view of a host with one address of its own and one VIP.
func reporting() state.NetworkView {
	return state.NetworkView{
		Settings: state.NetworkSettings{
			APIVIPs: addrs("10.98.0.5", "fd98::5"), IngressVIPs: addrs("10.98.0.6"), MachineNetworks: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24")},
		},
		Host:      state.HostFacts{Interface: "eth0", Addresses: addrs("10.98.0.11")},
		Addresses: []state.HostAddress{onNIC("eth0", "10.98.0.11/24"), onNIC("eth0", "10.98.0.5/32")},
		Hardware:  map[string][]string{"eth0": {"02:00:00:00:00:0b"}},
	}
}

func TestWhatAHostReportsOfEachFact(t *testing.T) {
	base := state.VIPReport{
		VIPs: addrs("10.98.0.5", "fd98::5", "10.98.0.6"), Holds: addrs("10.98.0.5"), Addresses: []netip.Prefix{netip.MustParsePrefix("10.98.0.11/24")},
		Hardware: map[netip.Addr][]string{addr("10.98.0.11"): {"02:00:00:00:00:0b"}},
	}
	add := func(nic, prefix string) func(*state.NetworkView) {
		return func(v *state.NetworkView) { v.Addresses = append(v.Addresses, onNIC(nic, prefix)) }
	}
	route := func(destination, gateway string) func(*state.NetworkView) {
		return func(v *state.NetworkView) {
			r := state.HostRoute{Destination: netip.MustParsePrefix(destination)}
			if gateway != "" {
				r.Gateway = addr(gateway)
			}
			v.Routes = append(v.Routes, r, r)
		}
	}
	anyNetwork := func(change func(*state.NetworkView)) func(*state.NetworkView) {
		return func(v *state.NetworkView) { v.Settings.MachineNetworks = nil; change(v) }
	}
	for _, c := range []struct {
		name   string
		view   func(*state.NetworkView)
		before state.VIPReport
		want   func(*state.VIPReport)
	}{
		{"nothing else", func(*state.NetworkView) {}, state.VIPReport{}, nil},
		{"a router that is ready", func(v *state.NetworkView) { v.Router = state.Known(state.Router{Ready: true}) }, state.VIPReport{}, func(r *state.VIPReport) { r.Router = true }},
		{"a router that drains", func(v *state.NetworkView) { v.Router = state.Known(state.Router{Healthy: true}) }, state.VIPReport{}, nil},
		{"a router that is not known", func(v *state.NetworkView) { v.Router.Value.Ready = true }, state.VIPReport{}, nil},
		{"a VIP on two interfaces", add("eth1", "10.98.0.5/32"), state.VIPReport{}, nil},
		{"a VIP of an earlier time", add("eth0", "10.98.0.7/32"), state.VIPReport{VIPs: addrs("10.98.0.7")}, func(r *state.VIPReport) { r.Holds = addrs("10.98.0.5", "10.98.0.7") }},
		{"one that it held", add("eth0", "10.98.0.4/32"), state.VIPReport{Holds: addrs("10.98.0.4")}, func(r *state.VIPReport) { r.Holds = addrs("10.98.0.4", "10.98.0.5") }},
		{"its own address was a VIP", func(*state.NetworkView) {}, state.VIPReport{VIPs: addrs("10.98.0.11")}, nil},
		{"its own address twice", add("eth0", "10.98.0.11/24"), state.VIPReport{}, nil},
		{"an address of another network", add("eth1", "10.55.0.11/24"), state.VIPReport{}, nil},
		{"an address that is not usable yet", func(v *state.NetworkView) {
			v.Addresses = append(v.Addresses, state.HostAddress{Interface: "eth0", Prefix: netip.MustParsePrefix("10.98.0.12/24")})
		}, state.VIPReport{}, nil},
		{"without machine networks, another address of its interface", anyNetwork(add("eth0", "10.55.0.11/24")), state.VIPReport{}, func(r *state.VIPReport) {
			r.Addresses = []netip.Prefix{netip.MustParsePrefix("10.55.0.11/24"), netip.MustParsePrefix("10.98.0.11/24")}
			r.Hardware[addr("10.55.0.11")] = r.Hardware[addr("10.98.0.11")]
		}},
		{"without machine networks, one beside a VIP, of unknown hardware", anyNetwork(add("eth1", "10.98.0.13/24")), state.VIPReport{}, func(r *state.VIPReport) {
			r.Addresses = append(r.Addresses, netip.MustParsePrefix("10.98.0.13/24"))
		}},
		{"without machine networks, one of another interface", anyNetwork(add("eth1", "10.55.0.11/24")), state.VIPReport{}, nil},
		{"without machine networks, addresses on the link", anyNetwork(func(v *state.NetworkView) { add("eth0", "169.254.7.7/16")(v); add("eth0", "127.0.0.2/8")(v) }), state.VIPReport{}, nil},
		{"its gateways, each once", route("0.0.0.0/0", "10.98.0.1"), state.VIPReport{}, func(r *state.VIPReport) { r.Gateways = addrs("10.98.0.1") }},
		{"a gateway on the link", route("::/0", "fe80::1"), state.VIPReport{}, nil},
		{"a default route without a gateway", route("0.0.0.0/0", ""), state.VIPReport{}, nil},
		{"a gateway of another network", route("10.0.0.0/8", "10.98.0.1"), state.VIPReport{}, nil},
		{"no hardware is known", func(v *state.NetworkView) { v.Hardware = nil }, state.VIPReport{}, func(r *state.VIPReport) { r.Hardware = nil }},
	} {
		v := reporting()
		c.view(&v)
		want := base
		want.Hardware = map[netip.Addr][]string{addr("10.98.0.11"): base.Hardware[addr("10.98.0.11")]}
		if c.want != nil {
			c.want(&want)
		}
		if got := vips.ReportOf(v, c.before, nil, ""); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", c.name, got, want)
		}
	}
	got := vips.ReportOf(reporting(), state.VIPReport{}, addrs("fd98::5", "10.98.0.6"), "keepalived does not run")
	if got.Trouble != "keepalived does not run" || !slices.Equal(got.Certificate, addrs("fd98::5")) {
		t.Errorf("%+v", got)
	}
}

func TestThroughWhichInterfaceAnAddressIsAskedFor(t *testing.T) {
	behind := state.HostRoute{Destination: netip.MustParsePrefix("10.98.0.0/26"), Interface: "eth3", Gateway: addr("10.98.0.1")}
	for _, c := range []struct {
		name      string
		addresses []state.HostAddress
		routes    []state.HostRoute
		want      string
	}{
		{"the narrower network, listed last", []state.HostAddress{onNIC("eth0", "10.98.0.11/16"), onNIC("eth1", "10.98.0.12/24")}, nil, "eth1"},
		{"the narrower network, listed first", []state.HostAddress{onNIC("eth1", "10.98.0.12/24"), onNIC("eth0", "10.98.0.11/16")}, nil, "eth1"},
		{"a route on the link", nil, []state.HostRoute{{Destination: netip.MustParsePrefix("10.98.0.0/24"), Interface: "eth2"}}, "eth2"},
		{"not one by a gateway", []state.HostAddress{onNIC("eth0", "10.98.0.11/24")}, []state.HostRoute{behind}, "eth0"},
		{"not one for it alone", []state.HostAddress{onNIC("eth0", "10.98.0.11/24")}, []state.HostRoute{{Destination: netip.MustParsePrefix("10.98.0.5/32"), Interface: "eth2"}}, "eth0"},
		{"not a default route", nil, []state.HostRoute{{Destination: netip.MustParsePrefix("0.0.0.0/0"), Interface: "eth2"}}, ""},
		{"not an address that is not usable", []state.HostAddress{{Interface: "eth0", Prefix: netip.MustParsePrefix("10.98.0.11/24")}}, nil, ""},
	} {
		if got := vips.Through(addr("10.98.0.5"), c.addresses, c.routes); got != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestQuestionsAreAnsweredInOrderAndAnswersWithoutOneAreTakenBack(t *testing.T) {
	ask := func(id string) string { return state.FormatAnnotation(state.VIPProbe{ID: id}) }
	answer := func(id string) string { return state.FormatAnnotation(state.VIPAnswer{ID: id}) }
	for range 8 { // a map has no order
		questions, obsolete := vips.Open(map[string]string{
			state.AnnotationVIPProbe + "-b": ask("1"), state.AnnotationVIPProbe + "-a": ask("2"), state.AnnotationVIPProbe + "-c": ask("3"),
			state.AnnotationVIPProbe + "-d": ask(""), state.AnnotationVIPProbe + "-e": "not JSON",
			state.AnnotationVIPAnswer + "-c": answer("3"), state.AnnotationVIPAnswer + "-b": answer("0"),
			state.AnnotationVIPAnswer + "-y": answer("9"), state.AnnotationVIPAnswer + "-x": answer("9"),
		})
		var askers []string
		for _, q := range questions {
			askers = append(askers, q.Asker)
		}
		if strings.Join(askers, " ") != "-a -b -d" || !slices.Equal(obsolete, []string{state.AnnotationVIPAnswer + "-x", state.AnnotationVIPAnswer + "-y"}) {
			t.Fatalf("%v, %v", askers, obsolete)
		}
	}
}

func TestConditionsAreTheSameOnlyInAllThatTheySay(t *testing.T) {
	a := []vips.Condition{{Type: "Applied", Status: "True", Reason: "AsExpected", Message: "all"}}
	for name, change := range map[string]func(*vips.Condition){
		"type": func(c *vips.Condition) { c.Type = "x" }, "status": func(c *vips.Condition) { c.Status = "x" },
		"reason": func(c *vips.Condition) { c.Reason = "x" }, "message": func(c *vips.Condition) { c.Message = "x" },
	} {
		b := slices.Clone(a)
		if change(&b[0]); vips.Same(a, b) {
			t.Errorf("another %s", name)
		}
	}
	b := slices.Clone(a)
	if b[0].Changed = noon; !vips.Same(a, b) || vips.Same(a, nil) {
		t.Error("the time of a change is no difference, and none is one")
	}
}

func TestWhichConditionsAreNews(t *testing.T) {
	of := func(kind, status, reason, message string) vips.Condition {
		return vips.Condition{Type: kind, Status: status, Reason: reason, Message: message}
	}
	const a, p = vips.ConditionAccepted, vips.ConditionApplied
	for _, c := range []struct {
		name        string
		before, now []vips.Condition
		news        bool
	}{
		{"the first that is well", nil, []vips.Condition{of(a, "True", "AsExpected", "x")}, false},
		{"the first that is not", nil, []vips.Condition{of(a, "False", "RuleBroken", "x")}, true},
		{"the same", []vips.Condition{of(a, "False", "RuleBroken", "x")}, []vips.Condition{of(a, "False", "RuleBroken", "x")}, false},
		{"another message", []vips.Condition{of(a, "False", "RuleBroken", "x")}, []vips.Condition{of(a, "False", "RuleBroken", "y")}, true},
		{"another reason", []vips.Condition{of(a, "False", "RuleBroken", "x")}, []vips.Condition{of(a, "False", "NotManagedHere", "x")}, true},
		{"well again", []vips.Condition{of(a, "False", "RuleBroken", "x")}, []vips.Condition{of(a, "True", "AsExpected", "x")}, true},
		{"another status alone", []vips.Condition{of(a, "False", "RuleBroken", "x")}, []vips.Condition{of(a, "True", "RuleBroken", "x")}, true},
		{"a check under way", []vips.Condition{of(a, "True", "AsExpected", "x")}, []vips.Condition{of(a, "Unknown", "Checking", "x")}, false},
		{"progress of a rollout", []vips.Condition{of(p, "False", "RollingOut", "1 of 3")}, []vips.Condition{of(p, "False", "RollingOut", "2 of 3")}, false},
		{"the begin of a rollout", []vips.Condition{of(p, "True", "AsExpected", "x")}, []vips.Condition{of(p, "False", "RollingOut", "1 of 3")}, true},
		{"a rollout of which nothing was known", nil, []vips.Condition{of(p, "False", "RollingOut", "1 of 3")}, true},
		{"the end of a rollout", []vips.Condition{of(p, "False", "RollingOut", "x")}, []vips.Condition{of(p, "True", "AsExpected", "y")}, true},
		{"applied otherwise", []vips.Condition{of(p, "True", "AsExpected", "x")}, []vips.Condition{of(p, "True", "AsExpected", "y")}, true},
		{"a condition of another kind", nil, []vips.Condition{of(vips.ConditionDegraded, "True", "RollingOut", "x")}, false},
	} {
		if got := vips.News(c.before, c.now); (len(got) > 0) != c.news {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestWhatTroublesAnOperator(t *testing.T) {
	well := vips.Follow(dual, settled(), allAnswer())
	missing := allAnswer()
	missing[addr("fd98::6")] = "no route to host"
	silent := vips.Follow(dual, settled(), missing)
	none := vips.Decision{Outcome: vips.Settled}
	broken := []viprule.Finding{viprule.Nobody.Broken(field.Invalid(field.NewPath("spec"), "fd98::5", errPlain.Error()))}
	for _, c := range []struct {
		name            string
		standing        vips.Standing
		reason, message string
	}{
		{"nothing", vips.Standing{Plan: dual, Decision: none, Rollout: well}, "", ""},
		{"a sync that failed", vips.Standing{Plan: dual, Decision: none, Rollout: well, Failure: "no API"}, vips.ReasonSyncFailed, "no API"},
		{"a platform that has no VIPs", vips.Standing{Plan: dual, Decision: vips.Decision{Outcome: vips.Unmanaged}, Rollout: silent}, "", ""},
		{"a change that is refused", vips.Standing{Plan: dual, Decision: vips.Decision{Outcome: vips.Refused, Findings: broken}, Rollout: silent}, vips.ReasonRuleBroken, "spec: Invalid value"},
		{"a change that is looked into", vips.Standing{Plan: dual, Decision: vips.Decision{Outcome: vips.Undecided, Pending: []string{"a", "b"}}, Rollout: silent}, vips.ReasonChecking, "a; b"},
		{"a rollout", vips.Standing{Plan: dual, Decision: none, Rollout: silent}, vips.ReasonRollingOut, "3 of 3 hosts; ingress VIP fd98::6: does not answer: no route to host"},
		{"a VIP that answered before", vips.Standing{Plan: dual, Decision: none, Rollout: silent, AppliedBefore: dual.All()}, vips.ReasonNotAnswering, "ingress VIP fd98::6: does not answer: no route to host"},
		{"all applied, and an earlier trouble of a host", vips.Standing{Plan: dual, Decision: none, Rollout: well, AppliedBefore: dual.All()}, "", ""},
	} {
		got := c.standing.Trouble()
		if got.Reason != c.reason || !strings.HasPrefix(got.Message, c.message) || (c.message == "") != (got.Message == "") {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestTheConditionsSayOfWhatTheyAre(t *testing.T) {
	say := func(s vips.Standing, before []vips.Condition, since time.Time) map[string]vips.Condition {
		out := map[string]vips.Condition{}
		trouble := s.Trouble()
		trouble.Since = since
		for _, c := range vips.Conditions(s, trouble, before, noon) {
			out[c.Type] = c
		}
		return out
	}
	well := vips.Standing{Platform: vips.BareMetal, Plan: dual, Decision: vips.Decision{Outcome: vips.Settled}, Rollout: vips.Follow(dual, settled(), allAnswer())}
	for kind, want := range map[string]string{
		vips.ConditionAccepted: "True the requested virtual IPs keep every rule", vips.ConditionProgressing: "False 3 of 3 hosts",
		vips.ConditionApplied: "True API 10.98.0.5, fd98::5, ingress 10.98.0.6, fd98::6", vips.ConditionAvailable: "True the operator manages the virtual IPs",
		vips.ConditionDegraded: "False ",
	} {
		if c := say(well, nil, noon)[kind]; c.Status+" "+c.Message != want || !c.Changed.Equal(noon) {
			t.Errorf("%s: %+v", kind, c)
		}
	}
	behind := well
	behind.AppliedBefore = dual.All()
	behind.Rollout.Everywhere, behind.Rollout.Applied = false, true
	if c := say(behind, nil, noon)[vips.ConditionProgressing]; c.Status != "True" {
		t.Errorf("a host still catches up: %+v", c)
	}
	half := well
	half.Rollout.Everywhere, half.Rollout.Applied = true, false
	if c := say(half, nil, noon)[vips.ConditionProgressing]; c.Status != "True" {
		t.Errorf("a VIP has no holder yet: %+v", c)
	}
	failed := vips.Standing{Failure: "no API"}
	old := []vips.Condition{{Type: vips.ConditionApplied, Status: "True", Changed: noon.Add(-time.Hour)}}
	if got := say(failed, old, noon); len(got) != 3 || !got[vips.ConditionApplied].Changed.Equal(noon.Add(-time.Hour)) {
		t.Errorf("a failure tells nothing new: %+v", got)
	}
	for name, c := range map[string]struct {
		before []vips.Condition
		since  time.Time
		want   string
	}{
		"a trouble of this moment":         {nil, noon, "False"},
		"one that lasts":                   {nil, noon.Add(-vips.DegradedAfter), "True"},
		"one that nearly lasts":            {nil, noon.Add(-vips.DegradedAfter + time.Second), "False"},
		"one that was told before":         {[]vips.Condition{{Type: vips.ConditionDegraded, Status: "True", Reason: vips.ReasonSyncFailed}}, noon, "True"},
		"another one was told before":      {[]vips.Condition{{Type: vips.ConditionDegraded, Status: "True", Reason: vips.ReasonRollingOut}}, noon, "False"},
		"one that had not lasted till now": {[]vips.Condition{{Type: vips.ConditionDegraded, Status: "False", Reason: vips.ReasonSyncFailed}}, noon, "False"},
	} {
		if got := say(failed, c.before, c.since)[vips.ConditionDegraded]; got.Status != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	unmanaged := vips.Standing{Decision: vips.Decision{Outcome: vips.Unmanaged}}
	if c := say(unmanaged, nil, noon)[vips.ConditionApplied]; c.Message != "platform None has no virtual IPs that hosts hold" {
		t.Errorf("%+v", c)
	}
}
