package cli

import (
	"context"
	"errors"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/replace"
)

// followed is a plan that two hosts carry, for the command that shows it.
type followed struct {
	// doing returns the last decision of this host's agent, nil for none.
	doing func() (*replacement.Doing, error)
	// there reports whether there is the wish, or a plan for it.
	there func() (bool, error)
	// ended reports whether the plan is over, and then prints its end.
	ended func() (bool, error)
	// drop removes a wish whose gates are closed.
	drop func() error
	// joins is the rule that waits for a new machine, empty for none: the file with which it is installed
	// is written then.
	joins string
}

// followPlan shows what the agent does until the plan is over, a person is needed, or the time is up. id is
// that of the wish.
func (g *growth) followPlan(ctx context.Context, id string, f followed) error {
	limited, stop := context.WithTimeoutCause(ctx, g.timeout, errNotYet)
	defer stop()
	said, wrote, began, gone := "", false, g.now(), 0
	for {
		there, err := f.there()
		if err != nil {
			return err
		}
		if gone = missed(gone, there); gone > mayMiss {
			return errNobodyActs()
		}
		now, err := f.doing()
		if err != nil {
			return err
		}
		if over, err := f.ended(); over || err != nil {
			return err
		}
		if now != nil && now.Words+now.Problem != said {
			said = now.Words + now.Problem
			g.hostReplacement.show(now)
		}
		if now != nil && now.Rule == "rest.refuse" && now.Wish == id && g.now().Sub(began) > gatesTime {
			return errors.Join(f.drop(), g.refused(nothingChanged, replace.Closed(now.Gates)))
		}
		if now != nil && f.joins != "" && now.Rule == f.joins && !wrote {
			if wrote, err = true, g.writeJoin(limited, g.name); err != nil {
				return err
			}
		}
		if g.sleep(limited, followEvery) != nil {
			return g.unfinished(context.Cause(limited), now)
		}
	}
}
