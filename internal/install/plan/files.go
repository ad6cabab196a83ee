package plan

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"
)

// defaultFileMode and defaultDirectoryMode are Ignition's defaults for nodes
// without a mode.
const (
	defaultFileMode      fs.FileMode = 0o644
	defaultDirectoryMode fs.FileMode = 0o755
)

func (m *maker) directories() {
	for _, d := range byPath(m.d.Directories, func(d Directory) string { return d.Path }) {
		n := m.o.Nodes[d.Path]
		if m.usable(d.Field, d.Path, n) {
			m.directory(d, n)
		}
	}
}

func (m *maker) directory(d Directory, n Node) {
	action := &MakeDirectory{Path: d.Path, Mode: modeOr(d.Mode, defaultDirectoryMode), Owner: &d.Owner}
	why := "absent"
	switch {
	case n.Kind == KindAbsent:
	case n.Kind != KindDirectory:
		m.fault(d.Field, "%s is a %s on this host; remove it first", d.Path, n.Kind)
		return
	default:
		action.Mode = modeOr(d.Mode, n.Mode)
		if d.Owner == (Owner{}) {
			action.Owner = nil
		}
		if m.asWanted(d.Field, action.Mode, action.Owner, n) {
			return
		}
		why = "other mode or owner"
	}
	m.step(Step{
		ID: "directory:" + d.Path, Kind: StepDirectory, Path: d.Path, Why: why,
		Diff: modeDiff(n, action.Mode), Action: action,
	})
}

// asWanted reports whether a node has the wanted mode and, unless it is nil,
// the wanted owner.
func (m *maker) asWanted(field string, mode fs.FileMode, owner *Owner, n Node) bool {
	same := owner == nil || m.sameOwner(field, *owner, n)
	return same && n.Mode == mode
}

func (m *maker) files(some func(File) bool) {
	for _, f := range byPath(m.d.Files, func(f File) string { return f.Path }) {
		n := m.o.Nodes[f.Path]
		if some(f) && m.usable(f.Field, f.Path, n) && m.replaceable(f, n) {
			m.file(f, n)
		}
	}
}

// replaceable reports whether a file may replace what is at its path.
func (m *maker) replaceable(f File, n Node) bool {
	switch {
	case n.Kind == KindDirectory:
		m.fault(f.Field, "%s is a directory on this host; remove it first", f.Path)
	case n.Kind != KindAbsent && n.Kind != KindFile && !f.Overwrite:
		m.fault(f.Field, "%s is a %s on this host; set overwrite to true to replace it", f.Path, n.Kind)
	case n.Kind == KindFile && f.Replace && !f.Overwrite && !bytes.Equal(n.Data, f.result(n)):
		m.fault(f.Field, "%s has other contents on this host; set overwrite to true to replace them", f.Path)
	default:
		return true
	}
	return false
}

// result returns the wanted contents of the file, given the node at its path.
// It does not append fragments that a file of the host contains already, so
// that a second run changes nothing.
func (f File) result(n Node) []byte {
	var out []byte
	switch {
	case f.Replace:
		out = slices.Clone(f.Contents)
	case n.Kind == KindFile:
		out = slices.Clone(n.Data)
	}
	for _, part := range f.Append {
		if f.Replace || !bytes.Contains(out, part) {
			out = append(out, part...)
		}
	}
	return out
}

func (m *maker) file(f File, n Node) {
	want := f.result(n)
	mode, owner := modeOr(f.Mode, defaultFileMode), &f.Owner
	kept := n.Kind == KindFile && !f.Replace
	if kept {
		mode = modeOr(f.Mode, n.Mode)
	}
	switch {
	case n.Kind != KindFile:
		m.write(f, n, want, mode, "absent")
	case !bytes.Equal(n.Data, want):
		if kept {
			owner = ownerOr(f.Owner, n)
		}
		f.Owner = *owner
		m.write(f, n, want, mode, "other contents")
	default:
		if kept && f.Owner == (Owner{}) {
			owner = nil
		}
		if m.asWanted(f.Field, mode, owner, n) {
			return
		}
		m.step(Step{
			ID: "mode:" + f.Path, Kind: StepFile, Path: f.Path, Why: "other mode or owner",
			Diff: modeDiff(n, mode), Action: &SetMode{Path: f.Path, Mode: mode, Owner: owner},
		})
	}
}

// ownerOr returns the wanted owner of a file that is kept: the one that the
// configuration names, or else the present one.
func ownerOr(want Owner, n Node) *Owner {
	if want != (Owner{}) {
		return &want
	}
	return &Owner{User: Name{ID: &n.UID}, Group: Name{ID: &n.GID}}
}

func (m *maker) write(f File, n Node, data []byte, mode fs.FileMode, why string) {
	if n.Kind != KindAbsent && n.Kind != KindFile {
		why = fmt.Sprintf("is a %s", n.Kind)
	}
	m.sameOwner(f.Field, f.Owner, n) // called for the faults that it reports
	if f.Unit != "" {
		m.changed[f.Unit] = true
	}
	m.step(Step{
		ID: "file:" + f.Path, Kind: StepFile, Path: f.Path, Why: why,
		Diff:   fileDiff(f.Path, n, data, mode),
		Action: &WriteFile{Path: f.Path, Data: data, Mode: mode, Owner: &f.Owner},
	})
}

func (m *maker) links() {
	for _, l := range byPath(m.d.Links, func(l Link) string { return l.Path }) {
		n := m.o.Nodes[l.Path]
		if m.usable(l.Field, l.Path, n) {
			m.link(l, n)
		}
	}
}

func (m *maker) link(l Link, n Node) {
	why := "absent"
	switch {
	case m.sameLink(l, n) && m.rewritten(l):
		why = "the file that it names was replaced"
	case m.sameLink(l, n):
		if l.Owner == (Owner{}) || m.sameOwner(l.Field, l.Owner, n) {
			return
		}
		why = "other owner"
	case n.Kind == KindDirectory:
		m.fault(l.Field, "%s is a directory on this host; remove it first", l.Path)
		return
	case n.Kind != KindAbsent && !l.Overwrite && (!l.Hard || !m.interrupted()):
		// After a cut run, a hard link may lead to the old file.
		m.fault(l.Field, "%s is another %s on this host; set overwrite to true to replace it", l.Path, n.Kind)
		return
	case n.Kind != KindAbsent:
		why = fmt.Sprintf("is another %s", n.Kind)
	}
	m.step(Step{
		ID: "link:" + l.Path, Kind: StepLink, Path: l.Path, Why: why,
		Diff:   linkDiff(n, l),
		Action: &MakeLink{Path: l.Path, Target: l.Target, Hard: l.Hard, Owner: ownerOr(l.Owner, Node{})},
	})
}

// rewritten reports whether a hard link would keep the old file alive: files
// are replaced, not written in place.
func (m *maker) rewritten(l Link) bool {
	return l.Hard && slices.ContainsFunc(m.plan.Steps, func(s Step) bool {
		w, ok := s.Action.(*WriteFile)
		return ok && w.Path == l.Target
	})
}

func (m *maker) sameLink(l Link, n Node) bool {
	if l.Hard {
		return n.Identity != "" && n.Identity == m.o.Nodes[l.Target].Identity
	}
	return n.Kind == KindLink && n.Target == l.Target
}
