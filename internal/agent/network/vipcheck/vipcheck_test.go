package vipcheck

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/model/state"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		out = append(out, addr(t))
	}
	return out
}

// cluster is the API as far as the reconciler writes there.
type cluster struct {
	annotations map[string]string
	writes      int
	err         error
}

func (c *cluster) annotate(_ context.Context, node string, values map[string]*string) error {
	if c.err != nil {
		return c.err
	}
	c.writes++
	next := maps.Clone(c.annotations)
	for name, value := range values {
		delete(next, name)
		if value != nil {
			next[name] = *value
		}
	}
	c.annotations = next
	return nil
}

func (c *cluster) report(t *testing.T) state.VIPReport {
	t.Helper()
	out := state.ParseAnnotation[state.VIPReport](c.annotations[state.AnnotationVIPs])
	if !out.Known {
		t.Fatalf("there is no report in %v", c.annotations)
	}
	return out.Value
}

// view returns the view of a control plane of a cluster with some API VIPs.
func (c *cluster) view(vips ...string) state.NetworkView {
	return state.NetworkView{
		Settings: state.NetworkSettings{
			ManagedVIPs: true, APIVIPs: addrs(vips...),
			MachineNetworks: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24"), netip.MustParsePrefix("fd98::/64")},
		},
		Role: state.RoleMaster, Host: state.HostFacts{NodeName: "cp-1", Addresses: addrs("10.98.0.11", "fd98::11")},
		Addresses: []state.HostAddress{
			{Interface: "eth0", Prefix: netip.MustParsePrefix("10.98.0.11/24"), Usable: true},
			{Interface: "eth0", Prefix: netip.MustParsePrefix("fd98::11/64"), Usable: true},
			{Interface: "eth0", Prefix: netip.MustParsePrefix("10.98.0.5/32"), Usable: true},
		},
		Nodes: state.Known([]state.Node{{Name: "cp-1", Ready: true, Annotations: maps.Clone(c.annotations)}}),
	}
}

// nobody answers for any address.
func nobody(context.Context, string, []netip.Addr) (map[netip.Addr]net.HardwareAddr, error) {
	return nil, nil
}

