package hostconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/install/apply"
	"github.com/holdfast/holdfast/internal/install/plan"
	"github.com/holdfast/holdfast/internal/model/state"
)

// originals is what a host had before configurations replaced it. An entry is
// durable before the first replacement, and goes once it was put back.
type originals struct {
	Paths map[string]original `json:"paths"`
	// Units has the word of `systemctl is-enabled` for each unit that a configuration enables,
	// disables, masks or brings.
	Units map[string]string `json:"units"`
	// Resting are those that have their word, and of which the configuration does not say whether
	// they are enabled: what somebody does about them stays until their files go. Former releases
	// did not write that: what they recorded is put back once.
	Resting map[string]bool `json:"restingUnits,omitempty"`
	// Rested has the word that a resting unit had when a configuration began to say it: what somebody did
	// until then comes back after that, and the first word comes back once the files go.
	Rested map[string]string `json:"restedUnits,omitempty"`
	// Arguments are the kernel arguments that the boot loader has of ours, and
	// Setting those that runs which did not end may have given it.
	Arguments []string   `json:"kernelArguments,omitempty"`
	Setting   [][]string `json:"settingKernelArguments,omitempty"`
	// Replaced are the boot loader's own arguments whose place ours have taken.
	Replaced []string `json:"replacedKernelArguments,omitempty"`
}

// original is what was at a path.
type original struct {
	Kind   plan.NodeKind `json:"kind,omitempty"`
	Mode   fs.FileMode   `json:"mode,omitempty"`
	UID    int           `json:"uid,omitempty"`
	GID    int           `json:"gid,omitempty"`
	Data   []byte        `json:"data,omitempty"`
	Target string        `json:"target,omitempty"`
}

// maxOriginal bounds a file that is kept, in bytes.
const maxOriginal = 16 << 20

// originals returns what is kept. Units of ours are not among it: a configuration has no say in whether they
// are enabled, and former releases recorded those that a drop-in named.
func (s Store) originals() (originals, error) {
	o := originals{Paths: map[string]original{}, Units: map[string]string{}, Resting: map[string]bool{}, Rested: map[string]string{}}
	err := s.read(OriginalsPath, &o)
	maps.DeleteFunc(o.Units, func(name, _ string) bool { return machineconfig.Ours(name) })
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	return o, err
}

// Before returns the file that the host had at a path before its first configuration that
// sets it, or has if none does; nil if it has, or had, no file there.
func (s Store) Before(path string) (*state.File, error) {
	o, err := s.originals()
	if err != nil {
		return nil, err
	}
	if was, replaced := o.Paths[path]; replaced {
		if was.Kind != plan.KindFile {
			return nil, nil //nolint:nilnil // there was none
		}
		return &state.File{Path: path, Data: was.Data, Mode: was.Mode}, nil
	}
	full := filepath.Join(s.Root, path)
	info, err := os.Lstat(full)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(full)
	return &state.File{Path: path, Data: data, Mode: info.Mode().Perm()}, err
}

func (s Store) putOriginals(o originals) error { return s.write(OriginalsPath, o) }

// touched returns the paths that a configuration sets.
func touched(d plan.Desired) map[string]bool {
	out := map[string]bool{}
	for _, f := range d.Files {
		out[f.Path] = true
	}
	for _, u := range d.Units {
		if u.Masked != nil {
			out[unitPath(u.Name)] = true
		}
	}
	return out
}

// says returns the units whose word a configuration may change: true for one that it enables or
// disables, false for one that it only masks or brings. A drop-in changes no word.
func says(d plan.Desired) map[string]bool {
	out, set := map[string]bool{}, touched(d)
	for _, u := range d.Units {
		if u.Enabled != nil || set[unitPath(u.Name)] {
			out[u.Name] = u.Enabled != nil
		}
	}
	return out
}

func unitPath(name string) string { return plan.UnitDir + "/" + name }

// look returns what has to be observed: all that the configuration sets, and all
// that an earlier one has set.
func (o originals) look(d plan.Desired) plan.Desired {
	d.Files, d.Units = slices.Clone(d.Files), slices.Clone(d.Units)
	for _, p := range slices.Sorted(maps.Keys(o.Paths)) {
		d.Files = append(d.Files, plan.File{Path: p})
	}
	for _, u := range slices.Sorted(maps.Keys(o.Units)) {
		d.Units = append(d.Units, plan.Unit{Name: u})
	}
	return d
}

// record adds what a configuration replaces for the first time, and reports
// whether it added anything.
func (o originals) record(d plan.Desired, seen plan.Observed) (bool, error) {
	added := false
	for _, p := range slices.Sorted(maps.Keys(touched(d))) {
		if _, known := o.Paths[p]; known {
			continue
		}
		n := seen.Nodes[p]
		switch {
		case n.Kind == plan.KindOther:
			return false, &apply.InputError{Err: fmt.Errorf("%s is a %s on this host, and could not be put back", p, n.Kind)}
		case len(n.Data) > maxOriginal:
			return false, &apply.InputError{Err: fmt.Errorf("%s has %d bytes on this host, and %d are kept to put it back", p, len(n.Data), maxOriginal)}
		}
		o.Paths[p], added = original{Kind: n.Kind, Mode: n.Mode, UID: n.UID, GID: n.GID, Data: n.Data, Target: n.Target}, true
	}
	for name, said := range says(d) {
		_, known := o.Units[name]
		if !known {
			o.Units[name] = seen.Units[name].Enabled
		}
		switch {
		case said && o.Resting[name]:
			delete(o.Resting, name)
			added = true
			if word := seen.Units[name].Enabled; word != maskedWord { // a mask hides what is below
				o.Rested[name] = word
			}
		case !known && !said:
			o.Resting[name] = true
		}
		added = added || !known
	}
	return added, nil
}

