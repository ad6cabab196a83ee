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
	"BOOT_IMAGE", "init", "initrd", "rdinit", "root", "rootflags", "rootfstype", "systemd.run", "systemd.unit",
	"1", "2", "3", "4", "5", "S", "s", "emergency", "rescue", "single", "-b",
}

// ofTheRoot begin the arguments by which dracut and systemd find the disks below the root:
// volumes, keys, arrays and disks elsewhere (dracut.cmdline(7), systemd-cryptsetup-generator(8)).
var ofTheRoot = regexp.MustCompile(`^rd\.(luks|lvm|md|dm|multipath|iscsi|fcoe|nvmf|nbd|zfcp|dasd)([._]|$)|^luks(\.|$)|^(netroot|nfsroot)$`)

// ofAllUnits are the arguments of systemd that give all units another default, and so ours, or have systemd ask a person
// before it starts one: what a file with settings of systemd may not set, either (managerSettings). With another PATH
// no unit finds the programs that it runs.
var ofAllUnits = []string{
	"systemd.confirm_spawn", "systemd.cpu_affinity", "systemd.default_device_timeout_sec", "systemd.default_standard_error",
	"systemd.default_standard_output", "systemd.default_timeout_start_sec", "systemd.setenv",
}

func (d *decoder) kernelArgument(field, text string) {
	name, value, _ := strings.Cut(text, "=")
	bySystemd := strings.ReplaceAll(name, "-", "_") // it takes both for the same
	switch {
	case !argument.MatchString(text):
		d.fault(field, "%q is not NAME or NAME=VALUE without spaces, quotes and signs of a shell", text)
	case slices.Contains(ofTheBootLoader, name) || ofTheRoot.MatchString(name):
		d.fault(field, "%s leads to the system that runs, and the boot loader sets it; remove it", name)
	case masksOurs(name, value):
		d.fault(field, "%s is Holdfast's, and no host is without it; remove its mask", value)
	case slices.Contains(ofAllUnits, bySystemd):
		d.fault(field, "%s may not be set: it is for all units, so also for those by which a host goes back from its configuration; remove it", name)
	case bySystemd == "systemd.machine_id":
		d.fault(field, "%s gives all hosts of the pool one id; remove it", name)
	case bySystemd == "systemd.watchdog_sec":
		if why := longWatchdog(value); why != "" {
			d.fault(field, "%s %s", name, why)
		}
	}
}
