package parachute

import "github.com/holdfast/holdfast/internal/model/state"

// raise brings a host to the functional level of its release, after the way back was
// closed. Nothing of it is remembered: what has not risen can be seen.
func (d decision) raise() (Action, bool) {
	turn := d.f.Turn
	closed := d.j.Closed || d.j.Step != Accepted && state.Is(d.f.Closed, true)
	if !turn.Known || !turn.Value.Raise || !closed || !d.j.Step.AtRest() || d.f.Running != turn.Value.To {
		return Action{}, false
	}
	servers := d.f.Kind != Worker
	kubelet := turn.Value.Kubelet && d.f.Held
	stops := servers && !state.Is(d.f.Risen, true) || kubelet && d.f.Kind == OfTwo
	switch {
	case !d.f.Daemons:
		return Action{Act: Start, Journal: d.j, Why: "the daemons of the release start at its functional level"}, true
	case stops && !d.spared() && !d.left():
		return Action{Act: Hold, Journal: d.j, Why: "its servers restart at the new functional level once another control plane is known to serve"}, true
	case servers && !state.Is(d.f.Risen, true):
		return Action{Act: RaiseServers, Journal: d.j, Why: "its servers rise to the functional level of the release"}, true
	case kubelet:
		return Action{Act: RaiseKubelet, Journal: d.j, Why: "its kubelet rises to the functional level of the release"}, true
	case servers && (d.spared() || d.left()) && !state.Is(d.f.Serves, true):
		return Action{Act: Prove, Journal: d.j, Why: "its API server is not ready yet at the functional level of the release"}, true
	}
	return Action{}, false
}
