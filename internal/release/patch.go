package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/payload"
	"github.com/holdfast/holdfast/internal/state"
)

// patchedSource is where a patched module lies in the folder that it is built
// in. The name gets into the programs, so it is the same on every machine.
const patchedSource = "patched"

// patched makes a folder to build a component in that has patches: a copy of
// its own, beside a copy of the module with the patches applied. What was
// downloaded stays as it is.
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
	cmd := host.Command("go", "mod", "edit", "-replace", c.Source+"=./"+patchedSource)
	cmd.Env, cmd.Dir = goEnv, folder
	_, err = host.Run(ctx, cmd)
	return folder, err
}

// apply changes the source that patches are for.
func apply(source string, c payload.Component) error {
	for _, p := range c.Patches {
		path := filepath.Join(source, filepath.FromSlash(p.File))
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if n := bytes.Count(text, []byte(p.Old)); n != 1 {
			return fmt.Errorf("patch of %s %s: the old text is %d times in %s, not once: does this version need it?", c.Name, c.Version, n, p.File)
		}
		text = bytes.Replace(text, []byte(p.Old), []byte(p.New), 1)
		if err := host.WriteFileAtomic(path, text, state.DefaultFileMode); err != nil {
			return err
		}
	}
	return nil
}

// moduleDir is where go keeps the source of a component's programs. go gets it
// first where it is not there yet.
func moduleDir(ctx context.Context, dir string, c payload.Component) (string, error) {
	cmd := host.Command("go", "list", "-f", "{{.Module.Dir}}", c.Binaries[0].Package)
	cmd.Env, cmd.Dir = goEnv, dir
	out, err := host.Run(ctx, cmd)
	if err != nil {
		return "", fmt.Errorf("find the source of %s: %w", c.Name, err)
	}
	return strings.TrimSpace(string(out)), nil
}
