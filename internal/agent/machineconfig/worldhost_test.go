package machineconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/drain"
	decide "github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// What follows plays the host of the world: systemd, the units of updates, the kernel and a boot.

func (w *world) unitFile(unit string) string { return w.file("/etc/systemd/system/" + unit) }

// errDestructive is what systemd says in a shutdown to who starts something.
var errDestructive = errors.New("transaction is destructive (shutdown.target has 'start' job queued)")

func (w *world) systemctl(_ context.Context, args ...string) ([]byte, error) {
	unit := args[len(args)-1]
	if w.down && slices.Contains([]string{"start", "restart", "try-restart", "try-reload-or-restart"}, args[0]) {
		return nil, errDestructive
	}
	switch args[0] {
	case "show":
		switch {
		case args[1] != "--property=SystemState":
		case w.deaf:
			return nil, errors.New("no connection to systemd")
		case w.down:
			return []byte("stopping\n"), nil
		default:
			return []byte("degraded\n"), nil
		}
		switch unit {
		case updates.Unit:
			return []byte(w.unit + "\n"), nil
		case updates.BootUnit:
			return w.bootUnit()
		}
		_, runs := w.running[unit]
		_, loaded := w.read[unit]
		switch masked := w.masked(unit); {
		case args[1] == "--property=LoadState" && masked:
			return []byte("masked\n"), nil
		case args[1] == "--property=LoadState":
			return []byte("loaded\n"), nil
		case w.failing[unit]:
			return []byte("failed\n"), nil
		case (masked || !loaded) && !runs:
			return []byte("inactive\n"), nil
		}
		return []byte("active\n"), nil
	case "is-enabled":
		return []byte(w.word(unit) + "\n"), nil
	case w.refused:
		return nil, errors.New("refused")
	}
	return nil, w.effect(func() error {
		w.orders = append(w.orders, strings.Join(args, " "))
		return w.order(args[0], unit)
	})
}

func (w *world) masked(unit string) bool {
	to, err := os.Readlink(filepath.Join(w.root, "/etc/systemd/system", unit))
	return err == nil && to == os.DevNull
}

func (w *world) word(unit string) string {
	switch {
	case w.masked(unit):
		return "masked"
	case w.unitFile(unit) == "" && !w.packaged[unit]:
		return "not-found"
	case w.enabled[unit]:
		return "enabled"
	default:
		return "disabled"
	}
}

func (w *world) order(verb, unit string) error {
	switch verb {
	case "reboot":
		w.rebooting = true
	case "start":
		if unit == "holdfast-leave.service" {
			return nil
		}
		return w.patches()
	case "enable", "reenable":
		w.enabled[unit] = true
	case "disable":
		delete(w.enabled, unit)
	case "daemon-reload":
		w.reload()
	case "stop":
		if _, loaded := w.read[unit]; !loaded {
			return &host.RunError{ExitCode: 5, Err: errors.New("exit status 5")}
		}
		delete(w.running, unit)
	case "restart", "try-restart", "try-reload-or-restart":
		if w.masked(unit) {
			return &host.RunError{Cmd: host.Command("systemctl", verb, unit), ExitCode: 1, Err: errors.New("exit status 1"), Output: "Unit " + unit + " is masked."}
		}
		if unit == "systemd-sysctl.service" {
			return w.sysctl()
		}
		if _, loaded := w.read[unit]; !loaded {
			return &host.RunError{Cmd: host.Command("systemctl", verb, unit), ExitCode: 5, Err: errors.New("exit status 5"), Output: "Unit " + unit + " not found."}
		}
		if _, runs := w.running[unit]; verb != "restart" && !runs {
			return nil
		}
		if delete(w.running, unit); w.read[unit] == "" || strings.Contains(w.read[unit], "/bad") {
			return &host.RunError{Cmd: host.Command("systemctl", verb, unit), ExitCode: 1, Err: errors.New("exit status 1"), Output: "Job for " + unit + " failed"}
		}
		w.running[unit] = w.read[unit]
	default:
		panic(verb)
	}
	return nil
}

