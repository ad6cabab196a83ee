package handover

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/twonode"
)

// twoNodes is the number of control planes that this is about.
const twoNodes = 2

// stages are the Jobs of the whole way: those of one stage may run together,
// and a stage begins when the one before it is done. What touches etcd is done
// on one host after the other.
func stages(s Snapshot) [][]Work {
	a, b := s.Nodes[0].Name, s.Nodes[1].Name
	d := s.Digests
	first, second := handOverOrder(s)
	return [][]Work{
		entering(s),
		{work(twonode.Fencing, a, d.Fencing), work(twonode.Fencing, b, d.Fencing)},
		{work(twonode.Setup, a, key(d.Hosts, d.Release))},
		{work(twonode.Manifest, a, d.Manifest[a])},
		{work(twonode.Manifest, b, d.Manifest[b])},
		{work(twonode.HandOver, first, "")},
		{work(twonode.HandOver, second, "")},
		{work(twonode.Finish, a, ""), work(twonode.Finish, b, "")},
	}
}

// withoutPCSD is what a host's entering the cluster is since a release that has no
// pcsd for it: hosts that entered by an earlier one do it once more, which ends
// theirs.
const withoutPCSD = "each host by itself"

// entering are the Jobs that put each host into the cluster.
func entering(s Snapshot) []Work {
	var out []Work
	for _, n := range s.Nodes {
		out = append(out, work(twonode.Auth, n.Name, key(s.Digests.Hosts, withoutPCSD)))
	}
	return out
}

// handOverOrder is by name, but for a host whose etcd is not well while the
// other's is: once the hosts are set up, one that is lost is fenced and its
// member removed. It is back only when its own hand-over has taken kubelet's
// manifest away, and the other's has to wait for it.
func handOverOrder(s Snapshot) (first, second string) {
	a, b := s.Nodes[0], s.Nodes[1]
	if a.Etcd == MemberHealthy && b.Etcd != MemberHealthy && !done(s, []Work{work(twonode.HandOver, b.Name, "")}) {
		return b.Name, a.Name
	}
	return a.Name, b.Name
}

func work(step twonode.Step, node, digest string) Work {
	name := "two-node-" + string(step)
	if step != twonode.Setup {
		name += "-" + node
	}
	return Work{Step: step, Node: node, Name: short(name), Key: key(string(step), node, digest)}
}

// key tells the makings of one Job from those of another.
func key(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// maxName is the length of a Job's name that its pods can still carry as a
// label.
const maxName = 63

// short gives a long name an end that tells it from others with the same
// beginning.
func short(name string) string {
	if len(name) <= maxName {
		return name
	}
	end := "-" + key(name)[:8]
	return strings.TrimRight(name[:maxName-len(end)], "-.") + end
}

// waitsForHosts says what is missing before there are Jobs at all.
func waitsForHosts(s Snapshot) string {
	switch n := len(s.Nodes); {
	case n < twoNodes:
		return fmt.Sprintf("%d of 2 control planes have joined", n)
	case n > twoNodes:
		return fmt.Sprintf("there are %d control planes, and two-node clusters have exactly 2", n)
	}
	return strings.Join(slices.Concat(s.Missing, s.Awaited), "; ")
}

// gate says what a stage waits for before a Job of it is made, or nothing.
// What runs already is left to run.
func gate(s Snapshot, stage []Work) string {
	for _, n := range s.Nodes {
		if !n.Ready && (stage[0].Step != twonode.Fencing || holds(stage, n.Name)) {
			return "node " + n.Name + " is not ready"
		}
	}
	other := func(n Node) bool { return n.Name != stage[0].Node }
	switch stage[0].Step {
	case twonode.Auth, twonode.Fencing, twonode.Setup:
		if !s.Begun && !fences(s) {
			return etcdGate(s, func(Node) bool { return true })
		}
	case twonode.Manifest:
		if s.Begun { // before, it is a file that nobody reads
			return cmp.Or(etcdGate(s, other), restartGate(s, other))
		}
	case twonode.HandOver:
		return cmp.Or(etcdGate(s, other), handOverGate(s, other))
	case twonode.Finish:
	}
	return ""
}

// fences reports whether the cluster manager may have been set up: from then on
// a host that is lost is fenced and its member removed, and waiting for that
// member's health would be waiting for ever.
func fences(s Snapshot) bool {
	_, there := find(s.Jobs, work(twonode.Setup, "", "").Name)
	return there
}

// handOverGate asks that the other host is not in the middle of its own
// hand-over: both members at once must never be down.
func handOverGate(s Snapshot, chosen func(Node) bool) string {
	for _, n := range s.Nodes {
		job, there := find(s.Jobs, work(twonode.HandOver, n.Name, "").Name)
		if chosen(n) && there && (job.State == JobRunning || job.State == JobEnding) {
			return "etcd on " + n.Name + " is being handed over"
		}
	}
	return ""
}

// reachable is what of a stage may be done now. The account of a BMC is given
// to each host by itself: the survivor needs the corrected one most while the
// other host is away.
func reachable(s Snapshot, stage []Work) []Work {
	if stage[0].Step != twonode.Fencing {
		return stage
	}
	now := slices.DeleteFunc(slices.Clone(stage), func(w Work) bool {
		return done(s, []Work{w}) || !slices.ContainsFunc(s.Nodes, func(n Node) bool { return n.Name == w.Node && n.Ready })
	})
	if len(now) == 0 {
		return stage
	}
	return now
}

// holds reports whether a stage has work on a host.
func holds(stage []Work, node string) bool {
	return slices.ContainsFunc(stage, func(w Work) bool { return w.Node == node })
}

// settled is how long after a new manifest its host is left alone: the agent
// there restarts etcd by it when it finds etcd calm, and both members at once
// must never be down.
const settled = 30 * time.Second

// restartGate asks that the other host has had the time to restart etcd by the
// manifest that it was given.
func restartGate(s Snapshot, chosen func(Node) bool) string {
	for _, n := range s.Nodes {
		job, there := find(s.Jobs, work(twonode.Manifest, n.Name, "").Name)
		if chosen(n) && there && job.State == JobSucceeded && s.Now.Sub(job.Ended) < settled {
			return "etcd on " + n.Name + " restarts by its new manifest"
		}
	}
	return ""
}

// etcdGate asks for the health of the chosen members. Before a member is
// stopped the other one has to be whole; the one that is stopped need not be,
// since an interrupted step left it as it is.
func etcdGate(s Snapshot, chosen func(Node) bool) string {
	i := slices.IndexFunc(s.Nodes, func(n Node) bool { return chosen(n) && n.Etcd != MemberHealthy })
	if i < 0 {
		return ""
	}
	if s.Nodes[i].Etcd == MemberUnknown {
		return "it is not known whether etcd on " + s.Nodes[i].Name + " is healthy"
	}
	return "etcd on " + s.Nodes[i].Name + " is not a healthy voter"
}
