package joining

import (
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAThirdControlPlaneOfAPlanMayJoinATwoHostSite: docs/adr/0097. No other one may.
func TestAThirdControlPlaneOfAPlanMayJoinATwoHostSite(t *testing.T) {
	widens := two
	widens.Third = "cp-3"
	both := []state.Node{controlPlane("cp-1", true), controlPlane("cp-2", true)}
	for _, c := range []struct {
		name string
		site Site
		host string
		role state.Role
		want string
	}{
		{"the one of the plan", widens, "cp-3", state.RoleMaster, ""},
		{"another name", widens, "cp-4", state.RoleMaster, "names cp-1 and cp-2, not cp-4"},
		{"without a plan", two, "cp-3", state.RoleMaster, "names cp-1 and cp-2, not cp-3"},
		{"a worker under its name", widens, "cp-3", state.RoleWorker, "cp-3 is the name of a control plane"},
	} {
		t.Run(c.name, func(t *testing.T) {
			refusedWith(t, c.site.Name(c.role, c.host, nil), c.want)
			_, err := Decide(c.site, Ask{Host: c.host, Role: c.role, By: "ask"}, both, state.Fact[[]Member]{}, nil, now)
			refusedWith(t, err, c.want)
		})
	}
	_, err := Decide(widens, Ask{Host: "cp-3", Role: state.RoleMaster, By: "ask"}, append(both, controlPlane("cp-9", true)), state.Fact[[]Member]{}, nil, now)
	refusedWith(t, err, "this site has 2 control planes and all are nodes")
}
