package vips_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/vips"
	"github.com/holdfast/holdfast/internal/model/state"
)

// FuzzDecide decides about lists as somebody might write them. Whatever they are, a
// decision keeps what the specification promises.
func FuzzDecide(f *testing.F) {
	for _, seed := range [][4]string{
		{"10.98.0.5,fd98::5", "10.98.0.6,fd98::6", "10.98.0.5", "10.98.0.6"},
		{"10.98.0.5", "10.98.0.6", "10.98.0.5,fd98::5", "10.98.0.6,fd98::6"},
		{"", "", "10.98.0.5", "10.98.0.6"},
		{"::ffff:10.98.0.5,x", "%,,", "", "fe80::1%eth0"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], "10.98.0.0/24,fd98::/64", true)
	}
	f.Fuzz(func(t *testing.T, api, ingress, nowAPI, nowIngress, networks string, known bool) {
		s := one()
		s.Spec = vips.Values{API: split(api), Ingress: split(ingress), MachineNetworks: split(networks)}
		s.Status.API, s.Status.Ingress = split(nowAPI), split(nowIngress)
		s.LegacyAPI, s.LegacyIngress = "", ""
		if known {
			for _, a := range append(split(api), split(ingress)...) {
				if addr, err := netip.ParseAddr(a); err == nil {
					s.Found[addr] = vips.Holder{}
				}
			}
		}
		promises(t, s, vips.Decide(s))
		_ = vips.Examine(s).Checks()
	})
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// promises fails the test where a decision breaks a promise that holds for all.
func promises(t *testing.T, s vips.Snapshot, d vips.Decision) {
	t.Helper()
	if (d.Outcome == vips.Refused) != (len(d.Findings) > 0) {
		t.Errorf("%s with findings %v", d.Outcome, d.Findings)
	}
	if d.Outcome == vips.Refused || d.Outcome == vips.Undecided {
		if d.Status != nil {
			t.Errorf("%s and writes %v", d.Outcome, *d.Status)
		}
		return
	}
	if d.Outcome != vips.Accepted {
		return
	}
	for _, l := range [][2][]string{{d.Status.API, s.Status.API}, {d.Status.Ingress, s.Status.Ingress}} {
		if len(l[1]) == 0 || len(l[0]) == 0 || !slices.Equal(vips.PlanOf(vips.Values{API: l[0][:1]}, false).API, vips.PlanOf(vips.Values{API: l[1][:1]}, false).API) {
			t.Errorf("the first address was %v and becomes %v", l[1], l[0])
		}
		if len(l[0]) > 2 {
			t.Errorf("there are %v", l[0])
		}
	}
	if len(d.Status.API) != len(d.Status.Ingress) {
		t.Errorf("the lists become %v and %v", d.Status.API, d.Status.Ingress)
	}
	all := vips.PlanOf(*d.Status, false).All()
	if len(slices.Compact(slices.SortedFunc(slices.Values(all), netip.Addr.Compare))) != len(all) {
		t.Errorf("an address stands twice in %v", all)
	}
	s.Spec, s.Status = *d.Status, *d.Status
	s.LegacyAPI, s.LegacyIngress = d.Status.API[0], d.Status.Ingress[0]
	if again := vips.Decide(s); again.Outcome != vips.Settled || again.Status != nil || again.Spec != nil {
		t.Errorf("then comes %s", again.Outcome)
	}
}

// FuzzAnnotations reads annotations of a node that another version, or an
// administrator, may have written.
func FuzzAnnotations(f *testing.F) {
	f.Add(`{"vips":["10.98.0.5"],"addresses":["10.98.0.11/24"]}`, `{"id":"1","at":"2026-11-20T12:00:00Z","addresses":["fd98::5"]}`, `{"id":"1","held":{"fd98::5":"x"}}`)
	f.Add(`null`, `[]`, `{"held":{"x":1}}`)
	f.Fuzz(func(t *testing.T, report, probe, answer string) {
		h := vips.Host{
			Name: "cp-1", ControlPlane: true, Ready: true, Report: state.ParseAnnotation[state.VIPReport](report),
			Probe: state.ParseAnnotation[state.VIPProbe](probe), Answer: state.ParseAnnotation[state.VIPAnswer](answer),
		}
		s := one()
		add("fd98::5", "fd98::6")(&s)
		s.Hosts = append(s.Hosts, h)
		p := vips.Probe(addrs("fd98::5", "fd98::6"), s.Hosts, noon)
		s.Found = p.Found
		promises(t, s, vips.Decide(s))
		_ = vips.Follow(dual, s.Hosts, allAnswer()).Words()
		_, _ = vips.Open(map[string]string{state.AnnotationVIPProbe + "x": probe, state.AnnotationVIPAnswer + "x": answer})
	})
}
