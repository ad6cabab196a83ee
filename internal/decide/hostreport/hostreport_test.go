package hostreport

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/state"
)

var at = time.Date(2026, 11, 23, 4, 0, 0, 0, time.UTC)

// see is a fact of a host's report.
func see[T any](value T) state.Seen[T] { return state.See(value, "cp-1", at) }

func TestAHostTellsWhichNodesTheAPIHasLost(t *testing.T) {
	n := state.Node{Name: "cp-2", Labels: map[string]string{state.LabelControlPlane: "", state.LabelMaster: "", "x": "y"}, Lost: []string{state.LabelControlPlane}}
	h := nodeOf(n, false, "cp-1", time.Now())
	if !h.ControlPlane || !h.Registered.Value || len(h.Labels.Value) != 2 || len(n.Labels) != 3 {
		t.Errorf("%+v", h)
	}
	n.Absent = true
	if h := nodeOf(n, false, "cp-1", time.Now()); !h.Registered.Known || h.Registered.Value || h.Labels.Known {
		t.Errorf("%+v", h)
	}
	if h := nodeOf(n, true, "cp-1", time.Now()); h.Registered.Known {
		t.Errorf("what is of before a boot says nothing of now: %+v", h)
	}
}

// pair is the report of the etcd keeper on one of two healthy hosts.
func pair(t *testing.T) state.EtcdReport {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "test", "corpus", "pacemaker", "cases", "healthy", "cp-1", "etcd.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r state.EtcdReport
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestStatusAndExplanationSayTheSameOfAKeeper(t *testing.T) {
	r := Report{Host: "cp-1", At: at, Keeper: see(pair(t)), BMC: see("https://10.97.0.12")}
	in, err := r.Explained()
	if err != nil || in.Source != explain.FromAgent || in.BMC != "https://10.97.0.12" || in.Unmanaged {
		t.Fatalf("%+v, %v", in, err)
	}
	f := r.Standing()
	i := slices.IndexFunc(f.Hosts, func(h standing.Host) bool { return h.Name == "cp-1" })
	if i < 0 || f.Hosts[i].Explanation.Value.Rule != explain.Etcd(in).Rule || len(f.Sources[0].Limits) != 0 {
		t.Errorf("%+v", f)
	}
}

func TestWhatIsAbsentIsNoLimitOfAStatusAndWhatFailedIsOne(t *testing.T) {
	r := Report{
		Host: "cp-1", At: at,
		Network: state.Seen[state.NetworkStatus]{Why: "open /run/x: no such file", Lack: state.LackAbsent},
		Loops:   state.Seen[state.LoopsStatus]{Why: Sudo, Lack: state.LackDenied},
		Keeper:  state.Seen[state.EtcdReport]{Why: Sudo, Lack: state.LackDenied},
		Fences:  state.Seen[[]state.FenceEntry]{Why: "history: input/output error"},
	}
	if got, want := r.Standing().Sources[0].Limits, []string{Sudo, "history: input/output error"}; !slices.Equal(got, want) {
		t.Errorf("limits %q, want %q", got, want)
	}
}

func TestAHostWithoutPeerAndRecordIsNotExplained(t *testing.T) {
	absent := state.Seen[state.EtcdRecord]{Lack: state.LackAbsent}
	r := Report{Host: "cp-1", At: at, Record: absent, Targets: see([]string{"cp-1"}), Keeper: state.Seen[state.EtcdReport]{Why: "no answer"}}
	if in, err := r.Explained(); err != nil || !in.Unmanaged || len(in.Limits) != 0 {
		t.Errorf("%+v, %v", in, err)
	}
	r.Targets = see([]string{"cp-1", "cp-2"})
	in, err := r.Explained()
	if err != nil || in.Unmanaged || in.Report.Snapshot.Peer != "cp-2" || !state.Is(recordState(in), state.EtcdNone) {
		t.Errorf("one of two that has no record yet: %+v, %v", in, err)
	}
	if !strings.HasPrefix(in.Limits[0], "no answer") {
		t.Errorf("%q", in.Limits)
	}
}

func recordState(in explain.Input) state.Fact[state.EtcdState] {
	r := in.Report.Snapshot.Record
	return state.Fact[state.EtcdState]{Known: r.Known, Value: r.Value.State}
}

func TestAFenceThatCutThePowerIsAProof(t *testing.T) {
	r := Report{Host: "cp-1", At: at, Fences: see([]state.FenceEntry{
		{Time: at.Add(-time.Hour), Target: "cp-2", By: "cp-1", Off: true},
		{Time: at, Target: "cp-2", By: "cp-1", Detail: "no answer\nsecond line"},
	})}
	hosts := r.Standing().Hosts
	i := slices.IndexFunc(hosts, func(h standing.Host) bool { return h.Name == "cp-2" })
	if i < 0 || !hosts[i].Verified.Value.At.Equal(at.Add(-time.Hour)) || hosts[i].LastFence.Value.Why != "no answer" {
		t.Errorf("%+v", hosts)
	}
}

func TestTheNewestIncidentsAreShown(t *testing.T) {
	list := []standing.Incident{{ID: "5"}, {ID: "4"}, {ID: "3"}, {ID: "2"}}
	if got := LastIncidents(list, "cp-1", at); !got.Known || len(got.Value) != 3 || got.Value[0].ID != "5" {
		t.Errorf("%+v", got)
	}
	if LastIncidents(nil, "cp-1", at).Known {
		t.Error("there are none")
	}
}
