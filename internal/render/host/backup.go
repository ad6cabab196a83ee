package host

import "github.com/holdfast/holdfast/internal/model/state"

// BackupUnit is the name of the unit that takes a backup of this host (package takebackup).
const BackupUnit = "holdfast-backup.service"

// Backup returns the file of the unit. A control plane gets it with its first backup.
func Backup() state.File {
	return state.File{Path: "/etc/systemd/system/" + BackupUnit, Data: []byte(backupUnit), Mode: state.DefaultFileMode}
}

// backupUnit is the content of the file. The unit reads every key of the host, and writes to the
// folder of backups and to any mount of a target, so no part of the file system is closed to it.
// It gets disk, processor and memory after everything else, because etcd's writes and a take-over
// must not wait for it. Its limit is longer than the one that the agent and the run itself keep, of which most
// is for copies over slow lines. A process that hangs on a mount that is away is left behind at the end.
const backupUnit = `[Unit]
Description=Take a backup of this control plane
After=network-online.target
ConditionPathExists=/usr/local/bin/holdfast-agent
StartLimitIntervalSec=0

[Service]
Type=oneshot
EnvironmentFile=-/etc/default/holdfast-agent
EnvironmentFile=-` + state.ProxyPath + `
ExecStart=/usr/local/bin/holdfast-agent backup
TimeoutStartSec=14h30min
TimeoutStopSec=5
Nice=19
IOSchedulingClass=idle
CPUSchedulingPolicy=batch
CPUWeight=1
CPUQuota=100%
IOWeight=1
UMask=0077
LimitCORE=0
OOMScoreAdjust=1000
NoNewPrivileges=yes
`
