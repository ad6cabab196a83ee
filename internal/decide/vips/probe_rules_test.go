package vips_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/vips"
	"github.com/holdfast/holdfast/internal/model/state"
)

// How far a host is with a question about one address.
const (
	notAsked = iota
	silent
	saysFree
	seesHolder
	answeredAnother // the question before
	progresses
)

// inProgress is a control plane that is that far with the question of noon.
func inProgress(name string, how int, ready bool) vips.Host {
	wanted := addr("fd98::5")
	h := vips.Host{Name: name, ControlPlane: true, Ready: ready}
	if how != notAsked {
		h.Probe = state.Known(state.VIPProbe{ID: "q", At: noon, Addresses: []netip.Addr{wanted}})
	}
	switch how {
	case saysFree:
		h.Answer = state.Known(state.VIPAnswer{ID: "q", Free: []netip.Addr{wanted}})
	case seesHolder:
		h.Answer = state.Known(state.VIPAnswer{ID: "q", Held: map[netip.Addr]string{wanted: "52:54:00:00:00:99"}})
	case answeredAnother:
		h.Answer = state.Known(state.VIPAnswer{ID: "older", Free: []netip.Addr{wanted}})
	}
	return h
}

// TestWhatAnswersProve plays all states of two control planes that are asked whether
// anybody answers for an address, at each of the moments that matter.
func TestWhatAnswersProve(t *testing.T) {
	wanted := []netip.Addr{addr("fd98::5")}
	states := 0
	for first := range progresses {
		for second := range progresses {
			for _, ready := range []bool{true, false} {
				for _, age := range []time.Duration{0, 3*time.Second - 1, 3 * time.Second, 15*time.Second - 1, 15 * time.Second, time.Minute - 1, time.Minute, -3 * time.Second, -3*time.Second - 1} {
					states++
					hosts := []vips.Host{inProgress("cp-1", first, ready), inProgress("cp-2", second, true)}
					p := vips.Probe(wanted, hosts, noon.Add(age))
					by, known := p.Found[wanted[0]]
					is := func(how int) bool { return first == how || second == how }
					open := age < time.Minute && age >= -3*time.Second && (first != notAsked || second != notAsked)
					waits := func(how int) bool { return how == silent || how == answeredAnother }
					answered := is(saysFree) || is(seesHolder)
					all := !waits(first) && !waits(second)
					for rule, broken := range map[string]bool{
						"one host that sees somebody is enough":                              open && is(seesHolder) != (known && by.Hardware != ""),
						"nobody answers once one has said so, and all had the time to":       open && !is(seesHolder) && known != (is(saysFree) && (all || age >= 3*time.Second)),
						"an answer to another question says nothing":                         !answered && known,
						"who was asked and did not answer is named":                          open && len(p.Silent) != map[bool]int{true: 1}[waits(first)]+map[bool]int{true: 1}[waits(second)],
						"hosts are asked anew when nobody has answered for a while":          open && (len(p.Ask) > 0) != (!answered && age >= 15*time.Second),
						"and where nobody was asked, or too long ago":                        !open && len(p.Ask) == 0,
						"every control plane that is ready is asked":                         len(p.Ask) > 0 && slices.Contains(p.Ask, "cp-1") != ready,
						"a question has the addresses, its moment and an id":                 len(p.Ask) > 0 && (!slices.Equal(p.Request.Addresses, wanted) || p.Request.ID == "" || !p.Request.At.Equal(noon.Add(age).Truncate(time.Millisecond))),
						"nothing is taken back while it is wanted":                           len(p.Clear) > 0,
						"a holder that was seen stands until the next answers, and no other": !open && known && by.Hardware == "",
					} {
						if broken {
							t.Errorf("%s: cp-1 %d (ready %t), cp-2 %d, after %s: %+v", rule, first, ready, second, age, p)
						}
					}
				}
			}
		}
	}
	if states != progresses*progresses*2*9 {
		t.Errorf("%d states", states)
	}
}

// nics are those of a host with one address.
func nics(list ...string) map[netip.Addr][]string {
	return map[netip.Addr][]string{addr("10.98.0.12"): list}
}

