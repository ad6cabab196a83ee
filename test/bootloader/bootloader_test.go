package bootloader

import (
	"maps"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/render/host"
)

// TestGRUBBootsWithTheArgumentsOfAConfiguration: Debian's GRUB on a machine with a BIOS
// and a /boot of its own.
func TestGRUBBootsWithTheArgumentsOfAConfiguration(t *testing.T) {
	t.Parallel()
	h := newHost(t, grub)
	h.ownStay(t, "distribution.one=1", "quiet", "loglevel=3")

	h.configure(t, "first")
	h.reboot(t)
	h.runs(t, "first")

	// In the middle of update-grub: what it will boot with is half written.
	h.must(t, "printf '#!/bin/sh\\necho \""+held+"\" >/dev/ttyS1\\nsleep 600\\n' >/etc/grub.d/09_hold && chmod 755 /etc/grub.d/09_hold && sync")
	h.wish(t, "second")
	h.send(t, "systemctl start "+host.ConfigureUnit)
	h.wait(t, lineLimit, func(line string) bool { return line == held })
	h.cutNow(t)
	h.runs(t, "first")
	h.must(t, "rm /etc/grub.d/09_hold")
	h.configure(t, "second")
	h.reboot(t)
	h.runs(t, "second")

	// update-grub has ended, and nothing is durable of it.
	h.cutAfter(t, "first", 3)
	h.runs(t, "first", "second")
	h.configure(t, "first")
	h.menuHas(t, "first")

	h.configure(t, "none")
	h.cutNow(t)
	h.runs(t, "none")
	h.menuHas(t, "none")
}

// ownStay compares the arguments with which a host boots by itself with some that it has.
func (h *testHost) ownStay(t *testing.T, want ...string) {
	t.Helper()
	for _, a := range want {
		if !strings.Contains(" "+strings.Join(h.own, " ")+" ", " "+a+" ") {
			t.Fatalf("the host boots with %q, without %s: it is not the one that the test makes", h.own, a)
		}
	}
}

// menuHas compares each entry of GRUB's menu with a configuration.
func (h *testHost) menuHas(t *testing.T, name string) {
	t.Helper()
	for line := range strings.Lines(h.must(t, "grep -E '^[[:space:]]+linux[[:space:]]' /boot/grub/grub.cfg")) {
		if got := mentions(line); !maps.Equal(got, mentions(strings.Join(configurations[name], " "))) && !strings.Contains(line, "single") {
			t.Errorf("GRUB's menu has %q, not the arguments of %q", line, name)
		}
	}
}

// later makes an entry of a kernel that is newer than all others, and so boots next.
const later = "kernel-install add 99-later /boot/vmlinuz-$(uname -r) /boot/initrd.img-$(uname -r) && sync"

// TestSystemdBootBootsWithTheArgumentsOfAConfiguration: Debian's systemd-boot on a machine
// with UEFI, with entries as kernel-install makes them.
func TestSystemdBootBootsWithTheArgumentsOfAConfiguration(t *testing.T) {
	t.Parallel()
	h := newHost(t, systemdBoot)
	h.ownStay(t, "distribution.one=1", "quiet", "loglevel=3")

	h.configure(t, "first")
	h.reboot(t)
	h.runs(t, "first")

	// Debian has no /etc/kernel/cmdline: an entry gets the arguments of the kernel that runs.
	h.must(t, later)
	h.configure(t, "second")
	h.cutNow(t)
	h.runs(t, "second")
	h.entriesHave(t, 2, "second")

	// The first of two entries is written.
	h.cutAfter(t, "first", 2)
	h.runs(t, "first", "second")
	h.configure(t, "first")
	h.entriesHave(t, 2, "first")

	// With that file, later kernels get what it says.
	h.must(t, "echo '"+strings.Join(h.own, " ")+"' >/etc/kernel/cmdline && sync")
	h.configure(t, "second")
	h.must(t, "kernel-install remove 99-later && "+later)
	h.entriesHave(t, 2, "second")
	h.reboot(t)
	h.runs(t, "second")

	// All entries are written, and the file is not.
	h.cutAfter(t, "none", 3)
	h.runs(t, "none")
	h.configure(t, "none")
	h.entriesHave(t, 2, "none")
	if got := h.must(t, "cat /etc/kernel/cmdline"); got != strings.Join(h.own, " ") {
		t.Errorf("later kernels get %q, not %q", got, h.own)
	}
}

// entriesHave compares each entry of systemd-boot with a configuration.
func (h *testHost) entriesHave(t *testing.T, number int, name string) {
	t.Helper()
	lines := strings.Split(h.must(t, "grep -h ^options /boot/efi/loader/entries/*.conf"), "\n")
	if len(lines) != number {
		t.Errorf("systemd-boot has entries %q, not %d", lines, number)
	}
	for _, line := range lines {
		if got := mentions(line); !maps.Equal(got, mentions(strings.Join(configurations[name], " "))) {
			t.Errorf("an entry of systemd-boot has %q, not the arguments of %q", line, name)
		}
	}
}
