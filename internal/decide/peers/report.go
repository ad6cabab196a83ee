package peers

import (
	"maps"
	"slices"

	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Of returns the peers with which a control plane shares its API VIPs and its
// balancer, nil if it shares nothing or that is undecided.
func Of(v state.NetworkView) *state.PeerReport {
	if v.Stage != state.StageInstalled || !state.Is(apilb.Wanted(v), true) || state.Is(v.MayHold, false) {
		return nil
	}
	verdict, decided := vrrp.Instances(v), apilb.Backends(v)
	if !verdict.Known || !decided.Known {
		return nil
	}
	if !slices.ContainsFunc(verdict.Instances, func(i vrrp.Instance) bool { return i.Kind == vrrp.API }) {
		return nil // it is on another network than the API VIPs
	}
	out := &state.PeerReport{VRRP: []string{}, Backends: []string{}}
	for _, n := range v.Nodes.Value {
		if n.Name != v.Host.NodeName && controlPlane(n) && heard(verdict, n) {
			out.VRRP = append(out.VRRP, n.Name)
		}
	}
	if v.Balancer.Known { // what runs now, instead of what should run
		out.Backends = slices.Sorted(maps.Keys(v.Balancer.Value.Backends))
		return out
	}
	for _, b := range decided.Value {
		if !slices.Contains(out.Backends, b.Node) {
			out.Backends = append(out.Backends, b.Node)
		}
	}
	slices.Sort(out.Backends)
	return out
}

// heard reports whether a node is a peer for each API VIP.
func heard(v vrrp.Verdict, n state.Node) bool {
	api := slices.DeleteFunc(slices.Clone(v.Instances), func(i vrrp.Instance) bool { return i.Kind != vrrp.API })
	return !slices.ContainsFunc(api, func(i vrrp.Instance) bool { return !i.Knows(n) })
}
