package fencing

import "github.com/holdfast/holdfast/internal/model/state"

// NextLone decides the next step of a host that starts alone and has to know that its
// peer is off. It takes the same proofs as a fence, but does not touch a peer that has
// power, is heard or is a member again: that one booted meanwhile. Where nobody could
// hear the peer, as beside a dead switch, Off proves nothing without a request of one's
// own. Before that request the BMC has to say Off for OffLasts: a host that is being
// switched on is On by then.
func NextLone(p Progress, r Reading) Decision {
	if why := proves(p, r); why != "" {
		return Decision{Step: Proven, Why: why}
	}
	switch {
	case p.Back:
		return Decision{Step: Refuse, Why: "the target is a member of the cluster again"}
	case !state.Is(r.Power, state.PowerOff), state.Is(r.Heard, true):
		return Decision{Step: Refuse, Why: said(r)}
	case p.Requests == 0 && p.OffFor >= OffLasts:
		return Decision{Step: Ask, Why: said(r), Wait: HoldInterval}
	}
	return Decision{Step: Again, Why: said(r), Wait: HoldInterval}
}
