package admission

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/state"
)

// RequestAPI is the part of the API that the Approver needs.
type RequestAPI interface {
	Requests(ctx context.Context, signer string) ([]joining.Request, error)
	Nodes(ctx context.Context) ([]state.Node, error)
	BootstrapTokens(ctx context.Context) ([]joining.Token, error)
	UseBootstrapToken(ctx context.Context, id, request string) error
	DeleteBootstrapToken(ctx context.Context, id string) error
	GiveAgain(ctx context.Context, host string, now time.Time) error
	DecideRequest(ctx context.Context, name string, v joining.Verdict) (bool, error)
}

// Approver decides about the certificate requests of joining hosts. Every control
// plane runs one; all of them come to the same result.
type Approver struct {
	Site joining.Site
	API  RequestAPI
	Now  func() time.Time
	Logf func(format string, args ...any)
}

// Judge decides about the open requests that were made with a bootstrap token. It
// ignores the others.
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

// judge decides by the cluster's state at this moment. The watch may lag: the
// token can be younger than its last event.
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
	if v.Action == joining.Approve { // bind the token to this request before approving it, so that it never serves two
		if err := a.API.UseBootstrapToken(ctx, id, r.Name); err != nil {
			return err
		}
		// The name may be that of a host that was taken out. From here on a host has it again.
		if err := a.API.GiveAgain(ctx, token.Host, a.Now()); err != nil {
			return err
		}
	}
	did, err := a.API.DecideRequest(ctx, r.Name, v)
	if err != nil || !did {
		return err // nil: another control plane was first
	}
	a.Logf("certificate request %s by bootstrap token %s: %s, %s: %s", r.Name, id, v.Action, v.Reason, v.Message)
	return nil
}

// Decide deletes the tokens of hosts that are ready nodes. While other tokens
// remain it decides about the requests that were made with them.
func (a *Approver) Decide(ctx context.Context) error {
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
		a.Logf("%s is ready: its bootstrap token %s was deleted", t.Host, t.ID)
	}
	if len(done) < len(tokens) {
		requests, err := a.API.Requests(ctx, joining.KubeletSigner)
		errs = append(errs, err, a.Judge(ctx, requests))
	}
	return errors.Join(errs...)
}
