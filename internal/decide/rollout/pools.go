package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/holdfast/holdfast/internal/model/state"
)

// The two pools that every site has. All others are of the site, and their hosts
// are workers.
const (
	Master = "master"
	Worker = "worker"
)

// inOrder returns pools in the order of their turns: those of the site, the
// workers, the control planes.
func inOrder(pools []Pool) []Pool {
	rank := func(p Pool) int { return slices.Index([]string{Worker, Master}, p.Name) }
	return slices.SortedStableFunc(slices.Values(pools), func(a, b Pool) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
}

// Members returns the hosts of each pool, sorted by name. A host has one pool: a
// control plane that of control planes, another host the one of the site that
// selects it, or else that of workers.
func Members(s Site) (members map[string][]Host, astray []Astray) {
	members = map[string][]Host{}
	for _, h := range slices.SortedFunc(slices.Values(s.Hosts), func(a, b Host) int { return cmp.Compare(a.Name, b.Name) }) {
		pool, why := poolOf(h, s.Pools)
		if pool != "" {
			members[pool] = append(members[pool], h)
		}
		if why != "" {
			astray = append(astray, Astray{Host: h.Name, Why: why})
		}
	}
	return members, astray
}

// poolOf returns the pool of a host, and what is wrong with that.
func poolOf(h Host, pools []Pool) (pool, why string) {
	var all, own []string
	for _, p := range inOrder(pools) {
		if !p.selects(h) {
			continue
		}
		all = append(all, p.Name)
		if p.Name != Master && p.Name != Worker {
			own = append(own, p.Name)
		}
	}
	switch {
	case h.controlPlane():
		if len(own) > 0 {
			why = fmt.Sprintf("a control plane gets the configuration of the pool %s alone; %s also selects it", Master, strings.Join(own, ", "))
		}
		if !slices.Contains(all, Master) {
			return "", fmt.Sprintf("it is a control plane, and the pool %s does not select it", Master)
		}
		return Master, why
	case len(own) > 1:
		return "", "several pools select it: " + strings.Join(own, ", ")
	case len(own) == 1:
		return own[0], ""
	case slices.Contains(all, Worker):
		return Worker, ""
	default:
		return "", "no pool selects it"
	}
}

func (h Host) controlPlane() bool {
	_, is := h.Labels[state.LabelControlPlane]
	_, was := h.Labels[state.LabelMaster]
	return is || was
}

// selects reports whether a pool selects a host. A selector that is missing,
// empty or wrong selects none.
func (p Pool) selects(h Host) bool {
	selector, err := metav1.LabelSelectorAsSelector(p.NodeSelector)
	return err == nil && !selector.Empty() && selector.Matches(labels.Set(h.Labels))
}

// Turns returns the names of the pools in the order of their turns.
func Turns(s Site) []string {
	var out []string
	for _, p := range inOrder(s.Pools) {
		out = append(out, p.Name)
	}
	return out
}

// Booter says of a host whether a person boots it.
type Booter struct {
	Host   string
	ByHand bool
}

// Booters returns the hosts whose nodes do not say it as their pools do.
func Booters(s Site) []Booter {
	members, _ := Members(s)
	var out []Booter
	for _, p := range inOrder(s.Pools) {
		for _, h := range members[p.Name] {
			if h.ByHand != p.ByHand {
				out = append(out, Booter{h.Name, p.ByHand})
			}
		}
	}
	return out
}

// PoolOfRole returns the pool of a host that joins with a role. A pool of the site's own
// selects it only by labels that its node gets later.
func PoolOfRole(r state.Role) string {
	if r.ControlPlane() {
		return Master
	}
	return Worker
}

// First returns the configuration with which a host joins a pool; empty if there is
// none. It is the last one with which all hosts of the pool were ready: whether the
// next one works is not tried out on a host that cannot say what went wrong.
func First(p *mcfgv1.MachineConfigPool) string { return p.Status.Configuration.Name }
