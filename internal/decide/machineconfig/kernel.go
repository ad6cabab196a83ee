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

func (d *decoder) kernelArgument(field, text string) {
	name, value, _ := strings.Cut(text, "=")
	switch {
	case !argument.MatchString(text):
		d.fault(field, "%q is not NAME or NAME=VALUE without spaces, quotes and signs of a shell", text)
	case slices.Contains(ofTheBootLoader, name) || ofTheRoot.MatchString(name):
		d.fault(field, "%s leads to the system that runs, and the boot loader sets it; remove it", name)
	case masksOurs(name, value):
		d.fault(field, "%s is Holdfast's, and no host is without it; remove its mask", value)
	}
}
