package rollout

import (
	"cmp"
	"fmt"
	"slices"
)

// outsider is a host that no pool has, and why.
type outsider struct {
	Host
	why string
}

// withoutTurn returns the hosts that no pool has, by name.
func withoutTurn(s Site, members map[string][]Host, astray []Astray) []outsider {
	pooled := map[string]bool{}
	for _, hosts := range members {
		for _, h := range hosts {
			pooled[h.Name] = true
		}
	}
	var out []outsider
	for _, h := range s.Hosts {
		if i := slices.IndexFunc(astray, func(a Astray) bool { return a.Host == h.Name }); i >= 0 && !pooled[h.Name] {
			out = append(out, outsider{h, astray[i].Why})
		}
	}
	slices.SortFunc(out, func(a, b outsider) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// worksOutside names a host without a pool that is at work: it was given its work while it had
// a pool, and is as much away as any other.
func (t turn) worksOutside() string {
	for _, h := range t.outside {
		if h.working() {
			return fmt.Sprintf("%s is at work, and in no pool: %s", h.atWork(), h.why)
		}
	}
	return ""
}

// waitsOutside returns for which host without a pool a pool waits. What failed on a worker
// reaches no control plane, whatever became of the labels of that worker.
func (t turn) waitsOutside() string {
	wait := t.worksOutside()
	if wait != "" || !t.controlPlanes() {
		return wait
	}
	for _, h := range t.outside {
		if h.failing() {
			return fmt.Sprintf("a configuration failed on %s, which is in no pool: %s", h.Name, h.why)
		}
	}
	return ""
}

// wishesOutside returns what is written about the wishes for hosts that no pool has.
func wishesOutside(outside []outsider) []WishStep {
	var out []WishStep
	for _, h := range outside {
		if h.Wish.over() {
			out = append(out, WishStep{Host: h.Name, Patch: h.Wish.Patch, Over: true})
			continue
		}
		for _, w := range []Wish{h.Wish, h.Behind} {
			if w.Open() {
				out = append(out, WishStep{Host: h.Name, Patch: w.Patch, Waits: "it has no turn: " + h.why})
			}
		}
	}
	return out
}
