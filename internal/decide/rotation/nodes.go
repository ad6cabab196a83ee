package rotation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

// FollowersOf returns the hosts that are no control planes, with what each says about
// an authority. Only of the Kubernetes CA do they have anything. What one of them says
// of the site does not count: root on a worker may write it.
func FollowersOf(nodes []state.Node, a Authority) []Host {
	var out []Host
	for _, n := range nodes {
		if a == KubernetesCA && !controls(n) {
			h := hostOf(n, a)
			out = append(out, Host{Name: h.Name, Ready: h.Ready, Report: h.Report})
		}
	}
	return out
}

// controls reports whether a host is a control plane. One that is joining has an API
// server before its control-plane label.
func controls(n state.Node) bool {
	return n.ControlPlane() || n.Labels[noderole.Claim] == string(state.RoleMaster)
}

// Newcomer is a host that was let in, by a token for kubeadm.
type Newcomer struct {
	Name string
	// Control is true for a control plane.
	Control bool
	// Token is the ID of the token, and Ends when it ends.
	Token string
	Ends  time.Time
}

// Joining says which host that is being installed a rotation waits for, empty for none:
// one that was let in, and has no Node that is ready. It got the authorities once, before.
// Workers got the Kubernetes CA alone.
func Joining(a Authority, let []Newcomer, nodes []state.Node, now time.Time) string {
	for _, h := range let {
		ready := slices.ContainsFunc(nodes, func(n state.Node) bool { return n.Name == h.Name && n.Ready })
		if (h.Control || a == KubernetesCA) && now.Before(h.Ends) && !ready {
			return fmt.Sprintf("%s is being installed, with the authorities and keys of now: wait until it is ready. Was its installation given up? Then its token ends at %s, or at once after kubectl -n kube-system delete secret bootstrap-token-%s", h.Name, h.Ends.UTC().Format(time.RFC3339), h.Token)
		}
	}
	return ""
}

// Stale names those of the texts that lack an authority which all control planes trust, or hold
// one that none of them does. What only some trust, a rotation has left that is no longer known:
// nobody shows it.
func Stale(texts map[string][]ID, hosts []Host) []string {
	if len(hosts) == 0 || slices.ContainsFunc(hosts, func(h Host) bool { return h.Report == nil }) {
		return nil
	}
	var some []ID
	for _, h := range hosts {
		some = append(some, h.Report.Trusts...)
	}
	all := slices.DeleteFunc(slices.Clone(some), func(id ID) bool { return !eachTrusts(hosts, id) })
	var out []string
	for name, ids := range texts {
		if slices.ContainsFunc(all, notIn(ids)) || slices.ContainsFunc(ids, notIn(some)) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func notIn(list []ID) func(ID) bool {
	return func(id ID) bool { return !slices.Contains(list, id) }
}

// HostsOf returns the control planes among nodes, with what each says about an
// authority, and the names of other nodes that are not ready.
func HostsOf(nodes []state.Node, a Authority) (hosts []Host, absent []string) {
	for _, n := range nodes {
		if !controls(n) {
			if !n.Ready {
				absent = append(absent, n.Name)
			}
			continue
		}
		h := hostOf(n, a)
		if !n.ControlPlane() {
			h = h.joining()
		}
		hosts = append(hosts, h)
	}
	return hosts, absent
}

// joining returns a host that says of itself that it becomes a control plane. It is waited for.
// Root on a worker may write what it says of the site, so that does not count.
func (h Host) joining() Host {
	h.Joins, h.ControlPlanes, h.NoRoot = true, 0, false
	if h.Report != nil {
		said := *h.Report
		said.Restored = false
		h.Report = &said
	}
	return h
}

// hostOf returns a host with what it says about an authority.
func hostOf(n state.Node, a Authority) Host {
	h := Host{Name: n.Name, Ready: n.Ready && !n.Absent}
	renewal := state.ParseAnnotation[state.CertificateRenewal](n.Annotations[state.AnnotationRenewal])
	h.Renews = renewal.Known && !renewal.Value.Since.IsZero()
	if said := state.ParseAnnotation[Reports](n.Annotations[state.AnnotationTrust]); said.Known {
		h.ControlPlanes, h.NoRoot = said.Value.ControlPlanes, said.Value.NoRoot
		if r, ok := said.Value.Authorities[a]; ok {
			h.Report = &r
		}
	}
	return h
}

// apart is how far a clock may be from those of control planes. Their kubelets say every ten
// seconds that they are alive.
const apart = 2 * time.Minute

// ClockOf says that a machine's clock is not that of the control planes; empty if it is. seen is
// when each of them said last, by its own clock, that it is alive.
func ClockOf(now time.Time, seen map[string]time.Time) string {
	latest := ""
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if latest == "" || seen[name].After(seen[latest]) {
			latest = name
		}
	}
	if latest == "" || now.Sub(seen[latest]).Abs() <= apart {
		return ""
	}
	return fmt.Sprintf("the clock of this machine says %s, and %s said %s last: put the one right that is wrong, since the waits of a rotation are counted by it",
		now.UTC().Format(time.RFC3339), latest, seen[latest].UTC().Format(time.RFC3339))
}

// EtcdSpares says why etcd could not do without one of two control planes; empty if
// it could do without either. spares is what Pacemaker's status says about each, by
// name. Of other numbers of control planes nothing is said: the agents ask the other
// API servers, which are ready only with etcd.
func EtcdSpares(hosts []Host, spares map[string]rollout.Spare) string {
	hosts = slices.DeleteFunc(slices.Clone(hosts), func(h Host) bool { return h.Joins })
	if len(hosts) != 2 {
		return ""
	}
	for _, h := range hosts {
		spare, known := spares[h.Name]
		switch {
		case !known:
			return "Pacemaker's status says nothing of " + h.Name + ": holdfast status"
		case !state.Is(spare.Carries, true):
			return strings.TrimSuffix(fmt.Sprintf("etcd could not do without %s now: %s", h.Name, spare.Why), ": ")
		}
	}
	return ""
}
