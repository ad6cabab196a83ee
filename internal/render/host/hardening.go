package host

// The permissions of our units, as systemd settings. docs/units.md lists, per
// unit, what a unit may not do, the reason for each thing that stays allowed, and
// the figures of `systemd-analyze security` before and after.

// plain is for all of our programs. Their memory, which contains keys, is never
// written to a disk. They run only code for this machine's architecture, and
// cannot change that. Their children inherit all three settings, and none of
// them hurts a container.
const plain = `LimitCORE=0
LockPersonality=yes
SystemCallArchitectures=native
`

// offline is for a program that neither the network nor the kernel's settings
// concern. It talks to programs of this host alone.
const offline = `PrivateNetwork=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX
`

// talking lists the address families of a program that talks to hosts, to other
// programs, and to the kernel about its network.
const talking = `RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
`

// leaveConfinement is for a program that reads its access to the API, and writes
// nothing on the host.
const leaveConfinement = talking + `NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
CapabilityBoundingSet=CAP_DAC_READ_SEARCH
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
`

// agentConfinement is for the one program that parses data from the network and
// has the site's keys in its memory. The agent writes /etc, /run and /var, and the
// kernel's network settings. It receives adverts as raw frames, sets keepalived's
// real-time scheduling, and reads its open files and those that static pods have
// mounted. It notices a change of the host
// name, and asks the kernel about the clock's precision; it has no capability to
// set the clock. Its children are systemctl, busctl, resolvconf and Pacemaker's tools,
// among them pcs, which is Python: memory may become code.
//
// It must start on a host with a full disk. PrivateTmp and PrivateDevices would
// create folders below /tmp, so it uses a /tmp in memory and a list of devices.
const agentConfinement = plain + `NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=/etc /run /var
ProtectHome=yes
TemporaryFileSystem=/tmp /var/tmp
DevicePolicy=closed
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
RestrictNamespaces=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET
CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW CAP_KILL CAP_SYS_NICE CAP_SYS_PTRACE CAP_CHOWN CAP_FOWNER CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH
SystemCallFilter=@system-service adjtimex
SystemCallErrorNumber=EPERM
`

// configureConfinement is for the program that writes what a machine configuration
// says: below the folders in which it may be, homes for keys, and what boots the
// host. It reads no network. GRUB's tools read disks, and ask the kernel about
// volumes, which needs CAP_SYS_ADMIN; so they get every device. It must run on a
// host with a full disk, to take a configuration back.
const configureConfinement = plain + `NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=/etc /run /var -/opt -/srv -/usr/local -/home -/root -/boot -/efi
TemporaryFileSystem=/tmp /var/tmp
` + offline + `CapabilityBoundingSet=CAP_CHOWN CAP_FOWNER CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_SYS_ADMIN
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
`

// lifeConfinement is for a program that reads what a host knows of its site, asks control planes, and
// may write one file, and the manifest of etcd with its copies, and ask systemd to switch the host off.
// Like the agent it must start on a host with a full disk: the cluster starts whatever this unit ends with.
const lifeConfinement = `NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=/var/lib/holdfast -/etc/kubernetes/manifests -/etc/holdfast/kept
ProtectHome=yes
TemporaryFileSystem=/tmp /var/tmp
DevicePolicy=closed
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
`

// trustConfinement is for a program of ours and the distribution's tool that it runs: they
// read certificates, and write files and lists of them.
const trustConfinement = plain + `NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=/etc /var -/usr/local/share
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
` + offline + `CapabilityBoundingSet=CAP_CHOWN CAP_FOWNER CAP_DAC_OVERRIDE
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
`
