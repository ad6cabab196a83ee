package plan

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Options limits the extent of a plan.
type Options struct {
	// Start adds steps that start enabled units and stop masked ones.
	Start bool
	// SkipPackages turns missing packages into a note.
	SkipPackages bool
}

// Make returns the steps to the desired state, in the order in which to take
// them: package sources, packages, groups and users, directories, files, links,
// units. A plan without steps means that there is nothing to do.
//
// The error lists everything that cannot be reconciled without destroying
// something that the configuration does not own, by field path.
func Make(d Desired, o Observed, opt Options) (Plan, error) {
	m := maker{d: d, o: o, opt: opt, changed: map[string]bool{}, plan: Plan{Hash: d.Hash, Steps: []Step{}}}
	m.leftovers()
	m.files(packageSource)
	m.packages()
	m.groups()
	m.users()
	m.directories()
	m.files(func(f File) bool { return !packageSource(f) })
	m.links()
	m.units()
	if err := errors.Join(m.errs...); err != nil {
		return Plan{}, err
	}
	return m.plan, nil
}

// maker collects the steps and all faults.
type maker struct {
	d    Desired
	o    Observed
	opt  Options
	plan Plan
	errs []error
	// changed holds the units with a changed file.
	changed map[string]bool
}

func (m *maker) fault(field, format string, args ...any) {
	m.errs = append(m.errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
}

func (m *maker) note(format string, args ...any) {
	m.plan.Notes = append(m.plan.Notes, fmt.Sprintf(format, args...))
}

func (m *maker) step(s Step) { m.plan.Steps = append(m.plan.Steps, s) }

// interrupted reports whether an earlier run was cut. Most of what that run did
// not do is visible on the host; the rest is done again.
func (m *maker) interrupted() bool { return m.o.Journal.InProgress != "" }

// packageSource reports whether a file configures where packages come from: it
// must exist before they are installed.
func packageSource(f File) bool {
	return slices.ContainsFunc([]string{"/etc/apt/", "/etc/yum.repos.d/", "/etc/dnf/", "/etc/pki/rpm-gpg/"},
		func(dir string) bool { return strings.HasPrefix(f.Path, dir) })
}

// leftovers removes the temporary files of a run that was killed while it
// wrote. They may contain secrets.
func (m *maker) leftovers() {
	if !m.interrupted() {
		return
	}
	for _, path := range m.d.Paths(m.o.Users) {
		for _, p := range m.o.Nodes[path].Leftovers {
			m.step(Step{
				ID: "remove:" + p, Kind: StepRemove, Path: p,
				Why: "left behind by an interrupted run", Action: &Remove{Path: p},
			})
		}
	}
}

func (m *maker) packages() {
	asked := m.d.Packages.For(m.o.Packages.Manager)
	all := distinct(append(slices.Clone(m.d.Packages.APT), m.d.Packages.DNF...))
	missing := distinct(slices.Clone(m.o.Packages.Missing))
	switch {
	case len(all) == 0 || !m.o.Live:
	case m.opt.SkipPackages && len(missing) > 0:
		m.note("packages not installed, as requested: %s", strings.Join(missing, " "))
	case m.opt.SkipPackages:
	case m.o.Packages.Manager == "":
		m.fault(PackagesFile, "this host has neither apt nor dnf; install %s by its own means and use --skip-packages", strings.Join(all, " "))
	case len(asked) > 0 && len(missing) > 0:
		m.step(Step{
			ID: "packages", Kind: StepPackages, Why: "missing: " + strings.Join(missing, " "),
			Diff:   "+" + strings.Join(missing, "\n+") + "\n",
			Action: &InstallPackages{Manager: m.o.Packages.Manager, Names: missing},
		})
	}
}

// packagesPending reports whether the plan installs packages, which may bring
// accounts.
func (m *maker) packagesPending() bool {
	return slices.ContainsFunc(m.plan.Steps, func(s Step) bool { return s.Kind == StepPackages })
}

// sameOwner reports whether a node has the wanted owner. An account that does
// not exist yet owns nothing; an account that nothing will create is a fault.
func (m *maker) sameOwner(field string, want Owner, n Node) bool {
	uid, knownUser := m.uid(want.User)
	gid, knownGroup := m.gid(want)
	if !knownUser && !m.userComes(want.User.Name) {
		m.fault(field+".user", "this host has no user %q and the configuration adds none", want.User.Name)
	}
	if !knownGroup && !m.groupComes(want) {
		m.fault(field+".group", "this host has no group %q and the configuration adds none", want.Group.Name)
	}
	return knownUser && knownGroup && n.UID == uid && n.GID == gid
}

func (m *maker) uid(n Name) (int, bool) {
	switch {
	case n.ID != nil:
		return *n.ID, true
	case n.Name == "":
		return 0, true
	}
	a, ok := m.o.Users[n.Name]
	return a.UID, ok
}

func (m *maker) gid(o Owner) (int, bool) {
	switch {
	case o.OwnGroup:
		a, ok := m.o.Users[o.User.Name]
		return a.GID, ok
	case o.Group.ID != nil:
		return *o.Group.ID, true
	case o.Group.Name == "":
		return 0, true
	}
	gid, ok := m.o.Groups[o.Group.Name]
	return gid, ok
}

func (m *maker) userComes(name string) bool {
	return m.packagesPending() || slices.ContainsFunc(m.d.Users, func(u User) bool { return u.Name == name && !u.Absent })
}

func (m *maker) groupComes(o Owner) bool {
	return o.OwnGroup || m.groupNameComes(o.Group.Name)
}

// groupNameComes reports whether a group will exist: as a group of its own, or
// as the group of a user with the same name.
func (m *maker) groupNameComes(name string) bool {
	return m.packagesPending() || m.userComes(name) ||
		slices.ContainsFunc(m.d.Groups, func(g Group) bool { return g.Name == name && !g.Absent })
}

// usable reports whether a path can be written at all, and adds a fault if not.
func (m *maker) usable(field, path string, n Node) bool {
	if n.Blocked != "" {
		m.fault(field, "%s cannot be created: %s is not a directory on this host", path, n.Blocked)
	}
	return n.Blocked == ""
}

func modeOr(mode *fs.FileMode, other fs.FileMode) fs.FileMode {
	if mode == nil {
		return other
	}
	return *mode
}

func byPath[T any](list []T, path func(T) string) []T {
	return slices.SortedStableFunc(slices.Values(list), func(a, b T) int { return cmp.Compare(path(a), path(b)) })
}
