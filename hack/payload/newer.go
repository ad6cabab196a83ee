package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// reasons is the page with the reasons why modules are behind.
const reasons = "docs/DEPENDENCIES.md"

// module describes a module that a release is built from, as the go command
// reports it.
type module struct {
	Path, Version string
	Versions      []string
	Replace       *struct{ Path, Version string }
	Error         *struct{ Err string }
}

// used returns the version that is compiled: that of a replacement, if there is
// one.
func (m module) used() string {
	if m.Replace != nil && m.Replace.Version != "" {
		return m.Replace.Version
	}
	return m.Version
}

// finding is a module that has a newer release.
type finding struct {
	Module, Used string
	// Patch is the newest release of the same line, Line the newest of all.
	// Each is empty if the used version is the newest.
	Patch, Line string
}

func newer(ctx context.Context, out io.Writer) (int, error) {
	page, err := os.ReadFile(reasons)
	if err != nil {
		return 0, err
	}
	found := map[string]finding{}
	for _, dir := range folders() {
		list, err := ask(ctx, dir)
		if err != nil {
			_, _ = fmt.Fprintf(out, "could not be checked: %s: %v\n", dir, err)
			continue
		}
		for _, m := range list {
			if m.Error != nil {
				_, _ = fmt.Fprintf(out, "not checked: %s: %s\n", m.Path, lastLine(m.Error.Err))
			}
			if f, ok := compare(m); ok {
				found[f.Module+" "+f.Used] = f
			}
		}
	}
	return tell(out, found, excused(string(page))), nil
}

// tell writes the findings. It returns 1 if a newer patch release has no reason
// to wait.
func tell(out io.Writer, found map[string]finding, why map[string]string) int {
	list := make([]finding, 0, len(found))
	for _, f := range found {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b finding) int {
		return cmp.Or(strings.Compare(a.Module, b.Module), strings.Compare(a.Used, b.Used))
	})
	code := 0
	for _, f := range list {
		switch reason := why[f.Module+" "+f.Used]; {
		case f.Patch == "":
			_, _ = fmt.Fprintf(out, "newer line:  %s %s: %s\n", f.Module, f.Used, f.Line)
		case reason != "":
			_, _ = fmt.Fprintf(out, "excused:     %s %s: %s is out: %s\n", f.Module, f.Used, f.Patch, reason)
		default:
			_, _ = fmt.Fprintf(out, "NEWER PATCH: %s %s: %s is out: update with payload/bump, or give the reason against it in %s\n", f.Module, f.Used, f.Patch, reasons)
			code = 1
		}
	}
	if code == 0 {
		_, _ = fmt.Fprintln(out, "no newer patch release without a documented reason")
	}
	return code
}

// folders returns the folders of the payload's modules that are built from
// third-party source.
func folders() []string {
	var out []string
	for _, c := range payload.Components() {
		if c.Dir != "." {
			out = append(out, c.Dir)
		}
	}
	return out
}

// ask makes the go command list the versions of the modules that a payload
// module names itself: its direct requirements, the modules of its programs,
// and its replacements. All other modules have the versions that those were
// tested with.
func ask(ctx context.Context, dir string) ([]module, error) {
	own, err := direct(ctx, dir)
	if err != nil || len(own) == 0 {
		return nil, err
	}
	out, err := goCommand(ctx, dir, append([]string{"list", "-m", "-e", "-versions", "-json"}, own...)...)
	if err != nil {
		return nil, err
	}
	var list []module
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var m module
		if err := dec.Decode(&m); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// goMod holds the fields of `go mod edit -json` that are needed.
type goMod struct {
	Require []struct {
		Path     string
		Indirect bool
	}
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

func direct(ctx context.Context, dir string) ([]string, error) {
	data, err := goCommand(ctx, dir, "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var mod goMod
	if err := json.Unmarshal(data, &mod); err != nil {
		return nil, err
	}
	return mod.own(sourcesOf(dir)), nil
}

// sourcesOf returns the modules that the programs of a folder come from.
func sourcesOf(dir string) map[string]bool {
	out := map[string]bool{}
	for _, c := range payload.Components() {
		if c.Dir != dir {
			continue
		}
		out[c.Source] = true
		for _, b := range c.Binaries {
			out[b.Package] = true // a module of its own, as etcdctl is
		}
	}
	return out
}

func (mod goMod) own(sources map[string]bool) []string {
	replaced := map[string]bool{}
	for _, r := range mod.Replace {
		// Kubernetes' staging modules carry its own number; a replacement
		// inside this repository has no version.
		replaced[r.Old.Path] = r.New.Version != "" && !strings.HasPrefix(r.Old.Path, "k8s.io/")
	}
	var out []string
	for _, r := range mod.Require {
		if !r.Indirect || sources[r.Path] || replaced[r.Path] {
			out = append(out, r.Path)
		}
	}
	return out
}

func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := host.Command("go", args...)
	cmd.Dir, cmd.Env = filepath.FromSlash(dir), []string{"GOFLAGS=-mod=readonly", "GOWORK=off"}
	out, err := host.Run(ctx, cmd)
	if err != nil {
		return nil, errors.New(lastLine(err.Error()))
	}
	return out, nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// compare finds newer releases of a module. It skips versions that are no
// releases, such as that of a commit.
func compare(m module) (finding, bool) {
	used, err := version.ParseSemantic(m.used())
	if err != nil || used.PreRelease() != "" {
		return finding{}, false
	}
	f := finding{Module: m.Path, Used: m.used()}
	patch, line := used, used
	for _, text := range m.Versions {
		v, err := version.ParseSemantic(text)
		if err != nil || v.PreRelease() != "" || v.BuildMetadata() != "" || !used.LessThan(v) {
			continue
		}
		if v.Major() == used.Major() && v.Minor() == used.Minor() && patch.LessThan(v) {
			patch, f.Patch = v, text
		}
		if line.LessThan(v) {
			line, f.Line = v, text
		}
	}
	return f, f.Line != ""
}

// excuse matches a row of the table of modules that are behind: module, used
// version and reason. A row excuses no other version.
var excuse = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `(v[^`]+)` \\| (.+) \\|$")

func excused(page string) map[string]string {
	out := map[string]string{}
	for _, row := range excuse.FindAllStringSubmatch(page, -1) {
		out[row[1]+" "+row[2]] = row[3]
	}
	return out
}
