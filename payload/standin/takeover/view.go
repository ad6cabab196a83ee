package takeover

import (
	"fmt"
	"strings"
)

// Member is one member as the survivor's etcd lists it.
type Member struct {
	ID       uint64   `json:"id"`
	PeerURLs []string `json:"peerURLs"`
	Learner  bool     `json:"isLearner"`
}

// View is the status that the survivor's etcd gives without a quorum.
type View struct {
	Cluster ID
	// Version is the version of the running etcd.
	Version string
	Members []Member
}

// find returns a member, or nil.
func (v View) find(id ID) *Member {
	for i := range v.Members {
		if v.Members[i].ID == uint64(id) {
			return &v.Members[i]
		}
	}
	return nil
}

func (v View) voters() []Member {
	var out []Member
	for _, m := range v.Members {
		if !m.Learner {
			out = append(out, m)
		}
	}
	return out
}

// judge decides whether the vote may be cast, from the survivor's own status.
// version is the version of etcd that this program speaks. It returns nil if it
// may, and otherwise how the run ends.
func judge(req Request, v View, version string) *stop {
	switch {
	case req.Target == req.Survivor:
		return refuse(TargetIsSurvivor, fmt.Sprintf("member %s cannot be both the fenced one and the survivor", req.Target))
	case v.Cluster != req.Cluster:
		return refuse(ClusterMismatch, fmt.Sprintf("the survivor belongs to cluster %s, not %s", v.Cluster, req.Cluster))
	case minor(v.Version) != minor(version):
		return refuse(VersionMismatch, fmt.Sprintf("the survivor runs etcd %s, this program speaks the protocol of %s: use the program of that release", v.Version, version))
	}
	return judgeMembers(req, v)
}

func judgeMembers(req Request, v View) *stop {
	voters := v.voters()
	survivor, target := v.find(req.Survivor), v.find(req.Target)
	switch {
	case survivor == nil:
		return refuse(SurvivorNotVoter, fmt.Sprintf("member %s, the survivor, is not listed by its own cluster", req.Survivor))
	case survivor.Learner:
		return refuse(SurvivorNotVoter, fmt.Sprintf("member %s, the survivor, is a learner: it may lack acknowledged writes", req.Survivor))
	case target == nil && len(voters) == 1:
		return &stop{NothingToDo, "", fmt.Sprintf("member %s is no longer a member; %s is the only voter", req.Target, req.Survivor)}
	case target == nil:
		return refuse(NotTwoVoters, fmt.Sprintf("member %s is not listed, and there are %d voters", req.Target, len(voters)))
	case target.Learner:
		return refuse(NotTwoVoters, fmt.Sprintf("member %s is a learner and has no vote: the survivor needs none, remove it by the ordinary API", req.Target))
	case len(voters) != 2:
		return refuse(NotTwoVoters, fmt.Sprintf("there are %d voters; the stand-in may vote only in a cluster of two", len(voters)))
	}
	return nil
}

// minor returns the first two numbers of a version.
func minor(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}