// TestAHostThatHasAnAddressFromEarlierIsNamed: the answer is then no stranger's.
func TestAHostThatHasAnAddressFromEarlierIsNamed(t *testing.T) {
	wanted := []netip.Addr{addr("fd98::5")}
	for what, c := range map[string]struct {
		report state.VIPReport
		want   string
	}{
		"it holds it":             {state.VIPReport{Holds: wanted}, "cp-2"},
		"it is set up to hold it": {state.VIPReport{VIPs: wanted}, "cp-2"},
		"it holds another one":    {state.VIPReport{Holds: addrs("fd98::6"), VIPs: addrs("fd98::7")}, ""},
		"it has nothing":          {state.VIPReport{}, ""},
		"its own NIC answers":     {state.VIPReport{Holds: wanted, Hardware: nics("52:54:00:00:00:12", "52:54:00:00:00:99")}, "cp-2"},
		"a stranger's answers":    {state.VIPReport{Holds: wanted, VIPs: wanted, Hardware: nics("52:54:00:00:00:12")}, ""},
	} {
		for _, age := range []time.Duration{0, time.Minute} { // while the answer counts, and while it is only remembered
			hosts := []vips.Host{inProgress("cp-1", seesHolder, true), {Name: "cp-2", Report: state.Known(c.report)}}
			if got := vips.Probe(wanted, hosts, noon.Add(age)).Found[wanted[0]]; got.Ours != c.want || got.Hardware == "" || got.Seen != "cp-1" {
				t.Errorf("%s, after %s: %+v", what, age, got)
			}
		}
	}
	// cp-1 has the address itself; cp-0, which is off, was set up for it, too
	own := inProgress("cp-1", seesHolder, true)
	own.Answer.Value.Held[wanted[0]] = vips.Itself("cp-1", "eth0")
	own.Report = state.Known(state.VIPReport{Holds: wanted, Hardware: nics("52:54:00:00:00:11")})
	both := []vips.Host{{Name: "cp-0", Report: state.Known(state.VIPReport{VIPs: wanted, Hardware: nics("52:54:00:00:00:12")})}, own}
	if got := vips.Probe(wanted, both, noon).Found[wanted[0]]; got.Ours != "cp-1" {
		t.Errorf("a host that has it itself: %+v", got)
	}
	free := []vips.Host{inProgress("cp-1", saysFree, true), {Name: "cp-2", Report: state.Known(state.VIPReport{VIPs: wanted})}}
	if got := vips.Probe(wanted, free, noon).Found[wanted[0]]; got != (vips.Holder{}) {
		t.Errorf("nobody answers for it: %+v", got)
	}
}

// TestASecondPairThatIsAddedAndRemovedLeavesNoTrace, whatever the first one is.
func TestASecondPairThatIsAddedAndRemovedLeavesNoTrace(t *testing.T) {
	for _, first := range [][2]string{{"10.98.0.5", "10.98.0.6"}, {"10.98.0.5", "10.98.0.5"}, {"fd98::5", "fd98::6"}} {
		for _, lacks := range []string{"nothing", "spec", "lists"} {
			s := one()
			s.Status.API, s.Status.Ingress, s.LegacyAPI, s.LegacyIngress = []string{first[0]}, []string{first[1]}, first[0], first[1]
			s.Spec = s.Status.Clone()
			want := s.Spec.Clone()
			if lacks != "nothing" {
				s.Spec = vips.Values{}
			}
			if lacks == "lists" {
				s.Status.API, s.Status.Ingress = nil, nil
			}
			with, err := s.WithPair("fd97::5", "fd97::6")
			if err != nil || len(with.API) != 2 || with.API[1] != "fd97::5" || len(with.Ingress) != 2 || with.Ingress[1] != "fd97::6" {
				t.Errorf("%v without %s: %+v, %v", first, lacks, with, err)
			}
			s.Spec = with
			if got, err := s.WithoutPair(); err != nil || !got.Equal(want) {
				t.Errorf("%v without %s: %+v, %v", first, lacks, got, err)
			}
			if s.Spec = want; fmt.Sprint(with.API[:1]) != fmt.Sprint(want.API) {
				t.Errorf("the first pair changed: %v", with.API)
			}
		}
	}
}
