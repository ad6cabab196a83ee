package updates

import (
	"slices"
	"strings"
)

// DnfChange reads the table of dnf --assumeno, by its headings. A package that goes in one
// version and comes or stays in another one is not removed, as the oldest of several
// kernels; one that another package takes the place of is. It returns false if the table
// is not there whole.
func DnfChange(said []byte) (Change, bool) {
	var c Change
	heading, whole := "", false
	for line := range strings.Lines(string(said)) {
		line = strings.TrimRight(line, "\n")
		words := strings.Fields(line)
		switch {
		case line == "Transaction Summary", line == "Nothing to do.":
			whole = true
		case strings.HasSuffix(line, ":") && !strings.HasPrefix(line, " "):
			heading = line
		case len(words) >= 2 && words[0] == "replacing":
			c.Removes = append(c.Removes, withoutArchitecture(words[1]))
		// A line that goes on after a long name begins with more room.
		case whole || len(words) == 0 || !strings.HasPrefix(line, " ") || strings.HasPrefix(line, "  "):
		case strings.HasPrefix(heading, "Removing"):
			c.Removes = append(c.Removes, words[0])
		case slices.ContainsFunc([]string{"Installing", "Upgrading", "Reinstalling", "Downgrading"}, func(s string) bool { return strings.HasPrefix(heading, s) }):
			c.Installs = append(c.Installs, words[0])
		}
	}
	c.Removes = slices.DeleteFunc(c.Removes, func(name string) bool { return slices.Contains(c.Installs, name) })
	return c.sorted(), whole
}

func withoutArchitecture(name string) string {
	if i := strings.LastIndex(name, "."); i > 0 {
		return name[:i]
	}
	return name
}

// DnfCutOff reads what `dnf history info` says of the last transaction. It returns the
// packages that were to come, as name-version-release.architecture, if the transaction
// has no end: dnf then knows no state of the packages after it.
func DnfCutOff(said []byte) []string {
	var names []string
	altered := false
	for line := range strings.Lines(string(said)) {
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "End rpmdb"):
			if _, state, _ := strings.Cut(line, ":"); strings.Trim(state, " *\n") != "" {
				return nil
			}
		case strings.HasPrefix(line, "Packages Altered:"):
			altered = true
		case altered && strings.HasPrefix(line, " "):
			if len(words) > 0 && words[0] == "**" {
				words = words[1:]
			}
			if len(words) > 1 && slices.Contains([]string{"Install", "Upgrade", "Reinstall", "Downgrade"}, words[0]) {
				names = append(names, words[1])
			}
		default:
			altered = false
		}
	}
	return names
}

// DnfTwice reads what `dnf check --duplicates` says. It returns the names of packages of
// which two versions are there, of which one alone can work.
func DnfTwice(said []byte) []string {
	var names []string
	for line := range strings.Lines(string(said)) {
		former, _, is := strings.Cut(line, " is a duplicate with ")
		parts := strings.Split(former, "-")
		if is && len(parts) > 2 {
			names = append(names, strings.Join(parts[:len(parts)-2], "-"))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Once returns the change without the removal of versions of packages that stay, by their
// names: such a package is changed, and not removed.
func (c Change) Once(twice []string) Change {
	stays := func(name string) bool { return slices.Contains(twice, name) }
	for _, name := range c.Removes {
		if stays(name) {
			c.Installs = append(c.Installs, name)
		}
	}
	c.Removes = slices.DeleteFunc(slices.Clone(c.Removes), stays)
	return c.sorted()
}
