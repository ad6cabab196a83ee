package host

// What our units may do, in systemd's words: docs/units.md has what they may not,
// unit by unit, with the reason for each thing that stays open, and the figures of
// `systemd-analyze security` before and after.

// plain is for every program of ours: no memory of it is ever written to a disk,
// where keys would be in it; it is of this machine's kind and stays so. What it
// starts inherits all three, and none of them hurts a container.
const plain = `LimitCORE=0
LockPersonality=yes
SystemCallArchitectures=native
`

// talking are the families of addresses of a program that speaks with hosts, with
// other programs and with the kernel about its network.
const talking = `RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
`

// agentConfinement is for the one program that parses what the network sends and
// has the site's keys in its memory. It writes /etc, /run and /var, and the
// kernel's settings of the network; it asks for adverts as raw frames, lets
// keepalived run in real time, and looks into its open files. It sees a host name
// that is changed, and asks the kernel how good the clock is, which it has no
// capability to set. Its children are systemctl, resolvconf and Pacemaker's tools,
// pcs among them, which is Python: memory may become code.
//
// It starts on a host whose disk is full: PrivateTmp and PrivateDevices would make
// folders below /tmp for that, so it has a /tmp in memory and a list of devices.
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

// trustConfinement is for the distribution's tool that reads certificates and
// writes lists of them.
const trustConfinement = plain + `NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=/etc /var
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
PrivateNetwork=yes
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
CapabilityBoundingSet=CAP_CHOWN CAP_FOWNER CAP_DAC_OVERRIDE
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
`
