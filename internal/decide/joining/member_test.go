package joining

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// kubeadm starts etcd of a machine without data under the id of a member that has its peer URL. A voter
// that has run would have forgotten what it acknowledged.
func TestAControlPlaneWhoseMemberAlreadyRanIsNotGivenAToken(t *testing.T) {
	const own, other = "https://192.0.2.13:2380", "https://192.0.2.14:2380"
	remove := "member remove cc"
	member := func(name, at string, learner bool) Member {
		return Member{EtcdMember: state.EtcdMember{ID: 0xcc, Name: name, Learner: learner}, At: []string{at}}
	}
	mine := Token{ID: "aaaaaa", Host: "cp-3", Role: state.RoleMaster, By: "ask-3", Expires: now.Add(time.Minute)}
	others := mine
	others.By = "ask-9"
	for _, c := range []struct {
		name    string
		newEtcd string
		member  Member
		tokens  []Token
		want    string
	}{
		{"the voter of its name, and its disk is empty", own, member("cp-3", own, false), nil, remove},
		{"the same, at another address", own, member("cp-3", other, false), nil, remove},
		{"a voter of another name at its address", own, member("cp-9", own, false), nil, remove},
		{"a voter that has not told its name", own, member("", own, false), nil, remove},
		{"a learner that has started", own, member("cp-3", own, true), nil, remove},
		{"the same installation, and its disk is empty", own, member("cp-3", own, false), []Token{mine}, remove},
		{"the other installation's token lives: its end changes nothing", own, member("cp-3", own, false), []Token{others}, remove},
		{"a learner that never started: the try was cut off before", own, member("", own, true), nil, ""},
		{"members of others", own, member("cp-9", other, false), nil, ""},
		{"after a power cut, with its data and its token", "", member("cp-3", own, false), []Token{mine}, ""},
		{"after a power cut of hours, with its data", "", member("cp-3", own, false), nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ask := Ask{Host: "cp-3", Role: state.RoleMaster, By: "ask-3", NewEtcd: c.newEtcd}
			both := []state.Node{controlPlane("cp-1", true), controlPlane("cp-2", true)}
			_, err := Decide(three, ask, both, state.Known([]Member{c.member}), c.tokens, now)
			refusedWith(t, err, c.want)
			_, err = Decide(three, ask, both, state.Fact[[]Member]{}, c.tokens, now)
			if _, refusal := errors.AsType[Refusal](err); refusal || (err != nil) != (c.newEtcd != "") {
				t.Errorf("the members are not known: %v", err)
			}
		})
	}
}
