package parts

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/workload"
)

// Names of the workloads of parts, for people.
const (
	PodNetwork = "the pod network"
	DNS        = "DNS"
)

// Workload is what Kubernetes says of the pods of one thing in the cluster.
type Workload struct {
	// Fewer pods than wanted may be enough: a router may have no host of its own.
	workload.Pods
	// Denied says which router denies hosts that it has to lead to their pods, and of the pod
	// network to which hosts it does not lead; empty if none is known.
	Denied string
}

// Unavailable says how many pods are not available; empty for none.
func (w Workload) Unavailable(who string) string {
	if w.Available >= w.Wanted {
		return ""
	}
	return fmt.Sprintf("%s: %d of %d pods are available", who, w.Available, w.Wanted)
}

// Moving says how many pods are of the present template; empty if all are.
func (w Workload) Moving(who string) string {
	if w.Updated >= w.Wanted {
		return ""
	}
	return fmt.Sprintf("%s: %d of %d pods are of the present version", who, w.Updated, w.Wanted)
}

// pending says what of it is not as a release has it. image is that of the release, empty
// where nobody knows it.
func (w Workload) pending(who, image string) string {
	unavailable := w.Unavailable(who)
	switch {
	case image != "" && w.Image != image:
		return fmt.Sprintf("%s: its image is %s, and the release has %s", who, w.Image, image)
	case w.Unseen:
		return who + ": Kubernetes has not begun to replace its pods"
	case w.Moving(who) != "":
		return strings.Join(slices.DeleteFunc([]string{w.Moving(who), unavailable}, func(s string) bool { return s == "" }), ", and ")
	case w.Old > 0:
		return fmt.Sprintf("%s: %d pods of the former version are left", who, w.Old)
	case unavailable != "" && !w.Enough:
		return unavailable
	case w.Denied != "":
		return who + ": " + w.Denied
	}
	return ""
}

// Workloads are those of a site that parts bring. One that is not there, or cannot be read,
// is unknown. Routers are those of the IngressControllers, by name; they follow the operator.
type Workloads struct {
	Network, DNS, Proxy state.Fact[Workload]
	Routers             state.Fact[map[string]Workload]
}

// Pending says which pods of a part do not run as a release has them; empty if all do. It is
// unknown if nothing is known to be missing and something is not known.
func (w Workloads) Pending(part string, release gate.Release) state.Fact[string] {
	switch part {
	case Objects:
		return both(pendingOf(w.Network, PodNetwork, release.Images[payload.ImageFlannel]), pendingOf(w.DNS, DNS, release.Images[payload.ImageCoreDNS]))
	case KubeProxy:
		return pendingOf(w.Proxy, KubeProxy, release.Images[payload.ImageKubeProxy])
	case Operator:
		if !w.Routers.Known {
			return state.Fact[string]{}
		}
		out := state.Known("")
		for _, name := range slices.Sorted(maps.Keys(w.Routers.Value)) {
			out = both(out, state.Known(w.Routers.Value[name].pending("routers of "+name, release.Images[payload.ImageRouter])))
		}
		return out
	}
	return state.Known("") // nothing is known of it that could be awaited
}

func pendingOf(w state.Fact[Workload], who, image string) state.Fact[string] {
	if !w.Known {
		return state.Fact[string]{}
	}
	return state.Known(w.Value.pending(who, image))
}

// both joins what is missing.
func both(a, b state.Fact[string]) state.Fact[string] {
	switch {
	case a.Value != "" && b.Value != "":
		return state.Known(a.Value + "; " + b.Value)
	case a.Value != "" || b.Known && !a.Known && b.Value == "":
		return a
	}
	return b
}
