package host

import (
	"slices"

	decide "github.com/holdfast/holdfast/internal/decide/updates"
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
	ConfigureUnit  = "holdfast-configure.service"
	PatchUnit      = decide.Unit
	LeaveUnit      = "holdfast-leave.service"
	AgentUnit      = "holdfast-agent.service"
	TrustUnit      = "holdfast-trust.service"
	EtcdUnit       = "podman-etcd.service"
	CorosyncUnit   = "corosync.service"
	PcsdUnit       = "pcsd.service"
)

// units returns the units of a role. The runtime and kubelet wait for files
// that `holdfast-agent install` creates; a boot before that skips them instead
// of failing. Each unit of ours with a section [Install] is enabled, and no other one: an upgrade
// knows a release's units by that (decide/upgrade/hostfiles).
func units(s *site.Site, role state.Role) []ignition.Unit {
	units := []ignition.Unit{
		{Name: ContainerdUnit, Contents: containerdUnit, Enabled: true},
		{Name: KubeletUnit, Contents: kubeletUnit, Enabled: true},
		{Name: InstallUnit, Contents: installUnit, Enabled: true},
		{Name: AgentUnit, Contents: agentUnit, Enabled: true},
		{Name: ConfigureUnit, Contents: configureUnit},
		{Name: PatchUnit, Contents: patchUnit},
		{Name: LeaveUnit, Contents: leaveUnit, Enabled: true},
	}
	if role.ControlPlane() && s.Topology().Fencing {
		units = append(units, clusterUnits()...)
	}
	for i := range units {
		units[i].Dropins = append(units[i].Dropins, proxyDropin(units[i].Name)...)
	}
	return append(units, ignition.Unit{Name: TrustUnit, Contents: trustUnit, Enabled: true})
}

// SurroundingUnits returns the files by which units of a host read its proxy and its
// authorities. A host that an earlier release installed has those of which its site had
// something then, and gets the others with its first configuration that has the files.
func SurroundingUnits() []state.File {
	out := []state.File{{Path: UnitDir + "/" + TrustUnit, Data: []byte(trustUnit), Mode: state.DefaultFileMode}}
	for _, unit := range []string{ContainerdUnit, PatchUnit} {
		for _, d := range proxyDropin(unit) {
			out = append(out, state.File{Path: UnitDir + "/" + unit + ".d/" + d.Name, Data: []byte(d.Contents), Mode: state.DefaultFileMode})
		}
	}
	return out
}

// clusterUnits returns the units of a host of a two-node control plane, besides
// Corosync's and Pacemaker's, which the cluster enables during setup.
func clusterUnits() []ignition.Unit {
	return []ignition.Unit{
		{Name: EtcdUnit, Contents: etcdUnit, Enabled: true},
		{Name: PcsdUnit, Dropins: []ignition.Dropin{{Name: "10-holdfast.conf", Contents: pcsdDropin}}},
		{Name: CorosyncUnit, Dropins: []ignition.Dropin{{Name: "10-holdfast.conf", Contents: corosyncDropin}}},
		pacemakerUnit(),
	}
}

// proxyDropin gives the site's proxy to units that may download from outside: images, the
// release, packages. The proxy is in a file that only root can read, because everybody
// who may ask systemd sees the contents of a unit.
func proxyDropin(unit string) []ignition.Dropin {
	if !slices.Contains([]string{ContainerdUnit, InstallUnit, PatchUnit}, unit) {
		return nil
	}
	return []ignition.Dropin{{Name: "10-proxy.conf", Contents: "[Service]\nEnvironmentFile=-" + state.ProxyPath + "\n"}}
}

// LimitNOFILE below exceeds what some machines allow; systemd then sets their
// maximum. Containers inherit the core limit, which is zero: a core with the
// contents of their memory would be written to the host's disk, at
// /var/lib/systemd/coredump.
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

// kubelet starts after the agent, which puts the host's own name server first in
// resolv.conf: each pod gets a copy of the file at its start. It does not start
// without the folder of its settings, and nobody else creates that one. No namespaces of
// systemd apply to kubelet, which mounts volumes for others, nor to containerd,
// whose containers would inherit everything else.
const kubeletUnit = `[Unit]
Description=kubelet, the node agent of Kubernetes
After=containerd.service network-online.target holdfast-agent.service
Wants=containerd.service network-online.target
ConditionPathExists=/var/lib/kubelet/config.yaml

[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml --config-dir=` + state.KubeletFolder + `"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
` + resolvconf.KubeletWait + `ExecStartPre=/bin/mkdir -p ` + state.KubeletFolder + `
ExecStart=/usr/local/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS
Restart=always
RestartSec=2
` + plain + talking + `RestrictRealtime=yes

[Install]
WantedBy=multi-user.target
`

