package updates

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Stack is what etcd runs on, on one of two control planes.
type Stack struct {
	// Have lists the packages as NAME=VERSION, sorted. Loose names those of them that
	// the host's automatic updates may change.
	Have, Loose []string
}

// belowEtcd reports whether etcd runs on a package.
var belowEtcd = begins(etcdPackages)

// begins matches names that begin with one of some expressions.
func begins(expressions []string) func(name string) bool {
	return regexp.MustCompile(`^(?:` + strings.Join(expressions, "|") + `)`).MatchString
}

// add adds a package that is there.
func (s *Stack) add(name, version string, held bool) {
	s.Have = append(s.Have, name+"="+version)
	if !held {
		s.Loose = append(s.Loose, name)
	}
}

// sorted names each package once: one of two architectures is there twice.
func (s Stack) sorted() Stack {
	slices.Sort(s.Have)
	slices.Sort(s.Loose)
	return Stack{slices.Compact(s.Have), slices.Compact(s.Loose)}
}

// AptHost is what tells of the packages of a Debian host.
type AptHost struct {
	// Status is dpkg's list of packages.
	Status []byte
	// Ours is Holdfast's own file about automatic updates, and Settings are all other
	// settings of apt.
	Ours     []byte
	Settings [][]byte
}

var (
	aptEnabled = regexp.MustCompile(`(?i)\bUnattended-Upgrade\s+"([^"]*)"`)
	aptCleared = regexp.MustCompile(`(?i)#clear\s+Unattended-Upgrade`)
	aptListed  = regexp.MustCompile(`(?s)Unattended-Upgrade::Package-Blacklist\s*\{(.*?)\}`)
	aptQuoted  = regexp.MustCompile(`"([^"]*)"`)
)

// Stack returns what etcd runs on. A package counts as held if dpkg holds it, if Holdfast's
// file names it, or if nothing on the host updates by itself. The file counts by what it
// names, not by its bytes: that of another release holds what it names.
func (a AptHost) Stack() Stack {
	var out Stack
	all := dpkgPackages(a.Status)
	automatic := a.enabled() && slices.ContainsFunc(all, func(p dpkgPackage) bool { return p.name == "unattended-upgrades" })
	names := a.names()
	for _, p := range all {
		if belowEtcd(p.name) {
			out.add(p.name, p.version, !automatic || p.hold || names(p.name))
		}
	}
	return out.sorted()
}

// enabled reports whether any setting has unattended-upgrades run. It overlooks none, and
// takes one that a later file takes back, or that is a comment, for one that counts.
func (a AptHost) enabled() bool {
	return slices.ContainsFunc(a.Settings, func(text []byte) bool {
		return slices.ContainsFunc(aptEnabled.FindAllSubmatch(text, -1), func(m [][]byte) bool { return len(m[1]) > 0 && string(m[1]) != "0" })
	})
}

// names returns whether Holdfast's file names a package. It names none where another file
// clears the list.
func (a AptHost) names() func(string) bool {
	list := aptListed.FindSubmatch(a.Ours)
	if list == nil || slices.ContainsFunc(a.Settings, aptCleared.Match) {
		return func(string) bool { return false }
	}
	var known []*regexp.Regexp
	for _, m := range aptQuoted.FindAllSubmatch(list[1], -1) {
		if e, err := regexp.Compile(`^(?:` + string(m[1]) + `)`); err == nil {
			known = append(known, e)
		}
	}
	return func(name string) bool {
		return slices.ContainsFunc(known, func(e *regexp.Regexp) bool { return e.MatchString(name) })
	}
}

// dpkgPackage is a package that is installed.
type dpkgPackage struct {
	name, version string
	hold          bool
}

func dpkgPackages(status []byte) []dpkgPackage {
	var out []dpkgPackage
	for entry := range bytes.SplitSeq(status, []byte("\n\n")) {
		field := map[string]string{}
		for line := range strings.Lines(string(entry)) {
			if name, value, ok := strings.Cut(strings.TrimRight(line, "\n"), ": "); ok && field[name] == "" {
				field[name] = value
			}
		}
		if strings.HasSuffix(field["Status"], " installed") {
			out = append(out, dpkgPackage{field["Package"], field["Version"], strings.HasPrefix(field["Status"], "hold ")})
		}
	}
	return out
}

// DnfHost is what tells of the packages of a host of RHEL.
type DnfHost struct {
	// Packages are those that rpm lists, each line as NAME=VERSION.
	Packages []byte
	// Automatic is dnf-automatic's configuration, and Installs is true if a timer has it
	// install whatever that says.
	Automatic []byte
	Installs  bool
	// Main is dnf's configuration, and Locks the list of its plugin versionlock.
	Main, Locks []byte
}

var (
	dnfApplies  = regexp.MustCompile(`(?im)^\s*apply_updates\s*=\s*(?:yes|true|1|on)\s*$`)
	dnfExcluded = regexp.MustCompile(`(?m)^\s*exclude(?:pkgs)?\s*=(.*)$`)
)

// Stack returns what etcd runs on. A package counts as held if dnf's configuration or its
// plugin names it, or if nothing on the host updates by itself.
func (d DnfHost) Stack() Stack {
	var out Stack
	automatic := false
	packages := map[string]string{}
	for line := range strings.Lines(string(d.Packages)) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			packages[name] = version
			automatic = automatic || name == "dnf-automatic" || name == "dnf5-plugin-automatic"
		}
	}
	automatic = automatic && (d.Installs || dnfApplies.Match(d.Automatic))
	for name, version := range packages {
		if belowEtcd(name) {
			out.add(name, version, !automatic || d.excludes(name) || d.locks(name))
		}
	}
	return out.sorted()
}

func (d DnfHost) excludes(name string) bool {
	for _, m := range dnfExcluded.FindAllSubmatch(d.Main, -1) {
		for glob := range strings.FieldsFuncSeq(string(m[1]), func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
			if is, err := path.Match(glob, name); err == nil && is {
				return true
			}
		}
	}
	return false
}

// locks reports whether a line of the plugin's list, NAME-EPOCH:VERSION-RELEASE, is of a
// package.
func (d DnfHost) locks(name string) bool {
	for line := range strings.Lines(string(d.Locks)) {
		rest, is := strings.CutPrefix(line, name+"-")
		if is && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
			return true
		}
	}
	return false
}
