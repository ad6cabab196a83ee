package host

import (
	"github.com/holdfast/holdfast/internal/model/state"
)

// LifeUnit asks at each boot of a control plane whether the site was restored and serves without it.
const LifeUnit = "holdfast-life.service"

// LifeUnits returns the files of that unit, and those by which systemd starts nothing of the cluster on
// a host that wrote down in out that it has no place in its site any more. The agent writes them, so
// that hosts of an earlier release have them too.
func LifeUnits(out string) []state.File {
	files := []state.File{{Path: UnitDir + "/" + LifeUnit, Data: []byte(lifeUnit), Mode: state.DefaultFileMode}}
	for _, unit := range []string{KubeletUnit, CorosyncUnit, PacemakerUnit, EtcdUnit} {
		files = append(files, state.File{
			Path: UnitDir + "/" + unit + ".d/" + lifeDropin,
			Data: []byte("[Unit]\nConditionPathExists=!" + out + "\n"),
			Mode: state.DefaultFileMode,
		})
	}
	return files
}

const lifeDropin = "10-holdfast-life.conf"

// lifeUnit runs before everything of the cluster, which waits for it and starts whatever it ends with:
// nobody's answer is no reason not to serve. It asks for five seconds at most, and the network may
// take some time to be there. An agent of an earlier release does not know the command.
const lifeUnit = `[Unit]
Description=Ask whether the site was restored and serves without this host
After=network-online.target
Wants=network-online.target
Before=holdfast-agent.service kubelet.service corosync.service pacemaker.service podman-etcd.service pcsd.service
ConditionPathExists=` + state.InstalledPath + `
ConditionPathExists=/usr/local/bin/holdfast-agent

[Service]
Type=oneshot
EnvironmentFile=-/etc/default/holdfast-agent
ExecStart=-/usr/local/bin/holdfast-agent life
TimeoutStartSec=20s
` + plain + lifeConfinement + `
[Install]
WantedBy=multi-user.target
`
