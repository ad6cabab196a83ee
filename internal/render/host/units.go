package host

import (
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/resolvconf"
)

// Names of the units.
const (
	ContainerdUnit = "containerd.service"
	KubeletUnit    = "kubelet.service"
	InstallUnit    = "holdfast-install.service"
	AgentUnit      = "holdfast-agent.service"
	TrustUnit      = "holdfast-trust.service"
	EtcdUnit       = "podman-etcd.service"
	CorosyncUnit   = "corosync.service"
	PcsdUnit       = "pcsd.service"
)

// units returns the units of a role. Runtime and kubelet wait for what
// `holdfast-agent install` puts in place; a boot before that skips them
// instead of failing.
func units(s *site.Site, role state.Role) []ignition.Unit {
	units := []ignition.Unit{
		{Name: ContainerdUnit, Contents: containerdUnit, Enabled: true},
		{Name: KubeletUnit, Contents: kubeletUnit, Enabled: true},
		{Name: InstallUnit, Contents: installUnit, Enabled: true},
		{Name: AgentUnit, Contents: agentUnit, Enabled: true},
	}
	if role.ControlPlane() && s.Topology().Fencing {
		units = append(units, clusterUnits()...)
	}
	if s.Config.Proxy != nil {
		for i := range units {
			units[i].Dropins = proxyDropin(units[i].Name)
		}
	}
	if s.Config.AdditionalTrustBundle != "" {
		units = append(units, ignition.Unit{Name: TrustUnit, Contents: trustUnit, Enabled: true})
	}
	return units
}

// clusterUnits are what a host of a two-node control plane has beside Corosync
// and Pacemaker, which the cluster enables when it sets them up.
func clusterUnits() []ignition.Unit {
	return []ignition.Unit{
		{Name: EtcdUnit, Contents: etcdUnit, Enabled: true},
		{Name: PcsdUnit, Dropins: []ignition.Dropin{{Name: "10-holdfast.conf", Contents: pcsdDropin}}},
		{Name: CorosyncUnit, Dropins: []ignition.Dropin{{Name: "10-holdfast.conf", Contents: corosyncDropin}}},
		pacemakerUnit(),
	}
}

// proxyDropin gives the site's proxy to what may fetch from outside: images,
// and the release. It is a file that only root reads, since whoever may ask
// systemd sees what a unit itself says.
func proxyDropin(unit string) []ignition.Dropin {
	if unit == AgentUnit {
		return nil // it talks to the cluster only
	}
	return []ignition.Dropin{{Name: "10-proxy.conf", Contents: "[Service]\nEnvironmentFile=-" + ProxyPath + "\n"}}
}

// LimitNOFILE below is more than some machines may give; systemd then sets
// what they may. Containers inherit the limit of cores: none, since what is in
// their memory would lie on the host's disk, at /var/lib/systemd/coredump.
const containerdUnit = `[Unit]
Description=containerd container runtime
After=network.target local-fs.target
ConditionPathExists=/usr/local/bin/containerd
ConditionPathExists=/etc/containerd/config.toml

[Service]
Type=notify
ExecStartPre=-/usr/lib/systemd/systemd-modules-load /etc/modules-load.d/holdfast.conf
ExecStartPre=-/usr/lib/systemd/systemd-sysctl /etc/sysctl.d/90-holdfast.conf
ExecStart=/usr/local/bin/containerd
Delegate=yes
KillMode=process
Restart=always
RestartSec=2
LimitNOFILE=1048576
LimitNPROC=infinity
LimitCORE=0
TasksMax=infinity

[Install]
WantedBy=multi-user.target
`

// kubelet starts after the agent, which puts the host's own name server first
// in resolv.conf: each pod gets a copy of the file as it is when it starts.
// Nothing of systemd's name spaces is for kubelet, which mounts volumes for others
// to see, nor for containerd, whose containers would inherit all else.
const kubeletUnit = `[Unit]
Description=kubelet, the node agent of Kubernetes
After=containerd.service network-online.target holdfast-agent.service
Wants=containerd.service network-online.target
ConditionPathExists=/var/lib/kubelet/config.yaml

[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
` + resolvconf.KubeletWait + `ExecStart=/usr/local/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS
Restart=always
RestartSec=2
` + plain + talking + `RestrictRealtime=yes

[Install]
WantedBy=multi-user.target
`

