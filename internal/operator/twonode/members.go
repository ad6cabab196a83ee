package twonode

import (
	"context"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/decide/handover"
)

// Members asks etcd on each host for the state of its member.
type Members struct{ etcd.Members }

// Ask asks all hosts at once. A host that does not answer is not in the result.
func (m *Members) Ask(ctx context.Context, hosts []Host) map[string]handover.Member {
	addresses := map[string]string{}
	for _, h := range hosts {
		addresses[h.Name] = h.Address
	}
	out := map[string]handover.Member{}
	for name, look := range m.Statuses(ctx, addresses) {
		out[name] = health(look)
	}
	return out
}

// health judges by a member's own report whether the other one may be stopped.
func health(look etcd.MemberStatus) handover.Member {
	if look.Votes() {
		return handover.MemberHealthy
	}
	return handover.MemberUnhealthy
}
