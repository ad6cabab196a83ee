package status

import (
	"context"
	"os"
	"slices"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Members asks etcd on each control plane about itself, with the certificates
// of a host.
type Members struct{ etcd.Members }

// MembersHere returns Members with the certificates of the host that this runs
// on, and false if the user may not read them.
func MembersHere() (*Members, bool) {
	const pki = state.EtcdPKIDir + "/"
	m := &Members{etcd.Members{Identity: etcd.Identity{CA: pki + "ca.crt", Cert: pki + "healthcheck-client.crt", Key: pki + "healthcheck-client.key"}}}
	f, err := os.Open(m.Identity.Key)
	if err != nil {
		return nil, false
	}
	return m, f.Close() == nil
}

// Ask asks all control planes in parallel. The result leaves out those that do
// not answer: other sources may know why.
func (m *Members) Ask(ctx context.Context, f standing.Facts) map[string]standing.Member {
	addresses := map[string]string{}
	for _, h := range f.Hosts {
		if h.ControlPlane && len(h.Addresses) > 0 {
			addresses[h.Name] = h.Addresses[0].String()
		}
	}
	looks := m.Statuses(ctx, addresses)
	return withStrangers(withLag(looks), looks, f)
}

// withStrangers sets for each etcd the members in its list that belong to no control plane.
// While not all control planes are known by name, no member is a stranger.
func withStrangers(out map[string]standing.Member, looks map[string]etcd.MemberStatus, f standing.Facts) map[string]standing.Member {
	ours := map[string]bool{}
	for _, h := range f.Hosts {
		if h.ControlPlane {
			ours[h.Name] = true
		}
	}
	if !f.ControlPlanes.Known || len(ours) < f.ControlPlanes.Value {
		return out
	}
	for name, l := range looks {
		m := out[name]
		odd := slices.DeleteFunc(slices.Clone(l.Members), func(o state.EtcdMember) bool { return ours[o.Name] })
		if len(odd) > 0 {
			m.Strangers, m.Stranger = pacemakerstatus.Strangers(odd), odd[0].ID
		}
		out[name] = m
	}
	return out
}

// withLag sets how far each member is behind the most advanced one.
func withLag(looks map[string]etcd.MemberStatus) map[string]standing.Member {
	var ahead uint64
	for _, l := range looks {
		ahead = max(ahead, l.RaftIndex)
	}
	out := map[string]standing.Member{}
	for name, l := range looks {
		m := standing.Member{
			Running: state.Known(true), Learner: l.Learner, Leader: l.Leader != 0 && l.Leader == l.Member,
			Healthy: state.Known(l.Serves && l.Leader != 0 && len(l.Errors) == 0),
		}
		if l.Serves && len(looks) > 1 {
			m.Behind = state.Known(ahead - l.RaftIndex)
		}
		m.Listed = state.Known(true)
		out[name] = m
	}
	return out
}
