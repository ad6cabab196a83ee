package admission

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// etcd is asked only about a host that starts one from nothing. Its silence makes no token.
func TestAHostThatStartsAnEtcdGetsNoTokenWithoutTheMembers(t *testing.T) {
	const url = "https://192.0.2.12:2380"
	ran := []joining.Member{{EtcdMember: state.EtcdMember{ID: 0xc, Name: "cp-2"}, At: []string{url}}}
	for _, x := range []struct {
		sentence string
		role     state.Role
		host     string
		newEtcd  string
		members  []joining.Member
		err      error
		given    bool
		refused  bool
	}{
		{"it starts none, or has data", state.RoleMaster, "cp-2", "", nil, errors.New("not asked"), true, false},
		{"a worker says that it starts one", state.RoleWorker, "worker-1", url, ran, errors.New("not asked"), true, false},
		{"no member is its", state.RoleMaster, "cp-2", url, nil, nil, true, false},
		{"its member has run", state.RoleMaster, "cp-2", url, ran, nil, false, true},
		{"etcd does not answer", state.RoleMaster, "cp-2", url, ran, context.DeadlineExceeded, false, false},
	} {
		c := &cluster{stands: true}
		g := newGiver(t, c, sitetest.TwoDual)
		g.Members = func(context.Context) ([]joining.Member, error) { return x.members, x.err }
		own := jointoken.Claims{Purpose: jointoken.Host, Role: x.role, Host: x.host, ID: "by"}
		_, err := g.Bootstrap(t.Context(), own, configserver.JoinRequest{NewEtcd: x.newEtcd})
		_, refused := errors.AsType[joining.Refusal](err)
		if (err == nil) != x.given || refused != x.refused || (len(c.given) == 1) != x.given {
			t.Errorf("%s: %v, given %v", x.sentence, err, c.given)
		}
	}
}
