package release

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
)

// patchedSource is the name of a patched module's folder within the build
// folder. The name gets into the programs, so it is the same on every machine.
const patchedSource = "patched"

// patched creates a folder in which to build a component with patches: a copy
// of the component's folder, which contains a copy of the module with the
// patches applied. The downloaded module stays unchanged.
func patched(ctx context.Context, dir string, c payload.Component) (folder string, err error) {
	module, err := moduleDir(ctx, dir, c)
	if err != nil {
		return "", err
	}
	if folder, err = os.MkdirTemp("", "holdfast-patched-"); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(folder) // the first error says more
		}
	}()
	source := filepath.Join(folder, patchedSource)
	err = errors.Join(os.CopyFS(folder, os.DirFS(dir)), os.CopyFS(source, os.DirFS(module)))
	if err == nil {
		err = apply(source, c)
	}
	if err != nil {
		return "", err
	}
	return folder, goMod(ctx, folder, "edit", "-replace", c.Source+"=./"+patchedSource)
}

// apply applies the patches to the source.
func apply(source string, c payload.Component) error {
	for _, p := range c.Patches {
		path := filepath.Join(source, filepath.FromSlash(p.File))
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if n := bytes.Count(text, []byte(p.Old)); n != 1 {
			return fmt.Errorf("patch of %s %s: the old text occurs %d times in %s, not once: does this version need the patch?", c.Name, c.Version, n, p.File)
		}
		text = bytes.Replace(text, []byte(p.Old), []byte(p.New), 1)
		if err := host.WriteFileAtomic(path, text, state.DefaultFileMode); err != nil {
			return err
		}
	}
	return nil
}

// moduleDir returns the folder in which go keeps the source of a component's
// programs. go downloads the source first if needed. moduleDir does not load
// the module's packages: without the patches the module may need modules that
// nobody has.
func moduleDir(ctx context.Context, dir string, c payload.Component) (string, error) {
	err := goMod(ctx, dir, "download", c.Source)
	if err != nil {
		return "", fmt.Errorf("find the source of %s: %w", c.Name, err)
	}
	cmd := host.Command("go", "list", "-m", "-f", "{{.Dir}}", c.Source)
	cmd.Env, cmd.Dir = goEnv, dir
	out, err := host.Run(ctx, cmd)
	if err != nil {
		return "", fmt.Errorf("find the source of %s: %w", c.Name, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Tidy updates go.mod and go.sum of a component for its patched source. `go mod
// tidy` alone would ask for everything that the patches remove.
func Tidy(ctx context.Context, root string, c payload.Component) error {
	dir := filepath.Join(root, filepath.FromSlash(c.Dir))
	folder := dir
	if len(c.Patches) > 0 {
		var err error
		if folder, err = patched(ctx, dir, c); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(folder) }() // it is below the folder for temporary files
	}
	if err := goMod(ctx, folder, "tidy"); err != nil || folder == dir {
		return err
	}
	before, err := replaced(ctx, dir, c.Source)
	if err == nil {
		err = goMod(ctx, folder, append([]string{"edit", "-dropreplace", c.Source}, before...)...)
	}
	if err != nil {
		return err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // there is no go.sum if nothing is downloaded
		}
		if err != nil {
			return err
		}
		if err := host.WriteFileAtomic(filepath.Join(dir, name), data, state.DefaultFileMode); err != nil {
			return err
		}
	}
	return goMod(ctx, dir, "download", c.Source) // adds the module's hash, which the patched copy did not need
}

// replaced returns the arguments of go mod edit that replace a module as a
// folder's go.mod does.
func replaced(ctx context.Context, dir, module string) ([]string, error) {
	cmd := host.Command("go", "mod", "edit", "-json")
	cmd.Env, cmd.Dir = goEnv, dir
	out, err := host.Run(ctx, cmd)
	if err != nil {
		return nil, err
	}
	type version struct{ Path, Version string }
	var mod struct{ Replace []struct{ Old, New version } }
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, err
	}
	at := func(v version) string { return strings.TrimSuffix(v.Path+"@"+v.Version, "@") }
	var args []string
	for _, r := range mod.Replace {
		if r.Old.Path == module {
			args = append(args, "-replace", at(r.Old)+"="+at(r.New))
		}
	}
	return args, nil
}

// goMod runs a go mod command.
func goMod(ctx context.Context, dir string, args ...string) error {
	cmd := host.Command("go", append([]string{"mod"}, args...)...)
	cmd.Env, cmd.Dir = goEnv, dir
	if _, err := host.Run(ctx, cmd); err != nil {
		return fmt.Errorf("go mod %s: %w", args[0], err)
	}
	return nil
}
