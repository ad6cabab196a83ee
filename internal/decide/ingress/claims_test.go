package ingress

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// ask returns an Ingress of a namespace, age hours old, that asks for hosts,
// each written HOST or HOST/PATH.
func ask(namespace string, age int, hosts ...string) Routed {
	r := Routed{Kind: "Ingress", Namespace: namespace, Name: "i", Class: "openshift-x", Created: day.Add(-time.Duration(age) * time.Hour)}
	for _, h := range hosts {
		host, path, _ := strings.Cut(h, "/")
		r.Asked = append(r.Asked, Asked{Host: host, Paths: []string{"/" + path}})
	}
	return r
}

func owned(l HostList) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(l.Data)) {
		if key != HostsClass && key != HostsOwnership && key != HostsWildcards {
			out = append(out, key+"="+strings.ReplaceAll(l.Data[key], "\n", ","))
		}
	}
	return strings.Join(out, "; ")
}

func lost(l HostList) string {
	var out []string
	for _, c := range l.Conflicts {
		out = append(out, fmt.Sprintf("%s:%s(%s)", c.Object.Namespace, c.Host, c.Owner))
	}
	return strings.Join(out, " ")
}

// TestAHostIsWhoseHadItFirst checks the rules of routeAdmission, one sentence
// each.
func TestAHostIsWhoseHadItFirst(t *testing.T) {
	other := ask("evil", 9, "bank.d")
	other.Class = "openshift-y"
	route := ask("evil", 1, "bank.d")
	route.Kind, route.Class = "HTTPRoute", ""
	const inter = operatorv1.InterNamespaceAllowedOwnershipCheck
	for _, tt := range []struct {
		sentence  string
		ownership operatorv1.NamespaceOwnershipCheck
		objects   []Routed
		before    map[string]string
		owned     string
		lost      string
	}{
		{"nobody asks", "", nil, nil, "", ""},
		{"the older has it", "", []Routed{ask("evil", 1, "bank.d"), ask("bank", 2, "bank.d")}, nil, "bank.d=bank *", "evil:bank.d(bank)"},
		{"of one second the first by name", "", []Routed{ask("b", 1, "h.d"), ask("a", 1, "h.d")}, nil, "h.d=a *", "b:h.d(a)"},
		{"a namespace shares with itself", "", []Routed{ask("bank", 1, "bank.d/a"), ask("bank", 2, "bank.d/b")}, nil, "bank.d=bank *", ""},
		{
			"whoever had it keeps it from an older object that asks later", "",
			[]Routed{ask("evil", 9, "bank.d", "own.d"), ask("bank", 2, "bank.d")},
			map[string]string{"bank.d": "bank *"},
			"bank.d=bank *; own.d=evil *", "evil:bank.d(bank)",
		},
		{"and loses it once he does not ask", "", []Routed{ask("evil", 9, "bank.d")}, map[string]string{"bank.d": "bank *"}, "bank.d=evil *", ""},
		{"a longer path is no other host", "", []Routed{ask("evil", 1, "bank.d/login"), ask("bank", 2, "bank.d")}, nil, "bank.d=bank *", "evil:bank.d(bank)"},
		{"another class is another set of routers", "", []Routed{other, ask("bank", 2, "bank.d")}, nil, "bank.d=bank *", ""},
		{"a route counts everywhere", "", []Routed{route, ask("bank", 2, "bank.d")}, nil, "bank.d=bank *", "evil:bank.d(bank)"},
		{"the administrator goes first", "", []Routed{ask("evil", 9, "console.d"), ask(OperandNamespace, 1, "console.d")}, nil, "console.d=openshift-ingress *", "evil:console.d(openshift-ingress)"},
		{"nobody has every host", "", []Routed{ask("evil", 9, "")}, nil, "", "evil:()"},
		{"but the administrator, who takes none by that", "", []Routed{ask(OperandNamespace, 9, ""), ask("bank", 1, "bank.d")}, nil, "bank.d=bank *", ""},
		{
			"a wildcard has what is below it", "",
			[]Routed{ask("bank", 9, "*.bank.d"), ask("evil", 1, "a.bank.d"), ask("evil", 1, "a.b.bank.d"), ask("evil", 1, "bank.d")},
			nil,
			"_.bank.d=bank *; _below=bank bank.d; bank.d=evil *", "evil:a.b.bank.d(bank) evil:a.bank.d(bank)",
		},
		{
			"and cannot be had by others than whose all of that is", "",
			[]Routed{ask("bank", 9, "a.bank.d"), ask("evil", 1, "*.bank.d"), ask("evil", 1, "*.d")},
			nil,
			"a.bank.d=bank *", "evil:*.bank.d(bank) evil:*.d(bank)",
		},
		{"nor above another's wildcard", "", []Routed{ask("bank", 9, "*.bank.d"), ask("evil", 1, "*.d")}, nil, "_.bank.d=bank *; _below=bank bank.d", "evil:*.d(bank)"},
		{"nor below it", "", []Routed{ask("bank", 9, "*.d"), ask("evil", 1, "*.bank.d")}, nil, "_.d=bank *; _below=bank d", "evil:*.bank.d(bank)"},
		{"a namespace has both", "", []Routed{ask("bank", 9, "*.d"), ask("bank", 1, "a.d", "*.b.d")}, nil, "_.b.d=bank *; _.d=bank *; _below=bank b.d,bank d; a.d=bank *", ""},
		{"paths may be shared where that is wanted", inter, []Routed{ask("a", 2, "h.d/a"), ask("b", 1, "h.d/b")}, nil, "h.d=a /a,b /b", ""},
		{"one path may not", inter, []Routed{ask("a", 2, "h.d/a"), ask("b", 1, "h.d/a", "h.d/b")}, nil, "h.d=a /a,b /b", "b:h.d(a)"},
		{"every host is a host too", inter, []Routed{ask("a", 2, "/x"), ask("b", 1, "/x")}, nil, "_every=a /x", "b:(a)"},
		{"a wildcard takes nothing away", inter, []Routed{ask("a", 2, "*.d"), ask("b", 1, "b.d")}, nil, "_.d=a /; b.d=b /", ""},
		{"who had the host keeps his path", inter, []Routed{ask("evil", 9, "h.d"), ask("bank", 1, "h.d")}, map[string]string{"h.d": "bank *"}, "h.d=bank /", "evil:h.d(bank)"},
		{"and keeps the host", "", []Routed{ask("b", 9, "h.d"), ask("a", 1, "h.d")}, map[string]string{"h.d": "a /\nc /c"}, "h.d=a *", "b:h.d(a)"},
		{"a line break is in no path", inter, []Routed{ask("a", 1, "h.d/\nb /")}, nil, "", ""},
	} {
		l := Hosts("x", &operatorv1.RouteAdmissionPolicy{NamespaceOwnership: tt.ownership}, tt.objects, tt.before)
		if owned(l) != tt.owned || lost(l) != tt.lost {
			t.Errorf("%s:\n  %s | %s, want\n  %s | %s", tt.sentence, owned(l), lost(l), tt.owned, tt.lost)
		}
		// A second run with the first result as input gives the same result.
		if again := Hosts("x", &operatorv1.RouteAdmissionPolicy{NamespaceOwnership: tt.ownership}, tt.objects, l.Data); owned(again) != owned(l) || lost(again) != lost(l) {
			t.Errorf("%s: another look says\n  %s | %s", tt.sentence, owned(again), lost(again))
		}
	}
}

func TestThePolicysDefaultsAreTheAPIs(t *testing.T) {
	for _, p := range []*operatorv1.RouteAdmissionPolicy{nil, {}} {
		if d := Hosts("x", p, nil, nil).Data; d[HostsOwnership] != "Strict" || d[HostsWildcards] != "WildcardsDisallowed" || d[HostsClass] != "openshift-x" {
			t.Errorf("%v", d)
		}
	}
}

func TestAListThatIsFullKeepsTheOldest(t *testing.T) {
	var objects []Routed
	for i := range 20_000 {
		objects = append(objects, ask(fmt.Sprintf("namespace-%05d", i), 20_000-i, fmt.Sprintf("host-%05d.apps.example.com", i)))
	}
	l := Hosts("x", nil, objects, nil)
	size := 0
	for key, value := range l.Data {
		size += len(key) + len(value)
	}
	if l.Unlisted == 0 || len(l.Data)+l.Unlisted != len(objects)+3 || size > maxHosts || l.Data["host-00000.apps.example.com"] == "" || l.Data["host-19999.apps.example.com"] != "" {
		t.Errorf("%d listed, %d not, %d bytes", len(l.Data), l.Unlisted, size)
	}
}
