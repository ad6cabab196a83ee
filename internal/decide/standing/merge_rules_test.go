package standing

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/model/state"
)

// known sets a fact in a structure, by name, to one that a source told; it returns
// false for a field that is no fact.
func known(of reflect.Value, name, from, why string) bool {
	f := of.FieldByName(name)
	if f.Kind() != reflect.Struct || !f.FieldByName("Known").IsValid() || !f.FieldByName("From").IsValid() {
		return false
	}
	f.FieldByName("Known").SetBool(why == "")
	f.FieldByName("From").SetString(from)
	f.FieldByName("Why").SetString(why)
	return true
}

// told returns who told a fact, or why nobody did.
func toldBy(of reflect.Value, name string) string {
	f := of.FieldByName(name)
	return f.FieldByName("From").String() + f.FieldByName("Why").String()
}

// TestEachFactThatASourceTellsIsKept tries each fact of a site and of a host: what one
// of two sources knows counts, and of two that know it the first one.
func TestEachFactThatASourceTellsIsKept(t *testing.T) {
	for _, c := range []struct {
		a, b, aWhy, bWhy string
		want             string
	}{
		{"first", "", "", "", "first"},
		{"", "second", "", "", "second"},
		{"first", "second", "", "", "first"},
		{"", "second", "it did not answer", "", "second"},
		{"", "", "it did not answer", "", "it did not answer"},
		{"", "", "it did not answer", "nor did this", "it did not answer"},
		{"", "", "", "it did not answer", "it did not answer"},
	} {
		for _, kind := range []reflect.Type{reflect.TypeFor[Facts](), reflect.TypeFor[Host]()} {
			for field := range kind.Fields() {
				name := field.Name
				var a, b Facts
				a.Hosts, b.Hosts = []Host{{Name: "cp-1"}}, []Host{{Name: "cp-1"}}
				at := func(f *Facts) reflect.Value {
					if kind == reflect.TypeFor[Host]() {
						return reflect.ValueOf(&f.Hosts[0]).Elem()
					}
					return reflect.ValueOf(f).Elem()
				}
				set := func(f *Facts, from, why string) bool {
					return from == "" && why == "" || known(at(f), name, from, why)
				}
				if name == "Pacemaker" || !set(&a, c.a, c.aWhy) || !set(&b, c.b, c.bWhy) {
					continue // the newest counts, which has tests of its own
				}
				if m := Merge(a, b); toldBy(at(&m), name) != c.want {
					t.Errorf("%s.%s of %+v is told by %q", kind.Name(), name, c, toldBy(at(&m), name))
				}
			}
		}
	}
}

func TestWhatIsNoFactIsMergedToo(t *testing.T) {
	a := Facts{Now: now, Sources: []Source{api}, Hosts: []Host{{Name: "cp-1", Worker: true}, {Name: "cp-2"}}}
	b := Facts{Now: now.Add(time.Second), Cluster: "store-17", Sources: []Source{onCP1}, Hosts: []Host{host("cp-1", "10.98.0.11"), host("cp-2", "10.98.0.12")}}
	for _, m := range []Facts{Merge(a, b), Merge(b, a)} {
		if !m.Now.Equal(b.Now) || m.Cluster != "store-17" || len(m.Sources) != 2 || len(m.Hosts) != 2 {
			t.Errorf("%+v", m)
		}
		for _, h := range m.Hosts {
			if !h.ControlPlane || !h.Worker || len(h.Addresses) != 1 {
				t.Errorf("%+v", h)
			}
		}
	}
	b.Hosts[0].Addresses, a.Hosts[0].Addresses = b.Hosts[0].Addresses[:1], b.Hosts[1].Addresses[:1]
	if m := Merge(a, b); m.Hosts[0].Addresses[0] != addr("10.98.0.12") {
		t.Errorf("the addresses of the first source count: %v", m.Hosts[0].Addresses)
	}
}

func TestTheLastFenceThatIsKnownCounts(t *testing.T) {
	fence := func(known bool, ago time.Duration, by string) Facts {
		h := Host{Name: "cp-2", LastFence: Know(Fence{At: now.Add(-ago), By: by}, by, now)}
		h.LastFence.Known = known
		return Facts{Hosts: []Host{h}}
	}
	for _, c := range []struct {
		a, b Facts
		want string
	}{
		{fence(true, time.Hour, "cp-1"), fence(true, time.Minute, "cp-3"), "cp-3"},
		{fence(true, time.Minute, "cp-1"), fence(true, time.Hour, "cp-3"), "cp-1"},
		{fence(true, time.Hour, "cp-1"), fence(false, time.Minute, "cp-3"), "cp-1"},
		{fence(false, time.Minute, "cp-1"), fence(true, time.Hour, "cp-3"), "cp-3"},
	} {
		if got := Merge(c.a, c.b).Hosts[0].LastFence.Value.By; got != c.want {
			t.Errorf("by %s, want %s", got, c.want)
		}
	}
}

