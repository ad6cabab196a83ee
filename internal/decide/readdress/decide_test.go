package readdress_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/nodeaddress"
	"github.com/holdfast/holdfast/internal/decide/readdress"
	"github.com/holdfast/holdfast/internal/model/state"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// plan is that of a site of two that goes from 10.98 to 10.77.
func plan() readdress.Plan {
	return readdress.Plan{
		ID: "move-1", By: "ada", At: time.Unix(1, 0),
		From: readdress.Place{
			MachineNetworks: []string{"10.98.0.0/24"}, APIVIPs: []string{"10.98.0.5"}, IngressVIPs: []string{"10.98.0.6"},
			Hosts: map[string][]netip.Addr{"cp-1": {addr("10.98.0.11")}, "cp-2": {addr("10.98.0.12")}},
		},
		To: readdress.Place{
			MachineNetworks: []string{"10.77.0.0/24"}, APIVIPs: []string{"10.77.0.5"}, IngressVIPs: []string{"10.77.0.6"},
			Hosts: map[string][]netip.Addr{"cp-1": {addr("10.77.0.11")}, "cp-2": {addr("10.77.0.12")}},
		},
	}
}

func has(texts ...string) []nodeaddress.Address {
	var out []nodeaddress.Address
	for i, t := range texts {
		out = append(out, nodeaddress.Address{Interface: "eth0", Index: i + 2, Prefix: netip.MustParsePrefix(t), Usable: true})
	}
	return out
}

// facts are those of cp-1, with what a test changes of them.
type facts struct{ readdress.Facts }

// moved says that the files of the host have the new addresses, and that etcd knows it there.
func (f *facts) moved() {
	f.Addresses, f.Journal.At, f.Member = has("10.77.0.11/24"), readdress.To, state.Known(readdress.To)
}

// settled says that the cluster has the new addresses, too.
func (f *facts) settled() {
	f.moved()
	f.Journal.Settled = readdress.To
}

