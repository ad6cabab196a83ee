package apply

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/install/plan"
)

// packageManager returns "apt", "dnf" or an empty string.
func (h *Host) packageManager() string {
	for _, m := range []struct{ file, name string }{
		{"/usr/bin/apt-get", "apt"}, {"/usr/bin/dnf", "dnf"},
	} {
		path, err := h.at(m.file)
		if err != nil {
			continue
		}
		if _, err := os.Stat(path); err == nil {
			return m.name
		}
	}
	return ""
}

func (h *Host) packageState(ctx context.Context, p plan.Packages) (plan.PackageState, error) {
	s := plan.PackageState{Manager: h.packageManager()}
	names := p.For(s.Manager)
	if len(names) == 0 || !h.Live {
		return s, nil
	}
	installed, err := h.installed(ctx, s.Manager, names)
	s.Missing = slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		bare, _, _ := strings.Cut(n, ":")
		return installed[bare]
	})
	return s, err
}

// installed returns which of the packages are installed. Both tools end with an
// error if one is missing, but still answer for the others.
func (h *Host) installed(ctx context.Context, manager string, names []string) (map[string]bool, error) {
	query := host.Command("dpkg-query", append([]string{"--show", "--showformat=${Package} ${db:Status-Status}\n", "--"}, names...)...)
	if manager == "dnf" {
		query = host.Command("rpm", append([]string{"-q", "--queryformat=%{NAME} installed\n", "--"}, names...)...)
	}
	out, err := h.Run(ctx, query)
	if err != nil && host.ExitCode(err) < 1 {
		return nil, err
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutSuffix(strings.TrimSpace(line), " installed"); ok {
			found[name] = true
		}
	}
	return found, nil
}

// Limits of a package manager: a repository that does not answer must not block
// a boot for ever.
const (
	refreshTimeout = 3 * time.Minute
	installTimeout = 20 * time.Minute
	// packageGrace is the time in which a package manager may finish its current
	// step after it was told to stop.
	packageGrace = 30 * time.Second
)

func (h *Host) installPackages(ctx context.Context, a *plan.InstallPackages) error {
	commands := aptCommands(a.Names)
	if a.Manager == "dnf" {
		commands = dnfCommands(a.Names)
	}
	var err error
	for _, c := range commands {
		if err = h.runPackages(ctx, c); err != nil && !c.optional {
			break
		}
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("packages missing on this host: %s; install them, or give it a repository that has them, or use --skip-packages: %w",
		strings.Join(a.Names, " "), err)
}

// packageCommand is one call of a package manager. The failure of an optional
// call is ignored; the next call then fails and reports it.
type packageCommand struct {
	cmd      host.Cmd
	timeout  time.Duration
	optional bool
}

func (h *Host) runPackages(ctx context.Context, c packageCommand) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no end after %s", c.timeout))
	defer cancel()
	_, err := h.Run(ctx, c.cmd)
	return err
}

func aptCommands(names []string) []packageCommand {
	quiet := []string{"DEBIAN_FRONTEND=noninteractive", "DEBIAN_PRIORITY=critical"}
	apt := func(args ...string) host.Cmd {
		return host.Cmd{Name: "apt-get", Env: quiet, Grace: packageGrace, Args: append([]string{
			"--quiet", "--option=DPkg::Lock::Timeout=120", "--option=Acquire::Retries=2", "--option=Acquire::http::Timeout=20",
		}, args...)}
	}
	install := append([]string{
		"install", "--yes", "--no-install-recommends",
		// Prefer the configuration's files to a package's, without asking.
		"--option=Dpkg::Options::=--force-confdef", "--option=Dpkg::Options::=--force-confold", "--",
	}, names...)
	return []packageCommand{
		// Repair an installation that a power cut interrupted.
		{cmd: host.Cmd{Name: "dpkg", Args: []string{"--configure", "-a"}, Env: quiet, Grace: packageGrace}, timeout: installTimeout, optional: true},
		{cmd: apt("update"), timeout: refreshTimeout, optional: true},
		{cmd: apt(install...), timeout: installTimeout},
	}
}

func dnfCommands(names []string) []packageCommand {
	args := append([]string{"--assumeyes", "--quiet", "--setopt=install_weak_deps=False", "--setopt=timeout=20", "install", "--"}, names...)
	return []packageCommand{{cmd: host.Cmd{Name: "dnf", Args: args, Grace: packageGrace}, timeout: installTimeout}}
}
