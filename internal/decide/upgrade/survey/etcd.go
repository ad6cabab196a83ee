package survey

import (
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Member is what the member of etcd on a host says of itself and of the others.
type Member struct {
	ID, Leader state.MemberID
	// Serves is false while it waits for its first leader.
	Serves, Learner bool
	Members         []state.EtcdMember
	// Alarms are in etcd's words.
	Alarms []string
	// Version is that of its program. Cluster and Storage are the versions that it has
	// stored; empty if it did not say.
	Version, Cluster, Storage string
}

func (m Member) votes() bool {
	return m.Serves && m.Leader != 0 && !m.Learner && len(m.Alarms) == 0
}

// etcdOf returns the cluster of all members, as those that answer say.
func etcdOf(s Seen, hosts []host) gate.Etcd {
	out := gate.Etcd{Equal: s.Equal, StandIn: standIn(s, hosts)}
	lists := map[string]bool{}
	var list []state.EtcdMember
	alarms := []string{}
	for _, h := range hosts {
		m, answers := s.Etcd[h.node.Name]
		if !answers || !m.Serves {
			continue
		}
		lists[key(m.Members)] = true
		list = m.Members
		for _, a := range m.Alarms {
			if !slices.Contains(alarms, a) {
				alarms = append(alarms, a)
			}
		}
	}
	if len(lists) == 0 {
		return out
	}
	out.Alarms = state.Known(alarms)
	out.Cluster = agreed(s, func(m Member) string { return m.Cluster })
	out.Storage = agreed(s, func(m Member) string { return m.Storage })
	if len(lists) == 1 {
		out.Members = state.Known(members(s, list))
	}
	return out
}

// key is equal for equal lists of members.
func key(list []state.EtcdMember) string {
	var out strings.Builder
	for _, m := range list {
		out.WriteString(m.ID.String())
		if m.Learner {
			out.WriteString("?")
		}
		out.WriteString(" ")
	}
	return out.String()
}

// members returns the members of a list, with the host that each is on.
func members(s Seen, list []state.EtcdMember) []gate.Member {
	var out []gate.Member
	for _, m := range list {
		one := gate.Member{Host: m.Name, Voter: !m.Learner}
		for name, said := range s.Etcd {
			if said.ID != m.ID {
				continue
			}
			one.Host, one.Started = name, said.Serves
			if v, err := gate.ParseVersion(said.Version); err == nil {
				one.Version = state.Known(v)
			}
		}
		out = append(out, one)
	}
	return out
}

// agreed returns a version that all members that answer have stored.
func agreed(s Seen, of func(Member) string) state.Fact[gate.Version] {
	texts := map[string]bool{}
	text := ""
	for _, m := range s.Etcd {
		text = of(m)
		texts[text] = true
	}
	v, err := gate.ParseVersion(text)
	if len(texts) != 1 || err != nil {
		return state.Fact[gate.Version]{}
	}
	return state.Known(v)
}

// standIn tells whether a stand-in votes. It does so only on two hosts, and only in the
// place of a member that does not run.
func standIn(s Seen, hosts []host) state.Fact[bool] {
	if !s.TwoNode {
		return state.Known(false)
	}
	for _, h := range hosts {
		if m, answers := s.Etcd[h.node.Name]; !h.worker && (!answers || !m.Serves) {
			return state.Fact[bool]{}
		}
	}
	return state.Known(false)
}