// installUnit runs a program that writes everywhere, asks podman for etcd's
// image with the host's mounts as later calls do, and then ends.
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

// agentUnit makes systemd restart an agent that hangs: the agent feeds the
// watchdog while all its reconcilers make progress. On a busy processor the
// agent comes first, because it decides who holds a virtual IP.
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

// configureUnit is run by the agent, which decides and has no right to write
// everywhere; it writes, and talks to nobody but systemd. On the way back from a
// configuration it runs again and again, as long as it fails.
const configureUnit = `[Unit]
Description=Write the machine configuration of this host
ConditionPathExists=/usr/local/bin/holdfast-agent
StartLimitIntervalSec=0

[Service]
Type=oneshot
EnvironmentFile=-/etc/default/holdfast-agent
ExecStart=/usr/local/bin/holdfast-agent configure
TimeoutStartSec=15min
` + configureConfinement + `
`

// patchUnit is started by the agent, which decides when. Scripts of packages do there
// whatever they do elsewhere, so it is hardly confined. A shutdown lets the package
// manager end its present step.
const patchUnit = `[Unit]
Description=Fetch or install the updates of this host's distribution
After=network-online.target
ConditionPathExists=/usr/local/bin/holdfast-agent
StartLimitIntervalSec=0

[Service]
Type=oneshot
EnvironmentFile=-/etc/default/holdfast-agent
ExecStart=/usr/local/bin/holdfast-agent patch
TimeoutStartSec=5h
TimeoutStopSec=150s
KillMode=mixed
LimitCORE=0
`

// LeaveStop is how long a shutdown waits for LeaveUnit: for the pods, the virtual IPs and, in
// Pacemaker's maintenance, etcd.
const LeaveStop = "95s"

// leaveUnit stops before all that serves: a shutdown that a person begins waits until
// other hosts have the pods, and then the virtual IPs, for 40 s at most, and in Pacemaker's
// maintenance 50 s more, until etcd has left. kubelet's own
// graceful shutdown would have Pacemaker wait, which gives etcd up in order
// (docs/adr/0071-graceful-node-shutdown.md). It does not ask logind, so that it
// also holds where logind does not hear of a shutdown.
const leaveUnit = `[Unit]
Description=Have other hosts take the pods of a host that shuts down
After=network-online.target containerd.service kubelet.service holdfast-agent.service
After=corosync.service podman-etcd.service pacemaker.service

[Service]
Type=oneshot
RemainAfterExit=yes
EnvironmentFile=-/etc/default/holdfast-agent
ExecStart=/bin/true
ExecStop=-/usr/local/bin/holdfast-agent leave
TimeoutStopSec=` + LeaveStop + `
` + plain + leaveConfinement + `
[Install]
WantedBy=multi-user.target
`

// etcdUnit is ordered before Pacemaker, so that it stops only after Pacemaker's
// agents have stopped etcd in order. etcd survives a restart or an end of the
// keeper, even by the watchdog: etcd's process does not belong to the unit, and
// systemd kills only the main process. The keeper feeds the watchdog while no
// part of its loop takes longer than allowed. If even a kill does not end it, for
// example because a thread waits for a disk, systemd gives up after twice the
// stop time-out and starts another one. podman's children, etcd and its monitor,
// inherit the restrictions of the unit and must see the host's mounts like every
// other caller of podman: so there are few restrictions. On a busy processor the keeper
// comes as early as the agent, because it decides who may lead.
const etcdUnit = `[Unit]
Description=etcd keeper of this host, one of two
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
CPUWeight=1000
` + plain + talking + `
[Install]
WantedBy=multi-user.target
`

// corosyncDropin keeps Corosync from starting on a network that is still being
// configured: each address that disappears and comes back is a lost peer, and a
// lost peer is fenced.
const corosyncDropin = `[Unit]
After=network-online.target
Wants=network-online.target
`

// pcsdDropin keeps a shutdown from waiting for pcsd, if an administrator started
// it: pcsd was seen to ignore a request to stop, and nothing is lost when it is
// killed.
const pcsdDropin = `[Service]
TimeoutStopSec=5s
`

// trustUnit adds the site's certificates to the host's own list (package agent/trust). It
// runs at each boot, because a package update may have rewritten the list, and once
// before there is a release on the host.
const trustUnit = `[Unit]
Description=Trust the certificate authorities of the site
Before=containerd.service holdfast-install.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'exec "$(command -v /usr/local/bin/holdfast-agent || echo /usr/lib/holdfast/holdfast-agent)" trust'
` + trustConfinement + `
[Install]
WantedBy=multi-user.target
`
