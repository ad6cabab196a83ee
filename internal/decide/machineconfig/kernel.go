package machineconfig

import (
	"regexp"
	"slices"
	"strings"
)

// argument matches a kernel argument that means the same to a boot loader's
// configuration, which shells read, as to the kernel.
var argument = regexp.MustCompile(`^[A-Za-z0-9_.-]+(=[A-Za-z0-9_.,:;/@%+=()\[\]~^-]*)?$`)

// ofTheBootLoader are the arguments that lead to the system which runs: another
// value ends in a host that does not boot, or in one that starts nothing of the cluster. The words without a
// name are the short forms of systemd.unit, and systemd.run takes the place of all units (systemd(1),
// systemd-run-generator(8)).
var ofTheBootLoader = []string{
	"BOOT_IMAGE", "fstab", "init", "initrd", "rd.fstab", "rdinit", "root", "rootflags", "rootfstype", "systemd.run", "systemd.unit",
	"1", "2", "3", "4", "5", "S", "s", "emergency", "rescue", "single", "-b",
}

// ofTheRoot begin the arguments by which dracut and systemd find the disks below the root:
// volumes, keys, arrays and disks elsewhere (dracut.cmdline(7), systemd-cryptsetup-generator(8)).
var ofTheRoot = regexp.MustCompile(`^rd\.(luks|lvm|md|dm|multipath|iscsi|fcoe|nvmf|nbd|zfcp|dasd)([._]|$)|^luks(\.|$)|^(netroot|nfsroot)$`)

// bySystemd are the arguments that a MachineConfig may set of systemd, without "systemd." and with _ for -, which it
// takes for the same: logs, crashes, what is shown, and what starts nothing else and takes nothing from a unit of ours.
// All others may keep a host from going back from its configuration: with setenv=PATH=... no unit finds systemctl,
// volatile= takes /var away, service_watchdogs= leaves a program of ours that hangs alone.
var bySystemd = []string{
	"battery_check", "crash_action", "crash_chvt", "crash_reboot", "crash_shell", "debug_shell", "dump_core", "getty_auto",
	"log_color", "log_level", "log_location", "log_ratelimit_kmsg", "log_target", "log_tid", "log_time", "mask", "show_status",
	"status_unit_format", "swap", "unified_cgroup_hierarchy", "watchdog_device", "watchdog_sec",
}

// ofSystemd returns the name of an argument of systemd as bySystemd has it, also of one for the initrd alone; false of
// all others. Those of the journal have names of their own.
func ofSystemd(name string) (own string, is bool) {
	own, is = strings.CutPrefix(strings.TrimPrefix(name, "rd."), "systemd.")
	own = strings.ReplaceAll(own, "-", "_")
	return own, is && !strings.HasPrefix(own, "journald.")
}

func (d *decoder) kernelArgument(field, text string) {
	name, value, _ := strings.Cut(text, "=")
	own, is := ofSystemd(name)
	switch {
	case !argument.MatchString(text):
		d.fault(field, "%q is not NAME or NAME=VALUE without spaces, quotes and signs of a shell", text)
	case slices.Contains(ofTheBootLoader, name) || ofTheRoot.MatchString(name):
		d.fault(field, "%s leads to the system that runs, and the boot loader sets it; remove it", name)
	case masksOurs(name, value):
		d.fault(field, "%s is Holdfast's, and no host is without it; remove its mask", value)
	case is && !slices.Contains(bySystemd, own):
		d.fault(field, "%s may not be set: a host may need what it changes to go back from its configuration. Of systemd a MachineConfig sets journald.NAME, %s", name, strings.Join(bySystemd, ", "))
	case is && own == "watchdog_sec":
		if why := longWatchdog(value); why != "" {
			d.fault(field, "%s %s", name, why)
		}
	}
}
