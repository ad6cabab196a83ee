package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/readdress"
	install "github.com/holdfast/holdfast/internal/install/readdress"
)

func (f readdressFlags) withdraw(ctx context.Context, streams Streams) error {
	a, err := f.cluster(ctx)
	if err != nil {
		return err
	}
	r, err := a.report(ctx)
	if err != nil {
		return err
	}
	for _, h := range r.Hosts {
		if h.Plan != "" && !h.Over && (h.At == decide.To || h.Act == decide.Begin || h.Act == decide.Move || h.Act == decide.Boot) {
			return coded(command.ExitRefused, "refused: %s has begun to move: carry it back to its old network, and wait until it has its old addresses", h.Host)
		}
	}
	if err := a.takeBack(ctx); err != nil {
		return err
	}
	return f.await(ctx, streams, a, func(r moveReport) (string, bool) {
		late := r.with()
		return strings.Join(late, ", "), len(late) == 0
	}, "the move is withdrawn: no host has the plan any more")
}

// takeBack takes the announcement away.
func (a *moveAccess) takeBack(ctx context.Context) error {
	infra, err := a.infrastructure(ctx)
	if err == nil {
		err = a.write(ctx, infra, announcing(""))
	}
	if err != nil {
		return fmt.Errorf("withdraw the move: %w", err)
	}
	return nil
}

// withdrawHere takes back the plan that a person gave to this host alone.
func withdrawHere(streams Streams, store install.Store) error {
	plan, _, err := store.Load()
	switch {
	case err != nil:
		return err
	case plan == nil:
		_, err := fmt.Fprintln(streams.Err, "this host has no plan of a move")
		return err
	case !plan.Local:
		return coded(command.ExitRefused, "refused: the plan %s was not given to this host alone; to take the announcement back: %s", plan.ID, decide.WithdrawCommand)
	}
	err = store.Drop()
	if errors.Is(err, install.ErrBegun) {
		return coded(command.ExitRefused, "refused: %w: carry this host back to its old network, and wait until it has its old addresses", err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(streams.Err, "the plan is withdrawn: this host follows it no more")
	return err
}

// with returns the hosts that still have a plan, and how one is taken back that the API does not announce.
func (r moveReport) with() []string {
	var out []string
	for _, h := range r.Hosts {
		switch {
		case h.Plan != "" && h.Local:
			out = append(out, h.Host+", which was given its plan alone (there: sudo "+decide.WithdrawCommand+" --here)")
		case h.Plan != "":
			out = append(out, h.Host)
		}
	}
	return out
}
