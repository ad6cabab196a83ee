package host

import (
	decide "github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/model/state"
)

// HeldUnits returns the files of the unit that changes what etcd runs on while a host of two
// control planes boots. A host gets them when it first needs them.
func HeldUnits() []state.File {
	return []state.File{{Path: UnitDir + "/" + decide.BootUnit, Data: []byte(heldUnit), Mode: state.DefaultFileMode}}
}

// heldUnit runs before everything that needs what it changes, and before others who change
// packages. Whoever waits for it starts all the same if it fails, or does not end: what is half
// changed is told, and the other host serves. Scripts of packages do there whatever they do
// elsewhere, so it is hardly confined.
const heldUnit = `[Unit]
Description=Update what etcd runs on, before Corosync and Pacemaker start
Before=corosync.service pacemaker.service podman-etcd.service pcsd.service kubelet.service
Before=apt-daily.service apt-daily-upgrade.service dnf-automatic.service dnf-automatic-install.service
ConditionPathExists=` + decide.MarkPath + `
ConditionPathExists=/usr/local/bin/holdfast-agent

[Service]
Type=oneshot
EnvironmentFile=-/etc/default/holdfast-agent
ExecStart=/usr/local/bin/holdfast-agent patch --at-boot
ExecStopPost=/bin/rm -f ` + decide.QuietPath + `
TimeoutStartSec=30min
TimeoutStopSec=150s
KillMode=mixed
LimitCORE=0

[Install]
WantedBy=multi-user.target
`
