package etcdmember

// MostBehind is how many entries of the log a learner may lack when it becomes a voter, the peer's as
// well as that of a third host. From
// that moment on nothing is committed before the new voter has written all of them. etcd itself
// asks for nine tenths of the leader's index only: at ten million entries a million may be missing,
// and nobody could write for minutes. A healthy learner lacks what was written in the last
// milliseconds.
const MostBehind = 1000

// MayVote reports whether a learner whose log ends at an index may become a voter beside a leader.
func MayVote(leader, learner uint64) bool {
	return leader <= learner || leader-learner <= MostBehind
}
