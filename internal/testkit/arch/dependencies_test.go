package arch

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	dependenciesPage = "docs/DEPENDENCIES.md"
	headDependencies = "| module | licence | why |"
	testsOnly        = "tests only"
)

var (
	requirement = regexp.MustCompile(`(?m)^\t(\S+) v\S+$`)
	braces      = regexp.MustCompile(`^(.*)\{(.*)\}(.*)$`)
	versionEnd  = regexp.MustCompile(`/v\d+$`)
	importers   = regexp.MustCompile("Imported by ((?:`[a-z/]+`(?:, )?)+) only")
)

// modulesOf returns the modules that a cell names, without their major
// versions.
func modulesOf(cell string) []string {
	var out []string
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		parts := braces.FindStringSubmatch(m[1])
		if parts == nil {
			out = append(out, m[1])
			continue
		}
		for name := range strings.SplitSeq(parts[2], ",") {
			out = append(out, parts[1]+name+parts[3])
		}
	}
	for i := range out {
		out[i] = versionEnd.ReplaceAllString(out[i], "")
	}
	return out
}

// importersOf returns the packages whose code, without tests and test beds,
// imports something of a module.
func importersOf(list []goPackage, mod string) []string {
	var out []string
	for _, p := range list {
		if l, ok := layerOf(p.ImportPath); ok && l != lab && slices.ContainsFunc(p.Imports, func(i string) bool { return within(i, mod) }) {
			out = append(out, strings.TrimPrefix(p.ImportPath, module))
		}
	}
	return out
}

// TestDependenciesHaveARowEach checks that each module that go.mod requires for
// our own code has a row, that only tests import the modules for tests, and
// that a row that names importers names all of them.
func TestDependenciesHaveARowEach(t *testing.T) {
	texts, list := repository(t), listPackages(t)
	why := map[string]string{}
	for _, line := range tables(strings.Split(texts[dependenciesPage], "\n"), headDependencies) {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		for _, mod := range modulesOf(cells[0]) {
			why[mod] = cells[len(cells)-1]
		}
	}
	required := 0
	for _, m := range requirement.FindAllStringSubmatch(texts["go.mod"], -1) {
		required++
		if mod := versionEnd.ReplaceAllString(m[1], ""); why[mod] == "" {
			t.Errorf("%s has no row for %s", dependenciesPage, mod)
		}
	}
	if required < 30 {
		t.Errorf("only %d requirements were found", required)
	}
	for mod, text := range why {
		found := importersOf(list, mod)
		if strings.HasPrefix(text, testsOnly) && len(found) > 0 {
			t.Errorf("%s says that %s is for tests only: %s", dependenciesPage, mod, strings.Join(found, ", "))
		}
		m := importers.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		for _, p := range found {
			if !slices.ContainsFunc(quoted.FindAllStringSubmatch(m[1], -1), func(q []string) bool { return within(p, q[1]) }) {
				t.Errorf("%s does not say that %s imports %s", dependenciesPage, p, mod)
			}
		}
	}
}
