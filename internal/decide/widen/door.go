package widen

import (
	"fmt"

	"github.com/holdfast/holdfast/internal/decide/replace"
)

// Brings returns the name of the host that may be installed as the third control plane, empty if none
// may. The plan may be nil.
func (p *Plan) Brings() string {
	if p == nil || p.Format > Format || p.Stage == Planned || p.Stage == TakingBack || p.Stage.Over() {
		return ""
	}
	return p.New.Name
}

// Opens reports whether the machine that asks is the one whose member the plan names: its etcd may
// start then. One that was installed anew is another one: its etcd would start from nothing under a
// member of which the leader knows that it has entries, and end in a loop. Once the member may vote, a
// machine that asks has lost its disk: etcd would start from nothing as a voter that has forgotten its
// promises.
func (p *Plan) Opens(asks replace.Newcomer) bool {
	return p.Brings() != "" && p.Stage == Coming && p.Third != 0 && p.Newcomer == asks
}

// Refuses says why no machine may enter under a name; empty if one may, or if the plan says nothing
// about it.
func (p *Plan) Refuses(name string) string {
	switch {
	case p == nil || p.Stage.Over() || p.New.Name == "":
		return ""
	case p.New.Name != name:
		return fmt.Sprintf("%s comes as the third control plane of this site: no other one is let in until it votes", p.New.Name)
	case p.Stage == TakingBack:
		return fmt.Sprintf("the plan for %s is taken back: it is not let in", name)
	}
	return ""
}
