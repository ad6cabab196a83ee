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

// twoNodes is the number of control planes that the hand-over is for.
const twoNodes = 2

// stages returns the Jobs of the whole way. The Jobs of one stage may run together,
// and a stage begins when the one before it is done. Jobs that touch etcd run on
// one host after the other.
func stages(s Snapshot) [][]Work {
	a, b := s.Nodes[0].Name, s.Nodes[1].Name
	d := s.Digests
	return [][]Work{
		entering(s),
		{work(twonode.Fencing, a, d.Fencing), work(twonode.Fencing, b, d.Fencing)},
		// Once the cluster manager is set up, a lost host is fenced and its member
		// removed. Without the API that host can come back only by podman's manifest.
		{work(twonode.Manifest, a, d.Manifest[a])},
		{work(twonode.Manifest, b, d.Manifest[b])},
		{work(twonode.Setup, a, key(d.Hosts, d.Release))},
		{work(twonode.HandOver, a, "")},
		{work(twonode.HandOver, b, "")},
		{work(twonode.Finish, a, ""), work(twonode.Finish, b, "")},
	}
}

// withoutPCSD marks how a host enters the cluster since a release that has no pcsd
// for it. Hosts that entered by an earlier release enter once more, which ends
// their pcsd.
const withoutPCSD = "each host by itself"

// entering returns the Jobs that put each host into the cluster.
func entering(s Snapshot) []Work {
	var out []Work
	for _, n := range s.Nodes {
		out = append(out, work(twonode.Auth, n.Name, key(s.Digests.Hosts, withoutPCSD)))
	}
	return out
}

func work(step twonode.Step, node, digest string) Work {
	name := "two-node-" + string(step)
	if step != twonode.Setup {
		name += "-" + node
	}
	return Work{Step: step, Node: node, Name: short(name), Key: key(string(step), node, digest)}
}

// JobNames returns the names of the Jobs that the set-up of hosts may have left.
func JobNames(hosts []string) []string {
	var out []string
	for _, step := range []twonode.Step{twonode.Auth, twonode.Fencing, twonode.Manifest, twonode.Setup, twonode.HandOver, twonode.Finish} {
		if step == twonode.Setup {
			out = append(out, work(step, "", "").Name)
			continue
		}
		for _, h := range hosts {
			out = append(out, work(step, h, "").Name)
		}
	}
	return out
}

// key identifies what a Job is made from.
func key(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// maxName is the longest name of a Job that its pods can still carry as a label.
const maxName = 63

// short replaces the end of a long name by one that tells it apart from others with
// the same beginning.
func short(name string) string {
	if len(name) <= maxName {
		return name
	}
	end := "-" + key(name)[:8]
	return strings.TrimRight(name[:maxName-len(end)], "-.") + end
}

// waitsForHosts returns what is missing before there are Jobs at all.
func waitsForHosts(s Snapshot) string {
	switch n := len(s.Nodes); {
	case n < twoNodes:
		return fmt.Sprintf("%d of 2 control planes have joined", n)
	case s.widens():
		return "a plan is about " + s.Third + " as the third control plane: the set-up of two is left as it is"
	case n > twoNodes:
		return fmt.Sprintf("there are %d control planes, but a two-node cluster has exactly 2", n)
	}
	return strings.Join(slices.Concat(s.Missing, s.Awaited), "; ")
}

// widens reports whether the third Node is that of a plan.
func (s Snapshot) widens() bool {
	return s.Third != "" && len(s.Nodes) == twoNodes+1 && slices.ContainsFunc(s.Nodes, func(n Node) bool { return n.Name == s.Third })
}

// gate returns what a stage waits for before one of its Jobs is made, or nothing. A
// Job that runs already is left to run.
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
		if s.Begun { // before that, nobody reads the manifest
			return cmp.Or(etcdGate(s, other), restartGate(s, other))
		}
	case twonode.HandOver:
		return cmp.Or(etcdGate(s, other), handOverGate(s, other))
	case twonode.Finish:
	}
	return ""
}

// held returns why a stage waits for an upgrade. A BMC's account is given all the same:
// whoever is left needs it most while the other host is away. A site that is not whole is
// made whole before the upgrade is over, once no host is at work for it.
func held(s Snapshot, stage []Work) string {
	switch {
	case stage[0].Step == twonode.Fencing:
		return ""
	case s.AtWork != "":
		return s.AtWork
	case etcdGate(s, func(Node) bool { return true }) != "":
		return ""
	case s.Away != "":
		return s.Away
	case stage[0].Step == twonode.Auth:
		return ""
	}
	return s.Upgrade
}

// fences reports whether the cluster manager may have been set up. From then on a
// lost host is fenced and its member removed, so a wait for that member's health
// would never end.
func fences(s Snapshot) bool {
	_, there := find(s.Jobs, work(twonode.Setup, "", "").Name)
	return there
}

// handOverGate requires that the other host is not in the middle of its own
// hand-over: both members must never be down at once.
func handOverGate(s Snapshot, chosen func(Node) bool) string {
	for _, n := range s.Nodes {
		job, there := find(s.Jobs, work(twonode.HandOver, n.Name, "").Name)
		if chosen(n) && there && (job.State == JobRunning || job.State == JobEnding) {
			return "etcd on " + n.Name + " is being handed over"
		}
	}
	return ""
}

// reachable returns the work of a stage that may be done now. Each host gets a
// BMC's account by itself: the survivor needs the corrected one most while the
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

// settled is how long a host is left alone after a new manifest. The etcd keeper
// there restarts etcd with it once it finds etcd calm, and both members must never
// be down at once.
const settled = 30 * time.Second

// restartGate requires that the other host has had the time to restart etcd with
// its new manifest.
func restartGate(s Snapshot, chosen func(Node) bool) string {
	for _, n := range s.Nodes {
		job, there := find(s.Jobs, work(twonode.Manifest, n.Name, "").Name)
		if chosen(n) && there && job.State == JobSucceeded && s.Now.Sub(job.Ended) < settled {
			return "etcd on " + n.Name + " is restarting with its new manifest"
		}
	}
	return ""
}

// etcdGate requires that the chosen members are healthy. Before a member is stopped
// the other one has to be whole. The member that is stopped need not be: an
// interrupted step may have left it unhealthy.
func etcdGate(s Snapshot, chosen func(Node) bool) string {
	i := slices.IndexFunc(s.Nodes, func(n Node) bool { return chosen(n) && n.Etcd != MemberHealthy })
	if i < 0 {
		return ""
	}
	if s.Nodes[i].Etcd == MemberUnknown {
		return "it is unknown whether etcd on " + s.Nodes[i].Name + " is healthy"
	}
	return "etcd on " + s.Nodes[i].Name + " is not a healthy voter"
}