// before returns the steps that put back what a configuration no longer sets. They
// come first: a unit is disabled while systemctl can read its file.
func (o originals) before(d plan.Desired, seen plan.Observed) []plan.Step {
	steps := o.disables(d, seen)
	set := touched(d)
	for _, p := range slices.Sorted(maps.Keys(o.Paths)) {
		if !set[p] && !o.Paths[p].is(seen.Nodes[p]) {
			steps = append(steps, plan.Step{ID: "restore:" + p, Action: o.Paths[p].restore(p)})
		}
	}
	return steps
}

// disables returns the steps that disable units which get back that they are not enabled.
func (o originals) disables(d plan.Desired, seen plan.Observed) []plan.Step {
	var steps []plan.Step
	for _, u := range o.released(d) {
		if on(seen.Units[u].Enabled) && !on(o.word(d, u)) {
			steps = append(steps, plan.Step{ID: "disable:" + u, Action: &plan.Disable{Unit: u}})
		}
	}
	return steps
}

// hides reports whether only a mask was seen of a unit, and the configuration does not have the mask: without it the
// unit may turn out to be enabled.
func hides(d plan.Desired, seen plan.Observed) bool {
	for name, u := range seen.Units {
		if u.Enabled == maskedWord && !masked(d, name) {
			return true
		}
	}
	return false
}

// restored returns what will be observed once the steps of before were taken.
func (o originals) restored(d plan.Desired, seen plan.Observed) plan.Observed {
	seen.Nodes = maps.Clone(seen.Nodes)
	set := touched(d)
	for p, was := range o.Paths {
		if !set[p] {
			n := seen.Nodes[p]
			seen.Nodes[p] = plan.Node{Kind: was.Kind, Mode: was.Mode, UID: was.UID, GID: was.GID, Data: was.Data, Target: was.Target, Leftovers: n.Leftovers}
		}
	}
	return seen
}

// after returns the steps that enable units again, when their files are there.
func (o originals) after(d plan.Desired, seen plan.Observed) []plan.Step {
	var steps []plan.Step
	for _, u := range o.released(d) {
		if on(o.word(d, u)) && !on(seen.Units[u].Enabled) && !masked(d, u) {
			steps = append(steps, plan.Step{ID: "enable:" + u, Action: &plan.Enable{Unit: u}})
		}
	}
	return steps
}

// released returns the units that get their word back: those whose files go, and those of which the
// configuration does not say any more whether they are enabled.
func (o originals) released(d plan.Desired) []string {
	var out []string
	saying := says(d)
	for _, name := range slices.Sorted(maps.Keys(o.Units)) {
		if said, named := saying[name]; !said && (!named || !o.Resting[name]) {
			out = append(out, name)
		}
	}
	return out
}

// word returns the word that a released unit gets back.
func (o originals) word(d plan.Desired, name string) string {
	_, named := says(d)[name]
	if word, rested := o.Rested[name]; named && rested {
		return word
	}
	return o.Units[name]
}

func masked(d plan.Desired, name string) bool {
	return slices.ContainsFunc(d.Units, func(u plan.Unit) bool { return u.Name == name && u.Masked != nil && *u.Masked })
}

// maskedWord is the word of systemctl for a unit with a mask, whether the unit is enabled below that or not.
const maskedWord = "masked"

// on reports whether a unit starts at boot, by the word of systemctl.
func on(word string) bool {
	return slices.Contains([]string{"enabled", "enabled-runtime", "alias"}, word)
}

// prune drops what was put back, and reports whether there was any. A unit is put back once: whoever
// enables it later means it.
func (o originals) prune(d plan.Desired) bool {
	count, set, saying := len(o.Paths), touched(d), says(d)
	maps.DeleteFunc(o.Paths, func(p string, _ original) bool { return !set[p] })
	changed := len(o.Paths) != count
	for _, name := range o.released(d) {
		switch _, named := saying[name]; {
		case !named:
			delete(o.Units, name)
			delete(o.Resting, name)
			delete(o.Rested, name)
			changed = true
		case !masked(d, name): // a mask keeps a unit from its word
			delete(o.Rested, name)
			o.Resting[name], changed = true, true
		}
	}
	return changed
}

// is reports whether a path has its original.
func (o original) is(n plan.Node) bool {
	switch o.Kind {
	case plan.KindFile:
		return n.Kind == o.Kind && n.Mode == o.Mode && n.UID == o.UID && n.GID == o.GID && bytes.Equal(n.Data, o.Data)
	case plan.KindLink:
		return n.Kind == o.Kind && n.Target == o.Target
	default:
		return n.Kind == plan.KindAbsent
	}
}

// restore returns the action that puts an original back.
func (o original) restore(path string) plan.Action {
	owner := &plan.Owner{User: plan.Name{ID: &o.UID}, Group: plan.Name{ID: &o.GID}}
	switch o.Kind {
	case plan.KindFile:
		return &plan.WriteFile{Path: path, Data: o.Data, Mode: o.Mode, Owner: owner}
	case plan.KindLink:
		return &plan.MakeLink{Path: path, Target: o.Target, Owner: owner}
	default:
		return &plan.Remove{Path: path}
	}
}
