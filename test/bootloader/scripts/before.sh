#!/bin/sh
# Runs in the new root before its packages are installed: the initrd of a virtual machine
# needs few drivers, and an emulated processor reads it slowly. grub-pc shall ask nobody
# on which disk it belongs: that is decided in the machine.
set -eu
mkdir -p "$1/usr/share/initramfs-tools/conf.d" "$1/usr/share/initramfs-tools/modules.d"
echo MODULES=list >"$1/usr/share/initramfs-tools/conf.d/machine"
printf '%s\n' virtio_pci virtio_blk ext4 >"$1/usr/share/initramfs-tools/modules.d/machine"
echo "grub-pc grub-pc/install_devices_empty boolean true" | chroot "$1" debconf-set-selections