func TestAHostTakesTheAddressesOfThePlaceAtWhichItIs(t *testing.T) {
	both := state.Known(map[string]readdress.Side{"cp-1": readdress.To, "cp-2": readdress.To})
	whole := state.Known([]readdress.Side{readdress.To, readdress.To})
	for sentence, c := range map[string]struct {
		change func(*facts)
		want   readdress.Act
		side   readdress.Side
	}{
		"without a plan nothing is done":                               {func(f *facts) { f.Plan = nil }, readdress.Idle, ""},
		"where the host is announced, it waits":                        {func(f *facts) {}, readdress.Wait, ""},
		"where it is announced, one that cannot sign says so":          {func(f *facts) { f.Lacks = "no ca.key" }, readdress.Wait, ""},
		"with addresses of both places it stays what it is":            {func(f *facts) { f.Addresses = has("10.98.0.11/24", "10.77.0.11/24") }, readdress.Wait, ""},
		"at the new place it begins":                                   {func(f *facts) { f.Addresses = has("10.77.0.11/24") }, readdress.Begin, readdress.To},
		"but not while its addresses still change":                     {func(f *facts) { f.Addresses, f.Same = has("10.77.0.11/24"), 3*time.Second }, readdress.Wait, ""},
		"a host that cannot sign its certificates does not begin":      {func(f *facts) { f.Addresses, f.Lacks = has("10.77.0.11/24"), "no ca.key" }, readdress.Wait, ""},
		"a host that is there needs no key":                            {func(f *facts) { f.moved(); f.Lacks = "no ca.key" }, readdress.Settle, readdress.To},
		"a move that was cut off goes on without one":                  {func(f *facts) { f.Journal.Moving, f.Lacks = readdress.To, "no ca.key" }, readdress.Move, readdress.To},
		"the address of the other host is not its own":                 {func(f *facts) { f.Addresses = has("10.77.0.12/24") }, readdress.Wait, ""},
		"at a third place it waits":                                    {func(f *facts) { f.Addresses = has("10.66.0.11/24") }, readdress.Wait, ""},
		"without any address it waits":                                 {func(f *facts) { f.Addresses = nil }, readdress.Wait, ""},
		"a move that was cut off goes on, wherever the host is by now": {func(f *facts) { f.Journal.Moving = readdress.To }, readdress.Move, readdress.To},
		"the cluster is told once the host is there":                   {func(f *facts) { f.moved() }, readdress.Settle, readdress.To},
		"etcd's members are told before":                               {func(f *facts) { f.moved(); f.Member = state.Known(readdress.From) }, readdress.Announce, readdress.To},
		"without etcd nothing is told":                                 {func(f *facts) { f.moved(); f.Member = state.Fact[readdress.Side]{} }, readdress.Wait, ""},
		"a worker does not tell the cluster":                           {func(f *facts) { f.moved(); f.ControlPlane, f.Objects = false, state.Known(readdress.From) }, readdress.Wait, ""},
		"a worker follows the cluster":                                 {func(f *facts) { f.moved(); f.ControlPlane, f.Objects = false, state.Known(readdress.To) }, readdress.Settle, readdress.To},
		"what is old goes when every host is there":                    {func(f *facts) { f.settled(); f.Hosts, f.Members = both, whole }, readdress.Finish, readdress.To},
		"a host that is not there yet is waited for": {func(f *facts) {
			f.settled()
			f.Hosts, f.Members = state.Known(map[string]readdress.Side{"cp-1": readdress.To, "cp-2": readdress.From}), whole
		}, readdress.Wait, ""},
		"a member whose address is old is waited for": {func(f *facts) {
			f.settled()
			f.Hosts, f.Members = both, state.Known([]readdress.Side{readdress.To, readdress.From})
		}, readdress.Wait, ""},
		"a host of the plan that is at neither place is waited for": {func(f *facts) {
			f.settled()
			f.Hosts, f.Members = state.Known(map[string]readdress.Side{"cp-1": readdress.To, "cp-2": ""}), whole
		}, readdress.Wait, ""},
		"a host that came later is not waited for": {func(f *facts) {
			f.settled()
			f.Hosts, f.Members = state.Known(map[string]readdress.Side{"cp-1": readdress.To, "cp-2": readdress.To, "worker-9": ""}), whole
		}, readdress.Finish, readdress.To},
		"unless it is at the old place": {func(f *facts) {
			f.settled()
			f.Hosts, f.Members = state.Known(map[string]readdress.Side{"cp-1": readdress.To, "cp-2": readdress.To, "worker-9": readdress.From}), whole
		}, readdress.Wait, ""},
		"a member that the plan does not know is not waited for": {func(f *facts) {
			f.settled()
			f.Hosts, f.Members = both, state.Known([]readdress.Side{"", readdress.To})
		}, readdress.Finish, readdress.To},
		"what is unknown is waited for":                              {func(f *facts) { f.settled() }, readdress.Wait, ""},
		"carried back before the end, it takes the former addresses": {func(f *facts) { f.settled(); f.Addresses = has("10.98.0.11/24") }, readdress.Begin, readdress.From},
		"back where it was, the cluster gets its former addresses": {func(f *facts) {
			f.Journal.Settled, f.Member = readdress.To, state.Known(readdress.From)
		}, readdress.Settle, readdress.From},
		"after the end nothing is done":                                     {func(f *facts) { f.settled(); f.Journal.Over = true }, readdress.Idle, ""},
		"carried back after its own end, too, as long as the plan is there": {func(f *facts) { f.settled(); f.Journal.Over, f.Addresses = true, has("10.98.0.11/24") }, readdress.Begin, readdress.From},
	} {
		p := plan()
		f := facts{readdress.Facts{
			Host: "cp-1", ControlPlane: true, Plan: &p, Journal: readdress.Journal{At: readdress.From, Settled: readdress.From},
			Addresses: has("10.98.0.11/24"), Same: time.Minute, Boot: "b1",
		}}
		c.change(&f)
		got := readdress.Decide(f.Facts)
		if got.Act != c.want || got.Side != c.side {
			t.Errorf("%s: %+v", sentence, got)
		}
		if at := f.Journal.At == readdress.From && f.Journal.Moving == ""; at && f.Lacks != "" && !strings.Contains(got.Words, f.Lacks) {
			t.Errorf("%s: nobody is told: %q", sentence, got.Words)
		}
	}
}

