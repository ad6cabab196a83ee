package hostreport

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"

	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/state"
)

// full is a report of cp-1 in which each fact that a status or an explanation reads
// has a value.
func full() Report {
	r := keeping(func(*state.EtcdReport) {})
	nodes := []etcdv1.PacemakerClusterNodeStatus{{NodeName: "cp-9"}}
	v := state.NetworkView{Role: state.RoleWorker}
	v.Settings.Domain, v.Settings.APIVIPs = "a.example", []netip.Addr{netip.MustParseAddr("10.0.0.5")}
	v.Nodes = state.Known([]state.Node{{Name: "w-1", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.31")}}})
	r.Network = see(state.NetworkStatus{At: at, View: v})
	r.Loops = see(state.LoopsStatus{At: at, Loops: []state.Loop{{Name: "x"}}})
	r.Space = see(etcdspace.Report{At: at, Summary: etcdspace.Summary{Size: 7}})
	r.Watched = see(pacemakerstatus.Report{Status: etcdv1.PacemakerClusterStatus{Nodes: &nodes}, At: at})
	r.Record = see(state.EtcdRecord{State: state.EtcdSole, Seq: 6})
	r.Running, r.Data = see(true), see(state.EtcdData{Copy: state.CopyWhole, Member: 7})
	r.Confirmation, r.Fenced = see(state.Confirmation{Boot: "b"}), see(state.EtcdFenced{Boot: "b", State: state.PowerOff})
	r.Targets, r.BMC, r.Boot = see([]string{"cp-1", "cp-2"}), see("https://10.97.0.12"), see(Boot{ID: "b", Uptime: time.Hour})
	r.Fences = see([]state.FenceEntry{{Time: at.Add(-time.Hour), Target: "cp-2", By: "cp-1", Off: true, Phases: state.FencePhases{Total: 3 * time.Second}}})
	r.Incidents = see([]standing.Incident{{ID: "5"}})
	return r
}

// said is all that a report says.
type said struct {
	facts  standing.Facts
	words  explain.Explanation
	limits []string
	err    bool
}

func says(r Report) said {
	in, err := r.Explained()
	return said{r.Standing(), explain.Etcd(in), in.Limits, err != nil}
}

// TestAFactThatIsNotKnownSaysNothing: a source may have failed after it had answered;
// its value is then of before.
func TestAFactThatIsNotKnownSaysNothing(t *testing.T) {
	// A list or a value that is empty where it is unknown: whoever fills a report does
	// not leave one there.
	emptied := []string{"Targets", "BMC", "Fences", "Incidents", "Boot"}
	for i := range reflect.TypeFor[Report]().NumField() {
		name := reflect.TypeFor[Report]().Field(i).Name
		for _, keeper := range []bool{true, false} {
			kept, gone := full(), full()
			if !keeper {
				kept.Keeper, gone.Keeper = state.Seen[state.EtcdReport]{}, state.Seen[state.EtcdReport]{}
			}
			k, g := reflect.ValueOf(&kept).Elem().Field(i), reflect.ValueOf(&gone).Elem().Field(i)
			if k.Kind() != reflect.Struct || !k.FieldByName("Known").IsValid() || slices.Contains(emptied, name) {
				continue
			}
			k.FieldByName("Known").SetBool(false)
			g.FieldByName("Known").SetBool(false)
			g.FieldByName("Value").SetZero()
			if !reflect.DeepEqual(says(kept), says(gone)) {
				t.Errorf("%s is not known, and its value counts (the keeper answers: %t)", name, keeper)
			}
		}
	}
}

// TestWhyAFactIsMissingIsSaidOnce: of each fact that a status reads, but where there is
// nothing of its kind.
func TestWhyAFactIsMissingIsSaidOnce(t *testing.T) {
	for name, lose := range map[string]func(r *Report, why string, lack state.Lack){
		"network": func(r *Report, why string, lack state.Lack) {
			r.Network = state.Seen[state.NetworkStatus]{Why: why, Lack: lack}
		},
		"loops": func(r *Report, why string, lack state.Lack) {
			r.Loops = state.Seen[state.LoopsStatus]{Why: why, Lack: lack}
		},
		"space of etcd": func(r *Report, why string, lack state.Lack) {
			r.Space = state.Seen[etcdspace.Report]{Why: why, Lack: lack}
		},
		"pacemaker": func(r *Report, why string, lack state.Lack) {
			r.Watched = state.Seen[pacemakerstatus.Report]{Why: why, Lack: lack}
		},
		"keeper": func(r *Report, why string, lack state.Lack) {
			r.Keeper, r.Record = state.Seen[state.EtcdReport]{Why: why, Lack: lack}, state.Seen[state.EtcdRecord]{Why: why, Lack: lack}
		},
		"fences": func(r *Report, why string, lack state.Lack) {
			r.Fences = state.Seen[[]state.FenceEntry]{Why: why, Lack: lack}
		},
		"incidents": func(r *Report, why string, lack state.Lack) {
			r.Incidents = state.Seen[[]standing.Incident]{Why: why, Lack: lack}
		},
	} {
		for lack, want := range map[state.Lack][]string{state.LackOther: {"it hangs"}, state.LackDenied: {"it hangs"}, state.LackAbsent: nil} {
			r := full()
			lose(&r, "it hangs", lack)
			if got := r.Standing().Sources[0]; !slices.Equal(got.Limits, want) || got.Kind != standing.FromHost {
				t.Errorf("%s, %q: %q", name, lack, got.Limits)
			}
		}
	}
}

// TestWhatAnExplanationLacksIsSaid: the reason of each fact that it reads.
func TestWhatAnExplanationLacksIsSaid(t *testing.T) {
	r := full()
	r.Keeper = state.Seen[state.EtcdReport]{Why: "1"}
	r.Boot, r.Targets, r.Running = state.Seen[Boot]{Why: "2"}, see([]string{"cp-2"}), state.Seen[bool]{Why: "5"}
	r.Record, r.Data = state.Seen[state.EtcdRecord]{Why: "4"}, state.Seen[state.EtcdData]{Why: "6"}
	r.Confirmation, r.Fenced = state.Seen[state.Confirmation]{Why: "7"}, state.Seen[state.EtcdFenced]{Why: "8"}
	r.Targets.Why = "3"
	in, err := r.Explained()
	if got := strings.Join(in.Limits, " "); err != nil || got != "1 2 3 4 5 6 7 8 unknown without the etcd keeper: whether the peer is present, and its statement" {
		t.Errorf("%q, %v", got, err)
	}
	if in.Source != explain.FromFiles || in.Report.Snapshot.Record.Known {
		t.Errorf("%+v", in)
	}
	r = full()
	r.Keeper = state.Seen[state.EtcdReport]{}
	in, _ = r.Explained()
	if s := in.Report.Snapshot; s.Data.Value.Member != 7 || !s.Proofs.Human.Known || !s.Proofs.Fenced.Known {
		t.Errorf("what the files hold: %+v", s)
	}
}

// TestEachQuestionHasItsParts, by name: a part that nobody asks for is unknown.
func TestEachQuestionHasItsParts(t *testing.T) {
	for want, got := range map[string][]Part{
		"agent etcd evidence devices history incidents pacemaker machine checks": Parts(),
		"machine devices etcd evidence":                                          ForExplanation(),
		"agent etcd history incidents":                                           ForStanding(),
		"machine devices etcd pacemaker history":                                 ForFencing(),
	} {
		var names []string
		for _, p := range got {
			names = append(names, string(p))
		}
		if strings.Join(names, " ") != want {
			t.Errorf("%v, want %s", names, want)
		}
	}
}

// TestWhatAFenceTellsOfItsTarget: who did it, how long it took, and whether that proves
// that it can be done.
func TestWhatAFenceTellsOfItsTarget(t *testing.T) {
	h := told(t, full(), "cp-2")
	if want := (standing.Fence{At: at.Add(-time.Hour), By: "cp-1", Off: true, Took: 3 * time.Second}); h.LastFence.Value != want || !h.ControlPlane {
		t.Errorf("%+v", h.LastFence)
	}
	if want := (standing.Verification{At: at.Add(-time.Hour), By: "cp-1", How: "it was fenced", In: 3 * time.Second}); h.Verified.Value != want {
		t.Errorf("%+v", h.Verified)
	}
	r := full()
	r.Fences.Value[0].Off = false
	if h := told(t, r, "cp-2"); h.LastFence.Value.Off || h.Verified.Known {
		t.Errorf("one that failed proves nothing: %+v", h)
	}
	f := full().Standing()
	if len(f.Incidents.Value) != 1 || !f.Now.Equal(at) || f.VIPs[0].Address != netip.MustParseAddr("10.0.0.5") {
		t.Errorf("%+v", f)
	}
	if h := told(t, full(), "w-1"); len(h.Addresses) != 1 {
		t.Errorf("a node without its address: %+v", h)
	}
}

// docs/facts/loss.md#hard-cases-of-loss, L4: what the host wrote down about its place is a part of
// its explanation, whether its keeper answers or not.
func TestL4AnExplanationSaysThatTheHostWasReplaced(t *testing.T) {
	for _, keeper := range []bool{true, false} {
		r := full()
		if r.Ousted = see("another machine"); !keeper {
			r.Keeper = state.Seen[state.EtcdReport]{}
		}
		if in, err := r.Explained(); err != nil || in.Replaced != "another machine" {
			t.Errorf("the keeper answers (%t): %q, %v", keeper, in.Replaced, err)
		}
		r.Ousted.Known = false
		if in, _ := r.Explained(); in.Replaced != "" {
			t.Errorf("what is not known counts: %q", in.Replaced)
		}
	}
}
