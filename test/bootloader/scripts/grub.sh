#!/bin/sh
# Makes GRUB boot this machine, as an administrator of Debian does. The distribution's own
# arguments are those that a test looks for: two in each of GRUB's lists. There is no screen. A
# package appends to the second list, as kdump-tools does, and the administrator assigns it.
set -eu
cat >/etc/default/grub.d/50-distribution.cfg <<'END'
GRUB_TIMEOUT=0
GRUB_TERMINAL=serial
GRUB_SERIAL_COMMAND="serial --unit=0"
GRUB_CMDLINE_LINUX="console=ttyS0 distribution.one=1"
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
END
cat >/etc/default/grub.d/kdump-tools.cfg <<'END'
GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT crashkernel=384M-:128M"
END
cat >/etc/default/grub.d/local.cfg <<'END'
GRUB_CMDLINE_LINUX_DEFAULT="quiet loglevel=3"
END
grub-install /dev/vda
update-grub
