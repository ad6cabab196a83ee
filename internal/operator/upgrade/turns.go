package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// turns writes to nodes what the record wants of their hosts, and nothing while there is
// no upgrade. Whoever loses its turn is told first: two never have one together.
func (r *Reconciler) turns(ctx context.Context, g *gathered, next cluster.Step) error {
	nodes := slices.Clone(g.seen.Nodes)
	slices.SortStableFunc(nodes, func(a, b corev1.Node) int {
		return rank(g.book.record, a.Name) - rank(g.book.record, b.Name)
	})
	for i := range nodes {
		n := &nodes[i]
		had, wrong := annotation.Decode[annotation.Turn](n.Annotations[annotation.TurnOf])
		turn, fetch, err := wanted(g, next, n.Name, had)
		if err != nil {
			return err
		}
		if _, err := r.give(ctx, n, map[string]string{annotation.TurnOf: turn, annotation.FetchOf: fetch}); err != nil {
			return err
		}
		if wish := g.turnOf(n.Name).Wish; turn != "" && (wrong != nil || had.Wish != wish) && wish != parachute.Stay {
			r.event(ctx, n, corev1.EventTypeNormal, "UpgradeTurn", fmt.Sprintf("the host has its turn: %s (%s)", wish, next.Why))
		}
	}
	return nil
}

// turnOf returns what the record wants of a host.
func (g *gathered) turnOf(host string) parachute.Turn {
	s := g.survey.Site
	s.Record = g.book.record
	return s.TurnOf(host)
}

func rank(r cluster.Record, host string) int {
	if r.Turn(host).Wish == parachute.Stay {
		return 0
	}
	return 1
}

// wanted returns the annotations of a node. While there is no upgrade there is no turn, and
// something to fetch only if a release is offered. Who was told to raise its level goes on,
// whatever comes between: there is no way back.
func wanted(g *gathered, next cluster.Step, host string, had annotation.Turn) (turn, fetch string, err error) {
	rec := g.book.record
	if !rec.Started {
		fetch, err = offered(g)
		return "", fetch, err
	}
	of := g.turnOf(host)
	begun := had.Closed && had.Upgrade == of.Upgrade
	now := rec.NoWayBack && next.Do == cluster.Raise && slices.Contains(next.Hosts, host)
	raise := now || begun && had.Raise
	for _, h := range g.survey.Site.Hosts {
		raise = raise || rec.NoWayBack && h.Name == host && state.Is(h.Raised, true)
	}
	turn, err = annotation.Encode(annotation.Turn{Wish: of.Wish, Upgrade: of.Upgrade, From: of.From, To: of.To, Attempt: of.Attempt, Back: of.Back, Closed: rec.NoWayBack, Raise: raise, Kubelet: now && next.Kubelet || begun && had.Kubelet})
	if err != nil {
		return "", "", err
	}
	fetch, err = annotation.Encode(annotation.Fetch{Wanted: []string{rec.From, rec.To}, Sources: g.survey.Wish.Sources})
	return turn, fetch, err
}

// offered returns what hosts fetch while there is no upgrade; empty for nothing.
func offered(g *gathered) (string, error) {
	site := g.survey.Site
	if site.Offers() == "" {
		return "", nil
	}
	return annotation.Encode(annotation.Fetch{Wanted: []string{site.Running, site.Offers()}, Sources: g.survey.Wish.Sources})
}

// give writes annotations, if one of them differs, and reports whether it did. An empty one
// goes away. The write holds only for the node that was read: the host may have gone away,
// or answered, since.
func (r *Reconciler) give(ctx context.Context, n *corev1.Node, wanted map[string]string) (bool, error) {
	set := map[string]*string{}
	for name, want := range wanted {
		switch has, there := n.Annotations[name]; {
		case want == "" && there:
			set[name] = nil
		case want != "" && has != want:
			set[name] = &want
		}
	}
	if len(set) == 0 {
		return false, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": n.ResourceVersion, "annotations": set}})
	if err != nil {
		return false, err
	}
	if err := r.Client.Patch(ctx, n.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return false, fmt.Errorf("write to node %s what the upgrade wants of it: %w", n.Name, err)
	}
	return true, nil
}
