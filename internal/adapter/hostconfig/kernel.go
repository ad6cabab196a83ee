package hostconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/install/apply"
	"github.com/holdfast/holdfast/internal/model/state"
)

// bootLoader sets the kernel arguments of the next boots.
type bootLoader interface {
	// set replaces arguments of ours by others. Each list in ours may be there, or
	// not: a run may have been cut.
	set(ctx context.Context, ours [][]string, want []string) error
}

// setArguments gives the boot loader the arguments of a configuration.
func (w Writer) setArguments(ctx context.Context, o *originals, want []string) error {
	if slices.Equal(o.Arguments, want) && len(o.Setting) == 0 {
		return nil
	}
	loader, err := w.bootLoader()
	if err != nil {
		return err
	}
	o.Setting = append(o.Setting, want)
	if err := w.Store.putOriginals(*o); err != nil {
		return err
	}
	if err := loader.set(ctx, append(slices.Clone(o.Setting), o.Arguments), want); err != nil {
		return err
	}
	o.Arguments, o.Setting = want, nil
	return w.Store.putOriginals(*o)
}

// bootLoader returns the one that boots this host.
func (w Writer) bootLoader() (bootLoader, error) {
	switch {
	case len(w.entries()) > 0 && w.any("/efi/EFI/systemd", "/boot/efi/EFI/systemd", "/boot/EFI/systemd") != "":
		return entryFiles{w}, nil
	case w.any("/usr/sbin/grubby", "/usr/bin/grubby") != "":
		return grubby{w}, nil
	case w.any("/etc/default/grub") != "" && w.any("/usr/sbin/update-grub", "/sbin/update-grub") != "":
		return updateGrub{w}, nil
	}
	return nil, &apply.InputError{Err: errors.New("this host has neither GRUB (update-grub or grubby) nor entries of systemd-boot, so its kernel arguments cannot be set")}
}

// any returns the first path that exists.
func (w Writer) any(paths ...string) string {
	for _, p := range paths {
		if host.Exists(filepath.Join(w.Files.Root, p)) {
			return p
		}
	}
	return ""
}

// loaderTime bounds a tool of a boot loader. update-grub looks at every disk.
const loaderTime = 5 * time.Minute

func (w Writer) runLoader(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, loaderTime, fmt.Errorf("no end after %s", loaderTime))
	defer cancel()
	c := host.Command(name, args...)
	if w.Files.Root != "/" {
		c.Chroot = w.Files.Root
	}
	_, err := w.Files.Run(ctx, c)
	return err
}

// updateGrub is GRUB as Debian has it: a file beside the distribution's own.
type updateGrub struct{ Writer }

// grubPath is read after the distribution's files, by its name.
const grubPath = "/etc/default/grub.d/99-holdfast-machineconfig.cfg"

func (g updateGrub) set(ctx context.Context, _ [][]string, want []string) error {
	path := filepath.Join(g.Files.Root, grubPath)
	text := "# Written by Holdfast from the machine configuration of this host.\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX " + strings.Join(want, " ") + "\"\n"
	err := g.Files.WriteFile(path, []byte(text), state.DefaultFileMode)
	if len(want) == 0 {
		err = g.Files.Remove(path)
	}
	if err != nil {
		return err
	}
	return g.runLoader(ctx, "update-grub")
}

// grubby is GRUB as the family of RHEL has it.
type grubby struct{ Writer }

func (g grubby) set(ctx context.Context, ours [][]string, want []string) error {
	args := []string{"--update-kernel=ALL"}
	gone := slices.Concat(ours...)
	gone = slices.DeleteFunc(gone, func(a string) bool { return slices.Contains(want, a) })
	if len(gone) > 0 {
		args = append(args, "--remove-args="+strings.Join(gone, " "))
	}
	if len(want) > 0 {
		args = append(args, "--args="+strings.Join(want, " "))
	}
	return g.runLoader(ctx, "grubby", args...)
}

// entryFiles are the entries of systemd-boot, one file for each kernel, and the
// line from which entries of later kernels are made.
type entryFiles struct{ Writer }

// kernelLine is the file with the arguments of later kernels.
const kernelLine = "/etc/kernel/cmdline"

// entries returns the files of systemd-boot's entries.
func (w Writer) entries() []string {
	var out []string
	for _, dir := range []string{"/efi", "/boot/efi", "/boot"} {
		found, err := filepath.Glob(filepath.Join(w.Files.Root, dir, "loader/entries/*.conf"))
		if err != nil {
			panic(err) // cannot happen: the pattern is well formed
		}
		out = append(out, found...)
	}
	return out
}

func (e entryFiles) set(_ context.Context, ours [][]string, want []string) error {
	for _, path := range e.entries() {
		if err := e.edit(path, "options", ours, want); err != nil {
			return err
		}
	}
	if path := filepath.Join(e.Files.Root, kernelLine); host.Exists(path) {
		return e.edit(path, "", ours, want)
	}
	return nil
}

// edit replaces our arguments at the end of each line with a key.
func (e entryFiles) edit(path, key string, ours [][]string, want []string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if len(words) > 0 && (key == "" && !strings.HasPrefix(words[0], "#") || words[0] == key) {
			line = strings.Join(append(without(words, ours), want...), " ") + "\n"
		}
		out.WriteString(line)
	}
	if out.String() == string(data) {
		return nil
	}
	// A FAT file system refuses another mode than the one that it gives.
	return e.Files.WriteFile(path, []byte(out.String()), info.Mode().Perm())
}

// without returns words without the longest of several ends that they have.
func without(words []string, ends [][]string) []string {
	keep := len(words)
	for _, end := range ends {
		if n := len(words) - len(end); n >= 0 && slices.Equal(words[n:], end) {
			keep = min(keep, n)
		}
	}
	return slices.Clone(words[:keep])
}

// MissingArguments returns those that a kernel command line lacks.
func MissingArguments(commandLine string, want []string) []string {
	have := strings.Fields(commandLine)
	return slices.DeleteFunc(slices.Clone(want), func(a string) bool { return slices.Contains(have, a) })
}
