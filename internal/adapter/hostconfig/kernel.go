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
	// loses returns the arguments that the boot loader has, if those that set gives it take
	// the place of others of the same name; nil if they stand behind them.
	loses(ctx context.Context) ([]string, error)
}

// setArguments gives the boot loader the arguments of a configuration. It tells it once
// more if the host was booted without one of them: somebody may have taken them away.
func (w Writer) setArguments(ctx context.Context, o *originals, want []string) error {
	if slices.Equal(o.Arguments, want) && len(o.Setting) == 0 && len(w.lacks(want)) == 0 && !w.outdated() && !w.left(want) {
		return nil
	}
	loader, err := w.bootLoader()
	if err != nil {
		return err
	}
	if err := o.replace(ctx, loader, want); err != nil {
		return err
	}
	o.Setting = append(o.Setting, want)
	if err := w.Store.putOriginals(*o); err != nil {
		return err
	}
	stay, back := split(o.Replaced, want)
	if err := loader.set(ctx, append(slices.Clone(o.Setting), o.Arguments), slices.Concat(want, back)); err != nil {
		return err
	}
	// The tools of boot loaders sync nothing, and /boot may be a file system of its own.
	if err := host.SettleFilesystem(filepath.Join(w.Files.Root, "/boot")); err != nil {
		return err
	}
	o.Arguments, o.Setting, o.Replaced = want, nil, stay
	return w.Store.putOriginals(*o)
}

// lacks returns the arguments without which the kernel was booted that runs; none if
// nobody knows.
func (w Writer) lacks(want []string) []string {
	line, err := os.ReadFile(filepath.Join(w.Files.Root, "/proc/cmdline"))
	if err != nil {
		return nil
	}
	return MissingArguments(string(line), want)
}

// replace keeps the boot loader's own arguments that those of ours are about to replace.
// Several of one name could not be given back, because each one would replace the one
// before.
func (o *originals) replace(ctx context.Context, loader bootLoader, want []string) error {
	known := slices.Concat(slices.Concat(o.Setting...), o.Arguments, o.Replaced)
	_, fresh := split(want, known)
	if len(fresh) == 0 {
		return nil
	}
	have, err := loader.loses(ctx)
	if err != nil {
		return err
	}
	theirs, _ := split(have, fresh)
	for i, a := range theirs {
		if same, _ := split(theirs[:i], []string{a}); len(same) > 0 {
			return &apply.InputError{Err: fmt.Errorf("the boot loader of this host has %s and %s, and grubby can give only one of them back; leave %s out", same[0], a, argumentName(a))}
		}
	}
	o.Replaced = append(o.Replaced, theirs...)
	return nil
}

// split returns those of some arguments that have a name of others, and the rest.
func split(arguments, others []string) (same, rest []string) {
	for _, a := range arguments {
		if slices.ContainsFunc(others, func(o string) bool { return argumentName(o) == argumentName(a) }) {
			same = append(same, a)
		} else {
			rest = append(rest, a)
		}
	}
	return same, rest
}

func argumentName(argument string) string {
	name, _, _ := strings.Cut(argument, "=")
	return name
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

func (w Writer) runLoader(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, loaderTime, fmt.Errorf("no end after %s", loaderTime))
	defer cancel()
	c := host.Command(name, args...)
	if w.Files.Root != "/" {
		c.Chroot = w.Files.Root
	}
	return w.Files.Run(ctx, c)
}

// updateGrub is GRUB as Debian has it: a file beside the distribution's own.
type updateGrub struct{ Writer }

// grubPath is read after the files of packages and of administrators, such as kdump-tools.cfg and
// local.cfg: grub-mkconfig takes them in the order of their names, in which digits come first.
// An assignment in one that is read later would take our arguments away.
const grubPath = "/etc/default/grub.d/zzz-holdfast-machineconfig.cfg"

// grubFormerPath is that of earlier releases, which is read before those files.
const grubFormerPath = "/etc/default/grub.d/99-holdfast-machineconfig.cfg"

func (g updateGrub) set(ctx context.Context, _ [][]string, want []string) error {
	path := filepath.Join(g.Files.Root, grubPath)
	// GRUB puts this list behind the other one, GRUB_CMDLINE_LINUX, and of an argument that
	// is there twice the kernel takes the last. An earlier release, to which the host may have gone
	// back, knows its own file alone: while that is there, it counts.
	text := "# Written by Holdfast from the machine configuration of this host.\n[ -e " + grubFormerPath + " ] || GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT " + strings.Join(want, " ") + "\"\n"
	err := g.Files.WriteFile(path, []byte(text), state.DefaultFileMode)
	if len(want) == 0 {
		err = g.Files.Remove(path)
	}
	if err != nil {
		return err
	}
	// The new file is durable by now. A cut in between leaves both, of which the former one counts.
	if g.outdated() {
		if err := g.Files.Remove(filepath.Join(g.Files.Root, grubFormerPath)); err != nil {
			return err
		}
	}
	_, err = g.runLoader(ctx, "update-grub")
	return err
}

// outdated reports whether GRUB has our arguments from an earlier release, which put them before
// those of others.
func (w Writer) outdated() bool { return w.any(grubFormerPath) != "" }

// left reports whether GRUB has our file though no configuration sets arguments. A former release,
// to which the host went back, takes its own file alone away when it drops the last argument.
func (w Writer) left(want []string) bool {
	if len(want) > 0 || w.any(grubPath) == "" {
		return false
	}
	loader, err := w.bootLoader()
	_, grub := loader.(updateGrub)
	return err == nil && grub // otherwise nobody reads that file
}

func (updateGrub) loses(context.Context) ([]string, error) { return nil, nil }

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
	_, err := g.runLoader(ctx, "grubby", args...)
	return err
}

// loses returns the arguments of the kernel that boots next. grubby gives an argument that
// is there another value (grubby(8), --args).
func (g grubby) loses(ctx context.Context) ([]string, error) {
	out, err := g.runLoader(ctx, "grubby", "--info=DEFAULT")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		if args, ok := strings.CutPrefix(strings.TrimSpace(line), "args="); ok {
			return strings.Fields(strings.Trim(args, `"`)), nil
		}
	}
	return nil, errors.New("grubby --info=DEFAULT names no arguments")
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

func (entryFiles) loses(context.Context) ([]string, error) { return nil, nil }

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

// machineID begins the word that kernel-install puts behind all others of a new entry
// (systemd, 90-loaderentry.install).
const machineID = "systemd.machine_id="

// without returns words without the longest of several ends that they have. What
// kernel-install has put behind them stays.
func without(words []string, ends [][]string) []string {
	end := len(words)
	for end > 0 && strings.HasPrefix(words[end-1], machineID) {
		end--
	}
	keep := end
	for _, ours := range ends {
		if n := end - len(ours); n >= 0 && slices.Equal(words[n:end], ours) {
			keep = min(keep, n)
		}
	}
	return slices.Concat(words[:keep], words[end:])
}

// MissingArguments returns those that a kernel command line lacks.
func MissingArguments(commandLine string, want []string) []string {
	have := strings.Fields(commandLine)
	return slices.DeleteFunc(slices.Clone(want), func(a string) bool { return slices.Contains(have, a) })
}
