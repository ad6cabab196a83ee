package rotation

import (
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Order is what all control planes say is wished about one authority. A host without
// keys may not read the wish itself.
type Order struct {
	// Of names the wish and New is the new authority. Both are empty before the first
	// rotation.
	Of    string
	New   ID
	Phase Phase
	Turn  string
}

// OrderOf reads the order from the nodes. Until all control planes say the same it
// returns why there is none: then a host rests. Only a node with the label of a control
// plane counts, which no kubelet gives itself.
func OrderOf(nodes []state.Node, a Authority) (Order, error) {
	var hosts []Host
	for _, n := range nodes {
		if n.ControlPlane() {
			hosts = append(hosts, hostOf(n, a))
		}
	}
	return agreed(hosts)
}

// agreed returns what all of these say.
func agreed(hosts []Host) (out Order, err error) {
	if len(hosts) == 0 {
		return out, errors.New("no control plane is known")
	}
	for i, h := range hosts {
		r := h.Report
		if r == nil {
			return Order{}, fmt.Errorf("%s does not say what is wished", h.Name)
		}
		own := Order{r.Of, r.New, r.Phase, r.Turn}
		switch {
		case r.Unreadable:
			return Order{}, fmt.Errorf("%s: %s", h.Name, r.Problem)
		case r.Restored:
			return Order{}, fmt.Errorf("%s does not follow: %s", h.Name, r.Problem)
		case own.Of != "" && (own.New == "" || !slices.Contains(phases, own.Phase)):
			return Order{}, fmt.Errorf("%s does not say how far a rotation is", h.Name)
		case i > 0 && own != out:
			return Order{}, fmt.Errorf("%s and %s do not say the same about a rotation", hosts[0].Name, h.Name)
		}
		out = own
	}
	return out, nil
}

// Vanished reports whether no rotation of an authority is known any more: each control plane says
// that there is none, or follows none since etcd was restored.
func Vanished(nodes []state.Node, a Authority) bool {
	known := false
	for _, n := range nodes {
		if !n.ControlPlane() {
			continue
		}
		r := hostOf(n, a).Report
		if r == nil || r.Unreadable || r.Of != "" && !r.Restored {
			return false
		}
		known = true
	}
	return known
}

// Follow decides the next change of a host that has no key of an authority: of its
// files, whose key does not count, and of the authorities that the API publishes. These
// have to come over a connection that one of have.Trusts verified. The error says for
// what the host waits.
//
// What is published alone makes it trust an authority, and what it trusts already stays
// until a rotation drops it. So whoever makes up an order makes no host trust anybody.
func Follow(o Order, host string, have Have, published []ID) (Change, error) {
	if o.Of == "" || o.Phase != Done && o.Turn != host {
		return Change{Act: Rest}, nil
	}
	known := slices.Contains(have.Trusts, o.New)
	switch {
	case !known && !slices.Contains(published, o.New):
		return Change{Act: Rest}, fmt.Errorf("the API does not publish the new authority %s to pods yet", o.New.Short())
	case !known:
		return Change{Act: WriteTrusts, Trusts: append(slices.Clone(have.Trusts), o.New)}, nil
	case o.Phase.reached(Sign) && have.Leaf != o.New:
		return Change{Act: WriteLeaf}, nil
	case !have.Loaded:
		return Change{Act: Load}, nil
	case !o.Phase.reached(Drop) || len(have.Trusts) == 1:
		return Change{Act: Rest}, nil
	case !slices.Equal(published, []ID{o.New}):
		return Change{Act: Rest}, fmt.Errorf("the API publishes others beside the new authority %s to pods", o.New.Short())
	}
	return Change{Act: WriteTrusts, Trusts: []ID{o.New}}, nil
}
