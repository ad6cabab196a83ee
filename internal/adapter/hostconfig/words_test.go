package hostconfig

import (
	"errors"
	"fmt"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// TestADropInChangesNoWordOfItsUnit: Pacemaker starts kubelet on a site of two, and systemd does after the site
// has grown. What a configuration was written over is no reason to go back to it, also if a former release recorded it.
func TestADropInChangesNoWordOfItsUnit(t *testing.T) {
	dropin := func(text string) *spec {
		return new(spec).unit(types.Unit{Name: "kubelet.service", Dropins: []types.Dropin{{Name: "50-site.conf", Contents: &text}}})
	}
	for name, c := range map[string]struct {
		there, on, later bool
		former           string
	}{
		"disabled, then enabled": {there: true, later: true}, "enabled, then disabled": {there: true, on: true}, "not there, then enabled": {later: true},
		"disabled by a former release's record":  {there: true, later: true, former: "disabled"},
		"enabled by a former release's record":   {there: true, on: true, former: "enabled"},
		"not there by a former release's record": {later: true, former: "not-found"},
	} {
		m := newMachine(t)
		if c.there {
			m.put(t, "/usr/lib/systemd/system/kubelet.service", "[Service]\n", 0o644)
		}
		if c.former != "" {
			m.put(t, OriginalsPath, `{"paths":{},"units":{"kubelet.service":"`+c.former+`"}}`, 0o600)
		}
		m.set("kubelet.service", c.on)
		m.has(t, "rendered-worker-1", dropin("[Service]\nNice=1\n"))
		if err := m.write(t); err != nil {
			t.Fatal(err)
		}
		m.put(t, "/usr/lib/systemd/system/kubelet.service", "[Service]\n", 0o644)
		m.set("kubelet.service", c.later)
		for _, next := range []struct {
			config string
			spec   *spec
		}{
			{"rendered-worker-2", dropin("[Service]\nNice=2\n").file("/etc/motd", "second\n")},
			{"rendered-worker-3", new(spec).file("/etc/motd", "third\n")},
			{"rendered-worker-1", dropin("[Service]\nNice=1\n")},
			{"", nil},
		} {
			m.has(t, next.config, next.spec)
			if err := m.write(t); err != nil || m.enabled["kubelet.service"] != c.later {
				t.Errorf("%s, %q: enabled %v, want %v: %v", name, next.config, m.enabled["kubelet.service"], c.later, err)
			}
		}
	}
}

// TestAUnitGetsItsWordBackOnce, also if the run that gives it is cut at any effect.
func TestAUnitGetsItsWordBackOnce(t *testing.T) {
	const tool, vendor = "tool.service", "old.service" // the second one is enabled without a configuration
	text := new("[Service]\n[Install]\nWantedBy=multi-user.target\n")
	said := new(spec).unit(types.Unit{Name: tool, Enabled: new(true), Contents: text}).unit(types.Unit{Name: vendor, Enabled: new(false), Contents: text})
	contrary := new(spec).unit(types.Unit{Name: tool, Enabled: new(false), Contents: text}).unit(types.Unit{Name: vendor, Enabled: new(true), Contents: text})
	brought := func(motd string) *spec {
		return new(spec).file("/etc/motd", motd).unit(types.Unit{Name: tool, Contents: text}).unit(types.Unit{Name: vendor, Contents: text})
	}
	start := func() *machine {
		m := newMachine(t)
		m.has(t, "rendered-worker-1", said)
		if err := m.write(t); err != nil || !m.enabled[tool] || m.enabled[vendor] {
			t.Fatalf("enabled %v: %v", m.enabled, err)
		}
		m.has(t, "rendered-worker-2", brought("second\n"))
		m.Effects = 0
		return m
	}
	whole := start()
	if err := whole.write(t); err != nil || whole.Effects < 4 {
		t.Fatalf("%d effects: %v", whole.Effects, err)
	}
	for cut := range 2*whole.Effects + 1 {
		m := start()
		if m.At, m.After = 1+cut/2, cut%2 == 1; m.At <= whole.Effects {
			if err := m.write(t); !errors.Is(err, powercut.Err) {
				t.Fatalf("cut at %d: %v", m.At, err)
			}
		}
		m.Dead, m.At = false, 0
		if err := m.write(t); err != nil || m.enabled[tool] || !m.enabled[vendor] {
			t.Fatalf("cut %d: enabled %v, and the configuration does not say it: %v", cut, m.enabled, err)
		}
		m.set(tool, true) // somebody wants it so
		m.set(vendor, false)
		for _, next := range []struct {
			config string
			spec   *spec
			tool   bool
		}{
			{"rendered-worker-2", brought("second\n"), true},
			{"rendered-worker-3", brought("third\n"), true},
			{"rendered-worker-1", said, true},
			{"rendered-worker-3", brought("third\n"), true}, // the first did not work, say
			{"rendered-worker-4", contrary, false},
			{"rendered-worker-2", brought("second\n"), true},
		} {
			m.has(t, next.config, next.spec)
			if err := m.write(t); err != nil || m.enabled[tool] != next.tool || m.enabled[vendor] == next.tool {
				t.Fatalf("cut %d, %s: enabled %v, which somebody, or the configuration, had set otherwise: %v", cut, next.config, m.enabled, err)
			}
		}
		m.has(t, "", nil)
		if err := m.write(t); err != nil || m.enabled[tool] || !m.enabled[vendor] {
			t.Fatalf("cut %d: enabled %v once their files are gone: %v", cut, m.enabled, err)
		}
	}
}

// TestAMaskedUnitGetsItsWordBackWithoutTheMask: until then nothing can enable it.
func TestAMaskedUnitGetsItsWordBackWithoutTheMask(t *testing.T) {
	m := newMachine(t)
	for _, next := range []struct {
		config string
		unit   types.Unit
		want   bool
	}{
		{"rendered-worker-1", types.Unit{Name: "old.service", Enabled: new(false)}, false},
		{"rendered-worker-2", types.Unit{Name: "old.service", Mask: new(true)}, false},
		{"rendered-worker-3", types.Unit{Name: "old.service", Contents: new("[Service]\n[Install]\nWantedBy=multi-user.target\n")}, true},
		{"rendered-worker-2", types.Unit{Name: "old.service", Mask: new(true)}, true},
		{"rendered-worker-4", types.Unit{Name: "old.service", Enabled: new(true)}, true},
		{"rendered-worker-3", types.Unit{Name: "old.service", Contents: new("[Service]\n[Install]\nWantedBy=multi-user.target\n")}, true},
	} {
		m.has(t, next.config, new(spec).unit(next.unit))
		if err := m.write(t); err != nil || m.enabled["old.service"] != next.want {
			t.Errorf("%s: enabled %v: %v", next.config, m.enabled, err)
		}
	}
}

// TestAUnitThatAMaskHidIsDisabledWithoutTheMask, also if the run that takes the mask away is cut at any effect:
// systemctl says only of a unit that it is masked.
func TestAUnitThatAMaskHidIsDisabledWithoutTheMask(t *testing.T) {
	const own, vendor = "old.service", "vendor.service" // the first one is enabled without a configuration
	text := new("[Service]\n[Install]\nWantedBy=multi-user.target\n")
	unit := func(u types.Unit) *spec { return new(spec).file("/etc/motd", "ours\n").unit(u) }
	for name, c := range map[string]struct {
		unit string
		// had are the configurations before, and is the one that takes the mask away; nil for none.
		had []*spec
		is  *spec
	}{
		"another one says that it is disabled": {own, []*spec{unit(types.Unit{Name: own, Mask: new(true)})}, unit(types.Unit{Name: own, Enabled: new(false)})},
		"the same, and that it has no mask":    {own, []*spec{unit(types.Unit{Name: own, Mask: new(true)})}, unit(types.Unit{Name: own, Enabled: new(false), Mask: new(false)})},
		"the same, with its file":              {own, []*spec{unit(types.Unit{Name: own, Mask: new(true)})}, unit(types.Unit{Name: own, Enabled: new(false), Contents: text})},
		"no other one says anything": {
			vendor, []*spec{unit(types.Unit{Name: vendor, Enabled: new(true)}), unit(types.Unit{Name: vendor, Enabled: new(false), Mask: new(true)})}, nil,
		},
	} {
		start := func() *machine {
			m := newMachine(t)
			for i, s := range c.had {
				m.has(t, fmt.Sprintf("rendered-worker-%d", i), s)
				if err := m.write(t); err != nil {
					t.Fatal(err)
				}
			}
			if !m.enabled[c.unit] || m.word(c.unit) != "masked" {
				t.Fatalf("%s: it is %s, and enabled below that: %v", name, m.word(c.unit), m.enabled)
			}
			if m.has(t, "", nil); c.is != nil {
				m.has(t, "rendered-worker-9", c.is)
			}
			m.Effects = 0
			return m
		}
		whole := start()
		if err := whole.write(t); err != nil || whole.word(c.unit) != "disabled" {
			t.Errorf("%s: it is %s: %v", name, whole.word(c.unit), err)
		}
		for cut := range 2 * whole.Effects {
			m := start()
			m.At, m.After = 1+cut/2, cut%2 == 1
			if err := m.write(t); !errors.Is(err, powercut.Err) {
				t.Fatalf("%s, cut at %d: %v", name, m.At, err)
			}
			m.Dead, m.At = false, 0
			if err := m.write(t); err != nil || m.word(c.unit) != "disabled" {
				t.Errorf("%s, cut %d: it is %s: %v", name, cut, m.word(c.unit), err)
			}
		}
	}
}

// set enables or disables a unit, as a person or the cluster does.
func (m *machine) set(unit string, on bool) {
	if delete(m.enabled, unit); on {
		m.enabled[unit] = true
	}
}
