package etcdmember

import "time"

// MostBehind is how many entries of the log a learner may lack when it becomes a voter, the peer's as
// well as that of a third host. From
// that moment on nothing is committed before the new voter has written all of them. etcd itself
// asks for nine tenths of the leader's index only: at ten million entries a million may be missing,
// and nobody could write for minutes. A healthy learner lacks what was written in the last
// milliseconds.
const MostBehind = 1000

// MayVote reports whether a learner that has applied its log up to an index may become a voter beside
// a leader whose log ends at one. What it has received is not enough: etcd sends no answer to a leader
// from the moment in which it learns that it votes until it has applied all before that, and nothing is
// committed for so long. With a database of 4 GB that is a minute: after ten seconds the leader goes on
// without it, and it begins anew, again and again (docs/TRACK-RECORD.md).
func MayVote(leader, applied uint64) bool {
	return applied > 0 && (leader <= applied || leader-applied <= MostBehind)
}

// SmallDatabase is the size, in bytes, below which a learner that says nothing is judged by etcd's own
// word at once: it applies so much within a second or two. etcd serves no client until it has made its name
// known, for which it tries again after seven seconds; so long a small site would lack its second host.
const SmallDatabase = 256 << 20

// SilentFor returns for how long a learner of a database of a size may say nothing.
func SilentFor(size int64) time.Duration {
	if size < SmallDatabase {
		return 0
	}
	return SilentLearner
}

// SilentLearner is for how long a learner may say nothing of what it has applied before etcd's own word
// counts, which knows what it has received: far longer than 8 GB take to be applied. Its port for
// clients may be filtered while that for its peers is not.
const SilentLearner = 10 * time.Minute
