package lab

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/config"
)

// moved returns a spec in its other machine network.
func moved(t *testing.T, s Spec) Spec {
	t.Helper()
	out, err := s.In(true)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAMovedLabHasTheSameNumbersInAnotherMachineNetwork(t *testing.T) {
	l := NewLayout(moved(t, Spec{Name: "site", ControlPlanes: 2, Workers: 1, Families: []Family{V4, V6}, SecondNIC: true, Pull: true}.WithDefaults()))
	got := map[string]string{
		"machine": fmt.Sprint(l.MachineNetworks()), "gateway": fmt.Sprint(l.Machine.Gateways), "registry": fmt.Sprint(l.registries()),
		"api": fmt.Sprint(l.APIAddresses()), "ingress": fmt.Sprint(l.IngressAddresses()), "fencing": fmt.Sprint(l.Fencing.Prefixes, l.Fencing.Gateways),
	}
	for _, h := range l.Hosts {
		got[h.Name] = fmt.Sprintf("%v %v %v %v by %v", h.Machine.Addresses, h.Second.Addresses, h.Fencing.Addresses, h.BMC.Addresses, l.networkOf(h).Gateways)
	}
	want := map[string]string{
		"machine": "[10.77.0.0/24 fd77::/64]", "gateway": "[10.77.0.1 fd77::1]", "registry": "[10.77.0.1:5000 [fd77::1]:5000]",
		"api": "[10.77.0.5 fd77::5]", "ingress": "[10.77.0.6 fd77::6]", "fencing": "[10.99.0.0/24 fd99::/64] [10.99.0.1 fd99::1]",
		"cp-1":     "[10.77.0.11/24 fd77::11/64] [10.77.0.111/24 fd77::111/64] [10.99.0.11/24 fd99::11/64] [10.99.0.111 fd99::111] by [10.77.0.1 fd77::1]",
		"cp-2":     "[10.77.0.12/24 fd77::12/64] [10.77.0.112/24 fd77::112/64] [10.99.0.12/24 fd99::12/64] [10.99.0.112 fd99::112] by [10.77.0.1 fd77::1]",
		"worker-1": "[10.77.0.31/24 fd77::31/64] [10.77.0.131/24 fd77::131/64] [10.99.0.31/24 fd99::31/64] [10.99.0.131 fd99::131] by [10.77.0.1 fd77::1]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// carried returns all kinds of labs that can be moved, among them one with machines that
// took the place of others.
func carried(t *testing.T) []Spec {
	t.Helper()
	out := growingSpecs()
	for _, l := range layouts() {
		if l.Spec.FarWorkers == 0 && !l.Spec.RouterAdvertisements {
			out = append(out, l.Spec)
		}
	}
	swapped := Spec{Name: "site", ControlPlanes: 2, Swaps: []Swap{{Host: "cp-1", NewAddress: true}}}.WithDefaults()
	return append(out, swapped)
}

func TestAMoveChangesAddressesOfTheMachineNetworkAndNothingElse(t *testing.T) {
	back := strings.NewReplacer("10.77.0.", "10.98.0.", "fd77::", "fd98::", "Moves:1", "Moves:0")
	for _, spec := range carried(t) {
		before, after := fmt.Sprintf("%+v", NewLayout(spec)), fmt.Sprintf("%+v", NewLayout(moved(t, spec)))
		if strings.Contains(after, "10.98.") || strings.Contains(after, "fd98:") {
			t.Errorf("%s: something stayed: %s", spec, after)
		}
		if diff := cmp.Diff(before, back.Replace(after)); diff != "" || before == after {
			t.Errorf("%s: %s", spec, diff)
		}
	}
}

func TestALabIsMovedAndMovedBackAsOftenAsSomebodyLikes(t *testing.T) {
	spec := Spec{Name: "site", ControlPlanes: 1}.WithDefaults()
	for i, step := range []struct{ other, want bool }{{false, false}, {true, true}, {true, true}, {false, false}, {false, false}, {true, true}} {
		next, err := spec.In(step.other)
		if err != nil {
			t.Fatal(err)
		}
		if next.Moved() != step.want || (next.Moves != spec.Moves) != (spec.Moved() != step.other) {
			t.Errorf("step %d: %d moves became %d, moved %t", i, spec.Moves, next.Moves, next.Moved())
		}
		l := NewLayout(next)
		if there, gone := l.Machine.Prefixes[0].String(), l.elsewhere().Prefixes[0].String(); there == gone || (there == "10.77.0.0/24") != step.want ||
			(gone == "10.77.0.0/24") == step.want {
			t.Errorf("step %d: it is in %s, and not in %s", i, there, gone)
		}
		spec = next
	}
}

func TestALabThatCannotBeMovedIsRefusedWithEveryReasonAndStays(t *testing.T) {
	spec := Spec{Name: "site", ControlPlanes: 2, Workers: 1, FarWorkers: 1, Families: []Family{V6}, RouterAdvertisements: true}.WithDefaults()
	want := "move: 1 far workers: a lab with a second machine network stays where it is\n" +
		"move: a lab with router advertisements stays where it is: its hosts make addresses of what the router says"
	b, err := New(t.TempDir(), Options{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := b.save(); err != nil {
		t.Fatal(err)
	}
	u := &Builder{Root: filepath.Dir(b.Dir), Log: io.Discard}
	if _, _, err := u.Move(t.Context(), "site", Move{}); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if again, err := Open(u.Root, "site"); err != nil || again.Options.Spec.Moves != 0 {
		t.Errorf("the lab has changed: %+v (%v)", again, err)
	}
	if err := (Spec{Name: "site", ControlPlanes: 1, Moves: -1}).WithDefaults().Validate(); err == nil || err.Error() != "moves: -1: must not be negative" {
		t.Errorf("less than no move: %v", err)
	}
}

func TestUpWithTheSameFlagsLeavesAMovedLabWhereItIs(t *testing.T) {
	root := t.TempDir()
	spec := Spec{Name: "site", ControlPlanes: 2}.WithDefaults()
	old, err := New(root, Options{Spec: moved(t, spec)})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(old.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := old.save(); err != nil {
		t.Fatal(err)
	}
	up, err := New(root, Options{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	if err := up.sameOrNew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again, err := Open(root, "site"); err != nil || !again.Options.Spec.Moved() || up.Layout.Machine.Prefixes[0].String() != "10.77.0.0/24" {
		t.Errorf("after 'lab up' it is in %v (%v)", up.Layout.Machine.Prefixes, err)
	}
}

func TestTheConfigOfAMovedSiteDiffersInItsMachineAddressesAlone(t *testing.T) {
	for _, spec := range carried(t) {
		own, err := NewLayout(spec).InstallConfig()
		if err != nil {
			t.Fatal(err)
		}
		own = append(own, "releaseRegistry: registry.example.test:5000/holdfast/release:1.0@sha256:"+strings.Repeat("a", 64)+"\n"...)
		before, err := config.Parse(own)
		if err != nil {
			t.Fatal(err)
		}
		l := NewLayout(moved(t, spec))
		text, err := l.MovedConfig(own)
		if err != nil {
			t.Fatal(err)
		}
		after, err := config.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", spec, err, text)
		}
		whole, err := l.InstallConfig()
		if err != nil {
			t.Fatal(err)
		}
		want, err := config.Parse(whole)
		if err != nil {
			t.Fatal(err)
		}
		want.ReleaseRegistry = before.ReleaseRegistry
		if diff := cmp.Diff(want, after); diff != "" || cmp.Equal(before, after) {
			t.Errorf("%s: %s", spec, diff)
		}
		if slices.ContainsFunc([]string{"10.98.", "fd98:"}, func(old string) bool { return strings.Contains(string(text), old) }) {
			t.Errorf("%s: an address stayed:\n%s", spec, text)
		}
	}
}

func TestWhatSomebodyWroteIntoASitesConfigIsInThatOfTheMovedSite(t *testing.T) {
	spec := Spec{Name: "site", ControlPlanes: 2}.WithDefaults()
	own, err := NewLayout(spec).InstallConfig()
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(own), "10.128.0.0/14", "10.132.0.0/14", 1)
	text, err := NewLayout(moved(t, spec)).MovedConfig([]byte(changed + "sshKey: ssh-ed25519 AAAA somebody\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"10.132.0.0/14", "sshKey: ssh-ed25519 AAAA somebody", "10.77.0.0/24", "rendezvousIP: 10.77.0.11"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing:\n%s", want, text)
		}
	}
	for _, broken := range []string{"[", "", "platform: {}", "networking: 3\nplatform: {}"} {
		if text, err := NewLayout(spec).MovedConfig([]byte(broken)); err == nil {
			t.Errorf("%q became %q", broken, text)
		}
	}
}

func TestTheNamesOfAMovedLabLeadToItsNewAddresses(t *testing.T) {
	metal := newZone(NewLayout(moved(t, Spec{Name: "site", ControlPlanes: 2, Families: []Family{V4, V6}}.WithDefaults())))
	none := newZone(NewLayout(moved(t, Spec{Name: "site", ControlPlanes: 1}.WithDefaults())))
	for _, tt := range []struct {
		zone       zone
		name, want string
	}{
		{metal, "api.site.holdfast.test.", "10.77.0.5 fd77::5"},
		{metal, "x.apps.site.holdfast.test.", "10.77.0.6 fd77::6"},
		{none, "api.site.holdfast.test.", "10.77.0.11"},
		{none, "api-int.site.holdfast.test.", "10.77.0.11"},
	} {
		if addrs, _ := tt.zone.lookup(tt.name); strings.Join(texts(addrs), " ") != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, addrs, tt.want)
		}
	}
}

func TestNoNetworkOfMachinesIsReachedFromTheFencingNetwork(t *testing.T) {
	spec := Spec{Name: "site", ControlPlanes: 2, Workers: 1, FarWorkers: 1, Families: []Family{V4, V6}}.WithDefaults()
	l := NewLayout(spec)
	for _, p := range append(l.MachineNetworks(), l.elsewhere().Prefixes...) {
		if !strings.Contains(rulesFrom(fencingBridge), p.String()) {
			t.Errorf("%s is not kept out", p)
		}
	}
	for _, p := range l.Fencing.Prefixes {
		if !strings.Contains(rulesFrom(machineBridge), p.String()) {
			t.Errorf("%s is not kept out", p)
		}
	}
}

// rulesFrom returns the rules of the switch that drop what comes in by a bridge.
func rulesFrom(bridge string) string {
	var out []string
	for line := range strings.Lines(switchRules) {
		if before, _, found := strings.Cut(line, "daddr"); found && strings.Contains(before, `"`+bridge+`"`) && strings.HasSuffix(line, "drop\n") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

func TestAHostAsksTheNameServersOfTheNetworkInWhichItBoots(t *testing.T) {
	spec := Spec{Name: "site", ControlPlanes: 2, Families: []Family{V4, V6}}.WithDefaults()
	first, other := NewLayout(spec), NewLayout(moved(t, spec))
	if got := other.resolvConf(other.Hosts[0]); got != "nameserver 10.77.0.1\nnameserver fd77::1\n" {
		t.Errorf("resolv.conf is %q", got)
	}
	for _, tt := range []struct {
		text        string
		first, then bool
	}{
		{first.resolvConf(first.Hosts[0]), false, true},
		{other.resolvConf(other.Hosts[0]), true, false},
		{"# Holdfast: begin\nnameserver 10.98.0.11\n# Holdfast: end\n#holdfast# nameserver fd98::1\n", false, true},
		{"nameserver 10.98.0.11\nnameserver 10.98.0.100\n", false, false},
		{"", false, false},
	} {
		if a, b := first.asksElsewhere(tt.text), other.asksElsewhere(tt.text); a != tt.first || b != tt.then {
			t.Errorf("%q is stale: %t in the first network, %t in the other one", tt.text, a, b)
		}
	}
}
