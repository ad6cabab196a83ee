package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/replace"
)

// goOn follows a plan that is under way. First the plan takes in which risks the command line
// accepts: a BMC may fall silent, or a volume turn up, after the plan was begun.
func (r *hostReplacement) goOn(ctx context.Context, plan *decide.Plan) error {
	accepts, err := r.andAccepts(plan)
	if err != nil {
		return err
	}
	if !accepts.Equal(plan.Accepts) {
		if err := r.amend(plan, accepts); err != nil {
			return err
		}
	}
	return r.follow(ctx, plan.ID)
}

// andAccepts returns the risks that the plan and the command line accept together.
func (r *hostReplacement) andAccepts(plan *decide.Plan) (decide.Accepts, error) {
	if flags := r.beginOnly(); len(flags) > 0 {
		how := "give it together with --bmc-address, or leave it out"
		if r.topology {
			how = "leave it out"
		}
		return decide.Accepts{}, &UsageError{Err: fmt.Errorf("%s: a plan is under way, and follows what it was begun with: %s", strings.Join(flags, ", "), how)}
	}
	if r.gone != "" {
		if plan.Old.Name == "" {
			return decide.Accepts{}, &UsageError{Err: errors.New("--is-gone: the plan that is under way takes no host out")}
		}
		if why := decide.MachineProblem(r.gone, plan.Old.Machine, plan.Old.Name); why != "" {
			return decide.Accepts{}, coded(command.ExitRefused, "refused: %s", why)
		}
	}
	return plan.Accepts.And(r.accepts()), nil
}

// amend has the plan accept other risks. The accounts stay those of the last order.
func (r *hostReplacement) amend(plan *decide.Plan, accepts decide.Accepts) error {
	order, err := r.store.Order()
	switch {
	case err != nil:
		return err
	case order != nil && order.Wish.ID == plan.ID:
	case plan.Shrinks:
		order = &replacement.Order{}
	default:
		return coded(command.ExitRefused, "refused: the accounts of the plan are gone: give them anew, with --bmc-address")
	}
	w := &order.Wish
	w.ID, w.Grows, w.Shrinks, w.Old, w.New = plan.ID, plan.Grows, plan.Shrinks, plan.Old.Name, plan.New
	w.By, w.Why, w.Accepts, w.Abort, w.At = plan.By, plan.Why, accepts, false, r.now().UTC()
	return r.store.PutOrder(*order)
}

// beginOnly returns the flags that were used and that only the begin of a plan takes in.
func (r *hostReplacement) beginOnly() []string {
	return usedFlags(map[string]bool{
		"--bmc-username": r.bmc.username != "", "--bmc-password-file": r.bmc.passwordFile != "", "--bmc-fingerprint": r.bmc.fingerprint != "",
		"--uuid": r.uuid != "", "--own-bmc-username": r.ownUser != "", "--own-bmc-password-file": r.ownPassword != "",
	})
}

// usedFlags returns the flags that were used, in order.
func usedFlags(used map[string]bool) []string {
	var out []string
	for flag, is := range used {
		if is {
			out = append(out, flag)
		}
	}
	slices.Sort(out)
	return out
}

// endedBefore tells of a plan that came to its end before the command was typed: what it says is of
// that time.
func (r *hostReplacement) endedBefore(plan *decide.Plan) error {
	if flags := append(r.beginOnly(), usedFlags(map[string]bool{
		"--is-gone": r.gone != "", "--dry-run": r.dryRun, "--accept-lost": len(r.lost) > 0, "--keep-bmc-account": r.keepAccount, "--without-backup": r.noBackup,
	})...); len(flags) > 0 {
		return &UsageError{Err: fmt.Errorf("--bmc-address: is needed to begin a replacement, for which %s is; the last one of %s ended on %s",
			strings.Join(flags, ", "), plan.Old.Name, endOf(plan))}
	}
	r.say("the last replacement of %s ended on %s; to begin another one, give --bmc-address. At that time:", plan.Old.Name, endOf(plan))
	return r.ended(plan)
}

func endOf(plan *decide.Plan) string { return plan.Written.UTC().Format("2006-01-02 15:04 UTC") }
