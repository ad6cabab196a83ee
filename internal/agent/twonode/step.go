package twonode

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/decide/twonode"
)

// Steps returns the steps in their order.
func Steps() []twonode.Step { return handover.Steps() }

// ReadInput reads and checks the input of a step. It ignores fields that it does not
// know, since an operator of a later release may write them, and refuses an input of
// a higher number. Its errors quote no secret.
func ReadInput(in io.Reader, step twonode.Step) (twonode.Input, error) {
	var input twonode.Input
	if err := json.NewDecoder(in).Decode(&input); err != nil {
		if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return input, fmt.Errorf("read input: %s is a %s", t.Field, t.Value)
		}
		return input, fmt.Errorf("read input: not the JSON input of a step: %w", err)
	}
	if err := input.Validate(step); err != nil {
		return input, fmt.Errorf("input of %s:\n%w", step, err)
	}
	return input, nil
}

// Do carries a step out. Neither its error nor its output holds a secret of
// the input.
func (h *Host) Do(ctx context.Context, step twonode.Step, in twonode.Input) error {
	discreet := *h
	discreet.hide = hiding(in)
	return discreet.carryOut(ctx, step, in)
}

func (h *Host) carryOut(ctx context.Context, step twonode.Step, in twonode.Input) error {
	do := map[twonode.Step]func(context.Context, twonode.Input) error{
		twonode.Auth: h.auth, twonode.Fencing: h.fencing, twonode.Setup: h.setup,
		twonode.Manifest: h.manifest, twonode.HandOver: h.handOver, twonode.Finish: h.finish,
	}[step]
	if do == nil {
		return fmt.Errorf("unknown step %q", step)
	}
	if err := do(ctx, in); err != nil {
		return &hidden{fmt.Errorf("%s: %w", step, err), h.hide}
	}
	return nil
}

// hiding replaces the secrets of an input, as they are and as pcsd stores them.
func hiding(in twonode.Input) *strings.Replacer {
	secrets := []string{in.Token, encoded(in.Token)}
	for _, d := range in.Fencing {
		secrets = append(secrets, d.Password)
	}
	var pairs []string
	for _, s := range secrets {
		if s != "" {
			pairs = append(pairs, s, "***")
		}
	}
	return strings.NewReplacer(pairs...)
}

func encoded(token string) string { return base64.StdEncoding.EncodeToString([]byte(token)) }
