#!/bin/sh
# Runs in the new root after its packages are installed. The machine boots into a service
# that runs what the test types; the rest of Debian starts with the first unit that asks for
# it. What only takes time is off: an emulated processor has little of it.
set -eu
cd "$1"
echo machine >etc/hostname
mkdir -p media/tools etc/systemd/system.conf.d
echo "LABEL=root / ext4 defaults 0 1" >etc/fstab
if [ -d usr/lib/systemd/boot/efi ]; then
  mkdir -p boot/efi
  echo "LABEL=BOOT /boot/efi vfat umask=0077,x-systemd.device-timeout=0 0 1" >>etc/fstab
else
  echo "LABEL=BOOT /boot ext4 defaults,x-systemd.device-timeout=0 0 2" >>etc/fstab
fi
printf '[Manager]\nDefaultTimeoutStartSec=10min\nDefaultTimeoutStopSec=10min\n' >etc/systemd/system.conf.d/slow.conf

cat >usr/local/sbin/typed <<'END'
#!/bin/sh
# Runs each line that comes by the second serial port, and says how it ended.
stty raw -echo
echo "typed: ready"
while IFS= read -r line; do
  sh -c "$line" </dev/null 2>&1
  printf '\ntyped: ended %s\n' $?
done
END
chmod 755 usr/local/sbin/typed
cat >etc/systemd/system/typed.service <<'END'
[Unit]
Description=Run what the test types
DefaultDependencies=no
Requires=local-fs.target
Wants=systemd-udevd.service systemd-udev-trigger.service
After=local-fs.target
Conflicts=shutdown.target
Before=shutdown.target

[Service]
ExecStart=/usr/local/sbin/typed
StandardInput=tty-force
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS1
Environment=PATH=/usr/sbin:/usr/bin:/sbin:/bin
END
printf '[Unit]\nDefaultDependencies=no\nRequires=typed.service\nAllowIsolate=yes\n' >etc/systemd/system/typed.target
ln -sf typed.target etc/systemd/system/default.target
cd etc/systemd/system
for unit in modprobe@configfs.service modprobe@dm_mod.service modprobe@drm.service modprobe@efi_pstore.service modprobe@fuse.service \
  modprobe@loop.service dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount \
  sys-fs-fuse-connections.mount proc-sys-fs-binfmt_misc.automount systemd-binfmt.service systemd-fsckd.socket systemd-pstore.service \
  systemd-random-seed.service systemd-journal-flush.service systemd-update-utmp.service systemd-sysusers.service systemd-repart.service; do
  ln -sf /dev/null "$unit"
done
