package dualstack

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/config"
)

const oneFamily = `apiVersion: v1
metadata: {name: shop}
baseDomain: example.test
controlPlane: {replicas: 1}
compute: [{name: worker, replicas: 2}]
networking:
  machineNetwork: [{cidr: 10.98.0.0/24}]
  clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}]
  serviceNetwork: [172.30.0.0/16]
platform: {none: {}}
`

// bothFamilies is the same site with the second family.
var bothFamilies = replaced(oneFamily,
	"10.98.0.0/24}", `10.98.0.0/24}, {cidr: "fd98::/64"}`, "hostPrefix: 23}", `hostPrefix: 23}, {cidr: "fd44::/56", hostPrefix: 64}`, "172.30.0.0/16]", `172.30.0.0/16, "fd96::/112"]`)

func replaced(text string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(text)
}

func parse(t *testing.T, text string) *config.InstallConfig {
	t.Helper()
	c, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func members() map[string]Member {
	share := netip.MustParsePrefix("10.128.0.0/23")
	return map[string]Member{"w-2": {Shares: []netip.Prefix{share}}, "cp-1": {ControlPlane: true}, "a-worker": {}}
}

func TestAFileThatAddsAFamilyMakesAPlan(t *testing.T) {
	p, err := New(parse(t, oneFamily), parse(t, bothFamilies), members())
	if err != nil {
		t.Fatal(err)
	}
	p.ID, p.At = thePlan.ID, thePlan.At
	if bad := p.Check(); len(bad) > 0 {
		t.Errorf("%+v", bad)
	}
	want := map[string]Host{
		"cp-1":     {ControlPlane: true, Share: netip.MustParsePrefix("fd44:0:0:ff::/64")},
		"a-worker": {Share: netip.MustParsePrefix("fd44:0:0:fe::/64")}, "w-2": {Share: netip.MustParsePrefix("fd44:0:0:fd::/64")},
	}
	if diff := cmp.Diff(want, p.Hosts, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"cp-1", "a-worker", "w-2"}, p.Order()); diff != "" || p.Carrier() != "cp-1" {
		t.Error(diff)
	}
	for range 2 { // a host that was cut off does it again
		made := p.Config(parse(t, oneFamily))
		if diff := cmp.Diff(parse(t, bothFamilies).Networking, p.Config(made).Networking); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(parse(t, oneFamily).Networking, p.Before(made).Networking); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAFileIsRefusedWithAllItsMistakes(t *testing.T) {
	v6first := replaced(bothFamilies, `{cidr: 10.98.0.0/24}, {cidr: "fd98::/64"}`, `{cidr: "fd98::/64"}, {cidr: 10.98.0.0/24}`,
		`{cidr: 10.128.0.0/14, hostPrefix: 23}, {cidr: "fd44::/56", hostPrefix: 64}`, `{cidr: "fd44::/56", hostPrefix: 64}, {cidr: 10.128.0.0/14, hostPrefix: 23}`,
		`172.30.0.0/16, "fd96::/112"`, `"fd96::/112", 172.30.0.0/16`)
	for name, c := range map[string]struct {
		have, file string
		want       []string // the paths, and a word of each reason
	}{
		"nothing added": {oneFamily, oneFamily, []string{
			"networking.machineNetwork[1] is missing", "networking.clusterNetwork[1] is missing", "networking.serviceNetwork[1] is missing",
		}},
		"another primary family": {oneFamily, v6first, []string{
			"networking.machineNetwork[0] the primary one", "networking.clusterNetwork[0] the primary one", "networking.serviceNetwork[0] the primary one",
		}},
		"a family taken away": {bothFamilies, oneFamily, []string{"networking.machineNetwork has both families already"}},
		"more than networks":  {oneFamily, replaced(bothFamilies, "replicas: 2", "replicas: 3"), []string{"compute[0].replicas leave it as it is"}},
		"another pod network and two families": {oneFamily, replaced(bothFamilies, "10.128.0.0/14", "10.132.0.0/14", "{name: shop}", "{name: shop2}"), []string{
			"metadata.name leave it as it is", "networking.clusterNetwork[0] the primary one",
		}},
		"a second machine network of the same family": {oneFamily, replaced(bothFamilies, `{cidr: "fd98::/64"}`, `{cidr: 10.97.0.0/24}, {cidr: "fd98::/64"}`), []string{
			"networking.machineNetwork[1] is of the family that the site has", "networking.machineNetwork[2] not several",
		}},
		"two machine networks stay": {
			replaced(oneFamily, "10.98.0.0/24}", "10.98.0.0/24}, {cidr: 10.97.0.0/24}"), replaced(bothFamilies, "10.98.0.0/24}", "10.98.0.0/24}, {cidr: 10.97.0.0/24}"), nil,
		},
		"another pod network than Holdfast's": {replaced(oneFamily, "networking:", "networking:\n  networkType: None"), replaced(bothFamilies, "networking:", "networking:\n  networkType: None"), []string{
			"networking.networkType is not Holdfast's",
		}},
		"a pod network with little room": {oneFamily, replaced(bothFamilies, "fd44::/56", "fd44::/61"), []string{"networking.clusterNetwork[1].cidr at least 12"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(parse(t, c.have), parse(t, c.file), members())
			var refused *config.RefusedError
			if !errors.As(err, &refused) {
				if err != nil || len(c.want) > 0 {
					t.Fatalf("%v, want %q", err, c.want)
				}
				return
			}
			if len(refused.Differences) != len(c.want) {
				t.Fatalf("%v\nwant %q", err, c.want)
			}
			for i, d := range refused.Differences {
				path, word, _ := strings.Cut(c.want[i], " ")
				if d.Path != path || !strings.Contains(d.How, word) {
					t.Errorf("%s: %s, want %q", d.Path, d.How, c.want[i])
				}
			}
		})
	}
}

func TestAPlanIsCheckedBeforeItIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Plan)
		want   string
	}{
		"nothing wrong":              {func(*Plan) {}, "[]"},
		"no id":                      {func(p *Plan) { p.ID = "" }, "[id]"},
		"no networks":                {func(p *Plan) { p.Machines, p.Services = "", "fd96::1/112" }, "[machines services]"},
		"another family":             {func(p *Plan) { p.Services = "172.30.0.0/16" }, "[machines]"},
		"no control plane":           {func(p *Plan) { p.Hosts = map[string]Host{"w-1": thePlan.Hosts["w-1"]} }, "[hosts]"},
		"a share twice":              {func(p *Plan) { p.Hosts["w-1"] = Host{Share: thePlan.Hosts["cp-2"].Share} }, "[hosts[w-1].share]"},
		"a share of another network": {func(p *Plan) { p.Hosts["w-1"] = Host{Share: netip.MustParsePrefix("fd45::/64")} }, "[hosts[w-1].share]"},
		"no share":                   {func(p *Plan) { p.Hosts["w-1"] = Host{} }, "[hosts[w-1].share]"},
	} {
		t.Run(name, func(t *testing.T) {
			p := modelPlan()
			c.change(p)
			var got []string
			for _, d := range p.Check() {
				got = append(got, d.Path)
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("%v, want %s", got, c.want)
			}
		})
	}
}

