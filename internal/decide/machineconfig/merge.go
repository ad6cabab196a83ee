package machineconfig

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	v35 "github.com/coreos/ignition/v2/config/v3_5"
	"github.com/coreos/ignition/v2/config/v3_5/types"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/holdfast/holdfast/internal/model/ignition"
)

// merger collects the merged configuration and all mistakes.
type merger struct {
	config    Config
	sources   []string
	overrides []Override
	mistakes  Mistakes
	// writers names the last MachineConfig that set a file or a unit.
	writers map[string]string
}

func newMerger() *merger {
	return &merger{config: Config{KernelArguments: []string{}}, writers: map[string]string{}}
}

// add adds a MachineConfig. merged is true for one that is the result of a merge.
func (m *merger) add(mc mcfgv1.MachineConfig, merged bool) {
	d := decoder{object: "MachineConfig " + mc.Name, merged: merged}
	cfg := d.spec(mc.Spec)
	m.sources = append(m.sources, mc.Name)
	m.mistakes = append(m.mistakes, d.mistakes...)
	for _, f := range cfg.Storage.Files {
		m.writes("file "+f.Path, mc.Name)
	}
	for _, u := range cfg.Systemd.Units {
		m.writes("unit "+u.Name, mc.Name)
	}
	m.config.Ignition = v35.Merge(m.config.Ignition, cfg)
	m.config.KernelArguments = append(m.config.KernelArguments, mc.Spec.KernelArguments...)
}

func (m *merger) writes(what, name string) {
	if before, ok := m.writers[what]; ok && before != name {
		m.overrides = append(m.overrides, Override{What: what, By: name, Of: before})
	}
	m.writers[what] = name
}

// refuse reports what is wrong with a part of the merged configuration. No field
// of one object has the fault; the last one that set the part is named.
func (m *merger) refuse(part, field, format string, args ...any) {
	m.mistakes = append(m.mistakes, Mistake{
		Object: "MachineConfig " + m.writers[part], Field: "spec.config." + field + " (" + part + ", merged)", Why: fmt.Sprintf(format, args...),
	})
}

// finish checks what only the whole shows, and brings the configuration into its
// one form.
func (m *merger) finish() {
	cfg := &m.config.Ignition
	cfg.Ignition = types.Ignition{Version: ignition.Newest}
	slices.SortFunc(cfg.Storage.Files, func(a, b types.File) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(cfg.Systemd.Units, func(a, b types.Unit) int { return cmp.Compare(a.Name, b.Name) })
	paths := map[string]bool{}
	for i := range cfg.Storage.Files {
		paths[cfg.Storage.Files[i].Path] = true
	}
	for i := range cfg.Storage.Files {
		m.finishFile(&cfg.Storage.Files[i], paths)
	}
	for i := range cfg.Systemd.Units {
		m.finishUnit(&cfg.Systemd.Units[i])
	}
	for i := range cfg.Passwd.Users {
		slices.Sort(cfg.Passwd.Users[i].SSHAuthorizedKeys)
	}
}

// defaultMode is that of a file without one, as Ignition has it.
const defaultMode = 0o644

func (m *merger) finishFile(f *types.File, paths map[string]bool) {
	part := "file " + f.Path
	if f.Contents.Source == nil {
		m.refuse(part, "storage.files.contents", "missing; an empty file has the source \"data:,\"")
	}
	for dir := path.Dir(f.Path); dir != "/" && dir != "."; dir = path.Dir(dir) {
		if paths[dir] {
			m.refuse(part, "storage.files.path", "lies below %s, which is a file", dir)
		}
	}
	f.Overwrite = new(true)
	if f.Mode == nil {
		f.Mode = new(defaultMode)
	}
	if data, err := ignition.Contents(f.Contents); err == nil && *f.Mode&0o077 != 0 && hasCredentials(f, data) {
		m.refuse(part, "storage.files.mode", "has headers, which are for credentials, and others than root may read it; set mode 384 (0600)")
	}
}

func (m *merger) finishUnit(u *types.Unit) {
	if u.Mask != nil && *u.Mask && u.Contents != nil {
		m.refuse("unit "+u.Name, "systemd.units.mask", "a masked unit has no contents: the mask takes their place")
	}
	u.Dropins = slices.DeleteFunc(u.Dropins, func(d types.Dropin) bool { return d.Contents == nil })
	slices.SortFunc(u.Dropins, func(a, b types.Dropin) int { return cmp.Compare(a.Name, b.Name) })
}
