package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/lab/namednetns"
)

// Down removes every trace of a lab: its daemon, containers, mounts, namespaces
// and files. It needs no readable state, so it also clears a lab that was half
// made or half removed. Missing parts are no error.
func Down(ctx context.Context, root, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	dir := filepath.Join(root, name)
	if exists(dir) {
		release, err := lockLab(ctx, dir, name)
		if err != nil {
			return err
		}
		defer release()
	}
	b := &Lab{Dir: dir}
	if err := errors.Join(b.endDaemon(ctx), waitForLeftBehind(ctx, name)); err != nil {
		return err
	}
	if err := clean(ctx, root, name); err != nil {
		return fmt.Errorf("lab %s is only partly removed; run the command again: %w", name, err)
	}
	return errors.Join(restoreMachine(root), tidy(root))
}

// clean removes everything of a lab whose daemon does not run. It renames the
// directory before it removes the files: a directory with half of its files
// must not be taken for a lab.
func clean(ctx context.Context, root, name string) error {
	dir, gone := filepath.Join(root, name), filepath.Join(root, "."+name+".gone")
	if err := checkOwner(ctx, name, dir); err != nil {
		return err
	}
	thawed := errors.Join(thawAll(dir), dissolveAll(name))
	if err := errors.Join(thawed, removeContainers(ctx, name), unmountBelow(dir), removeNamespaces(name), os.RemoveAll(gone)); err != nil {
		return err
	}
	if err := os.Rename(dir, gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(gone)
}

// tidy removes the directories that labs share once they are empty.
func tidy(root string) error {
	for _, dir := range []string{namednetns.Dir, root} {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EBUSY) {
			continue
		}
		return err
	}
	return nil
}

// checkOwner returns an error if a lab of this name keeps its state elsewhere,
// because all labs of the machine share the names of containers and namespaces.
func checkOwner(ctx context.Context, name, dir string) error {
	out, err := podman(ctx, "ps", "--all", "--filter", "label="+labelOf(name), "--format", `{{index .Labels "`+dirLabel+`"}}`)
	if err != nil {
		return err
	}
	for owner := range strings.FieldsSeq(string(out)) {
		if owner != dir {
			return fmt.Errorf("a lab named %s exists already, and its state is in %s: choose another name, or set HOLDFAST_LABS=%s", name, owner, filepath.Dir(owner))
		}
	}
	return nil
}

// labelOf returns the label of the containers of a lab. Each podman that makes
// or removes them has it in its command line, where leftBehind finds it.
func labelOf(name string) string { return containerLabel + "=" + name }

func removeContainers(ctx context.Context, name string) error {
	_, err := podman(ctx, "rm", "--force", "--time", "0", "--volumes", "--filter", "label="+labelOf(name))
	return err
}

func removeNamespaces(name string) error {
	found, err := filepath.Glob(filepath.Join(namednetns.Dir, "hf-"+name+"-*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range found {
		errs = append(errs, namespace(filepath.Base(path)).remove())
	}
	return errors.Join(errs...)
}

// unmountBelow unmounts everything that is mounted below a directory, the
// deepest first.
func unmountBelow(dir string) error {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var errs []error
	lines := strings.Split(string(data), "\n")
	for _, line := range slices.Backward(lines) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(fields[1], dir+"/") {
			continue
		}
		if err := unix.Unmount(fields[1], unix.MNT_DETACH); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", fields[1], err))
		}
	}
	return errors.Join(errs...)
}
