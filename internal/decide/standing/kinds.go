package standing

import "github.com/holdfast/holdfast/internal/decide/finding"

// The pages that several kinds share.
const (
	pageTwoNodes   = "docs/runbook/two-node.md"
	pageEtcd       = "docs/runbook/twonode-etcd.md"
	pageKubelet    = "docs/runbook/twonode-kubelet.md"
	pageFencing    = "docs/runbook/fencing.md"
	pageAlerts     = "docs/runbook/alerts.md"
	pageVIP        = "docs/runbook/vip.md"
	pageTwoHolders = "docs/runbook/vip-two-holders.md"
	pageDeleted    = "docs/runbook/deleted-objects.md"
	pageHostConfig = "docs/runbook/host-configuration.md"
	pagePools      = "docs/runbook/machine-config.md"
	pageUpgrade    = "docs/runbook/upgrade.md"
	pageBackups    = "docs/runbook/backups.md"
	pageSpace      = "docs/runbook/etcd-space.md"
	pageCAs        = "docs/runbook/authorities.md"
	pageKeys       = "docs/runbook/encryption.md"
	pageLeaves     = "docs/runbook/leaf-certificates.md"
	pageReplace    = "docs/runbook/replace-host.md"
	pageOperator   = "docs/runbook/operator.md"
)