// installUnit's program writes everywhere, sees the host's mounts as podman does
// later, of which it asks for etcd's image, and is done.
const installUnit = `[Unit]
Description=Install this host into its Holdfast cluster
After=network-online.target holdfast-trust.service containerd.service
Wants=network-online.target
ConditionPathExists=/etc/holdfast/site.json
ConditionPathExists=!/var/lib/holdfast/install/complete
StartLimitIntervalSec=0

[Service]
Type=exec
EnvironmentFile=-/etc/default/holdfast-agent
Environment=DOCKER_CONFIG=/etc/holdfast/registry
ExecStart=/bin/sh -c 'exec "$(command -v /usr/local/bin/holdfast-agent || echo /usr/lib/holdfast/holdfast-agent)" install'
Restart=on-failure
RestartSec=3
TimeoutStopSec=20
` + plain + `RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET

[Install]
WantedBy=multi-user.target
`

// agentUnit has systemd start an agent anew that hangs: it feeds the watchdog
// while all that it keeps in step makes headway. It gets its share of a busy
// processor first, since it decides who holds a virtual IP.
const agentUnit = `[Unit]
Description=Holdfast agent: virtual IPs, load balancer and names of this host
After=network-online.target
Wants=network-online.target
ConditionPathExists=/etc/holdfast/site.json
ConditionPathExists=/usr/local/bin/holdfast-agent
StartLimitIntervalSec=0

[Service]
Type=notify
EnvironmentFile=-/etc/default/holdfast-agent
ExecStart=/usr/local/bin/holdfast-agent run
Restart=always
RestartSec=1
WatchdogSec=60
CPUWeight=1000
` + agentConfinement + `
[Install]
WantedBy=multi-user.target
`

// etcdUnit is ordered before Pacemaker, so that it stops after Pacemaker has
// had its agents stop etcd in order. What it started lives on when it is
// restarted or ended, also by the watchdog: etcd's process is none of the
// unit's, and only the main process is ever killed. The watchdog is fed while
// no part of the keeper's loop takes longer than it may. Where even the kill does
// not end it, a thread that waits for a disk say, systemd gives up on it after
// twice the time for a stop, and starts another. What podman starts for it, etcd
// and what watches over it, inherits what the unit may not, and has to see the
// host's mounts as every other caller of podman does: so it is little.
const etcdUnit = `[Unit]
Description=Keeper of etcd on this host, one of two
After=network-online.target local-fs.target
Wants=network-online.target
Before=pacemaker.service
ConditionPathExists=` + payload.ResourceAgent + `
StartLimitIntervalSec=0

[Service]
Type=exec
EnvironmentFile=-/etc/default/holdfast-agent
ExecStart=` + payload.ResourceAgent + ` serve
Restart=always
RestartSec=200ms
WatchdogSec=20
TimeoutStopSec=10s
KillMode=process
Delegate=yes
` + plain + talking + `
[Install]
WantedBy=multi-user.target
`

// corosyncDropin keeps Corosync from starting on a network that is still being
// put together: each address that goes away and comes back is a lost peer, and
// a lost peer is fenced.
const corosyncDropin = `[Unit]
After=network-online.target
Wants=network-online.target
`

// pcsdDropin keeps a shutdown from waiting for pcsd, where a person started it: it
// was seen not to end when it is asked to, and holds nothing that an end could
// harm.
const pcsdDropin = `[Service]
TimeoutStopSec=5s
`

// trustUnit makes the site's certificates part of the host's own list, with
// the tool of whichever distribution this is. It runs at each boot: a package
// update may have written the list anew.
const trustUnit = `[Unit]
Description=Trust the certificate authorities of the site
Before=containerd.service holdfast-install.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'if command -v update-ca-certificates >/dev/null; then exec update-ca-certificates; else exec update-ca-trust; fi'
` + trustConfinement + `
[Install]
WantedBy=multi-user.target
`