func TestAReportOfPacemakerIsKeptWhileNoBetterOneIsThere(t *testing.T) {
	good, bad := recorded(t, "healthy", nil), recorded(t, "no-quorum", nil)
	for name, c := range map[string]struct {
		older, newer Facts
		after        time.Duration
		older2       bool
	}{
		"quorum before none, just fresh": {good, bad, fresh, true},
		"quorum before none, too old":    {good, bad, fresh + time.Second, false},
		"none before quorum":             {bad, good, time.Second, false},
		"quorum before quorum":           {good, good, time.Second, false},
		"none before none":               {bad, bad, time.Second, false},
	} {
		older, newer := c.older, c.newer
		older.Pacemaker.At, newer.Pacemaker.At = now, now.Add(c.after)
		for _, m := range []Facts{Merge(older, newer), Merge(newer, older)} {
			if m.Pacemaker.At.Equal(now) != c.older2 {
				t.Errorf("%s: that of %s counts", name, m.Pacemaker.At.Sub(now))
			}
		}
		unknown := newer
		unknown.Pacemaker.Known = false
		if m := Merge(older, unknown); !m.Pacemaker.At.Equal(now) {
			t.Errorf("%s: a report that is not known counts", name)
		}
		if m := Merge(unknown, older); !m.Pacemaker.At.Equal(now) {
			t.Errorf("%s: a report that is not known counts first", name)
		}
	}
}

func TestWhatOneSourceKnowsOfAMemberTheOtherDoesNotOverwrite(t *testing.T) {
	yes, no := state.Known(true), state.Known(false)
	first := Host{Name: "cp-1", Member: Know(Member{Running: yes, Listed: yes, Healthy: yes, Behind: state.Known(uint64(1))}, "cp-1", now)}
	second := Host{Name: "cp-1", Member: Know(Member{Running: no, Listed: no, Healthy: no, Behind: state.Known(uint64(2))}, "the API", now)}
	m := func(a, b Host) Member {
		return Merge(Facts{Hosts: []Host{a}}, Facts{Hosts: []Host{b}}).Hosts[0].Member.Value
	}
	if got := m(first, second); got != first.Member.Value {
		t.Errorf("%+v", got)
	}
	empty := Host{Name: "cp-1", Member: Know(Member{}, "cp-1", now)}
	if got := m(empty, second); got != second.Member.Value {
		t.Errorf("%+v", got)
	}
	unheard := Host{Name: "cp-1", Member: Seen[Member]{Value: Member{Running: yes}}}
	if got := m(second, unheard); got != second.Member.Value {
		t.Errorf("%+v", got)
	}
	if got := m(unheard, second); got != second.Member.Value {
		t.Errorf("%+v", got)
	}
}

func TestVIPsOfSeveralSourcesAreTheSameByAddress(t *testing.T) {
	a := Facts{VIPs: []VIP{{Address: addr("10.98.0.5"), Claims: []string{"x"}}, {Address: addr("10.98.0.6")}}}
	b := Facts{VIPs: []VIP{{Address: addr("10.98.0.6"), Claims: []string{"y"}}, {Address: addr("10.98.0.5"), Claims: []string{"x", "z"}}}}
	m := Merge(a, b)
	if len(m.VIPs) != 2 || strings.Join(m.VIPs[0].Claims, " ") != "x z" || strings.Join(m.VIPs[1].Claims, " ") != "y" || len(a.VIPs[0].Claims) != 1 {
		t.Errorf("%+v", m.VIPs)
	}
}

func TestAnIncidentIsShownByItsTitle(t *testing.T) {
	got := IncidentsOf([]incident.Incident{{ID: "a", Start: now, State: incident.Over, Title: "cp-2 was lost"}})
	if len(got) != 1 || got[0] != (Incident{ID: "a", At: now, Kind: "over", Summary: "cp-2 was lost"}) {
		t.Errorf("%+v", got)
	}
}
