package updates

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Required reads whether the distribution of the host below root wants a reboot. run
// asks the tool of RHEL.
func Required(ctx context.Context, root string, run func(context.Context, host.Cmd) ([]byte, error)) updates.Required {
	at := func(path string) string { return filepath.Join(root, path) }
	seen := updates.Seen{Flag: host.Exists(at("/run/reboot-required")), Debian: host.Exists(at(aptPath))}
	if seen.Flag {
		list, err := os.ReadFile(at("/run/reboot-required.pkgs"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			seen.Packages = []string{err.Error()}
		}
		seen.Packages = append(seen.Packages, strings.Fields(string(list))...)
	}
	if seen.Debian {
		if target, err := os.Readlink(at("/vmlinuz")); err == nil && host.Exists(at(target)) {
			seen.Next = updates.KernelOf(target)
		}
		if running, err := os.ReadFile(at("/proc/sys/kernel/osrelease")); err == nil {
			seen.Running = strings.TrimSpace(string(running))
		}
		return updates.IsRequired(seen)
	}
	seen.Tool, seen.Why = restarting(ctx, run)
	return updates.IsRequired(seen)
}

// toolTime bounds the question. The tool reads the host's list of packages.
const toolTime = time.Minute

// restarting asks `needs-restarting -r`, which ends with 1 and says so if a reboot is
// needed. Any other end is no answer.
func restarting(ctx context.Context, run runner) (wants state.Fact[bool], why string) {
	said, err := run.within(ctx, toolTime, host.Cmd{Name: "needs-restarting", Args: []string{"-r"}, Env: quiet})
	switch {
	case err == nil:
		return state.Known(false), ""
	case host.NoProgram(err):
		return state.Fact[bool]{}, "this host has no needs-restarting (the package yum-utils or dnf-utils)"
	case host.ExitCode(err) != 1 || !strings.Contains(string(said), "eboot"):
		return state.Fact[bool]{}, err.Error() // a program that fails ends with 1 too
	}
	var names []string
	for line := range strings.Lines(string(said)) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "* "); is {
			names = append(names, name)
		}
	}
	return state.Known(true), strings.Join(names, ", ")
}
