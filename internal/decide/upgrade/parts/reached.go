package parts

import (
	"slices"
	"strings"
)

// Reached is whether a ready pod of a host answers by the pod network, and whether the host
// does by its own address.
type Reached struct {
	Host        string
	Pod, Itself bool
}

// Unreached names the hosts of which no ready pod answers although the host does: the way to
// its pods is broken, and neither the host nor the way to it. Empty if there is none. A host
// that does not answer itself tells nothing, and neither does one without a ready pod.
func Unreached(list []Reached) string {
	var out []string
	for _, r := range list {
		others := slices.ContainsFunc(list, func(o Reached) bool { return o.Host == r.Host && (o.Pod || !o.Itself) })
		if !others && !slices.Contains(out, r.Host) {
			out = append(out, r.Host)
		}
	}
	if len(out) == 0 {
		return ""
	}
	slices.Sort(out)
	return "no ready pod of " + strings.Join(out, " and of ") + " answers the operator, although the host itself does"
}