// TestAHostThatCameToTheNewPlaceHasNothingToMove: it was replaced or joined there, and hears of the plan then.
func TestAHostThatCameToTheNewPlaceHasNothingToMove(t *testing.T) {
	for sentence, c := range map[string]struct {
		host         string
		kernel, node []string
		want         readdress.Side // empty if it has to wait
	}{
		"a host that waits for its move":                       {"cp-1", []string{"10.98.0.11/24"}, []string{"10.98.0.11"}, readdress.From},
		"one of which the API lists no node":                   {"cp-1", []string{"10.98.0.11/24"}, nil, readdress.From},
		"one that is there, with the files of the old place":   {"cp-1", []string{"10.77.0.11/24"}, []string{"10.98.0.11"}, readdress.From},
		"one that is back, and whose node is late":             {"cp-1", []string{"10.98.0.11/24"}, []string{"10.77.0.11"}, readdress.From},
		"one with addresses of both places":                    {"cp-1", []string{"10.98.0.11/24", "10.77.0.11/24"}, []string{"10.98.0.11"}, readdress.From},
		"a host that was replaced there":                       {"cp-1", []string{"10.77.0.11/24"}, []string{"10.77.0.11"}, readdress.To},
		"one that was replaced there, with another address":    {"cp-1", []string{"10.77.0.50/24"}, []string{"10.77.0.50"}, readdress.To},
		"a host with another name that joined there":           {"cp-9", []string{"10.77.0.50/24"}, []string{"10.77.0.50"}, readdress.To},
		"one that was replaced at a third place":               {"cp-1", []string{"10.66.0.50/24"}, []string{"10.66.0.50"}, readdress.From},
		"nobody knows, as the API has not listed its node yet": {"cp-1", []string{"10.77.0.11/24"}, nil, ""},
	} {
		p := plan()
		f := readdress.Facts{Host: c.host, Plan: &p, Addresses: has(c.kernel...)}
		var node []netip.Addr
		for _, a := range c.node {
			node = append(node, addr(a))
		}
		got := f.Heard(node)
		if got.Known != (c.want != "") || got.Value.At != c.want || got.Value.Settled != c.want || got.Value.Told != c.want {
			t.Errorf("%s: %+v", sentence, got)
		}
		if c.want != readdress.To {
			continue
		}
		f.ControlPlane, f.Journal, f.Same, f.Boot = true, got.Value, time.Hour, "b1"
		f.Objects, f.Member = state.Known(readdress.To), state.Known(readdress.To)
		if s := readdress.Decide(f); s.Act != readdress.Wait || !strings.Contains(s.Words, "until the API lists the nodes") {
			t.Errorf("%s: it does %+v", sentence, s)
		}
	}
}

// TestNothingLeadsToThePlaceThatEtcdHasLeft: a host whose files are of the old place led its peer's new
// address to the old one, where nobody is.
func TestNothingLeadsToThePlaceThatEtcdHasLeft(t *testing.T) {
	p := plan()
	f := readdress.Facts{Host: "cp-1", ControlPlane: true, Plan: &p, Journal: readdress.Announced(p.From.Hosts["cp-1"]), Addresses: has("10.77.0.11/24")}
	if got := readdress.Leads(f); len(got) > 0 {
		t.Errorf("a host that has not moved yet leads %v", got)
	}
	f.Journal = f.Journal.Begun(readdress.To, p.To.Hosts["cp-1"]).Arrived()
	if got := readdress.Leads(f); len(got) != 1 || got[addr("10.98.0.12")] != addr("10.77.0.12") {
		t.Errorf("a host that has moved leads %v", got)
	}
	f.Members = state.Known([]readdress.Side{"", readdress.To})
	if got := readdress.Leads(f); len(got) > 0 {
		t.Errorf("when no member is looked for at the old place it leads %v", got)
	}
}

// TestAMoveEndsThatKeepsTheVirtualIPs, or of a site that has none: a worker waited there for ever.
func TestAMoveEndsThatKeepsTheVirtualIPs(t *testing.T) {
	keeps := plan()
	keeps.To.APIVIPs, keeps.To.IngressVIPs = keeps.From.APIVIPs, keeps.From.IngressVIPs
	none := plan()
	none.From.APIVIPs, none.From.IngressVIPs, none.To.APIVIPs, none.To.IngressVIPs = nil, nil, nil, nil
	for sentence, c := range map[string]struct {
		plan   readdress.Plan
		object readdress.Object
	}{
		"it keeps them": {keeps, readdress.Object{VIPs: []netip.Addr{addr("10.98.0.5"), addr("10.98.0.6")}}},
		"it has none":   {none, readdress.Object{}},
	} {
		for settled, want := range map[string]readdress.Act{
			"": readdress.Wait, "nonsense": readdress.Wait, `{"plan":"move-0","at":"to"}`: readdress.Wait, `{"plan":"move-1","at":"from"}`: readdress.Wait,
			`{"plan":"move-1","at":"to"}`: readdress.Settle,
		} {
			f := facts{readdress.Facts{Host: "cp-1", Plan: &c.plan, Same: time.Minute, Boot: "b1", Journal: readdress.Journal{Settled: readdress.From}}}
			f.moved()
			c.object.Settled = settled
			f.Objects = c.object.SideOf(c.plan)
			if got := readdress.Decide(f.Facts); got.Act != want {
				t.Errorf("%s, and the object says %q: the worker does %+v", sentence, settled, got)
			}
			c.object.Announced = state.FormatAnnotation(c.plan)
			if moved := c.object.Keeps() == ""; moved != (want == readdress.Settle) {
				t.Errorf("%s, and the object says %q: %q", sentence, settled, c.object.Keeps())
			}
		}
	}
}
