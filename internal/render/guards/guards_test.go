package guards

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/holdfast/holdfast/internal/render/document"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func twoHosts() []ControlPlane {
	return []ControlPlane{
		NewControlPlane("cp-2", "https://10.99.0.112/redfish/v1/Systems/1"),
		NewControlPlane("cp-1", "redfish+https://10.99.0.111:443/redfish/v1/Systems/1"),
	}
}

// takenOut is a list with a host that is out, one whose name was given again, and an
// entry that nobody can read.
func takenOut() map[string]string {
	return map[string]string{
		"w-1": `{"name":"w-1","when":"2026-11-20T03:00:00Z","why":"\"again\": never"}`,
		"w-2": `{"name":"w-2","when":"2026-11-20T03:00:00Z","again":"2026-11-21T03:00:00Z"}`,
		"w-3": `{"name":"w-3"`,
	}
}

func everyGuard() []Guard { return append(All(twoHosts()), Always(takenOut())...) }

func TestTheGuardsMatchTheApprovedFiles(t *testing.T) {
	for file, guards := range map[string][]Guard{"two.yaml": All(twoHosts()), "any.yaml": Always(takenOut())} {
		var all []byte
		for _, g := range guards {
			for _, o := range []any{g.Policy, g.Binding} {
				data, err := document.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				all = append(append(all, "---\n"...), data...)
			}
		}
		golden.Check(t, file, all)
	}
}

func TestAGuardSaysWhichClustersItIsFor(t *testing.T) {
	for want, guards := range map[string][]Guard{twoNode: All(twoHosts()), anyCluster: Always(takenOut())} {
		for _, g := range guards {
			if g.Policy.Labels[Label] != want || g.Binding.Labels[Label] != want {
				t.Errorf("%s: %q and %q", g.Name(), g.Policy.Labels[Label], g.Binding.Labels[Label])
			}
		}
	}
}

func TestTheOrderOfTheHostsDoesNotMatter(t *testing.T) {
	hosts := twoHosts()
	if diff := cmp.Diff(All(hosts), All([]ControlPlane{hosts[1], hosts[0]})); diff != "" {
		t.Error(diff)
	}
}

// Anything else that a guard needed could be missing when it matters.
func TestAGuardNeedsNothingButItselfAndFailsClosed(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range everyGuard() {
		p, b := g.Policy.Spec, g.Binding.Spec
		if seen[g.Name()] || g.Binding.Name != g.Name() || b.PolicyName != g.Name() {
			t.Errorf("%s: its name is another's, or its binding is", g.Name())
		}
		seen[g.Name()] = true
		if p.ParamKind != nil || b.ParamRef != nil || b.MatchResources != nil || *p.FailurePolicy != admissionv1.Fail {
			t.Errorf("%s: it needs parameters, or lets through what it cannot judge", g.Name())
		}
		for _, v := range p.Validations {
			if strings.Contains(v.Expression, "namespaceObject") || strings.Contains(v.Expression, "authorizer") {
				t.Errorf("%s looks at something else: %s", g.Name(), v.Expression)
			}
		}
	}
}

func TestEveryMessageSaysWhyAndWhatInstead(t *testing.T) {
	for _, g := range everyGuard() {
		for _, v := range g.Policy.Spec.Validations {
			// A reason, an advice, and a page with more.
			if strings.Count(v.Message, ". ") < 1 || !strings.HasSuffix(v.Message, more) || strings.ContainsAny(v.Message, "\n") {
				t.Errorf("%s: %q", g.Name(), v.Message)
			}
		}
	}
}

