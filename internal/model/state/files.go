package state

// Files of the two-node protocol. Package records reads and writes each of them
// and nothing else does; others name a path only to watch it, to collect it, or to
// tell a person. What lies below /run ends with the boot, as the facts do that it
// holds.
const (
	// EtcdRecordPath is where a host keeps its record: beside the data of etcd,
	// not inside, so that emptying a copy cannot take the record with it.
	EtcdRecordPath = "/var/lib/etcd/holdfast-record.json"
	// EtcdParametersPath keeps what Pacemaker's configuration said last: a host
	// that waits for its peer has no Pacemaker to ask.
	EtcdParametersPath = "/var/lib/holdfast/etcd/parameters.json"
	// EtcdWishPath keeps what Pacemaker asked for in this boot.
	EtcdWishPath = "/run/holdfast/etcd/wish.json"
	// EtcdConfirmationPath holds a person's Confirmation, written by `holdfast
	// quorum confirm`.
	EtcdConfirmationPath = "/run/holdfast/confirmation.json"
	// ConfirmationsPath keeps every confirmation, one JSON object
	// (ConfirmationEntry) in a line.
	ConfirmationsPath = "/var/lib/holdfast/fencing/confirmations.jsonl"
	// FencedDir holds one file NAME.json (EtcdFenced) for each host that this
	// one fenced in this boot, written by the fence agent after it has read the
	// power state back.
	FencedDir = "/run/holdfast/fenced"
	// FencingDir holds one root-only file NAME.json (FencingDevice) for each
	// host that may be fenced.
	FencingDir = "/etc/holdfast/fencing"
	// FencingPendingDir holds a file for each target whose device is newer than the
	// Secret of the cluster: the API was away when it was rotated.
	FencingPendingDir = "/var/lib/holdfast/fencing/pending"
	// FencingHistoryPath keeps every fence, one JSON object (FenceEntry) in a line.
	FencingHistoryPath = "/var/lib/holdfast/fencing/history.jsonl"
	// EventsDir holds the events of this host: NAME.jsonl of each program that notes
	// any, one JSON object (Event) in a line, and NAME.old.jsonl with those before.
	EventsDir = "/var/lib/holdfast/events"
)
