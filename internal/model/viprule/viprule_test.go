package viprule

import (
	"net/netip"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/model/netaddr"
)

func TestListsAreCheckedByEachRuleOfTheirOwn(t *testing.T) {
	nets := netaddr.Networks{
		Machine: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24"), netip.MustParsePrefix("fd98::/64")},
		Cluster: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/14")}, Service: []netip.Prefix{netip.MustParsePrefix("172.30.0.0/16")},
		Complete: true,
	}
	for what, c := range map[string]struct {
		api, ingress []string
		want         []Rule
	}{
		"a sound pair":         {[]string{"10.98.0.5", "fd98::5"}, []string{"10.98.0.6", "fd98::6"}, nil},
		"none":                 {nil, []string{"10.98.0.6"}, []Rule{Required}},
		"three":                {[]string{"10.98.0.5", "fd98::5", "fd98::7"}, []string{"10.98.0.6", "fd98::6"}, []Rule{AtMostTwo, SameLength}},
		"no address":           {[]string{"cp-1"}, []string{"10.98.0.6"}, []Rule{Address}},
		"of the host alone":    {[]string{"127.0.0.1"}, []string{"10.98.0.6"}, []Rule{Reachable}},
		"of a pod":             {[]string{"10.128.0.5"}, []string{"10.98.0.6"}, []Rule{PodNetwork}},
		"of a Service":         {[]string{"172.30.0.5"}, []string{"10.98.0.6"}, []Rule{ServiceNetwork}},
		"of no network":        {[]string{"10.99.0.5"}, []string{"10.98.0.6"}, []Rule{MachineNetwork}},
		"of all hosts":         {[]string{"10.98.0.255"}, []string{"10.98.0.6"}, []Rule{Edge}},
		"the other family":     {[]string{"fd98::5"}, []string{"fd98::6"}, []Rule{PrimaryFamily, PrimaryFamily}},
		"one for both":         {[]string{"10.98.0.5"}, []string{"10.98.0.5"}, []Rule{Distinct}},
		"more of one than two": {[]string{"10.98.0.5", "fd98::5"}, []string{"10.98.0.6"}, []Rule{SameLength}},
	} {
		var got []Rule
		path := field.NewPath("spec")
		for _, f := range (Lists{API: List{path.Child("api"), c.api}, Ingress: List{path.Child("ingress"), c.ingress}, Networks: nets}).Findings() {
			got = append(got, f.Rule)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", what, got, c.want)
		}
	}
}

func TestEveryRuleHasASentenceAndStandsOnce(t *testing.T) {
	all := Rules()
	for i, r := range all {
		if r.Sentence() == string(r) || slices.Contains(all[:i], r) {
			t.Errorf("%s has no sentence, or stands twice", r)
		}
	}
	if Rule("else").Sentence() != "else" {
		t.Error("a rule of a newer version has no text")
	}
}
