package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/replace"
)

// gatesTime is how long closed gates may stay closed before the command gives up: some facts
// are known only after a while.
const gatesTime = 45 * time.Second

// follow shows what the agent does until the plan is over, a person is needed, or the time
// is up.
func (r *hostReplacement) follow(ctx context.Context, id string) error {
	limited, stop := context.WithTimeoutCause(ctx, r.timeout, errNotYet)
	defer stop()
	said, wrote, began, gone := "", false, r.now(), 0
	for {
		// The order before the plan: the agent writes the plan before it answers or removes the order.
		order, unread := r.store.Order()
		plan, err := r.store.Plan()
		doing, mute := r.store.Doing()
		if err := errors.Join(err, unread, mute); err != nil {
			return err
		}
		if gone = missed(gone, order != nil && order.Wish.ID == id || plan != nil && plan.ID == id); gone > mayMiss {
			return errNobodyActs()
		}
		if r.over(id, plan, order) {
			return r.ended(plan)
		}
		if doing != nil && doing.Words+doing.Problem != said {
			said = doing.Words + doing.Problem
			r.show(doing)
		}
		if doing != nil && doing.Rule == "rest.refuse" && doing.Wish == id && r.now().Sub(began) > gatesTime {
			return errors.Join(r.store.DropOrder(), r.refused(refusalOf(order), decide.Closed(doing.Gates)))
		}
		if doing != nil && doing.Rule == "newcomer.install" && !wrote {
			if wrote, err = true, r.writeJoin(limited, r.newcomer(plan)); err != nil {
				return err
			}
		}
		if r.sleep(limited, followEvery) != nil {
			return r.unfinished(context.Cause(limited), doing)
		}
	}
}

// over reports whether the plan is over, or the agent took out of the order that it is to be taken back:
// the agent does that while the plan is under way, and it is too late.
func (r *hostReplacement) over(id string, plan *decide.Plan, order *replacement.Order) bool {
	if plan == nil || plan.ID != id {
		return false
	}
	return plan.Stage.Over() || r.abort && (order == nil || order.Wish.ID != id || !order.Wish.Abort)
}

// newcomer is the name of the new host, by the plan if there is one.
func (r *hostReplacement) newcomer(plan *decide.Plan) string {
	if plan == nil {
		return r.name
	}
	return cmp.Or(plan.New.Name, r.name)
}

// mayMiss is how often in a row a command may find neither its wish nor a plan for it: the agent
// writes the one before it removes the other.
const mayMiss = 2

// missed counts how often in a row a wish and its plan were both missing.
func missed(before int, there bool) int {
	if there {
		return 0
	}
	return before + 1
}

// errNobodyActs says that there is nothing to follow any more.
func errNobodyActs() error {
	return coded(command.ExitRefused, "nothing was begun: the wish is gone, since somebody took it back or it was too old. Type the command again")
}

func (r *hostReplacement) show(d *replacement.Doing) {
	text := strings.TrimSpace(d.Step + " " + d.Words)
	if d.Way != "" {
		text += " (type: " + d.Way + ")"
	}
	if d.Problem != "" {
		text += "; it failed and is tried again: " + d.Problem
	}
	r.say("%s", text)
}

// A refusal begins with one of these: it says what was done to this host before its gates were looked at.
const (
	nothingChanged = "refused, nothing was changed"
	hostPrepared   = "not begun: this host is prepared as one of two and goes on as the only control plane; type the same command again"
)

// refusalOf says what was done for an order before its gates were looked at. Only a host of two has an agent
// that carries a growth, so the command prepares the host first.
func refusalOf(o *replacement.Order) string {
	if o != nil && o.Wish.Grows {
		return hostPrepared
	}
	return nothingChanged
}

func (r *hostReplacement) refused(begins string, gates []decide.Gate) error {
	var lines []string
	for _, g := range gates {
		lines = append(lines, fmt.Sprintf("%s: %s (type: %s)", g.ID, g.Words, g.Way))
	}
	slices.Sort(lines)
	return coded(command.ExitRefused, "%s:\n  %s", begins, strings.Join(lines, "\n  "))
}

func (r *hostReplacement) ended(plan *decide.Plan) error {
	if !plan.Stage.Over() {
		return coded(command.ExitRefused, "too late, nothing was taken back: %s", plan.TooLate())
	}
	if r.output == "json" || r.output == "yaml" {
		return printData(r.streams.Out, r.output, plan)
	}
	what := "the replacement of " + plan.Old.Name
	if plan.Grows || plan.Shrinks {
		what = "the plan to " + plan.Work()
	}
	if plan.Stage == decide.Aborted {
		_, err := fmt.Fprintf(r.streams.Out, "taken back: %s; %s\n", plan.Ended, plan.Rests())
		if err == nil && !r.abort {
			err = coded(command.ExitRefused, "%s was taken back", what)
		}
		return err
	}
	if plan.Ended != "" {
		_, err := fmt.Fprintf(r.streams.Out, "the plan is over: %s; to give its place to another machine: sudo holdfast host replace %s --bmc-address ADDRESS\n", plan.Ended, plan.New.Name)
		if err == nil && !r.abort {
			err = coded(command.ExitAttention, "%s ended early", what)
		}
		return err
	}
	whole := plan.Old.Name + " was replaced: either host may be lost"
	switch {
	case plan.New.Name != "" && plan.Old.Name != "" && plan.New.Name != plan.Old.Name:
		whole = plan.Old.Name + " was replaced by " + plan.New.Name + ": either host may be lost"
	case plan.Grows:
		whole = plan.New.Name + " is the second control plane: either host may be lost"
	case plan.Shrinks:
		whole = plan.Survivor + " is the only control plane: its disk holds everything"
	}
	_, err := fmt.Fprintln(r.streams.Out, whole)
	return err
}

// again is the command that follows the plan.
func (r *hostReplacement) again() string {
	if r.topology {
		return "sudo holdfast topology apply"
	}
	return "sudo holdfast host replace " + r.name
}

// unfinished explains an end before the plan's.
func (r *hostReplacement) unfinished(cause error, d *replacement.Doing) error {
	again := "to follow it: " + r.again()
	switch {
	case !errors.Is(cause, errNotYet):
		return fmt.Errorf("interrupted: the plan goes on; %s", again)
	case d != nil && d.Way != "":
		return coded(command.ExitAttention, "not whole after %s: %s (type: %s); %s", r.timeout, d.Words, d.Way, again)
	}
	return coded(command.ExitRecovers, "not whole after %s, and it goes on; %s", r.timeout, again)
}

// say prints progress for a person, on the error stream.
func (r *hostReplacement) say(format string, a ...any) {
	_, _ = io.WriteString(r.streams.Err, strings.TrimRight(fmt.Sprintf(format, a...), "\n")+"\n")
}