// The kinds of findings.
const (
	PersonNeeded          finding.ID = "person-needed"
	HostWaits             finding.ID = "host-waits"
	NoQuorum              finding.ID = "no-quorum"
	APISilent             finding.ID = "api-silent"
	HostSilent            finding.ID = "host-silent"
	PacemakerStatusStale  finding.ID = "pacemaker-status-stale"
	PacemakerWithoutNodes finding.ID = "pacemaker-without-nodes"
	NotSetUp              finding.ID = "not-set-up"
	Resyncing             finding.ID = "resyncing"
	FencingDisabled       finding.ID = "fencing-disabled"
	FencingUnavailable    finding.ID = "fencing-unavailable"
	FencingDegraded       finding.ID = "fencing-degraded"
	FencingNotVerified    finding.ID = "fencing-not-verified"
	LastFenceFailed       finding.ID = "last-fence-failed"
	SettingsChanged       finding.ID = "settings-changed"
	ClusterInMaintenance  finding.ID = "cluster-in-maintenance"
	NodeCountMismatch     finding.ID = "node-count-mismatch"
	NodeNotProvenOff      finding.ID = "node-not-proven-off"
	NodeOffline           finding.ID = "node-offline"
	NodeInMaintenance     finding.ID = "node-in-maintenance"
	NodeInStandby         finding.ID = "node-in-standby"
	NodeJoining           finding.ID = "node-joining"
	NodeNoMember          finding.ID = "node-no-member"
	ResourceNotWell       finding.ID = "resource-not-well"
	EtcdKeeperTroubled    finding.ID = "etcd-keeper-troubled"
	EtcdMember            finding.ID = "etcd-member"
	EtcdStranger          finding.ID = "etcd-stranger"
	VIPHeldTwice          finding.ID = "vip-held-twice"
	VIPForeignHolder      finding.ID = "vip-foreign-holder"
	VIPLeftBehind         finding.ID = "vip-left-behind"
	VIPForgedAdverts      finding.ID = "vip-forged-adverts"
	VIPWithoutHolder      finding.ID = "vip-without-holder"
	VIPWithoutWrites      finding.ID = "vip-without-writes"
	VIPPeerMissing        finding.ID = "vip-peer-missing"
	BackendMissing        finding.ID = "backend-missing"
	NetworkTroubled       finding.ID = "network-troubled"
	AgentLoopFailing      finding.ID = "agent-loop-failing"
	FirewallRefuses       finding.ID = "firewall-refuses"
	NodeNotReady          finding.ID = "node-not-ready"
	NodeCordoned          finding.ID = "node-cordoned"
	NodeDeleted           finding.ID = "node-deleted"
	NodeRetired           finding.ID = "node-retired"
	DeletedOnHost         finding.ID = "deleted-on-host"
	NodeLabelsLost        finding.ID = "node-labels-lost"
	NodesMissing          finding.ID = "nodes-missing"
	ObjectsDeleted        finding.ID = "objects-deleted"
	NothingWritten        finding.ID = "nothing-written"
	OperatorNotWell       finding.ID = "operator-not-well"
	OperatorSilent        finding.ID = "operator-silent"
	ConfigUnderWay        finding.ID = "config-under-way"
	ConfigSilent          finding.ID = "config-silent"
	ConfigNeedsBoot       finding.ID = "config-needs-boot"
	ConfigFailed          finding.ID = "config-failed"
	ConfigRefused         finding.ID = "config-refused"
	ConfigChanged         finding.ID = "config-changed"
	ConfigNoPool          finding.ID = "config-no-pool"
	UpdatesFailed         finding.ID = "updates-failed"
	RebootRequired        finding.ID = "reboot-required"
	WishWaits             finding.ID = "wish-waits"
	DrainWaits            finding.ID = "drain-waits"
	HostEmpty             finding.ID = "host-empty"
	RenewalWaits          finding.ID = "renewal-waits"
	RotationUnfinished    finding.ID = "rotation-unfinished"
	PlanUnderWay          finding.ID = "plan-under-way"
	PoolRefused           finding.ID = "pool-refused"
	PoolPaused            finding.ID = "pool-paused"
	PoolWaits             finding.ID = "pool-waits"
	UpgradeHostHeld       finding.ID = "upgrade-host-held"
	UpgradeHostReturned   finding.ID = "upgrade-host-returned"
	UpgradeFetchFailed    finding.ID = "upgrade-fetch-failed"
	UpgradePaused         finding.ID = "upgrade-paused"
	UpgradeRefused        finding.ID = "upgrade-refused"
	UpgradeWayBackOpen    finding.ID = "upgrade-way-back-open"
	ReleasesMixed         finding.ID = "releases-mixed"
	BackupNone            finding.ID = "backup-none"
	BackupOld             finding.ID = "backup-old"
	BackupHostOld         finding.ID = "backup-host-old"
	BackupFailed          finding.ID = "backup-failed"
	BackupRefused         finding.ID = "backup-refused"
	BackupNotSent         finding.ID = "backup-not-sent"
	BackupNeverProven     finding.ID = "backup-never-proven"
	EtcdFull              finding.ID = "etcd-full"
	EtcdShort             finding.ID = "etcd-short"
	EtcdDefragmentFails   finding.ID = "etcd-defragment-fails"
	EtcdWaste             finding.ID = "etcd-waste"
)

