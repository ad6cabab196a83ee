package state

// Files of the two-node protocol. Only package records reads and writes them;
// other packages name a path only to watch it, to collect it, or to show it to a
// person. Files below /run end with the boot, as the facts in them do.
const (
	// EtcdRecordPath is the file with a host's record: beside the data of etcd, not
	// inside, so that emptying the data cannot remove the record.
	EtcdRecordPath = "/var/lib/etcd/holdfast-record.json"
	// EtcdReservePath is the file that keeps room for a record on a disk that is full.
	EtcdReservePath = "/var/lib/etcd/holdfast-reserve"
	// RunReservePath is the file that keeps room in /run for what the etcd keeper and
	// the fence agent note there.
	RunReservePath = "/run/holdfast/etcd/reserve"
	// EtcdParametersPath keeps the last known configuration of Pacemaker: a host
	// that waits for its peer has no Pacemaker to ask.
	EtcdParametersPath = "/var/lib/holdfast/etcd/parameters.json"
	// EtcdRetiredPath is the file that says that this host has no peer (EtcdRetired), while a
	// lost one is being replaced.
	EtcdRetiredPath = "/var/lib/holdfast/etcd/retired.json"
	// EtcdThirdPath is the file that says that a plan brings a third host (EtcdThirdWord).
	EtcdThirdPath = "/var/lib/holdfast/etcd/third.json"
	// EtcdWishPath keeps Pacemaker's request of this boot.
	EtcdWishPath = "/run/holdfast/etcd/wish.json"
	// EtcdConfirmationPath holds an administrator's Confirmation, written by
	// `holdfast quorum confirm`.
	EtcdConfirmationPath = "/run/holdfast/confirmation.json"
	// ConfirmationsPath keeps every confirmation, one JSON object
	// (ConfirmationEntry) a line.
	ConfirmationsPath = "/var/lib/holdfast/fencing/confirmations.jsonl"
	// FencedDir holds one file NAME.json (EtcdFenced) for each host that this host
	// fenced in this boot. The fence agent writes it after it has read the power
	// state back.
	FencedDir = "/run/holdfast/fenced"
	// FencingDir holds one root-only file NAME.json (FencingDevice) for each
	// host that may be fenced.
	FencingDir = "/etc/holdfast/fencing"
	// FencingPendingDir holds a file for each target whose device is newer than the
	// Secret of the cluster: the API was away when the account was rotated.
	FencingPendingDir = "/var/lib/holdfast/fencing/pending"
	// FencingHistoryPath keeps every fence, one JSON object (FenceEntry) a line.
	FencingHistoryPath = "/var/lib/holdfast/fencing/history.jsonl"
	// EventsDir holds the events of this host: NAME.jsonl for each program that
	// writes any, one JSON object (Event) a line, and NAME.old.jsonl with the
	// earlier ones.
	EventsDir = "/var/lib/holdfast/events"
)
