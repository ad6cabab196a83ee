package fencing

import (
	"fmt"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Health holds what is known of both hosts before one of them is crashed on
// purpose, and after it has come back.
type Health struct {
	// Hosts are the two hosts.
	Hosts []string
	// Reports come from the hosts' etcd keepers. A host that cannot be asked has
	// none; then the statement that its peer received counts.
	Reports map[string]state.Fact[state.EtcdReport]
	// Online names the hosts that take part in Pacemaker; Failures lists its failed
	// actions.
	Online   state.Fact[map[string]bool]
	Failures []string
}

// Problems says why the cluster is not in full health: empty means that both
// hosts hold every acknowledged write and either may be lost.
func (h Health) Problems() []string {
	var out []string
	if !h.Online.Known {
		out = append(out, "Pacemaker does not answer")
	}
	asked := 0
	for _, host := range h.Hosts {
		if h.Online.Known && !h.Online.Value[host] {
			out = append(out, host+" is not online in Pacemaker")
		}
		if r := h.Reports[host]; r.Known {
			asked++
			out = append(out, ofReport(host, r.Value)...)
		} else {
			out = append(out, h.ofStatement(host)...)
		}
	}
	if asked == 0 {
		out = append(out, "no host's etcd keeper answers")
	}
	return out
}

// ofReport judges a host by its own report.
func ofReport(host string, r state.EtcdReport) []string {
	s := r.Snapshot
	var out []string
	bad := func(format string, args ...any) { out = append(out, host+": "+fmt.Sprintf(format, args...)) }
	if !s.Record.Known || s.Record.Value.State != state.EtcdPair {
		bad("its record is %s, not pair", stateOf(s.Record))
	}
	if !state.Is(s.Local.Running, true) {
		bad("etcd is not running")
	}
	if !s.Local.Leader.Known || s.Local.Leader.Value == 0 {
		bad("etcd knows no leader")
	}
	switch n := voters(s.Local.Members); {
	case !s.Local.Members.Known:
		bad("etcd does not report its members")
	case n != 2:
		bad("etcd has %d voters, not 2", n)
	}
	if !state.Is(s.Pacemaker.Contact, true) {
		bad("it has no contact with its peer")
	}
	if r.Problem != "" {
		bad("%s", r.Problem)
	}
	return out
}

// ofStatement judges a host by the statement that its peer received.
func (h Health) ofStatement(host string) []string {
	for _, other := range h.Hosts {
		r := h.Reports[other]
		if other == host || !r.Known {
			continue
		}
		switch s := r.Value.Snapshot.Statement; {
		case !s.Known:
			return []string{host + ": no statement from it was received"}
		case s.Value.Record.State != state.EtcdPair:
			return []string{fmt.Sprintf("%s: its record is %s, not pair", host, s.Value.Record.State)}
		case !state.Is(s.Value.Running, true):
			return []string{host + ": etcd is not running"}
		default:
			return nil
		}
	}
	return nil
}

func stateOf(r state.Fact[state.EtcdRecord]) string {
	if !r.Known {
		return "unknown"
	}
	return string(r.Value.State)
}

// voters counts the voters. It returns -1 where there is a learner too.
func voters(members state.Fact[[]state.EtcdMember]) int {
	n := 0
	for _, m := range members.Value {
		if m.Learner {
			return -1
		}
		n++
	}
	return n
}

// GoesOnAlone reports whether a host has taken over from a fenced peer.
func GoesOnAlone(r state.EtcdReport) bool {
	s := r.Snapshot
	return s.Record.Known && s.Record.Value.State == state.EtcdSole && state.Is(s.Local.Running, true) &&
		s.Local.Leader.Known && s.Local.Leader.Value != 0
}