func TestABMCThatCannotBeReadMakesGuardsStricter(t *testing.T) {
	for name, tt := range map[string]struct {
		hosts    []ControlPlane
		families string
	}{
		"two of one family":     {twoHosts(), "[4]"},
		"two of the other":      {[]ControlPlane{NewControlPlane("a", "https://[fd99::1]"), NewControlPlane("b", "https://[fd99::2]")}, "[6]"},
		"one of each":           {[]ControlPlane{NewControlPlane("a", "https://[fd99::1]"), NewControlPlane("b", "https://10.0.0.1")}, "[]"},
		"a name":                {[]ControlPlane{NewControlPlane("a", "https://bmc-a.example.test"), NewControlPlane("b", "https://10.0.0.1")}, "[]"},
		"one that is not known": {[]ControlPlane{NewControlPlane("a", "https://10.0.0.1"), {Name: "b"}}, "[]"},
		"nonsense":              {[]ControlPlane{NewControlPlane("a", "https://10.0.0.1"), NewControlPlane("b", "https://u:p@10.0.0.2")}, "[]"},
		"nobody":                {nil, "[]"},
	} {
		if got := knownOf(tt.hosts).families; got != tt.families {
			t.Errorf("%s: addresses of %s are believed to be other BMCs, want %s", name, got, tt.families)
		}
	}
}

func TestANodeIsKnownByItsShortNameToo(t *testing.T) {
	got := knownOf([]ControlPlane{{Name: "cp-1.shop.example.test"}, {Name: "cp-2"}}).names
	if diff := cmp.Diff([]string{"cp-1", "cp-1.shop.example.test", "cp-2"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestASystemThatIsLeftOutMeansEach(t *testing.T) {
	if got := knownOf([]ControlPlane{NewControlPlane("a", "https://10.0.0.1")}).sameSystem(); got != "true" {
		t.Error(got)
	}
	if got := knownOf(twoHosts()).sameSystem(); got != `s == '' || s in ["/redfish/v1/systems/1"]` {
		t.Error(got)
	}
}

func TestAPersonLiftsAGuardForAWhile(t *testing.T) {
	now := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		until, mistake string
		active         bool
	}{
		{until: "2026-11-20T03:10:00Z", active: true},
		{until: "2026-11-20T04:10:00+01:00", active: true},
		{until: "2026-11-21T03:00:00Z", active: true},
		{until: "2026-11-20T02:59:59Z"},
		{until: "2026-11-20T03:00:00Z"},
		{until: "2026-11-21T03:00:01Z", mistake: "is more than 24h0m0s ahead"},
		{until: "in an hour", mistake: `"in an hour" is not a time such as 2026-11-20T04:00:00Z`},
		{until: "", mistake: "is not a time"},
	} {
		got := Lifted(map[string]string{AnnotationLifted: tt.until, AnnotationBecause: "spare parts"}, now)
		if got.Active(now) != tt.active || !strings.Contains(got.Mistake, tt.mistake) || (tt.mistake == "") != (got.Mistake == "") {
			t.Errorf("%q: %+v", tt.until, got)
		}
		if tt.active && got.Because != "spare parts" {
			t.Errorf("%q: the reason is lost", tt.until)
		}
	}
	if got := Lifted(nil, now); got != (Lift{}) || got.Active(now) {
		t.Errorf("nobody asked: %+v", got)
	}
}

func TestALiftedGuardStillSaysItsWord(t *testing.T) {
	g := All(twoHosts())[0]
	if got := fmt.Sprint(g.Warning().Binding.Spec.ValidationActions); got != "[Warn Audit]" {
		t.Error(got)
	}
	if got := fmt.Sprint(g.Binding.Spec.ValidationActions); got != "[Deny Audit]" {
		t.Errorf("the guard itself changed: %s", got)
	}
}

func TestANameIsOutUntilItIsGivenAgainAndAlsoIfItsEntryCannotBeRead(t *testing.T) {
	got := map[string]string{}
	for _, v := range RetiredHosts(takenOut()).Policy.Spec.Variables {
		got[v.Name] = strings.TrimPrefix(v.Expression, "dyn(object).metadata.name in ")
	}
	if got["out"] != `["w-1", "w-3"]` || got["listed"] != `["w-1", "w-2", "w-3"]` {
		t.Errorf("out %s, listed %s", got["out"], got["listed"])
	}
}