func reconcile(t *testing.T, p *Reconciler, v state.NetworkView) string {
	t.Helper()
	words, err := p.Reconcile(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	return words
}

func TestAHostTellsWhatItHasOnce(t *testing.T) {
	c := &cluster{annotations: map[string]string{}}
	p := New(Options{Annotate: c.annotate, Holders: nobody, Certificate: func() []netip.Addr { return addrs("10.98.0.5", "10.98.0.11") }})
	if words := reconcile(t, p, c.view("10.98.0.5")); !strings.Contains(words, "10.98.0.5") {
		t.Errorf("it says %q", words)
	}
	want := `{"vips":["10.98.0.5"],"holds":["10.98.0.5"],"certificate":["10.98.0.5"],"addresses":["10.98.0.11/24","fd98::11/64"]}`
	if got := c.annotations[state.AnnotationVIPs]; got != want {
		t.Errorf("told %s\nwant %s", got, want)
	}
	for range 100 {
		if words := reconcile(t, p, c.view("10.98.0.5")); words != "" {
			t.Errorf("it says %q", words)
		}
	}
	again := New(p.Options) // the agent was restarted
	reconcile(t, again, c.view("10.98.0.5"))
	if c.writes != 1 {
		t.Errorf("%d writes in steady state, want the first one only", c.writes)
	}
}

func TestAControlPlaneTellsByWhatItFences(t *testing.T) {
	c, bmcs := &cluster{annotations: map[string]string{}}, []string{"10.99.0.112"}
	p := New(Options{Annotate: c.annotate, Holders: nobody, BMCs: func() []string { return bmcs }})
	for range 2 {
		reconcile(t, p, c.view("10.98.0.5"))
		reconcile(t, p, c.view("10.98.0.5"))
		if got := c.report(t).BMCs; !slices.Equal(got, bmcs) {
			t.Errorf("it tells %v, want %v", got, bmcs)
		}
		bmcs = []string{"10.99.0.113"} // its peer was replaced
	}
	if c.writes != 2 {
		t.Errorf("%d writes, want one for each device", c.writes)
	}
}

// The view keeps what the Node said last; the Node itself lacks it.
func TestAReportThatSomebodyDeletedIsToldAnew(t *testing.T) {
	c := &cluster{annotations: map[string]string{}}
	p := New(Options{Annotate: c.annotate, Holders: nobody})
	reconcile(t, p, c.view("10.98.0.5"))
	v := c.view("10.98.0.5")
	v.Nodes.Value[0].Kept = []string{state.AnnotationVIPs}
	reconcile(t, p, v)
	if c.writes != 2 {
		t.Errorf("%d writes, want the first one and that one", c.writes)
	}
}

func TestWithoutAnAPIAHostTellsNothing(t *testing.T) {
	c := &cluster{annotations: map[string]string{}}
	p := New(Options{Annotate: c.annotate, Holders: nobody})
	v := c.view("10.98.0.5")
	v.Stale = true
	reconcile(t, p, v)
	v = c.view("10.98.0.5")
	v.Nodes = state.Fact[[]state.Node]{}
	reconcile(t, p, v)
	if c.writes != 0 {
		t.Errorf("%d writes", c.writes)
	}
	c.err = errors.New("connection refused")
	if _, err := p.Reconcile(t.Context(), c.view("10.98.0.5")); err == nil {
		t.Error("a report that was not taken is no error")
	}
	c.err = nil
	reconcile(t, p, c.view("10.98.0.5"))
	if c.writes != 1 {
		t.Errorf("it is not told once the API is back")
	}
}

func TestHardCase22_NewVIPsAreToldOnlyWhenEachPieceHasTakenThemIn(t *testing.T) {
	c := &cluster{annotations: map[string]string{}}
	looks := 0
	states := func() []network.ReconcilerState {
		looks++
		old, wanted := addrs("10.98.0.5"), addrs("10.98.0.5", "fd98::5")
		k, b := network.ReconcilerState{Loop: state.Loop{Name: "keepalived"}, VIPs: old}, network.ReconcilerState{Loop: state.Loop{Name: "haproxy"}, VIPs: old}
		if looks > 3 {
			b.VIPs, b.Error = wanted, "socket is gone"
		}
		if looks > 6 {
			k.VIPs = wanted
		}
		if looks > 8 {
			b.Error = ""
		}
		return []network.ReconcilerState{k, b, {Loop: state.Loop{Name: "mdns", Error: "no network"}}}
	}
	p := New(Options{Annotate: c.annotate, Holders: nobody, Reconcilers: states})
	reconcile(t, p, c.view("10.98.0.5", "fd98::5"))
	if looks < 9 {
		t.Errorf("it told after %d looks, before the reconcilers were done", looks)
	}
	if got := c.report(t); got.Trouble != "" || len(got.VIPs) != 2 {
		t.Errorf("it told %+v", got)
	}
}

func TestWhatKeepsAHostIsToldAfterAWhile(t *testing.T) {
	c := &cluster{annotations: map[string]string{}}
	states := []network.ReconcilerState{{Loop: state.Loop{Name: "keepalived", Error: "no such interface"}}, {Loop: state.Loop{Name: "haproxy"}}}
	p := New(Options{
		Annotate: c.annotate, Holders: nobody, Settling: 120 * time.Millisecond,
		Reconcilers: func() []network.ReconcilerState { return states },
	})
	reconcile(t, p, c.view("10.98.0.5"))
	if got := c.report(t).Trouble; got != "keepalived: no such interface; haproxy is not done yet" {
		t.Errorf("it told %q", got)
	}
	states[0].Error = ""
	states[0].VIPs, states[1].VIPs = addrs("10.98.0.5"), addrs("10.98.0.5")
	reconcile(t, p, c.view("10.98.0.5"))
	if got := c.report(t).Trouble; got != "" {
		t.Errorf("it still tells of %q", got)
	}
}

// ask puts a question to the host.
func (c *cluster) ask(asker, id string, addresses ...string) {
	c.annotations[state.AnnotationVIPProbe+asker] = state.FormatAnnotation(state.VIPProbe{ID: id, Addresses: addrs(addresses...)})
}

func (c *cluster) answer(asker string) string { return c.annotations[state.AnnotationVIPAnswer+asker] }

func TestAHostLooksWhoAnswersAndSaysSoOnce(t *testing.T) {
	c := &cluster{annotations: map[string]string{}}
	looks := 0
	p := New(Options{
		Annotate: c.annotate,
		Holders: func(_ context.Context, iface string, addresses []netip.Addr) (map[netip.Addr]net.HardwareAddr, error) {
			looks++
			if iface != "eth0" || len(addresses) != 2 {
				t.Errorf("looks for %v on %s", addresses, iface)
			}
			return map[netip.Addr]net.HardwareAddr{addr("fd98::6"): {0x52, 0x54, 0, 0, 0, 0x99}}, nil
		},
	})
	c.ask("operator", "1", "fd98::5", "fd98::6", "10.98.0.5", "192.0.2.7")
	reconcile(t, p, c.view("10.98.0.5"))
	want := `{"id":"1","free":["fd98::5"],"held":{"10.98.0.5":"cp-1 itself, on eth0","fd98::6":"52:54:00:00:00:99"},` +
		`"unknown":{"192.0.2.7":"this host has no address in a network with it"}}`
	if got := c.answer("operator"); got != want {
		t.Errorf("it answers %s\nwant %s", got, want)
	}
	reconcile(t, p, c.view("10.98.0.5"))
	reconcile(t, New(p.Options), c.view("10.98.0.5"))
	if looks != 1 {
		t.Errorf("it looked %d times", looks)
	}
	c.ask("operator", "2", "fd98::5", "fd98::6")
	reconcile(t, p, c.view("10.98.0.5"))
	if got := c.answer("operator"); looks != 2 || !strings.HasPrefix(got, `{"id":"2"`) {
		t.Errorf("after %d looks it answers %s", looks, got)
	}
	delete(c.annotations, state.AnnotationVIPProbe+"operator")
	reconcile(t, p, c.view("10.98.0.5"))
	if got, there := c.annotations[state.AnnotationVIPAnswer+"operator"]; there {
		t.Errorf("an answer that nobody wants any more stays: %s", got)
	}
}

// Gaps in the knowledge of an agent that just started must not stand in the
// report even for a moment: each report wakes the operator and every host.
func TestAnAgentThatWasJustStartedDoesNotTakeItsReportBack(t *testing.T) {
	c := &cluster{annotations: map[string]string{}}
	served := addrs("10.98.0.5")
	o := Options{Annotate: c.annotate, Holders: nobody, Certificate: func() []netip.Addr { return served }, Reconcilers: func() []network.ReconcilerState { return nil }}
	reconcile(t, New(o), c.view("10.98.0.5"))
	looks := 0
	o.Certificate = func() []netip.Addr {
		if looks++; looks < 3 {
			return nil
		}
		return served
	}
	reconcile(t, New(o), c.view("10.98.0.5"))
	if c.writes != 1 || looks < 3 {
		t.Errorf("%d writes after %d looks: %s", c.writes, looks, c.annotations[state.AnnotationVIPs])
	}
}

// The agent is ended between any two of its writes, and another one goes on.
func TestHardCase22_TheAgentIsRestartedInTheMiddle(t *testing.T) {
	for cut := range 4 {
		c := &cluster{annotations: map[string]string{}}
		p := New(Options{Annotate: c.annotate, Holders: nobody})
		reconcile(t, p, c.view("10.98.0.5"))
		c.ask("operator", "1", "fd98::5")
		writes := 0
		p.Annotate = func(ctx context.Context, node string, values map[string]*string) error {
			if writes++; writes > cut {
				return errors.New("killed")
			}
			return c.annotate(ctx, node, values)
		}
		for _, vips := range [][]string{{"10.98.0.5"}, {"10.98.0.5", "fd98::5"}} {
			_, _ = p.Reconcile(t.Context(), c.view(vips...))
		}
		next := New(Options{Annotate: c.annotate, Holders: nobody})
		reconcile(t, next, c.view("10.98.0.5", "fd98::5"))
		if got := c.report(t); len(got.VIPs) != 2 || !strings.HasPrefix(c.answer("operator"), `{"id":"1"`) {
			t.Errorf("cut off after %d writes it ends with %+v and %s", cut, got, c.answer("operator"))
		}
		if words := reconcile(t, next, c.view("10.98.0.5", "fd98::5")); words != "" {
			t.Errorf("cut off after %d writes it is not done: %s", cut, words)
		}
	}
}

func TestAHostThatCouldNotLookNeverSaysFree(t *testing.T) {
	c := &cluster{annotations: map[string]string{}}
	p := New(Options{
		Annotate: c.annotate,
		Holders: func(context.Context, string, []netip.Addr) (map[netip.Addr]net.HardwareAddr, error) {
			return nil, errors.New("operation not permitted")
		},
	})
	c.ask("operator", "1", "fd98::5")
	if _, err := p.Reconcile(t.Context(), c.view("10.98.0.5")); err == nil {
		t.Error("no error")
	}
	if got := c.answer("operator"); got != `{"id":"1","unknown":{"fd98::5":"operation not permitted"}}` {
		t.Errorf("it answers %s", got)
	}
}

func TestAReportThatCannotBeMadeYetHoldsUpNoAnswer(t *testing.T) {
	c := &cluster{annotations: map[string]string{}}
	answered := false
	p := New(Options{
		Annotate: c.annotate, Holders: nobody, Settling: 100 * time.Millisecond,
		Reconcilers: func() []network.ReconcilerState {
			answered = answered || c.answer("cli-1") != ""
			return []network.ReconcilerState{{Loop: state.Loop{Name: "keepalived", Error: "not yet"}}}
		},
	})
	c.ask("cli-1", "1", "fd98::5")
	reconcile(t, p, c.view("10.98.0.5"))
	if !answered {
		t.Error("the answer came after the report")
	}
}
