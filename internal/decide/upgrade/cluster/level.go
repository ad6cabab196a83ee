package cluster

import (
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/model/state"
)

// KubeProxy is the name of the part that must not be newer than what API servers emulate.
const KubeProxy = "kube-proxy"

// Level returns the functional level that hosts keep until the commit, such as 1.35, by
// the versions of Kubernetes of two releases. It is empty if the new one raises none.
func Level(from, to gate.Version) string {
	if to.Major == from.Major && to.Minor <= from.Minor || to.Major < from.Major {
		return ""
	}
	return from.Series()
}

// Raises reports whether the commit of an upgrade raises the functional level. A release
// that nobody has told of may do so.
func Raises(from, to gate.Release) bool {
	return from.Digest == "" || to.Digest == "" || Level(from.Kubernetes, to.Kubernetes) != ""
}

// Follows reports whether a part may be of the new release: kube-proxy not before the
// functional level has risen, if the commit raises it.
func Follows(part string, raises, risen bool) bool {
	return part != KubeProxy || !raises || risen
}

// raise closes what the record says is closed: host by host, and then the record goes. A
// kubelet must not be newer than what any API server emulates, so the servers of all
// control planes rise first, then kubelets, then kube-proxy.
func (s Site) raise() (Step, bool) {
	if !s.Record.NoWayBack {
		return Step{}, false
	}
	order := Order(s.Hosts)
	if h, lags := lagging(order, Host.servers); lags {
		return s.step(Raise, h.Name+" is brought to the new functional level", h.Name)
	}
	if h, lags := lagging(order, func(h Host) state.Fact[bool] { return h.Raised }); lags {
		step, _ := s.step(Raise, "kubelet of "+h.Name+" is brought to the new functional level", h.Name)
		step.Kubelet = true
		return step, true
	}
	if step, waits := s.rollout(); waits {
		return step, true
	}
	if part := s.behind(true); part != "" {
		return s.bring(part)
	}
	return s.write(Record{}, "the upgrade is complete")
}

// servers returns whether the servers of a host work at the level of its release. A
// worker has none.
func (h Host) servers() state.Fact[bool] {
	if h.Worker || state.Is(h.Raised, true) {
		return state.Known(true)
	}
	return h.Servers
}

// lagging returns the first host of which something is not known to be true. Who does not
// say it may be in the middle of its restart, and comes before who has not begun.
func lagging(hosts []Host, has func(Host) state.Fact[bool]) (Host, bool) {
	for _, known := range []bool{false, true} {
		for _, h := range hosts {
			if f := has(h); f.Known == known && !state.Is(f, true) {
				return h, true
			}
		}
	}
	return Host{}, false
}
