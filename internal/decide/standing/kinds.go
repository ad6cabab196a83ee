package standing

import "github.com/holdfast/holdfast/internal/decide/finding"

// Kind holds what all findings of one ID have in common.
type Kind struct {
	ID finding.ID
	// Title describes the finding in one line.
	Title string
	// Page is the page of the runbook, with an anchor if only a part of it
	// applies; empty if the commands of the finding are all there is to say.
	Page string
	// Alerts lists the alerts (render/alerts) that fire for the same problem.
	Alerts []string
}

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
	NodeLabelsLost        finding.ID = "node-labels-lost"
	NodesMissing          finding.ID = "nodes-missing"
	ObjectsDeleted        finding.ID = "objects-deleted"
	OperatorNotWell       finding.ID = "operator-not-well"
)

var kinds = []Kind{
	{PersonNeeded, "one of two hosts waits for an administrator", pageTwoNodes, []string{"HoldfastWaitsForAPerson"}},
	{HostWaits, "etcd on one of two hosts takes no writes now", pageTwoNodes, []string{"HoldfastNoCommit"}},
	{NoQuorum, "Pacemaker has no quorum", "docs/runbook/twonode-cold-boot.md", []string{"HoldfastNoQuorum"}},
	{APISilent, "an API server does not answer, or the route to it is broken", pageVIP, nil},
	{HostSilent, "no data from a host", "", nil},
	{PacemakerStatusStale, "no host reports on Pacemaker", pageTwoNodes, []string{"HoldfastStatusStale"}},
	{PacemakerWithoutNodes, "Pacemaker reports no nodes", pageAlerts, nil},
	{NotSetUp, "two hosts are not set up as a pair yet", "docs/runbook/install.md", nil},
	{Resyncing, "a host that came back is catching up", pageTwoNodes, []string{"HoldfastNotRedundant"}},
	{FencingDisabled, "fencing is disabled", pageAlerts + "#holdfastfencingdisabled", []string{"HoldfastFencingDisabled"}},
	{FencingUnavailable, "a host cannot be fenced", pageFencing, []string{"HoldfastNodeFencingUnavailable"}},
	{FencingDegraded, "one of several ways to fence a host does not work", pageFencing, []string{"HoldfastNodeFencingDegraded"}},
	{FencingNotVerified, "no host has verified recently that it can fence the other", pageFencing, []string{"HoldfastFencingNotVerified"}},
	{LastFenceFailed, "the last fence of a host failed", pageFencing, []string{"HoldfastFenceFailed"}},
	{SettingsChanged, "a setting of Pacemaker or Corosync that is needed for safety was changed", pageAlerts + "#holdfastsettingschanged", []string{"HoldfastSettingsChanged"}},
	{ClusterInMaintenance, "Pacemaker is in maintenance", pageAlerts + "#holdfastclusterinmaintenance", []string{"HoldfastClusterInMaintenance"}},
	{NodeCountMismatch, "Pacemaker or Corosync does not have exactly two nodes", pageAlerts + "#holdfastnodecountmismatch", []string{"HoldfastNodeCountMismatch"}},
	{NodeNotProvenOff, "a lost host is not proven off", pageFencing, []string{"HoldfastNodeUnclean"}},
	{NodeOffline, "a host is not in the cluster", "docs/runbook/twonode-power.md", []string{"HoldfastNodeOffline", "HoldfastNotRedundant"}},
	{NodeInMaintenance, "a host is in maintenance: Pacemaker does not touch it", pageAlerts + "#holdfastnodeinmaintenance", []string{"HoldfastNodeInMaintenance"}},
	{NodeInStandby, "a host is in standby", pageAlerts + "#holdfastnodestandby", []string{"HoldfastNodeStandby"}},
	{NodeJoining, "a host is joining or leaving", pageAlerts, nil},
	{NodeNoMember, "a host is not a full member of the cluster", pageAlerts + "#holdfastnodecountmismatch", nil},
	{ResourceNotWell, "kubelet or etcd on a host is unhealthy; each has its own page", pageKubelet, []string{
		"HoldfastResourceStopped", "HoldfastResourceFailed", "HoldfastResourceBlocked", "HoldfastResourceUnmanaged", "HoldfastResourceDisabled",
	}},
	{EtcdKeeperTroubled, "the etcd keeper of a host runs into an error", pageEtcd, nil},
	{EtcdMember, "a member of etcd does not count for the quorum", "", nil},
	{VIPHeldTwice, "two hosts report that they hold a VIP", pageTwoHolders, []string{"HoldfastVirtualIPHeldTwice"}},
	{VIPForeignHolder, "a foreign host answers for a VIP", pageTwoHolders, nil},
	{VIPLeftBehind, "a host answers for a VIP that it does not announce", pageTwoHolders, nil},
	{VIPForgedAdverts, "a machine forges adverts for a VIP", pageTwoHolders, []string{"HoldfastVirtualIPForgedAdverts"}},
	{VIPWithoutHolder, "no host holds a VIP", pageVIP, nil},
	{VIPWithoutWrites, "no host holds a VIP, because etcd takes no writes", pageVIP, nil},
	{VIPPeerMissing, "a host does not count a control plane among its peers for the API VIP", pageDeleted, nil},
	{BackendMissing, "a balancer has no backend for a control plane", pageDeleted, nil},
	{NetworkTroubled, "the network part of a host's agent runs into an error", pageVIP, nil},
	{AgentLoopFailing, "something that a host's agent does again and again fails or hangs, for longer than a minute", "docs/runbook/agent-loops.md", nil},
	{FirewallRefuses, "a firewall of the site refuses what the cluster needs", "docs/runbook/firewall.md", nil},
	{NodeNotReady, "a kubelet is not ready", pageKubelet, nil},
	{NodeCordoned, "a node is cordoned", "", nil},
	{NodeDeleted, "a host that runs has no Node", pageDeleted, nil},
	{NodeLabelsLost, "a Node lacks the labels of its role", pageDeleted, nil},
	{NodesMissing, "the API lists fewer control planes than the site has", pageDeleted, nil},
	{ObjectsDeleted, "objects of the cluster's own were deleted", pageDeleted, nil},
	{OperatorNotWell, "a ClusterOperator is degraded or not available", "", nil},
}

// Kinds lists all kinds of findings of status.
func Kinds() []Kind { return kinds }

func pageOf(id finding.ID) string {
	for _, k := range kinds {
		if k.ID == id {
			return k.Page
		}
	}
	return ""
}
