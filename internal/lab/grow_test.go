package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/config"
)

// growing is a lab of one control plane with a spare one and workers.
func growing() Spec {
	return Spec{Name: "site", ControlPlanes: 1, SpareControlPlanes: 1, Workers: 1, SpareWorkers: 1, Families: []Family{V4, V6}}.WithDefaults()
}

func TestASpareControlPlaneIsTheMachineOfALargerLab(t *testing.T) {
	spec := growing()
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	larger := spec
	larger.ControlPlanes, larger.SpareControlPlanes = 2, 0
	got, want := NewLayout(spec), NewLayout(larger)
	for i, spare := range []bool{false, true, false, true} {
		if h := got.Hosts[i]; h.Spare != spare || h.awaitsJoinFile() != (h.Name == "cp-2") {
			t.Errorf("%s: spare %t, awaits a join file %t", h.Name, h.Spare, h.awaitsJoinFile())
		}
	}
	got.Hosts[1].Spare = false
	for i := range want.Hosts {
		if diff := cmp.Diff(fmt.Sprintf("%+v", want.Hosts[i]), fmt.Sprintf("%+v", got.Hosts[i])); diff != "" {
			t.Error(diff)
		}
	}
	if names := namesOf(got.ControlPlanes()); !slices.Equal(names, []string{"cp-1"}) {
		t.Errorf("the site is installed with %v", names)
	}
}

func namesOf(hosts []Host) []string {
	var out []string
	for _, h := range hosts {
		out = append(out, h.Name)
	}
	return out
}

func TestSpareControlPlanesAreRefusedWhereASiteCannotGrow(t *testing.T) {
	for _, tt := range []struct {
		spec Spec
		want string
	}{
		{Spec{ControlPlanes: 1, SpareControlPlanes: 1}, ""},
		{Spec{ControlPlanes: 1, SpareControlPlanes: 2}, ""},
		{Spec{ControlPlanes: 2, SpareControlPlanes: 1}, ""},
		{Spec{ControlPlanes: 1, SpareControlPlanes: 3}, "spare control planes: 3: must be 0 to 3 together with the control planes"},
		{Spec{ControlPlanes: 5, SpareControlPlanes: 1}, "spare control planes: 1: must be 0 to 3 together with the control planes"},
		{Spec{ControlPlanes: 1, SpareControlPlanes: -1}, "spare control planes: -1: must be 0 to 3 together with the control planes"},
		{
			Spec{ControlPlanes: 1, SpareControlPlanes: 1, Platform: PlatformNone},
			"platform: none: a site without virtual IPs cannot grow, so it has no use for spare control planes: take baremetal",
		},
	} {
		tt.spec.Name = "site"
		got := ""
		if err := tt.spec.WithDefaults().Validate(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.spec, got, tt.want)
		}
	}
	if spec := growing(); spec.Platform != PlatformBareMetal {
		t.Errorf("a site that can grow is of platform %s", spec.Platform)
	}
}

func TestALabWithSpareControlPlanesIsNotTheSameAsOneWithout(t *testing.T) {
	with := growing()
	without := with
	without.SpareControlPlanes = 0
	if with.String() == without.String() {
		t.Errorf("both are %q", with)
	}
}

func TestASitesOwnConfigKnowsNoSpareControlPlane(t *testing.T) {
	for _, spec := range growingSpecs() {
		text, err := NewLayout(spec).InstallConfig()
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", spec, err, text)
		}
		spare := NewLayout(spec).Hosts[spec.ControlPlanes]
		for _, of := range []string{spare.Name, spare.BMC.Password, spare.UUID, spare.BMC.URL()} {
			if strings.Contains(string(text), of) {
				t.Errorf("%s: the site knows %s:\n%s", spec, of, text)
			}
		}
		if c.ControlPlaneReplicas() != spec.ControlPlanes || c.ComputeReplicas() != spec.Workers {
			t.Errorf("%s: %d control planes, %d workers", spec, c.ControlPlaneReplicas(), c.ComputeReplicas())
		}
	}
}

// growingSpecs returns all labs with spare control planes, of each order of families, and
// one whose machines have been replaced.
func growingSpecs() []Spec {
	var out []Spec
	for _, families := range [][]Family{{V4}, {V6}, {V4, V6}, {V6, V4}} {
		for _, planes := range [][2]int{{1, 1}, {1, 2}, {2, 1}} {
			out = append(out, Spec{Name: "site", ControlPlanes: planes[0], SpareControlPlanes: planes[1], Workers: 1, SpareWorkers: 1, Families: families}.WithDefaults())
		}
	}
	swapped := out[len(out)-1]
	swapped.Swaps = []Swap{{Host: "cp-1"}, {Host: "cp-3"}}
	return append(out, swapped)
}

// A site of three has a list of machines, which one of two may not have beside its fencing.
func TestTheConfigOfASiteThatShrinksToTwoIsOneOfTwo(t *testing.T) {
	spec := Spec{Name: "site", ControlPlanes: 3}.WithDefaults()
	own, err := NewLayout(spec).InstallConfig()
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse(grown(t, spec, own, 2))
	if err != nil {
		t.Fatal(err)
	}
	if c.ControlPlaneReplicas() != 2 || len(c.ControlPlane.Fencing.Credentials) != 2 {
		t.Errorf("%d control planes, %+v", c.ControlPlaneReplicas(), c.ControlPlane.Fencing)
	}
}

