package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	decide "github.com/holdfast/holdfast/internal/decide/doctor"
)

var (
	clockUnits    = []string{"chrony.service", "chronyd.service", "systemd-timesyncd.service", "ntpd.service", "ntpsec.service", "ntp.service", "openntpd.service"}
	watchdogUnits = map[string]string{
		"sbd.service":          "sbd.service is running: it restarts a host that loses its peer or its disk",
		"watchdog.service":     "watchdog.service is running: it restarts the host by its own rules",
		"watchdog-mux.service": "watchdog-mux.service is running: it restarts the host by the rules of another cluster manager",
	}
	rebootUnits = map[string]string{
		"zincati.service":                "zincati.service is running: it reboots into updates",
		"locksmithd.service":             "locksmithd.service is running: it reboots into updates",
		"rpm-ostreed-automatic.timer":    "rpm-ostreed-automatic.timer is running: it may reboot into updates",
		"rebootmgr.service":              "rebootmgr.service is running: it reboots in its maintenance window",
		"transactional-update.timer":     "transactional-update.timer is running: it may reboot into updates",
		"dnf-automatic-install.timer":    "",
		"dnf-automatic.timer":            "",
		"dnf5-automatic.timer":           "",
		"unattended-upgrades.service":    "",
		"apt-daily-upgrade.timer":        "",
		"systemd-sysupdate-reboot.timer": "systemd-sysupdate-reboot.timer is running: it reboots into updates",
	}
)

// activeUnits asks for the states of all relevant units at once.
func (l *observation) activeUnits(ctx context.Context) (map[string]string, error) {
	names := slices.Clone(clockUnits)
	for _, set := range []map[string]string{watchdogUnits, rebootUnits} {
		for name := range set {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	// systemctl fails if one of them is not active, but has then printed all
	// states.
	out, err := l.tool(ctx, "systemctl", append([]string{"is-active"}, names...)...)
	states := strings.Fields(string(out))
	if len(states) != len(names) {
		return nil, fmt.Errorf("systemctl reported %d units instead of %d: %w", len(states), len(names), cmp.Or(err, fmt.Errorf("it printed %q", out)))
	}
	active := map[string]string{}
	for i, name := range names {
		active[name] = states[i]
	}
	return active, nil
}

func (l *observation) active(unit string) bool { return l.units[unit] == "active" }

// needUnits returns an error if the states of the units are unknown.
func (l *observation) needUnits() error {
	if l.units == nil {
		return errors.New("it is unknown which units run")
	}
	return nil
}

func (l *observation) clock() (decide.Clock, error) {
	synchronised, err := l.Kernel()
	c := decide.Clock{Synchronised: synchronised}
	for _, unit := range clockUnits {
		if l.active(unit) {
			c.Service = strings.TrimSuffix(unit, ".service")
			break
		}
	}
	return c, err
}

// swap adds up the active swap, without swap in compressed memory, which never
// reaches a disk.
func (l *observation) swap() (uint64, error) {
	data, err := l.read("/proc/swaps")
	if err != nil {
		return 0, err
	}
	var sum uint64
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		f := strings.Fields(line)
		if i == 0 || len(f) < 3 || strings.HasPrefix(f[0], "/dev/zram") {
			continue
		}
		kib, err := strconv.ParseUint(f[2], 10, 54)
		if err != nil {
			return 0, fmt.Errorf("/proc/swaps: %w", err)
		}
		sum += kib << 10
	}
	return sum, nil
}

func (l *observation) watchdogs() ([]string, error) { return l.running(watchdogUnits) }

// running returns the descriptions of the units in a set that run and have one.
func (l *observation) running(set map[string]string) ([]string, error) {
	if err := l.needUnits(); err != nil {
		return nil, err
	}
	out := []string{} // nil would read as unknown
	for unit, words := range set {
		if words != "" && l.active(unit) {
			out = append(out, words)
		}
	}
	slices.Sort(out)
	return out, nil
}

// rebooters returns what may reboot this host automatically.
func (l *observation) rebooters() ([]string, error) {
	out, err := l.running(rebootUnits)
	if err != nil {
		return nil, err
	}
	apt, err := l.aptReboots()
	if err != nil {
		return nil, err
	}
	if apt != "" && (l.active("apt-daily-upgrade.timer") || l.active("unattended-upgrades.service")) {
		out = append(out, "unattended-upgrades reboots the host after updates ("+apt+")")
	}
	for _, unit := range []string{"dnf-automatic.timer", "dnf-automatic-install.timer", "dnf5-automatic.timer"} {
		if conf := l.dnfReboots(); l.active(unit) && conf != "" {
			out = append(out, unit+" reboots the host after updates ("+conf+")")
		}
	}
	return out, nil
}

var aptReboot = regexp.MustCompile(`(?m)^\s*(?:Unattended-Upgrade::)?Automatic-Reboot\s+"([^"]*)"\s*;`)

// aptReboots returns the file that makes unattended-upgrades reboot the host;
// empty if there is none. A later file overrides an earlier one.
func (l *observation) aptReboots() (string, error) {
	if !l.exists("/usr/bin/unattended-upgrade") {
		return "", nil
	}
	files, err := filepath.Glob(l.path("/etc/apt/apt.conf.d/*"))
	if err != nil {
		return "", err
	}
	by := ""
	for _, path := range append([]string{l.path("/etc/apt/apt.conf")}, files...) {
		name := "/" + strings.TrimPrefix(strings.TrimPrefix(path, l.Root), "/")
		if !l.exists(name) {
			continue
		}
		data, err := l.read(name)
		if err != nil {
			return "", err
		}
		for _, m := range aptReboot.FindAllSubmatch(data, -1) {
			by = ""
			if slices.Contains([]string{"true", "1", "yes", "on"}, strings.ToLower(string(m[1]))) {
				by = name
			}
		}
	}
	return by, nil
}

var dnfReboot = regexp.MustCompile(`(?m)^\s*reboot\s*=\s*(when-changed|when-needed)\s*$`)

func (l *observation) dnfReboots() string {
	for _, name := range []string{"/etc/dnf/automatic.conf", "/etc/dnf/dnf5-plugins/automatic.conf"} {
		if data, err := l.read(name); err == nil && dnfReboot.Match(data) {
			return name
		}
	}
	return ""
}
