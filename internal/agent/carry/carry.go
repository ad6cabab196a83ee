// Package carry has what all agents need that carry a plan about the control planes out
// (agent/replace, agent/widen): the round of look, decision and act, what the command reads about it,
// and the facts about this host that every such plan asks for. It decides nothing.
package carry

import (
	"context"
	"errors"
	"reflect"

	"github.com/holdfast/holdfast/internal/agent/loop"
)

// Round is one look of an agent, with what follows from its decision.
type Round struct {
	// Rest is called if nothing is left to do, Wait if something has to happen first. At most one of
	// them is set; without both the round acts.
	Rest, Wait func() error
	// Act does the act of the decision. Tell then writes for the command what was done, and whether it
	// failed. Words say the act for the log.
	Act   func(context.Context) error
	Tell  func(failed error) error
	Words string
}

// Steps does one act after the other, until it has to wait or nothing is left to do. look returns nil
// if there is nothing to decide.
func Steps(ctx context.Context, look func(context.Context) (*Round, error)) (loop.Result, error) {
	out := loop.Result{}
	for ctx.Err() == nil {
		r, err := look(ctx)
		switch {
		case err != nil || r == nil:
			return out, err
		case r.Rest != nil:
			return out, r.Rest()
		case r.Wait != nil:
			return out, r.Wait()
		}
		err = r.Act(ctx)
		if ctx.Err() != nil {
			return out, context.Cause(ctx) // the agent ends, some acts bring that about: nobody has to read it
		}
		if told := r.Tell(err); err != nil || told != nil {
			return out, errors.Join(err, told)
		}
		out.Changed = r.Words
	}
	return out, context.Cause(ctx)
}

// Tell writes what an agent does now, if that differs from what it wrote last.
func Tell[T any](now T, last func() (*T, error), put func(T) error) error {
	if was, err := last(); err == nil && was != nil && reflect.DeepEqual(*was, now) {
		return nil
	}
	return put(now)
}

// In opens the cluster and calls do with it.
func In[A any](open func() (A, error), do func(A) error) error {
	api, err := open()
	if err != nil {
		return err
	}
	return do(api)
}