func TestTheConfigOfAGrownSiteDiffersInItsControlPlanesAlone(t *testing.T) {
	for _, spec := range growingSpecs() {
		l := NewLayout(spec)
		own, err := l.InstallConfig()
		if err != nil {
			t.Fatal(err)
		}
		own = append(own, "releaseRegistry: registry.example.test:5000/holdfast/release:1.0@sha256:"+strings.Repeat("a", 64)+"\n"...)
		for n := spec.ControlPlanes; n <= spec.ControlPlanes+spec.SpareControlPlanes; n++ {
			text := grown(t, spec, own, n)
			c, err := config.Parse(text)
			if err != nil {
				t.Fatalf("%s as %d: %v\n%s", spec, n, err, text)
			}
			before, err := config.Parse(own)
			if err != nil {
				t.Fatal(err)
			}
			grownIs(t, l, c, n)
			before.ControlPlane, before.Platform.BareMetal.Hosts = c.ControlPlane, c.Platform.BareMetal.Hosts
			if diff := cmp.Diff(before, c); diff != "" {
				t.Errorf("%s as %d: %s", spec, n, diff)
			}
		}
	}
}

func grown(t *testing.T, spec Spec, own []byte, n int) []byte {
	t.Helper()
	to, err := spec.Grown(n)
	if err != nil {
		t.Fatal(err)
	}
	text, err := NewLayout(to).GrownConfig(own)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func grownIs(t *testing.T, l Layout, c *config.InstallConfig, n int) {
	t.Helper()
	var got, want []string
	if n == 2 {
		for _, h := range l.Hosts[:2] {
			want = append(want, fmt.Sprint(h.Name, h.BMC.URL(), h.BMC.Username, h.BMC.Password))
		}
	}
	if c.ControlPlane.Fencing != nil {
		for _, f := range c.ControlPlane.Fencing.Credentials {
			got = append(got, fmt.Sprint(f.HostName, f.Address, f.Username, f.Password.Reveal()))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || c.ControlPlaneReplicas() != n {
		t.Errorf("%d control planes, want %d; accounts: %s", c.ControlPlaneReplicas(), n, diff)
	}
	masters := 0
	for _, h := range c.Platform.BareMetal.Hosts {
		if h.Role == config.ControlPlanePool {
			masters++
		}
	}
	if n > 2 && masters != n || n <= 2 && masters != 0 {
		t.Errorf("%d control planes are listed as machines of %d", masters, n)
	}
}

func TestASiteGrowsNoFurtherThanItsSpareMachinesAndFromAWholeConfigOnly(t *testing.T) {
	for _, n := range []int{0, 3} {
		want := fmt.Sprintf("control planes: %d: must be 1 to 2: lab site has 1, and 1 spare", n)
		if _, err := growing().Grown(n); err == nil || err.Error() != want {
			t.Errorf("as %d: %v, want %s", n, err, want)
		}
	}
	for _, broken := range []string{"[", "", "controlPlane: {}", "controlPlane: 3\nplatform: {}"} {
		if text, err := NewLayout(growing()).GrownConfig([]byte(broken)); err == nil {
			t.Errorf("%q became %q", broken, text)
		}
	}
}

func TestASpareControlPlaneIsOfTheSiteOnceItHasItsJoinFile(t *testing.T) {
	b, err := New(t.TempDir(), Options{Spec: growing()})
	if err != nil {
		t.Fatal(err)
	}
	on := []HostProgress{{HostStatus: HostStatus{Name: "cp-1", Power: PowerOn}}, {HostStatus: HostStatus{Name: "cp-2", Power: PowerOn}}}
	if got := namesOf(b.ControlPlanes()); !slices.Equal(got, []string{"cp-1"}) || len(b.awaited(slices.Clone(on))) != 1 {
		t.Errorf("control planes %v before there is a join file, waited for %v", got, b.awaited(slices.Clone(on)))
	}
	for _, file := range []string{"bootstrap.ign", "worker.ign"} { // nobody needs master.ign
		if err := os.MkdirAll(b.SiteDir(), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(b.SiteDir(), file), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	given := func(name string) string {
		h, _ := b.Layout.Host(name)
		data, err := os.ReadFile(b.ignitionFile(h))
		if err != nil {
			return "none"
		}
		return string(data)
	}
	handOut := func() {
		t.Helper()
		if err := b.handOut(); err != nil {
			t.Fatal(err)
		}
	}
	handOut()
	if got := given("cp-1") + " " + given("cp-2") + " " + given("worker-1") + " " + given("worker-2"); got != "bootstrap.ign none worker.ign worker.ign" {
		t.Errorf("the hosts have %s", got)
	}
	if err := b.GiveIgnition("cp-2", []byte("join.ign")); err != nil {
		t.Fatal(err)
	}
	handOut() // 'lab up' again
	if got := namesOf(b.ControlPlanes()); given("cp-2") != "join.ign" || !slices.Equal(got, []string{"cp-1", "cp-2"}) || len(b.awaited(on)) != 2 {
		t.Errorf("cp-2 has %s, control planes are %v", given("cp-2"), got)
	}
	if got := namesOf(b.Layout.ControlPlanes()); !slices.Equal(got, []string{"cp-1"}) {
		t.Errorf("the layout has changed: %v", got)
	}
}

func TestASpareControlPlaneMayBeSwapped(t *testing.T) {
	spec := growing()
	spec.Swaps = []Swap{{Host: "cp-2"}}
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	l := NewLayout(spec)
	h, _ := l.Host("cp-2")
	old, ok := l.Host("cp-2-old1")
	if !ok || h.ID != "cp-2-m2" || !h.awaitsJoinFile() || old.ID != "cp-2" || old.awaitsJoinFile() {
		t.Errorf("cp-2 is %+v, the old one %+v", h, old)
	}
}
