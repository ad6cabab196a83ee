package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/drain"
)

// dryDrain is what `host drain --dry-run` prints.
type dryDrain struct {
	Host string `json:"host"`
	// Wanted is true if somebody wants the host to be empty already.
	Wanted bool `json:"wanted,omitempty"`
	// Own says for what the host itself is to be empty, and what the wish would do to it.
	Own string `json:"own,omitempty"`
	// Moves are the pods that would move, and Stays counts those that stay.
	Moves    []string `json:"moves"`
	Stays    int      `json:"stays"`
	InTheWay string   `json:"inTheWay,omitempty"`
}

// dryEmpty decides with the operator's functions, and changes nothing.
func dryEmpty(ctx context.Context, c client.Reader, out io.Writer, format, name string, now time.Time) error {
	n, err := hostNode(ctx, c, name)
	if err != nil {
		return err
	}
	nodes, err := hostNodes(ctx, c)
	if err != nil {
		return err
	}
	p, err := foreseeDrain(ctx, c, n, nodes, now)
	if err != nil {
		return err
	}
	wanted := n.Annotations[drain.Wanted] != ""
	if wanted { // it goes on, and says who is in the way
		p.AllCordoned = ""
	}
	if err := nobodyTakes(name, p); err != nil {
		return err
	}
	r := dryDrain{Host: name, Wanted: wanted, Moves: append([]string{}, p.Moves...), Stays: p.Stays, InTheWay: p.InTheWay}
	if own := drain.OwnWish(n); own != "" {
		r.Own = besideOwn(name, own)
	}
	if err := r.print(out, format); err != nil {
		return err
	}
	if r.InTheWay != "" {
		return exitWith(command.ExitAttention)
	}
	return nil
}

// foreseeDrain returns what a drain of a host would do now, by its pods and the
// budgets.
func foreseeDrain(ctx context.Context, c client.Reader, n *corev1.Node, nodes []corev1.Node, now time.Time) (drain.Preview, error) {
	facts := drain.Facts{Now: now, Node: n, Others: otherNodes(nodes, n.Name)}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.MatchingFields{"spec.nodeName": n.Name}); err != nil {
		return drain.Preview{}, fmt.Errorf("list the pods of %s: %w", n.Name, err)
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := c.List(ctx, &budgets); err != nil {
		return drain.Preview{}, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	facts.Pods, facts.Budgets = pods.Items, budgets.Items
	return drain.Foresee(facts), nil
}

func (r dryDrain) print(out io.Writer, format string) error {
	if format == "json" || format == "yaml" {
		return printData(out, format, r)
	}
	var text strings.Builder
	if r.Wanted {
		fmt.Fprintf(&text, "somebody wants %s to be empty already\n", r.Host)
	}
	if r.Own != "" {
		text.WriteString(r.Own + "\n")
	}
	fmt.Fprintf(&text, "pods of %s: %d would move, %d belong to the host and stay\n", r.Host, len(r.Moves), r.Stays)
	writeMoves(&text, format, r.Moves, r.InTheWay)
	_, err := io.WriteString(out, text.String())
	return err
}

// writeMoves lists pods that would move, and who would be in the way.
func writeMoves(text *strings.Builder, format string, moves []string, inTheWay string) {
	const most = 20
	for i, pod := range moves {
		if i == most && format != "wide" {
			fmt.Fprintf(text, "  %d more; see all with -o wide\n", len(moves)-most)
			break
		}
		text.WriteString("  " + pod + "\n")
	}
	if inTheWay != "" {
		fmt.Fprintf(text, "in the way would be: %s\n", inTheWay)
	}
}
