package standing

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func TestEverySituationIsSaidAsApproved(t *testing.T) {
	for name, f := range situations(t) {
		t.Run(name, func(t *testing.T) {
			golden.Check(t, name+".txt", []byte(Text(Describe(f), page.Style{})))
		})
	}
}

func TestWideSaysWhoSaidIt(t *testing.T) {
	f := situations(t)["peer-lost"]
	golden.Check(t, "peer-lost.wide.txt", []byte(Text(Describe(f), page.Style{Wide: true})))
}

func TestAProgramReadsTheSame(t *testing.T) {
	out, err := yaml.Marshal(Describe(situations(t)["fencing-not-available"]))
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "fencing-not-available.yaml", out)
}

// TestProgramsReadTheSame checks the views that the dashboard's tests show too.
func TestProgramsReadTheSame(t *testing.T) {
	all := situations(t)
	for _, name := range []string{"healthy-pair", "peer-lost", "human-needed", "three-one-lost", "single"} {
		out, err := json.MarshalIndent(Describe(all[name]), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, name+".json", append(out, '\n'))
	}
}

func TestAScreenHas100ColumnsAndCommandsAreNotBroken(t *testing.T) {
	for name, f := range situations(t) {
		v := Describe(f)
		text := Text(v, page.Style{})
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > page.Broad && !strings.Contains(line, "Type") {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		for _, f := range v.Findings {
			for _, c := range f.Commands {
				if !strings.Contains(text, c.Line) {
					t.Errorf("%s: the command %q is not on one line", name, c.Line)
				}
			}
		}
	}
}

func TestTheCommandIsTheOneThatMendsTheWayToTheBMC(t *testing.T) {
	for repair, want := range map[state.BMCRepair]string{
		"":                   "sudo holdfast fencing verify",
		state.SetAccount:     "sudo holdfast fencing rotate cp-2",
		state.AllowLegacyTLS: "sudo holdfast fencing rotate cp-2 --tls Legacy",
		state.PinCertificate: "sudo holdfast fencing pin cp-2",
	} {
		found := map[string]state.BMCProblem{
			"cp-1": {Words: "it answers 401", Repair: state.SetAccount},
			"cp-2": {Words: "a BMC that says 'holdfast fencing rotate cp-2 --password-file x; reboot'", Repair: repair},
		}
		v := Describe(recordedWith(t, "device-cannot-start", etcdReport(t, "healthy"), found))
		if got := v.Findings[0].Commands[0].Line; got != want {
			t.Errorf("%q: %q, want %q", repair, got, want)
		}
	}
}

var escape = regexp.MustCompile("\x1b\\[[0-9]*m")

func TestColourAddsNothing(t *testing.T) {
	for name, f := range situations(t) {
		v := Describe(f)
		plain, coloured := Text(v, page.Style{}), escape.ReplaceAllString(Text(v, page.Style{Colour: true}), "")
		if plain != coloured {
			t.Errorf("%s: without colour another text", name)
		}
	}
}

func TestTheStatusIsThatOfTheSituation(t *testing.T) {
	want := map[string]explain.Status{
		"healthy-pair": explain.Healthy, "healthy-pair-from-afar": explain.Healthy, "peer-lost": explain.Degraded,
		"peer-lost-from-afar": explain.Degraded, "resyncing": explain.Degraded, "fencing-not-available": explain.Degraded,
		"fencing-another-certificate": explain.Degraded,
		"fencing-unverified":          explain.Degraded, "fencing-disabled": explain.Degraded, "maintenance": explain.Degraded,
		"etcd-failed": explain.Degraded, "stale": explain.Unknown, "api-gone": explain.Degraded, "human-needed": explain.NeedsHuman,
		"nothing-known": explain.Unknown, "vip-two-holders": explain.Degraded, "vip-left-behind-and-forged": explain.Degraded, "pair-not-set-up": explain.Degraded, "firewalls": explain.Degraded, "agent-loops": explain.Degraded,
		"configuration-under-way": explain.Degraded, "configurations-that-need-a-person": explain.Degraded, "configuration-waits-for-redundancy": explain.Healthy, "updates": explain.Degraded,
		"single": explain.Healthy, "single-api-gone": explain.Unknown, "three": explain.Healthy, "three-one-lost": explain.Degraded, "three-that-write-nothing": explain.Unknown,
		"three-ipv6": explain.Healthy, "dual-stack-nobody-has-a-vip": explain.Degraded, "lost-fence-failed": explain.Waiting,
	}
	all := situations(t)
	if len(all) != len(want) {
		t.Errorf("%d situations, %d are judged here", len(all), len(want))
	}
	for name, f := range all {
		if got := Describe(f).Status; got != want[name] {
			t.Errorf("%s: %s, want %s", name, got, want[name])
		}
	}
}

// TestWhatIsNotKnownIsNeverWell removes each fact in turn; no situation may
// become better by that.
func TestWhatIsNotKnownIsNeverWell(t *testing.T) {
	for name, less := range map[string]func(*Facts){
		"the report of Pacemaker":  func(f *Facts) { f.Pacemaker = Seen[etcdv1.PacemakerClusterStatus]{} },
		"all sources":              func(f *Facts) { f.Sources = nil },
		"a report that is of now":  func(f *Facts) { f.Pacemaker.At = now.Add(-time.Hour) },
		"that there are two hosts": func(f *Facts) { f.Hosts, f.ControlPlanes = nil, Seen[int]{} },
	} {
		f := situations(t)["healthy-pair-from-afar"]
		less(&f)
		if v := Describe(f); v.Redundancy.Survives == Yes && name != "all sources" || v.Status == explain.Healthy {
			t.Errorf("without %s: %s, survives %s", name, v.Status, v.Redundancy.Survives)
		}
	}
	for name, less := range map[string]func(*Host){
		"kubelet": func(h *Host) { h.Kubelet = Seen[Kubelet]{} },
		"member":  func(h *Host) { h.Member = Seen[Member]{} },
	} {
		f := situations(t)["three"]
		for i := range f.Hosts {
			less(&f.Hosts[i])
		}
		v := Describe(f)
		if name == "member" && v.Redundancy.Survives == Yes {
			t.Errorf("three, without %s: survives", name)
		}
		for _, h := range v.Hosts {
			if name == "kubelet" && h.Kubelet.Good != Unknown {
				t.Errorf("three, without %s: %+v", name, h.Kubelet)
			}
		}
	}
}

func TestNothingAtAllIsSaidToo(t *testing.T) {
	v := Describe(Facts{Now: now})
	if v.Status != explain.Unknown || v.Redundancy.Survives != Unknown || Text(v, page.Style{}) == "" {
		t.Errorf("%+v", v)
	}
	if b, err := json.Marshal(v); err != nil || strings.Contains(string(b), "null") {
		t.Errorf("%s %v", b, err)
	}
}

func TestEveryFindingSaysWhatItMeansAndWhatToType(t *testing.T) {
	for name, f := range situations(t) {
		for _, f := range Describe(f).Findings {
			if f.Meaning == "" || len(f.Commands) == 0 || strings.ContainsAny(fmt.Sprint(f.Meaning, f.Commands[0].Line, f.Commands[0].Host, f.Problem, f.Subject), "{}") {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

func TestAHostThatIsLostDoesNotHoldAVIP(t *testing.T) {
	v := Describe(situations(t)["peer-lost"])
	for _, l := range v.VIPs {
		if l.Holder.Text != "cp-1" {
			t.Errorf("%s: %s", l.Address, l.Holder.Text)
		}
	}
}

func TestAClockThatIsAheadMakesNothingStale(t *testing.T) {
	f := situations(t)["healthy-pair-from-afar"]
	f.Pacemaker.At = now.Add(time.Hour)
	if v := Describe(f); v.Status != explain.Healthy {
		t.Errorf("%s: %s", v.Status, v.Redundancy.Sentence)
	}
}

func TestTwoOfFourStopTheClusterAndThreeOfFiveAreEnough(t *testing.T) {
	for _, tt := range []struct {
		size, lost int
		want       Answer
	}{{3, 0, Yes}, {3, 1, No}, {3, 2, No}, {4, 0, Yes}, {4, 1, No}, {5, 1, Yes}, {5, 2, No}} {
		f := many(tt.size, "10.98.0.5", "10.98.0.6")
		for i := range tt.lost {
			f.Hosts[i].Member.Value.Healthy = state.Known(false)
		}
		if got := Describe(f).Redundancy.Survives; got != tt.want {
			t.Errorf("%d without %d: %s, want %s", tt.size, tt.lost, got, tt.want)
		}
	}
}

func TestTheDocumentationShowsWhatIsSaid(t *testing.T) {
	text, err := os.ReadFile("../../../docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"peer-lost", "api-gone"} {
		if !strings.Contains(string(text), "```\n"+Text(Describe(situations(t)[name]), page.Style{})+"```") {
			t.Errorf("docs/status.md shows %s as it was", name)
		}
	}
}

// Seen in the lab: until there is a coordinator, a host that has just booted
// takes both hosts for lost, while its peer knows better.
func TestAHostThatHasJustStartedTellsNothingOfItsPeer(t *testing.T) {
	started := recorded(t, "both-never-seen", nil)
	for i, c := range started.Pacemaker.Value.Conditions {
		if c.Type == pacemakerstatus.Quorate {
			started.Pacemaker.Value.Conditions[i].Status, started.Pacemaker.Value.Conditions[i].Reason = metav1.ConditionUnknown, pacemakerstatus.ReasonNoCoordinator
		}
	}
	if v := Describe(started); v.Redundancy.Survives != Unknown || !strings.Contains(v.Redundancy.Sentence, "Pacemaker has no coordinator") {
		t.Errorf("%+v", v.Redundancy)
	}
	for _, f := range Describe(started).Findings {
		if strings.Contains(f.Problem, "not proven off") {
			t.Errorf("said: %s", f.Problem)
		}
	}
	healthy := recorded(t, "healthy", nil)
	started.Pacemaker.At = healthy.Pacemaker.At.Add(time.Second)
	for _, merged := range []Facts{Merge(started, healthy), Merge(healthy, started)} {
		if !quorate(merged.Pacemaker) {
			t.Error("the report without quorum counts")
		}
	}
	started.Pacemaker.At = healthy.Pacemaker.At.Add(fresh + time.Second)
	if quorate(Merge(healthy, started).Pacemaker) {
		t.Error("an old report counts for ever")
	}
}
