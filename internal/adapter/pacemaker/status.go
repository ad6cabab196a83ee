package pacemaker

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast/holdfast/internal/model/crmmon"
)

// Status is the part of Pacemaker's status that the setup needs.
type Status struct {
	// Nodes has all nodes that Pacemaker knows, Online those that take part.
	Nodes, Online []string
	// Running lists for each resource the nodes on which it runs and has not
	// failed.
	Running map[string][]string
	// Failures are the failed actions, in Pacemaker's words.
	Failures []string
}

// Missing lists the resources that do not run where they should, and then all
// failures.
func (s Status) Missing(want map[string][]string) []string {
	var out []string
	for resource, nodes := range want {
		for _, n := range nodes {
			if !slices.Contains(s.Running[resource], n) {
				out = append(out, resource+" does not run on "+n)
			}
		}
	}
	slices.Sort(out)
	if len(out) > 0 {
		out = append(out, s.Failures...)
	}
	return out
}

// ReadStatus asks Pacemaker for its status.
func ReadStatus(ctx context.Context) (Status, error) {
	c, err := status(ctx, statusTimeout)
	if err != nil {
		return Status{}, fmt.Errorf("read Pacemaker's status: %w", err)
	}
	return statusOf(c), nil
}

func statusOf(c crmmon.Cluster) Status {
	s := Status{Running: map[string][]string{}}
	for _, n := range c.Nodes {
		s.Nodes = append(s.Nodes, n.Name)
		if n.Online && !n.Pending {
			s.Online = append(s.Online, n.Name)
		}
	}
	for _, r := range c.Resources {
		if r.Role == "Started" && !r.Failed && len(r.Nodes) > 0 {
			s.Running[r.ID] = append(s.Running[r.ID], r.Nodes...)
		}
	}
	for _, f := range c.Failures {
		s.Failures = append(s.Failures, fmt.Sprintf("%s on %s: %s %s", f.Key, f.Node, f.Status, f.Reason))
	}
	return s
}
