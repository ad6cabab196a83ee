package admission

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/state"
)

// RequestAPI is the cluster's part in requests for certificates.
type RequestAPI interface {
	Requests(ctx context.Context) ([]joining.Request, error)
	Nodes(ctx context.Context) ([]state.Node, error)
	BootstrapTokens(ctx context.Context) ([]joining.Token, error)
	UseBootstrapToken(ctx context.Context, id, request string) error
	DeleteBootstrapToken(ctx context.Context, id string) error
	DecideRequest(ctx context.Context, name string, v joining.Verdict) (bool, error)
}

// Approver decides about the requests of hosts that join. Every control plane has
// one: the result is the same.
type Approver struct {
	Site joining.Site
	API  RequestAPI
	Now  func() time.Time
	Logf func(format string, args ...any)
}

// Judge decides about those of the requests that are its to decide.
func (a *Approver) Judge(ctx context.Context, requests []joining.Request) error {
	var errs []error
	for _, r := range requests {
		id, ours := joining.TokenOf(r)
		if !ours {
			continue
		}
		if err := a.judge(ctx, r, id); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// judge decides by what the cluster says at this moment, and not by what a watch
// said: the token may be younger than that.
func (a *Approver) judge(ctx context.Context, r joining.Request, id string) error {
	tokens, err := a.API.BootstrapTokens(ctx)
	if err != nil {
		return err
	}
	nodes, err := a.API.Nodes(ctx)
	if err != nil {
		return err
	}
	var token *joining.Token
	if i := slices.IndexFunc(tokens, func(t joining.Token) bool { return t.ID == id }); i >= 0 {
		token = &tokens[i]
	}
	v := joining.Judge(a.Site, r, token, nodes, a.Now())
	if v.Action == joining.Approve { // the token serves for this one: before it is said, so that it is never for two
		if err := a.API.UseBootstrapToken(ctx, id, r.Name); err != nil {
			return err
		}
	}
	did, err := a.API.DecideRequest(ctx, r.Name, v)
	if err != nil || !did {
		return err // or another control plane was first
	}
	a.Logf("certificate request %s by bootstrap token %s: %s, %s: %s", r.Name, id, v.Action, v.Reason, v.Message)
	return nil
}

// Look ends the tokens of hosts that are ready nodes. While there are others it
// decides about what was asked with them.
func (a *Approver) Look(ctx context.Context) error {
	tokens, err := a.API.BootstrapTokens(ctx)
	if err != nil || len(tokens) == 0 {
		return err
	}
	nodes, err := a.API.Nodes(ctx)
	if err != nil {
		return err
	}
	var errs []error
	done := joining.Done(tokens, nodes)
	for _, t := range done {
		if err := a.API.DeleteBootstrapToken(ctx, t.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		a.Logf("%s is ready: its bootstrap token %s is gone", t.Host, t.ID)
	}
	if len(done) < len(tokens) {
		requests, err := a.API.Requests(ctx)
		errs = append(errs, err, a.Judge(ctx, requests))
	}
	return errors.Join(errs...)
}