var kinds = []finding.Kind{
	{ID: PersonNeeded, Title: "one of two hosts waits for an administrator", Page: pageTwoNodes, Alerts: []string{"HoldfastWaitsForAPerson"}},
	{ID: HostWaits, Title: "etcd on one of two hosts takes no writes now", Page: pageTwoNodes, Alerts: []string{"HoldfastNoCommit"}},
	{ID: NoQuorum, Title: "Pacemaker has no quorum", Page: "docs/runbook/twonode-cold-boot.md", Alerts: []string{"HoldfastNoQuorum"}},
	{ID: APISilent, Title: "an API server does not answer, or the route to it is broken", Page: pageVIP},
	{ID: HostSilent, Title: "no data from a host"},
	{ID: PacemakerStatusStale, Title: "no host reports on Pacemaker", Page: pageTwoNodes, Alerts: []string{"HoldfastStatusStale"}},
	{ID: PacemakerWithoutNodes, Title: "Pacemaker reports no nodes", Page: pageAlerts},
	{ID: NotSetUp, Title: "two hosts are not set up as a pair yet", Page: "docs/runbook/install.md"},
	{ID: Resyncing, Title: "a host that came back is catching up", Page: pageTwoNodes, Alerts: []string{"HoldfastNotRedundant"}},
	{ID: EtcdStranger, Title: "etcd lists a member that belongs to no host", Page: pageDeleted, Alerts: []string{"HoldfastNotRedundant"}},
	{ID: FencingDisabled, Title: "fencing is disabled", Page: pageAlerts + "#holdfastfencingdisabled", Alerts: []string{"HoldfastFencingDisabled"}},
	{ID: FencingUnavailable, Title: "a host cannot be fenced", Page: pageFencing, Alerts: []string{"HoldfastNodeFencingUnavailable"}},
	{ID: FencingDegraded, Title: "one of several ways to fence a host does not work", Page: pageFencing, Alerts: []string{"HoldfastNodeFencingDegraded"}},
	{ID: FencingNotVerified, Title: "no host has verified recently that it can fence the other", Page: pageFencing, Alerts: []string{"HoldfastFencingNotVerified"}},
	{ID: LastFenceFailed, Title: "the last fence of a host failed", Page: pageFencing, Alerts: []string{"HoldfastFenceFailed"}},
	{ID: SettingsChanged, Title: "a setting of Pacemaker or Corosync that is needed for safety was changed", Page: pageAlerts + "#holdfastsettingschanged", Alerts: []string{"HoldfastSettingsChanged"}},
	{ID: ClusterInMaintenance, Title: "Pacemaker is in maintenance", Page: pageAlerts + "#holdfastclusterinmaintenance", Alerts: []string{"HoldfastClusterInMaintenance"}},
	{ID: NodeCountMismatch, Title: "Pacemaker or Corosync does not have exactly two nodes", Page: pageAlerts + "#holdfastnodecountmismatch", Alerts: []string{"HoldfastNodeCountMismatch"}},
	{ID: NodeNotProvenOff, Title: "a lost host is not proven off", Page: pageFencing, Alerts: []string{"HoldfastNodeUnclean"}},
	{ID: NodeOffline, Title: "a host is not in the cluster", Page: "docs/runbook/twonode-power.md", Alerts: []string{"HoldfastNodeOffline", "HoldfastNotRedundant"}},
	{ID: NodeInMaintenance, Title: "a host is in maintenance: Pacemaker does not touch it", Page: pageAlerts + "#holdfastnodeinmaintenance", Alerts: []string{"HoldfastNodeInMaintenance"}},
	{ID: NodeInStandby, Title: "a host is in standby", Page: pageAlerts + "#holdfastnodestandby", Alerts: []string{"HoldfastNodeStandby"}},
	{ID: NodeJoining, Title: "a host is joining or leaving", Page: pageAlerts},
	{ID: NodeNoMember, Title: "a host is not a full member of the cluster", Page: pageAlerts + "#holdfastnodecountmismatch"},
	{ID: ResourceNotWell, Title: "kubelet or etcd on a host is unhealthy; each has its own page", Page: pageKubelet, Alerts: []string{
		"HoldfastResourceStopped", "HoldfastResourceFailed", "HoldfastResourceBlocked", "HoldfastResourceUnmanaged", "HoldfastResourceDisabled",
	}},
	{ID: EtcdKeeperTroubled, Title: "the etcd keeper of a host runs into an error", Page: pageEtcd},
	{ID: EtcdMember, Title: "a member of etcd does not count for the quorum"},
	{ID: VIPHeldTwice, Title: "two hosts report that they hold a VIP", Page: pageTwoHolders, Alerts: []string{"HoldfastVirtualIPHeldTwice"}},
	{ID: VIPForeignHolder, Title: "a foreign host answers for a VIP", Page: pageTwoHolders},
	{ID: VIPLeftBehind, Title: "a host answers for a VIP that it does not announce", Page: pageTwoHolders},
	{ID: VIPForgedAdverts, Title: "a machine forges adverts for a VIP", Page: pageTwoHolders, Alerts: []string{"HoldfastVirtualIPForgedAdverts"}},
	{ID: VIPWithoutHolder, Title: "no host holds a VIP", Page: pageVIP},
	{ID: VIPWithoutWrites, Title: "no host holds a VIP, because etcd takes no writes", Page: pageVIP},
	{ID: VIPPeerMissing, Title: "a host does not count a control plane among its peers for the API VIP", Page: pageDeleted},
	{ID: BackendMissing, Title: "a balancer has no backend for a control plane", Page: pageDeleted},
	{ID: NetworkTroubled, Title: "the network part of a host's agent runs into an error", Page: pageVIP},
	{ID: AgentLoopFailing, Title: "something that a host's agent does again and again fails or hangs, for longer than a minute", Page: "docs/runbook/agent-loops.md"},
	{ID: FirewallRefuses, Title: "a firewall of the site refuses what the cluster needs", Page: "docs/runbook/firewall.md"},
	{ID: NodeNotReady, Title: "a kubelet is not ready", Page: pageKubelet},
	{ID: NodeCordoned, Title: "a node is cordoned"},
	{ID: NodeDeleted, Title: "a host that runs has no Node", Page: pageDeleted},
	{ID: NodeRetired, Title: "a host was taken out of the cluster", Page: pageDeleted},
	{ID: DeletedOnHost, Title: "somebody deleted a file of a host, or a part of its cluster's configuration", Page: pageDeleted},
	{ID: NodeLabelsLost, Title: "a Node lacks the labels of its role", Page: pageDeleted},
	{ID: NodesMissing, Title: "the API lists fewer control planes than the site has", Page: pageDeleted},
	{ID: ObjectsDeleted, Title: "objects of the cluster's own were deleted", Page: pageDeleted},
	{ID: ConfigUnderWay, Title: "a host is at work on its machine configuration, or on a reboot or updates that somebody wants, or waits with it", Page: pageHostConfig, Alerts: []string{"HoldfastDrainLate", "HoldfastConfigurationLate"}},
	{ID: ConfigSilent, Title: "the agent of a host does not answer that it was given a machine configuration", Page: pageHostConfig},
	{ID: ConfigNeedsBoot, Title: "a host waits until a person boots it for its machine configuration", Page: pageHostConfig, Alerts: []string{"HoldfastRebootLate"}},
	{ID: ConfigFailed, Title: "a host could not get its machine configuration, and went back", Page: pageHostConfig, Alerts: []string{"HoldfastConfigurationFailed"}},
	{ID: ConfigRefused, Title: "a host refused its machine configuration", Page: pageHostConfig, Alerts: []string{"HoldfastConfigurationFailed"}},
	{ID: ConfigChanged, Title: "somebody changed on a host what its machine configuration wrote", Page: pageHostConfig, Alerts: []string{"HoldfastConfigurationChanged"}},
	{ID: ConfigNoPool, Title: "no pool configures a host, or not every pool that selects it", Page: pagePools},
	{ID: UpdatesFailed, Title: "the updates of a host's distribution, which somebody wanted, were not installed", Page: pageHostConfig, Alerts: []string{"HoldfastUpdatesFailed"}},
	{ID: RebootRequired, Title: "the distribution of a host wants a reboot", Page: pageHostConfig, Alerts: []string{"HoldfastRebootRequired"}},
	{ID: WishWaits, Title: "a host waits for its turn to boot or to get updates, as somebody wants", Page: pageHostConfig, Alerts: []string{"HoldfastWishLate"}},
	{ID: DrainWaits, Title: "somebody wants a host to be empty, and a pod is in the way", Page: "docs/runbook/drain.md", Alerts: []string{"HoldfastWishLate"}},
	{ID: HostEmpty, Title: "a host is empty, as somebody wants", Page: "docs/runbook/drain.md", Alerts: []string{"HoldfastHostEmpty"}},
	{ID: RenewalWaits, Title: "a control plane waits with the renewal of its certificates", Page: pageLeaves, Alerts: []string{"HoldfastCertificateNotRenewed"}},
	{ID: RotationUnfinished, Title: "the rotation of an authority, or of the key of secrets in etcd, is under way, waits, or left a host out", Page: pageCAs, Alerts: []string{"HoldfastRotationUnfinished"}},
	{ID: PlanUnderWay, Title: "a plan changes the control planes or the addresses of the site", Page: pageReplace},
	{ID: PoolRefused, Title: "the MachineConfigs of a pool make no configuration", Page: pagePools, Alerts: []string{"HoldfastPoolRefused"}},
	{ID: PoolPaused, Title: "a pool is paused, and hosts of it lack its machine configuration", Page: pagePools, Alerts: []string{"HoldfastPoolLate"}},
	{ID: PoolWaits, Title: "hosts of a pool wait for their machine configuration, and none is at work", Page: pagePools, Alerts: []string{"HoldfastPoolLate"}},
	{ID: UpgradeHostHeld, Title: "a host holds in the middle of its upgrade", Page: pageUpgrade},
	{ID: UpgradeHostReturned, Title: "a host went back to its old release by itself", Page: pageUpgrade},
	{ID: UpgradeFetchFailed, Title: "a host cannot fetch the release of an upgrade", Page: pageUpgrade},
	{ID: UpgradePaused, Title: "an upgrade waits for a gate, a host or a person", Page: pageUpgrade, Alerts: []string{"HoldfastUpgradePaused"}},
	{ID: UpgradeRefused, Title: "the release that is wanted is refused", Page: pageUpgrade},
	{ID: UpgradeWayBackOpen, Title: "all hosts run the new release, and the way back is open", Page: pageUpgrade, Alerts: []string{"HoldfastUpgradeWayBackOpen"}},
	{ID: ReleasesMixed, Title: "hosts run different releases without an upgrade, or for longer than a day", Page: pageUpgrade},
	{ID: BackupNone, Title: "no control plane has a good backup", Page: pageBackups, Alerts: []string{"HoldfastBackupOld"}},
	{ID: BackupOld, Title: "the newest good backup is older than two periods of its schedule", Page: pageBackups, Alerts: []string{"HoldfastBackupOld"}},
	{ID: BackupHostOld, Title: "a control plane has no new good backup, and another one has", Page: pageBackups},
	{ID: BackupFailed, Title: "backups of a control plane fail", Page: pageBackups, Alerts: []string{"HoldfastBackupFails"}},
	{ID: BackupRefused, Title: "the configuration of backups has mistakes or is gone", Page: pageBackups},
	{ID: BackupNotSent, Title: "no new good backup lies at a target", Page: pageBackups, Alerts: []string{"HoldfastBackupNotSent"}},
	{ID: BackupNeverProven, Title: "nobody has opened a backup with the private key", Page: pageBackups},
	{ID: EtcdFull, Title: "etcd has raised the alarm NOSPACE, and takes no writes", Page: pageSpace, Alerts: []string{"HoldfastEtcdFull"}},
	{ID: EtcdShort, Title: "a member of etcd is at 80 % of its quota or more", Page: pageSpace, Alerts: []string{"HoldfastEtcdShort"}},
	{ID: EtcdDefragmentFails, Title: "the defragmentation of a member of etcd failed three times in a row", Page: pageSpace, Alerts: []string{"HoldfastEtcdDefragmentFails"}},
	{ID: EtcdWaste, Title: "the only member of etcd has much to gain from a defragmentation", Page: pageSpace},
	{ID: NothingWritten, Title: "the API answers, but no host has written to it for a while", Page: pageSpace},
	{ID: OperatorSilent, Title: "holdfast-operator does not run, so what it says is what it wrote last", Page: pageOperator},
	{ID: OperatorNotWell, Title: "a ClusterOperator is degraded or not available"},
}

// Kinds lists all kinds of findings of status.
func Kinds() []finding.Kind { return kinds }

func pageOf(id finding.ID) string {
	for _, k := range kinds {
		if k.ID == id {
			return k.Page
		}
	}
	return ""
}
