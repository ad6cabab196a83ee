package host

import (
	"github.com/holdfast/holdfast/internal/ignition"
	"github.com/holdfast/holdfast/internal/state"
)

// Names of the units.
const (
	ContainerdUnit = "containerd.service"
	KubeletUnit    = "kubelet.service"
	InstallUnit    = "holdfast-install.service"
	AgentUnit      = "holdfast-agent.service"
)

// Units returns the units of a role. Runtime and kubelet wait for what
// `holdfast-agent install` puts in place; a boot before that skips them
// instead of failing.
func Units(role state.Role) []ignition.Unit {
	units := []ignition.Unit{
		{Name: ContainerdUnit, Contents: containerdUnit, Enabled: true},
		{Name: KubeletUnit, Contents: kubeletUnit, Enabled: true},
		{Name: InstallUnit, Contents: installUnit, Enabled: true},
	}
	if role.ControlPlane() {
		units = append(units, ignition.Unit{Name: AgentUnit, Contents: agentUnit, Enabled: true})
	}
	return units
}

// LimitNOFILE below is more than some machines may give; systemd then sets
// what they may.
const containerdUnit = `[Unit]
Description=containerd container runtime
After=network.target local-fs.target
ConditionPathExists=/usr/local/bin/containerd
ConditionPathExists=/etc/containerd/config.toml

[Service]
Type=notify
ExecStartPre=-/sbin/modprobe overlay
ExecStart=/usr/local/bin/containerd
Delegate=yes
KillMode=process
Restart=always
RestartSec=2
LimitNOFILE=1048576
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity

[Install]
WantedBy=multi-user.target
`

const kubeletUnit = `[Unit]
Description=kubelet, the node agent of Kubernetes
After=containerd.service network-online.target
Wants=containerd.service network-online.target
ConditionPathExists=/var/lib/kubelet/config.yaml

[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/local/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS
Restart=always
RestartSec=2

[Install]
WantedBy=multi-user.target
`

const installUnit = `[Unit]
Description=Install this host into its Holdfast cluster
After=network-online.target
Wants=network-online.target
ConditionPathExists=/etc/holdfast/site.json
ConditionPathExists=!/var/lib/holdfast/install/complete
StartLimitIntervalSec=0

[Service]
Type=exec
EnvironmentFile=-/etc/default/holdfast-agent
ExecStart=/bin/sh -c 'exec "$(command -v /usr/local/bin/holdfast-agent || echo /usr/lib/holdfast/holdfast-agent)" install'
Restart=on-failure
RestartSec=3
TimeoutStopSec=20

[Install]
WantedBy=multi-user.target
`

const agentUnit = `[Unit]
Description=Holdfast agent: configuration server and virtual IPs of this host
After=network-online.target
Wants=network-online.target
ConditionPathExists=/etc/holdfast/site.json
ConditionPathExists=/usr/local/bin/holdfast-agent
StartLimitIntervalSec=0

[Service]
Type=exec
EnvironmentFile=-/etc/default/holdfast-agent
ExecStart=/usr/local/bin/holdfast-agent run
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
`
