package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/cli/place"
	"github.com/holdfast/holdfast/internal/decide/standing"
	gathering "github.com/holdfast/holdfast/internal/report/status"
)

// viewReader gathers the view of a cluster once.
type viewReader func(ctx context.Context) (standing.View, error)

// newViewReader finds the sources of the view. It contacts only holdfast-lab: the
// reader contacts the others. waits is called before the reader waits longer for an API
// of which alone it could know the cluster; nil has it not wait.
func newViewReader(ctx context.Context, f *place.Flags, waits func()) (viewReader, error) {
	p, err := f.Open(ctx)
	if err != nil {
		return nil, err
	}
	if len(p.API) == 0 && len(p.All()) == 0 {
		return nil, p.NoAPI
	}
	api, err := apiSources(p)
	if err != nil {
		return nil, err
	}
	if f.Lab == "" {
		g := gathererOf(p, api)
		g.Waits = waits
		return func(ctx context.Context) (standing.View, error) { return standing.Describe(g.Gather(ctx)), nil }, nil
	}
	return func(ctx context.Context) (standing.View, error) {
		limit, stop := context.WithTimeoutCause(ctx, labTimeout, fmt.Errorf("no answer within %s", labTimeout))
		defer stop()
		p, err := f.Open(limit) // hosts of a lab may have booted since
		if err != nil {
			return standing.View{}, err
		}
		g := gathererOf(p, api)
		g.Waits = waits
		return standing.Describe(g.Gather(ctx)), nil
	}, nil
}

// labTimeout bounds the question to holdfast-lab. It is started for each question,
// and its daemon may hang at a host.
const labTimeout = 2 * time.Second

// apiSources opens all ways to the API: that to the first may be broken.
func apiSources(p place.Place) ([]gathering.Source, error) {
	var out []gathering.Source
	for _, access := range p.API {
		api, err := gathering.OpenAccess(access)
		if err != nil {
			return nil, &command.UsageError{Err: err}
		}
		out = append(out, api)
	}
	return out, nil
}

// gathererOf asks hosts before the API. On a control plane it asks etcd itself
// too.
func gathererOf(p place.Place, api []gathering.Source) *gathering.Gatherer {
	g := &gathering.Gatherer{Now: time.Now}
	for _, h := range p.ControlPlanes() {
		if h.Lab {
			g.Sources = append(g.Sources, gathering.Below(h.Root, h.Name))
		} else {
			g.Sources = append(g.Sources, gathering.Through(h.Name, h.Run))
		}
	}
	if p.Here != nil {
		g.Sources = append(g.Sources, gathering.Here(p.Here.Name))
		if m, may := gathering.MembersHere(); may {
			g.Members = m.Ask
		}
	}
	g.Sources = append(g.Sources, api...)
	return g
}
