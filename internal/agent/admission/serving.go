package admission

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ServingAPI is the part of the API that the Servings need.
type ServingAPI interface {
	Requests(ctx context.Context, signer string) ([]joining.Request, error)
	Nodes(ctx context.Context) ([]state.Node, error)
	Retired(ctx context.Context, name string) (retired.List, error)
	DecideRequest(ctx context.Context, name string, v joining.Verdict) (bool, error)
}

// Servings decides about the requests for the certificates by which kubelets
// serve: the controller manager signs them, and approves none. Every control plane
// decides; all of them come to the same result.
type Servings struct {
	// Reserved returns what is no host's at this moment.
	Reserved func() joining.Reserved
	Logf     func(format string, args ...any)

	// said has the last line about each node: a kubelet repeats a request that was
	// denied every half minute.
	said map[string]string
}

// Decide decides about the open requests of kubelets. It ignores the others.
func (s *Servings) Decide(ctx context.Context, api ServingAPI) error {
	requests, err := api.Requests(ctx, joining.ServingSigner)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range requests {
		if node, ours := joining.ServesFor(r); ours {
			errs = append(errs, s.decide(ctx, api, r, node))
		}
	}
	return errors.Join(errs...)
}

// decide decides by the cluster's state at this moment.
func (s *Servings) decide(ctx context.Context, api ServingAPI, r joining.Request, node string) error {
	nodes, err := api.Nodes(ctx)
	if err != nil {
		return err
	}
	out, err := api.Retired(ctx, node)
	if err != nil {
		return err
	}
	v := joining.Serve(s.Reserved(), r, nodes, out)
	did, err := api.DecideRequest(ctx, r.Name, v)
	if err != nil || !did {
		return err // nil: another control plane was first
	}
	s.say(node, fmt.Sprintf("serving certificate of %s: %s, %s: %s", node, v.Action, v.Reason, v.Message))
	return nil
}

// say logs a line about a node, unless the last one about it says the same.
func (s *Servings) say(node, line string) {
	if s.said == nil {
		s.said = map[string]string{}
	}
	if s.said[node] == line {
		return
	}
	s.said[node] = line
	s.Logf("%s", line)
}
