package apply

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/wiping"
	model "github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// siteText returns site.json of a cluster for a role, and the configuration that brings it.
func siteText(t *testing.T, cluster string, role state.Role) (text, ignition string) {
	t.Helper()
	s := sitetest.New(t, sitetest.TwoDual)
	s.Identity.ClusterID = cluster
	data, err := s.For(role).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(data), `{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"` + model.Path +
		`","mode":384,"overwrite":true,"contents":{"source":"data:;base64,` + base64.StdEncoding.EncodeToString(data) + `"}}]}}`
}

// The authorities of one site stayed beside the identity of another, and a worker's configuration
// took the keys of an installed control plane away.
func TestAHostWhoseInstallationHasBegunTakesNoOtherSiteOrRole(t *testing.T) {
	for name, c := range map[string]struct {
		cluster string
		role    state.Role
		marker  string
		refused bool
	}{
		"another site, before anything was done": {"b", state.RoleMaster, "", false},
		"another site":                           {"b", state.RoleMaster, state.InstallBegunPath, true},
		"another site, installed":                {"b", state.RoleMaster, state.InstalledPath, true},
		"a worker's":                             {"a", state.RoleWorker, state.InstalledPath, true},
		"its own":                                {"a", state.RoleMaster, state.InstallBegunPath, false},
	} {
		for _, dry := range []bool{false, true} {
			m := newMachine(t)
			before, _ := siteText(t, "a", state.RoleMaster)
			m.put(t, model.Path, before, 0o600)
			if c.marker != "" {
				m.put(t, c.marker, "", 0o644)
			}
			was := m.look(t)
			want, config := siteText(t, c.cluster, c.role)
			_, err := m.apply(t, config, func(r *Request) { r.DryRun, r.FirstBoot = dry, true })
			_, wrong := errors.AsType[*InputError](err)
			switch {
			case !c.refused && (err != nil || !dry && m.read(t, model.Path) != want):
				t.Errorf("%s, dry run %t: %v", name, dry, err)
			case c.refused && (!wrong || !strings.Contains(err.Error(), "holdfast-agent wipe")):
				t.Errorf("%s, dry run %t: %v", name, dry, err)
			case c.refused && dry && cmp.Diff(was, m.look(t)) != "", c.refused && m.read(t, model.Path) != before:
				t.Errorf("%s, dry run %t: it changed the host: %s", name, dry, cmp.Diff(was, m.look(t)))
			}
		}
	}
}

func TestASiteThatCannotBeReadIsNoHindrance(t *testing.T) {
	m := newMachine(t)
	m.put(t, model.Path, "{", 0o600)
	m.put(t, state.InstalledPath, "", 0o644)
	want, config := siteText(t, "a", state.RoleMaster)
	if _, err := m.apply(t, config, nil); err != nil || m.read(t, model.Path) != want {
		t.Error(err)
	}
}

// A wipe deletes site.json early, and the marks of an installation late.
func TestAHostWhoseWipeDidNotEndTakesNoConfiguration(t *testing.T) {
	for _, left := range []string{state.InstalledPath, "/var/lib/pacemaker/cib/cib.xml"} {
		m := newMachine(t)
		m.put(t, left, "", 0o644)
		m.put(t, wiping.JournalPath, "{}", 0o600)
		_, config := siteText(t, "a", state.RoleMaster)
		_, err := m.apply(t, config, nil)
		if _, wrong := errors.AsType[*InputError](err); !wrong || !strings.Contains(err.Error(), "holdfast-agent wipe") {
			t.Errorf("%s: %v", left, err)
		}
	}
}

// The permission of a wipe that was broken off early stayed on the host that went on, and months later
// a wipe asked nothing. One of another life allows nothing.
func TestAHostThatMayBeWipedTakesNoConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		journal, site string // site is the cluster of the host's own site.json
		refused       bool
	}{
		"a wipe of this life":                     {`{"host":"w-1","cluster":"a"}`, "a", true},
		"the same, and site.json is damaged":      {`{"host":"w-1","cluster":"a"}`, "", true},
		"a wipe of another cluster":               {`{"host":"w-1","cluster":"b"}`, "a", false},
		"a wipe of a former life":                 {`{"host":"w-1","cluster":"a","life":"1"}`, "a", false},
		"a journal that cannot be read":           {`{"host":"w-1","clus`, "a", false},
		"one of an earlier build, without a life": {`{"host":"w-1"}`, "a", false},
	} {
		for _, installed := range []bool{false, true} {
			m := newMachine(t)
			before, config := siteText(t, "a", state.RoleMaster)
			if c.site == "" {
				before = "{"
			}
			m.put(t, model.Path, before, 0o600)
			m.put(t, wiping.JournalPath, c.journal, 0o600)
			if installed {
				m.put(t, state.InstalledPath, "", 0o644)
			}
			_, err := m.apply(t, config, nil)
			_, wrong := errors.AsType[*InputError](err)
			switch {
			case !c.refused && err != nil:
				t.Errorf("%s: %v", name, err)
			case c.refused && (!wrong || !strings.Contains(err.Error(), "holdfast-agent wipe") || !strings.Contains(err.Error(), "rm "+wiping.JournalPath)):
				t.Errorf("%s: %v", name, err)
			case c.refused && m.read(t, model.Path) != before:
				t.Errorf("%s: it changed the host", name)
			}
		}
	}
}