// patches is what the unit does that fetches and installs updates.
func (w *world) patches() error {
	store := w.agent.Updates
	request, err := store.Request()
	if err != nil {
		return err
	}
	record, err := store.Record()
	if err != nil {
		return err
	}
	phase, end := updates.Fetching, updates.Fetched
	if request.Install {
		phase, end = updates.Installing, updates.Installed
	}
	record = record.Begin(request.Wish, phase, fmt.Sprint(w.boot))
	if err := store.PutRecord(record); err != nil {
		return err
	}
	if w.hangs && request.Install {
		w.unit = "activating"
		return nil
	}
	switch record.Phase = end; {
	case w.mirror != "":
		record.Phase, record.Error = updates.Failed, w.mirror
	case request.Install:
		if !drain.Emptied(w.annotations, w.annotations[drain.Desired]) {
			w.t.Error("packages change on a host that is not empty")
		}
		if err := w.effect(func() error { w.packages = w.offered; return nil }); err != nil {
			return err
		}
	case w.packages == w.offered:
		record.Phase = updates.Installed
	default:
		record.Updates = []string{"libc6"}
	}
	if request.Stack && w.stack != w.offered && record.Phase != updates.Failed {
		record.Stack = []string{"corosync=" + w.offered}
		if request.Install {
			record.Phase = updates.Staged
		}
	}
	return store.PutRecord(record)
}

// bootUnit returns the state of the unit that changes at a boot what etcd runs on, which waits
// for its turn among others, runs, and ends. A power cut may end it; a crash of the agent does not.
func (w *world) bootUnit() ([]byte, error) {
	store := w.agent.Updates
	if !w.power {
		store.WriteFile = powercut.WriteFile
	}
	record, err := store.Record()
	if err != nil {
		return nil, err
	}
	request, err := store.Request()
	if err != nil {
		return nil, err
	}
	if w.skipped {
		return []byte("inactive\n"), nil
	}
	w.queue++
	switch {
	case w.queue == 2 && w.ordered && record.Ordered(request):
		if err := store.PutRecord(record.Begin(record.Wish, updates.Changing, fmt.Sprint(w.boot))); err != nil {
			return nil, err
		}
		return []byte("activating\n"), nil
	case w.queue == 3 && record.Phase == updates.Changing:
		record.Phase, record.Tries, w.stack = updates.Installed, 0, w.offered
		if w.bad != "" {
			record.Phase, record.Error = updates.Failed, w.bad
		}
		if w.between {
			return []byte("inactive\n"), store.PutRecord(record)
		}
		return []byte("deactivating\n"), store.PutRecord(record)
	}
	return []byte("inactive\n"), nil
}

// sysctl sets the parameters of the site's file, as far as there are such.
func (w *world) sysctl() error {
	settings, _ := decide.Sysctls([]byte(w.file("/etc/sysctl.d/50-site.conf")))
	var failed error
	for name, value := range settings {
		if _, ok := w.parameters[name]; !ok {
			failed = &host.RunError{Cmd: host.Command("systemctl", "restart", "systemd-sysctl.service"), ExitCode: 1, Err: errors.New("exit status 1")}
			continue
		}
		w.parameters[name] = value
	}
	return failed
}

// defaults are the kernel's own parameters.
func defaults() map[string]string {
	return map[string]string{"vm/swappiness": "60", "vm/dirty_ratio": "20"}
}

// reload has systemd read the units.
func (w *world) reload() {
	clear(w.read)
	for unit := range w.packaged {
		if !w.masked(unit) {
			w.read[unit] = "of a package"
		}
	}
	entries, err := os.ReadDir(filepath.Join(w.root, "/etc/systemd/system"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".service") {
			w.read[e.Name()] = w.unitFile(e.Name())
		}
	}
}

// boots boots the host: everything is as the disk says.
func (w *world) boots() {
	w.boot, w.bootedAt, w.rebooting, w.down = w.boot+1, w.now, false, false
	record, _ := w.agent.Updates.Record()
	request, _ := w.agent.Updates.Request()
	w.ordered = record.Ordered(request)
	w.unit, w.queue, w.required = "inactive", 0, updates.Required{Wants: state.Known(false)}
	w.reload()
	clear(w.running)
	for unit := range w.enabled {
		if w.read[unit] != "" && !strings.Contains(w.read[unit], "/bad") {
			w.running[unit] = w.read[unit]
		}
	}
	w.parameters = defaults()
	w.bootedWith("root=x " + arguments(w.menu))
	_ = w.sysctl() // a boot goes on
	w.start()
}

// bootedWith has the kernel's arguments be these.
func (w *world) bootedWith(line string) {
	w.commandLine = line
	w.put("/proc/cmdline", line+"\n")
}

// arguments are those that update-grub was told.
func arguments(menu string) string {
	_, rest, _ := strings.Cut(menu, "$GRUB_CMDLINE_LINUX_DEFAULT ")
	args, _, _ := strings.Cut(rest, `"`)
	return args
}
