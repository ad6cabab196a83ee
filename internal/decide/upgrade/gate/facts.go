package gate

import (
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Facts holds all that the gates decide from. A fact that could not be found out is
// unknown.
type Facts struct {
	Now time.Time
	// From is the release that the site runs. To is the offered one; nil if none is
	// offered.
	From Release
	To   *Release
	// Level is the functional level: the minor release of Kubernetes as which the
	// site behaves. Its patch is 0.
	Level Version
	// Soak is how long the site is to be healthy on the new release before the
	// commit; 0 if a person commits.
	Soak time.Duration
	// Hosts are all hosts of the site.
	Hosts []Host
	// ControlPlanes is how many the site has by its configuration. One may have no node.
	ControlPlanes state.Fact[int]
	// Etcd is the cluster of all members.
	Etcd Etcd
	// Upgrade is the digest to which an upgrade is under way; empty for none.
	Upgrade state.Fact[string]
	// Plan says which plan replaces a control plane or adds one; empty for none.
	Plan state.Fact[string]
	// Work names what else changes hosts now: a rotation, a configuration, updates, a
	// Job.
	Work state.Fact[[]string]
	// Incidents names open incidents.
	Incidents state.Fact[[]string]
	// Deprecated lists the uses of APIs that Kubernetes removes, over all API
	// servers and since the last upgrade. Observed is for how long they were looked
	// for on the API server that was looked at for the shortest time.
	Deprecated state.Fact[[]Use]
	Observed   time.Duration
	// Webhooks names those that fail closed for kinds that an upgrade writes, and
	// whose pods are all on one host.
	Webhooks state.Fact[[]string]
	// Leaders names leaders of Kubernetes that do not renew their lease: nothing of theirs
	// is done.
	Leaders state.Fact[[]string]
	// Refused says which API servers refuse an object as it lies there, as HOST: WHY.
	Refused state.Fact[[]string]
	// Sandboxes names hosts of the new release that were given pods, and have started none
	// of them.
	Sandboxes state.Fact[[]string]
	// Budgets names disruption budgets without room, Immovable pods that no drain
	// moves: without a controller, with local data, with a grace of over ten minutes.
	Budgets, Immovable state.Fact[[]string]
	// StoredVersions lists the versions in which objects of our CRDs are stored, as
	// NAME/VERSION.
	StoredVersions state.Fact[[]string]
	// Backups is what is known of the backups of the site. It is unknown if no control
	// plane tells of any.
	Backups state.Fact[Backups]
	// Window says until when the maintenance window keeps hosts from being taken;
	// empty if it is open, or the site has none.
	Window state.Fact[string]
	// OnBattery is true while the site runs on a battery. Where nothing tells of that it
	// is unknown, and closes nothing: no site could ever open such a gate.
	OnBattery state.Fact[bool]
}

// Host is what is known of one host.
type Host struct {
	Name string `json:"name"`
	// Worker is true for a host that is no control plane. Pacemaker is true for a
	// control plane of two.
	Worker    bool `json:"worker"`
	Pacemaker bool `json:"pacemaker"`
	// Ready is what its Node says.
	Ready state.Fact[bool] `json:"ready"`
	// Release is the digest of the release that runs there.
	Release state.Fact[string] `json:"release"`
	// Whole lists the digests of the releases of which each blob lies on the host and
	// was compared.
	Whole state.Fact[[]string] `json:"whole"`
	// Steps is the range of step versions that its agent speaks.
	Steps state.Fact[Range] `json:"steps"`
	// Written has the highest number of each format of ours that lies on its disk.
	Written state.Fact[map[string]int] `json:"written"`
	// APIServer is the version of its API server, Emulates the minor release as which
	// it behaves. Workers have none.
	APIServer state.Fact[Version] `json:"apiServer"`
	Emulates  state.Fact[Version] `json:"emulates"`
	Kubelet   state.Fact[Version] `json:"kubelet"`
	Proxy     state.Fact[Version] `json:"proxy"`
	// Online, Marked, Failed and Features are Pacemaker's: whether the host is a
	// member, which maintenance or standby marks it has that are not ours, which
	// actions failed there, and its feature set.
	Online   state.Fact[bool]     `json:"online"`
	Marked   state.Fact[[]string] `json:"marked"`
	Failed   state.Fact[[]string] `json:"failed"`
	Features state.Fact[string]   `json:"features"`
	// Links tells whether each of its links of Corosync reaches the other host.
	Links state.Fact[bool] `json:"links"`
	// Fencing is true if fencing is enabled for the host. Fenced is when its BMC last
	// answered as it does for a fence.
	Fencing state.Fact[bool]      `json:"fencing"`
	Fenced  state.Fact[time.Time] `json:"fenced"`
	// Stack lists the packages below etcd as NAME=VERSION, sorted. Loose names those
	// that automatic updates may change.
	Stack state.Fact[[]string] `json:"stack"`
	Loose state.Fact[[]string] `json:"loose"`
	// Disks are its file systems.
	Disks state.Fact[[]Disk] `json:"disks"`
	// Certificates are those of the host.
	Certificates state.Fact[[]Certificate] `json:"certificates"`
	// Synchronised tells whether something keeps its clock. Offset is how far the clock
	// is off, as that says; nobody knows it without.
	Synchronised state.Fact[bool]          `json:"synchronised"`
	Offset       state.Fact[time.Duration] `json:"offset"`
	// Ahead is by how much its clock is ahead of the operator's at least. The operator
	// finds it out; 0 also stands for a clock that is behind.
	Ahead time.Duration `json:"-"`
	// Edited names files of the release that somebody changed.
	Edited state.Fact[[]string] `json:"edited"`
}

// Disk is a file system. Sizes are in bytes.
type Disk struct {
	Path string `json:"path"`
	Free uint64 `json:"free"`
	// Need is what the new release takes, Line what must stay free so that kubelet
	// evicts nothing.
	Need uint64 `json:"need"`
	Line uint64 `json:"line"`
}

// Certificate is a certificate with its end.
type Certificate struct {
	Name string    `json:"name"`
	Ends time.Time `json:"ends"`
}

// Use is the use of an API that Kubernetes removes.
type Use struct {
	API string
	// Removed is the minor release that no longer has it.
	Removed Version
	// By is who uses it; empty if that is not known.
	By string
}

// Backups is what is known of the backups of a site. A good one was restored for a trial
// and compared.
type Backups struct {
	// Newest is when the newest good one was taken, and Before when the newest good one
	// was of which the host ran the release From. Both are zero for none.
	Newest, Before time.Time
	// Wanted is true once an upgrade waits for its first host.
	Wanted bool
	// Wish is what became of the backup that the operator asked for, for the present
	// stage; its zero value if it asked for none.
	Wish BackupWish
	// Fails says how the last tries ended if they failed on all control planes; empty if
	// one of them does not fail.
	Fails string
}

// BackupWish is what became of a wish for a backup.
type BackupWish struct {
	// Says says what its host does or did. Failed is true if no good backup comes of it.
	Says   string
	Failed bool
}

// Etcd is the cluster of all members.
type Etcd struct {
	Members state.Fact[[]Member]
	// Equal is true if the data of all members are equal at one revision.
	Equal state.Fact[bool]
	// Alarms are those that etcd has raised.
	Alarms state.Fact[[]string]
	// StandIn is true while a stand-in votes.
	StandIn state.Fact[bool]
	// Cluster and Storage are the versions that etcd has stored.
	Cluster, Storage state.Fact[Version]
}

// Member is a member of etcd.
type Member struct {
	Host           string
	Voter, Started bool
	Version        state.Fact[Version]
}

// controlPlanes and workers return the hosts of each kind.
func (f Facts) controlPlanes() []Host { return f.only(func(h Host) bool { return !h.Worker }) }
func (f Facts) workers() []Host       { return f.only(func(h Host) bool { return h.Worker }) }

// present leaves out workers that are not ready: the gate of workers tells of them,
// and what they would say is unknown.
func (f Facts) present() []Host {
	return f.only(func(h Host) bool { return !h.Worker || state.Is(h.Ready, true) })
}

func (f Facts) only(is func(Host) bool) []Host {
	var out []Host
	for _, h := range f.Hosts {
		if is(h) {
			out = append(out, h)
		}
	}
	return out
}
