package plan

import (
	"slices"
	"strings"
)

func (m *maker) units() {
	for _, u := range m.d.Units {
		if m.usable(u.Field, u.path(), m.o.Nodes[u.path()]) {
			m.mask(u)
			m.enable(u)
		}
	}
	m.reload()
	if m.opt.Start && m.o.Live {
		for _, u := range m.d.Units {
			m.start(u)
		}
	}
}

// nowhere is the target of the link for a masked unit.
const nowhere = "/dev/null"

func (m *maker) isMasked(u Unit) bool {
	n := m.o.Nodes[u.path()]
	return n.Kind == KindLink && n.Target == nowhere
}

// hasContents reports whether the configuration contains the unit's own file.
func (m *maker) hasContents(u Unit) bool {
	return slices.ContainsFunc(m.d.Files, func(f File) bool { return f.Path == u.path() })
}

func (m *maker) mask(u Unit) {
	switch {
	case u.masked() && !m.isMasked(u):
		if m.o.Nodes[u.path()].Kind == KindDirectory {
			m.fault(u.Field, "%s is a directory on this host; remove it first", u.path())
			return
		}
		m.changed[u.Name] = true
		m.step(Step{
			ID: "mask:" + u.Name, Kind: StepUnit, Path: u.path(), Why: "not masked",
			Action: &MakeLink{Path: u.path(), Target: nowhere, Owner: &Owner{}},
		})
	case u.Masked != nil && !*u.Masked && m.isMasked(u) && !m.hasContents(u):
		m.changed[u.Name] = true
		m.step(Step{
			ID: "unmask:" + u.Name, Kind: StepUnit, Path: u.path(), Why: "masked",
			Action: &Remove{Path: u.path()},
		})
	}
}

// The states of `systemctl is-enabled` in which a unit needs no enabling: it is
// enabled, or it has no [Install] section.
var (
	enabledWords = []string{"enabled", "enabled-runtime", "alias"}
	fixedWords   = []string{"static", "generated", "transient", "indirect"}
)

func (m *maker) enable(u Unit) {
	if u.Enabled == nil || u.masked() {
		return
	}
	word := m.o.Units[u.Name].Enabled
	on := slices.Contains(enabledWords, word)
	switch {
	case !*u.Enabled && on:
		m.step(Step{ID: "disable:" + u.Name, Kind: StepUnit, Why: word, Action: &Disable{Unit: u.Name}})
	case !*u.Enabled:
	case m.isMasked(u) && u.Masked == nil && !m.hasContents(u):
		m.fault(u.Field, "%s is masked on this host; to enable it unmask it (systemctl unmask %s), or set mask to false", u.Name, u.Name)
	case slices.Contains(fixedWords, word) && !m.changed[u.Name]:
	case !on:
		m.step(Step{ID: "enable:" + u.Name, Kind: StepUnit, Why: "not enabled", Action: &Enable{Unit: u.Name}})
	case m.hasContents(u) && (m.changed[u.Name] || m.interrupted()):
		m.step(Step{
			ID: "enable:" + u.Name, Kind: StepUnit, Why: "its file changed, perhaps also its WantedBy",
			Action: &Enable{Unit: u.Name, Again: true},
		})
	}
}

// reload makes systemd read changed units. After a run that was cut it is
// unknown which ones systemd has read.
func (m *maker) reload() {
	stale := m.interrupted() || len(m.changed) > 0
	for _, s := range m.o.Units {
		stale = stale || s.Stale
	}
	if stale && m.o.Live {
		m.step(Step{ID: "reload", Kind: StepUnit, Why: "units changed", Action: &Reload{}})
	}
}

func (m *maker) start(u Unit) {
	s := m.o.Units[u.Name]
	running := slices.Contains([]string{"active", "activating", "reloading", "refreshing"}, s.Active)
	switch {
	case u.masked() && running:
		m.step(Step{ID: "stop:" + u.Name, Kind: StepUnit, Why: "masked and running", Action: &Stop{Unit: u.Name}})
	case !u.wanted() || strings.Contains(u.Name, "@."):
	case running && m.changed[u.Name]:
		m.note("%s changed but runs with its old definition; restart it, or the host", u.Name)
	case running || m.doneOnce(s):
	default:
		m.step(Step{ID: "start:" + u.Name, Kind: StepUnit, Why: "not running", Action: &Start{Unit: u.Name}})
	}
}

// doneOnce reports whether a unit that is not running was already started for
// this configuration: a one-shot that ended well, or a unit whose conditions
// keep it from running on this host.
func (m *maker) doneOnce(s UnitState) bool {
	return m.o.Journal.Started == m.d.Hash && s.Active == "inactive" && (s.Type == "oneshot" || s.Skipped)
}
