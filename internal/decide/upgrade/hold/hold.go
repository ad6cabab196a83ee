// Package hold decides what other work on hosts waits for the upgrade of a site. What a
// host at work does for the upgrade, and the renewal of its certificates, is no other
// work: nothing here holds them.
package hold

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/survey"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Held says for what other work waits. Both are empty while there is no upgrade.
type Held struct {
	// Away is why no host may be taken away: for a configuration, a reboot or updates.
	// It is empty while the site soaks. All hosts are alike then, a soak may have no
	// end, and a boot is a part of the proof.
	Away string
	// Rewrite is why nothing may change what each release has of its own on a host, as
	// static pods do: whoever goes back would put the former ones in its place. It holds
	// until the upgrade is over.
	Rewrite string
	// AtWork is why nothing at all may be changed on hosts: one of them is at work, or nobody
	// knows. A site that is not whole waits for nothing else.
	AtWork string
}

// waits begins each reason.
const waits = "waits for the upgrade: "

// Of decides it from the text of the record, which is empty for none, and from the nodes
// that are known. An unknown record, or one that cannot be read, holds everything.
func Of(record state.Fact[string], nodes []corev1.Node) Held {
	if !record.Known {
		return all("nobody knows its record")
	}
	r, err := annotation.Decode[annotation.Record](record.Value)
	if err != nil {
		return all(fmt.Sprintf("its record, ConfigMap %s/%s, is %v", annotation.RecordNamespace, annotation.RecordName, err))
	}
	if work := atWork(r, nodes); len(work) > 0 {
		return all(strings.Join(work, ", ") + " at work")
	}
	switch there, hosts := at(r.To, nodes); {
	case !r.Started:
		return Held{}
	case r.Returning:
		return both("the site goes back to its former release")
	case r.NoWayBack:
		return both("it is being committed")
	case there > 0 && there < hosts:
		return both(fmt.Sprintf("%d of %d hosts run the new release", there, hosts))
	}
	// While no host has begun, work that has begun goes on: the upgrade waits for it.
	return Held{Rewrite: waits + "commit it or go back first (`holdfast upgrade commit`, `holdfast upgrade rollback`)"}
}

func both(why string) Held { return Held{Away: waits + why, Rewrite: waits + why} }

func all(why string) Held { return Held{waits + why, waits + why, waits + why} }

// said is what a host says. An error leaves the zero value: who says nothing that can be
// read is on no way that is known, and the record alone counts.
func said(n *corev1.Node) annotation.Host {
	h, _ := annotation.Decode[annotation.Host](n.Annotations[annotation.HostOf])
	return h
}

// atWork names the hosts that have their turn, or are on their way.
func atWork(r annotation.Record, nodes []corev1.Node) []string {
	var out []string
	if r.Started {
		out = slices.Clone(r.Turns)
	}
	for i := range nodes {
		if !said(&nodes[i]).Journal.Step.AtRest() {
			out = append(out, nodes[i].Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// at counts the hosts that are known to run a release, and all. A worker that is away does
// not count: the upgrade itself waits for it, or until somebody takes it out, which may last for months.
func at(release string, nodes []corev1.Node) (there, all int) {
	for i := range nodes {
		n := &nodes[i]
		if !ready(n) && !survey.ControlPlane(n) {
			continue
		}
		all++
		if state.Is(said(n).Facts.Release, release) {
			there++
		}
	}
	return there, all
}

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
