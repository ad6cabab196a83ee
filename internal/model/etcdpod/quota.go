package etcdpod

import (
	"strconv"
	"strings"
)

// Quota is the size in GiB that etcd's database may reach. All members of a site have the same:
// the member with the lowest one stops the writes of all.
type Quota int64

// OwnQuota is the quota that etcd has without a flag, LargestQuota the most that etcd advises.
const (
	OwnQuota     Quota = 2
	LargestQuota Quota = 8
)

// keptPerGiB is the number of entries that the leader keeps in memory, for each GiB of the quota, for
// members that are behind. A learner that took in a snapshot needs all that was written while it loaded
// the data, which may take 15 s for each GiB (decide/etcdhealth.Grace), at 500 writes a second. If the
// leader has dropped them, it sends another snapshot, and so on for good. etcd itself keeps 5,000; up to
// its release 3.5 it kept 100,000.
const keptPerGiB = 500 * 15

// quotaFlag is etcd's flag of the quota in bytes.
const quotaFlag = "quota-backend-bytes"

// Flag is a flag of etcd.
type Flag struct{ Name, Value string }

// String returns the flag as etcd takes it.
func (f Flag) String() string { return "--" + f.Name + "=" + f.Value }

// Bytes returns the quota in bytes.
func (q Quota) Bytes() int64 { return int64(max(q, OwnQuota)) << 30 }

// Flags returns the flags by which etcd gets a quota, sorted by name; none for its own quota, so that
// the manifests of sites that choose none stay as they are.
func (q Quota) Flags() []Flag {
	if q <= OwnQuota {
		return nil
	}
	return []Flag{{quotaFlag, strconv.FormatInt(q.Bytes(), 10)}, {"snapshot-catchup-entries", strconv.FormatInt(int64(q)*keptPerGiB, 10)}}
}

// Args returns Flags as arguments of etcd.
func (q Quota) Args() []string {
	var out []string
	for _, f := range q.Flags() {
		out = append(out, f.String())
	}
	return out
}

// QuotaOf returns the quota that a manifest of two hosts gives etcd.
func QuotaOf(manifest []byte) (Quota, error) {
	c, err := Parse(manifest)
	if err != nil {
		return 0, err
	}
	for _, arg := range c.Command {
		if text, ok := strings.CutPrefix(arg, "--"+quotaFlag+"="); ok {
			bytes, err := strconv.ParseInt(text, 10, 64)
			return Quota(bytes >> 30), err
		}
	}
	return OwnQuota, nil
}
