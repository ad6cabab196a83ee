package hostfiles

import (
	"path"
	"slices"
	"strings"
)

// unitDir is where the units of a release lie.
const unitDir = "/etc/systemd/system/"

// kinds are the units that come, go, start and end with a release. A mount and a slice are not
// among them: other programs may be in there.
var kinds = []string{".service", ".socket", ".timer", ".path", ".target"}

// ownOrder are the units that start and end in the order of the way alone: what etcd runs on, and
// the agent, which may be the one who asks. The end of holdfast-leave empties a host, and what writes
// packages or the boot loader's menu is not ended while it does.
var ownOrder = []string{
	"containerd.service", "corosync.service", "holdfast-agent.service", "holdfast-configure.service", "holdfast-leave.service",
	"holdfast-patch.service", "kubelet.service", "pacemaker.service", "podman-etcd.service", "podman.service", "podman.socket",
}

// Unit returns the name of the unit that a file is; empty if it is none that comes and goes with
// a release. Nobody starts a template.
func (f File) Unit() string {
	dir, name := path.Split(f.Path)
	if dir != unitDir || !slices.Contains(kinds, path.Ext(name)) || strings.Contains(name, "@.") || slices.Contains(ownOrder, name) {
		return ""
	}
	return name
}

// Installs reports whether the installer of a release that brings the file has each boot start
// it: it does so with each unit that says by whom it is wanted.
func (f File) Installs() bool { return f.Unit() != "" && f.install() != "" }

// install returns what a unit says about how it is enabled.
func (f File) install() string {
	var out []string
	in := false
	for line := range strings.Lines(string(f.Data)) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "["):
			in = line == "[Install]"
		case in && line != "":
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// enabled returns whether boots start the unit of another release, nil if nobody knows. What somebody has
// enabled or disabled otherwise than the installer stays so. off is whether somebody had disabled it with
// that other release: the one that runs may have no such unit, or one that nobody enables.
func enabled(before, have, after File, off bool) *bool {
	switch {
	case after.Unit() == "" || after.Gone:
		return nil
	case !before.Gone && have.Enabled == nil && before.Installs():
		return nil
	case !before.Gone && have.Enabled != nil && *have.Enabled != before.Installs():
		return have.Enabled
	case off && !before.Installs():
		return new(false)
	}
	return new(after.Installs())
}

// Off lists the paths of the units that a release has boots start and somebody has disabled, by the list
// of that release. Such a list is forgotten at the end of a way, and an administrator may go back later.
func Off(list []File) []string {
	var out []string
	for _, f := range list {
		if f.Installs() && f.Enabled != nil && !*f.Enabled {
			out = append(out, f.Path)
		}
	}
	return out
}

// Came returns the list of the release to which a host has come, with the units enabled that came with
// it: left is the list of the release that it left. A release of before lists said which units are
// enabled says nothing of them, and there was nobody yet who could have disabled them.
func Came(list, left []File) []File {
	out := slices.Clone(list)
	for i, f := range out {
		came := slices.ContainsFunc(left, func(l File) bool { return l.Path == f.Path && l.Gone })
		if came && f.Enabled == nil && f.Installs() {
			out[i].Enabled = new(true)
		}
	}
	return out
}

// Replaced says what becomes of the unit that a host has before its file is replaced. It ends if it
// goes, or if boots start it no more. Its links go where the other file has others: systemd knows
// them from the file alone. They stay where nobody knows whether they are to come back.
func Replaced(have, want File) (stop, disable bool) {
	if have.Gone || want.Unit() == "" || want.Installs() && want.Enabled == nil {
		return false, false
	}
	return want.Gone || have.Installs() && !want.Installs(), have.install() != "" && have.install() != want.install()
}
