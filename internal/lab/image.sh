#!/bin/sh
# Makes a fresh Debian tree into a lab host. $1 is the root of the tree.
set -eu
root=$1

# Debian's podman brings a pod network: a node would be Ready before any
# network of ours exists, and its first pods would land on the wrong bridge.
rm -f "$root/etc/cni/net.d/87-podman-bridge.conflist"
rm -f "$root/etc/corosync/corosync.conf"

# Keys that all hosts of all labs would share.
rm -f "$root"/etc/ssh/ssh_host_*

# Settings of the whole machine are not a host's to change: the kernel is shared.
rm -f "$root"/usr/lib/sysctl.d/*.conf "$root"/etc/sysctl.d/*.conf

off() {
	for unit; do
		chroot "$root" systemctl disable "$unit" >/dev/null 2>&1 || true
	done
}
off corosync pacemaker pcsd keepalived haproxy containerd podman-auto-update.service \
	podman-auto-update.timer podman-restart.service podman.service podman.socket \
	podman-clean-transient.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
	e2scrub_all.timer e2scrub_reap.service fstrim.timer ssh nftables logrotate.timer man-db.timer

mask() {
	for unit; do
		ln -sf /dev/null "$root/etc/systemd/system/$unit"
	done
}
mask getty.target console-getty.service getty@tty1.service systemd-udevd.service \
	systemd-udev-trigger.service systemd-udevd-control.socket systemd-udevd-kernel.socket \
	apt-daily.service apt-daily-upgrade.service proc-sys-fs-binfmt_misc.automount \
	dev-hugepages.mount sys-kernel-debug.mount sys-kernel-tracing.mount \
	sys-fs-fuse-connections.mount systemd-remount-fs.service systemd-modules-load.service \
	systemd-timesyncd.service modprobe@.service

# The first boot of a host, as an image for real machines would do it.
cat >"$root/etc/systemd/system/holdfast-firstboot.service" <<'UNIT'
[Unit]
Description=Make this host what its Ignition says
Documentation=https://github.com/holdfast/holdfast
ConditionPathExists=/usr/lib/holdfast/ignition.json
ConditionPathExists=!/var/lib/holdfast/first-boot-done
After=network-online.target
Wants=network-online.target

[Service]
Type=oneshot
RemainAfterExit=yes
EnvironmentFile=-/etc/default/holdfast-agent
ExecStart=/usr/lib/holdfast/holdfast-agent apply --ignition /usr/lib/holdfast/ignition.json --first-boot
ExecStartPost=/usr/bin/touch /var/lib/holdfast/first-boot-done
Restart=on-failure
RestartSec=5

[Install]
WantedBy=multi-user.target
UNIT
chroot "$root" systemctl enable holdfast-firstboot.service >/dev/null 2>&1

mkdir -p "$root/etc/default" "$root/var/log/journal" "$root/usr/lib/holdfast" \
	"$root/usr/share/holdfast/release" "$root/etc/systemd/journald.conf.d" "$root/var/lib/etcd" "$root/var/lib/holdfast"
chmod 700 "$root/var/lib/etcd" "$root/var/lib/holdfast"
echo 'HOLDFAST_DMI_DIR=/usr/lib/holdfast/dmi' >"$root/etc/default/holdfast-agent"
# The kernel's log is the machine's: each host would repeat it.
printf '[Journal]\nReadKMsg=no\nStorage=persistent\nSystemMaxUse=200M\nRateLimitBurst=0\n' \
	>"$root/etc/systemd/journald.conf.d/lab.conf"

: >"$root/etc/machine-id"
rm -f "$root/var/lib/dbus/machine-id" "$root/etc/hostname" "$root/etc/resolv.conf"
printf '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n' >"$root/etc/hosts"
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/doc/*
