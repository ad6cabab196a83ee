package release

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// built is the result of a component's step.
type built struct {
	Component Component
	dir       string
}

// binary returns the path of a binary.
func (b built) binary(name string) string { return filepath.Join(b.dir, name) }

func (b built) file(name string) (File, error) {
	for _, f := range b.Component.Files {
		if f.Path == name {
			return f, nil
		}
	}
	return File{}, fmt.Errorf("component %s has no binary %s", b.Component.Name, name)
}

// componentStep compiles one component. One go command builds all its binaries,
// so that they share common work.
func (b *builder) componentStep(ctx context.Context, c payload.Component) (step, error) {
	dir := filepath.Join(b.opts.Root, filepath.FromSlash(c.Dir))
	sources, err := sourceFiles(ctx, dir, c)
	if err != nil {
		return step{}, err
	}
	hashed, err := hashFiles(dir, sources)
	if err != nil {
		return step{}, err
	}
	key, err := keyOf("go", b.tools, goEnv, buildFlags(c), c, hashed)
	return step{kind: "go", key: key, run: func(ctx context.Context, out string) (any, error) {
		if err := compile(ctx, dir, out, c); err != nil {
			return nil, err
		}
		return describe(c, out)
	}}, err
}

// buildFlags returns flags that make a binary depend on its source only: no
// paths, no version control, no build id.
func buildFlags(c payload.Component) []string {
	ld := []string{"-s", "-w", "-buildid="}
	for _, s := range c.Stamp {
		ld = append(ld, "-X", s)
	}
	return []string{
		"-trimpath", "-buildvcs=false", "-tags", strings.Join(c.Tags, ","),
		"-ldflags", strings.Join(ld, " "),
	}
}

func compile(ctx context.Context, dir, out string, c payload.Component) error {
	if len(c.Patches) > 0 {
		folder, err := patched(ctx, dir, c)
		if err != nil {
			return fmt.Errorf("build %s: %w", c.Name, err)
		}
		defer func() { _ = os.RemoveAll(folder) }()
		dir = folder
	}
	for _, args := range goLines(out, c) {
		cmd := host.Command("go", args...)
		cmd.Env, cmd.Dir = goEnv, dir
		if _, err := host.Run(ctx, cmd); err != nil {
			return fmt.Errorf("build %s: %w", c.Name, err)
		}
	}
	for _, b := range c.Binaries {
		if b.Test {
			continue // a test program has its name already
		}
		if err := os.Rename(filepath.Join(out, goName(c, b)), filepath.Join(out, b.Name)); err != nil {
			return fmt.Errorf("build %s: %w", c.Name, err)
		}
	}
	return nil
}

// goLines returns the arguments of the go commands that build a component's
// binaries into a folder: one for all programs, and one for each test program.
func goLines(out string, c payload.Component) [][]string {
	var lines [][]string
	// With a trailing separator, -o takes several binaries.
	programs := slices.Concat([]string{"build"}, buildFlags(c), []string{"-o", out + string(filepath.Separator)})
	known := len(programs)
	for _, b := range c.Binaries {
		if b.Test {
			lines = append(lines, slices.Concat([]string{"test", "-c"}, buildFlags(c), []string{"-o", filepath.Join(out, b.Name), b.Package}))
		} else {
			programs = append(programs, b.Package)
		}
	}
	if len(programs) > known {
		lines = append(lines, programs)
	}
	return lines
}

// goName returns the name that go gives a binary: the last part of its import
// path that is not a major version.
func goName(c payload.Component, b payload.Binary) string {
	path := b.Package
	if path == "." {
		path = c.Dir // in this repository a module is named after its folder
	}
	parts := strings.Split(path, "/")
	last := parts[len(parts)-1]
	if len(parts) > 1 && len(last) > 1 && last[0] == 'v' && strings.Trim(last[1:], "0123456789") == "" {
		return parts[len(parts)-2]
	}
	return last
}

func describe(c payload.Component, dir string) (Component, error) {
	out := Component{Name: c.Name, Version: c.Version, Source: c.Source + "@" + c.Version}
	for _, b := range c.Binaries {
		path := filepath.Join(dir, b.Name)
		if err := os.Chmod(path, 0o755); err != nil {
			return out, err
		}
		digest, size, err := digestFile(path)
		if err != nil {
			return out, err
		}
		out.Files = append(out.Files, File{Path: b.Name, Digest: digest, Size: size})
		out.Size += size
	}
	digest, err := keyOf(out.Files)
	out.Digest = "sha256:" + digest
	return out, err
}