func TestWhatIsUnknownLeadsToNoStep(t *testing.T) {
	// the carrier, at each stage, knows all but one fact
	for _, stage := range stages {
		m := newModel()
		m.work, m.degraded, m.hosts[2].fits = false, false, true
		for i := range m.hosts {
			h := &m.hosts[i]
			h.plan, h.begun, h.told, h.toldPlan, h.toldBegun = true, stage != Kept, stage, true, stage != Kept
			h.stage, h.changed = stage, "before"
		}
		m.begun = stage != Kept
		for name, forget := range map[string]func(*Facts){
			"announced": func(f *Facts) { f.Announced.Known = false }, "nodes": func(f *Facts) { f.Nodes.Known = false },
			"work": func(f *Facts) { f.Work.Known = false }, "whole": func(f *Facts) { f.Whole.Known = false },
			"serves": func(f *Facts) { f.Serves.Known = false }, "carried": func(f *Facts) { f.Carried.Known = false },
			"noted": func(f *Facts) { f.Noted.Known = false }, "routed": func(f *Facts) { f.Routed.Known = false },
			"others": func(f *Facts) { f.Others.Known = false },
		} {
			f := m.facts(0)
			before := Decide(f)
			forget(&f)
			if s := Decide(f); s.Act != Wait && s != before {
				t.Errorf("%s, %s unknown: %s instead of %s", stage, name, s.Rule, before.Rule)
			}
		}
	}
}
