package etcdspace

import "time"

// The limits, each with its source. "OpenShift" is the controller for defragmentations of
// cluster-etcd-operator, which has run on many clusters for years.
const (
	// LeastSize and LeastFree, in percent, are the least for which a defragmentation is worth
	// its pause: OpenShift.
	LeastSize = 100 << 20
	LeastFree = 45
	// Apart is the least time between the defragmentations of two members: OpenShift.
	Apart = 36 * time.Second
	// MaxFailures is the number of failures in a row after which a host gives up: OpenShift.
	// Rest is for how long: a person has a day to look.
	MaxFailures = 3
	Rest        = 24 * time.Hour
	// Lately is the least time between two defragmentations of one member, unless the alarm is
	// raised: data that are loose again so soon are written over all the time. Our own choice.
	Lately = time.Hour
	// Low is the share of its quota, in percent, below which every member must be before the
	// alarm is taken back, and from which on a member is short of space: the bound of doctor's
	// warning. Below it etcd does not raise the alarm again at once.
	Low = 80
	// Gain is the share of the database, in percent, that must be free for a member that is short
	// of space. With less, a defragmentation changes nothing that lasts. Our own choice.
	Gain = 10
	// Settle is the time after the two hosts joined during which nothing is defragmented: a host
	// that joins again after a loss first learns, and often is lost once more. Our own choice,
	// far above the stalls and quarantines of one incident that ends (ADR 0026).
	Settle = 10 * time.Minute
	// Lost is for how long a member of three must be silent before a full etcd is mended without it:
	// many times as long as a defragmentation (etcdhealth.DefragmentMost), and longer than a host
	// takes to boot. Our own choice.
	Lost = 10 * time.Minute
	// Behind is how far one member's log may be behind another's. The answers are not of the same
	// moment; Kubernetes writes some hundred entries a second at most. It is half of what etcd
	// keeps for members that are behind (5,000, etcd 3.6).
	Behind = 2500
	// CompactBehind is how old a revision must be before it is compacted: the interval of the API
	// server's own compaction, so that no list and no watch loses more than it would otherwise.
	CompactBehind = 5 * time.Minute
	// MaxInUse is the largest database in use, in bytes, of an etcd that kubelet runs. Its
	// liveness probe fails after 80 s, and a defragmentation takes up to 10 s for each GiB
	// (life-loss C5: 1 to 10 s).
	MaxInUse = 6 << 30
)

// Fixed is the first release of etcd in which a defragmentation and a snapshot that a learner
// takes in cannot damage the data: etcd issue 20650.
var Fixed = [3]int{3, 6, 5}
