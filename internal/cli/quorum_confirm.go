package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/confirm"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/explain"
)

// pollEvery is the time between two readings of the etcd keeper's report.
const pollEvery = 500 * time.Millisecond

// confirmation is one run of `holdfast quorum confirm`.
type confirmation struct {
	confirmFlags
	streams Streams
	host    quorumHost
	tried   bool // the peer's power-off was requested
	// replaced is what the host says about its place, nil before it was asked: once in a run,
	// because peers that are off take seconds not to answer.
	replaced *string
}

// outcome is the output for a program.
type outcome struct {
	Situation confirm.Situation   `json:"situation"`
	Decision  confirm.Decision    `json:"decision"`
	Wrote     *state.Confirmation `json:"confirmation,omitempty"`
	// GoesOn is true if etcd on this host takes writes at the end.
	GoesOn bool `json:"goesOn"`
}

// run reads the situation, asks the administrator for what is needed, and acts
// on the answer.
func (c *confirmation) run(ctx context.Context) error {
	s, d, err := c.settle(ctx)
	if err != nil {
		return err
	}
	c.show(s, d)
	out := &outcome{Situation: s, Decision: d}
	if c.dryRun {
		return c.finish(out, nil)
	}
	switch d.Need {
	case confirm.Nothing, confirm.Wait:
		return c.finish(out, nil)
	case confirm.Refuse:
		return c.finish(out, coded(command.ExitRefused, "refused: %s", d.Reason))
	case confirm.Confirm, confirm.Phrase:
	}
	if err := c.obtain(ctx, d); err != nil {
		return c.finish(out, err)
	}
	return c.finish(out, c.act(ctx, out))
}

// settle polls until the situation no longer requires waiting: a fence in
// progress gets its time.
func (c *confirmation) settle(ctx context.Context) (confirm.Situation, confirm.Decision, error) {
	for said := false; ; said = true {
		s, err := c.gather(ctx)
		if err != nil {
			return s, confirm.Decision{}, err
		}
		d := confirm.Decide(s)
		if d.Need != confirm.Wait || c.dryRun {
			return s, d, nil
		}
		if !said {
			c.say("%s", d.Reason)
		}
		if err := c.host.sleep(ctx, pollEvery); err != nil {
			return s, d, err
		}
	}
}

// out says when and by whom another machine got the place of this host, empty if nothing says so.
func (c *confirmation) out(ctx context.Context) string {
	if c.replaced == nil {
		why := ""
		if c.host.replaced != nil {
			why = c.host.replaced(ctx)
		}
		c.replaced = &why
	}
	return *c.replaced
}

// gather reads the etcd keeper's report, asks whether this host was replaced and, if there is a
// peer, asks its BMC.
func (c *confirmation) gather(ctx context.Context) (confirm.Situation, error) {
	r, err := c.host.report(ctx)
	switch {
	case errors.Is(err, explain.ErrNoAgent):
		return confirm.Situation{Replaced: c.out(ctx)}, nil
	case err != nil:
		return confirm.Situation{}, err
	}
	s := confirm.Situation{Replaced: c.out(ctx), Agent: true, Report: r, BMC: confirm.BMC{Tried: c.tried}}
	if r.Snapshot.Peer == "" {
		return s, nil
	}
	if power, failed := c.host.power(ctx, r.Snapshot.Peer); failed != nil {
		s.BMC.Problem = bmcProblem(failed, r.Snapshot.Peer)
	} else {
		s.BMC.Power = state.Known(power)
	}
	return s, nil
}

// bmcProblem says why a BMC gave no answer. A BMC that refuses the account is
// alive: a new account is better than an administrator's confirmation, and needs
// no API.
func bmcProblem(err error, peer string) string {
	if redfish.ReasonOf(err) != redfish.Credentials {
		return err.Error()
	}
	return err.Error() + "; if its password was changed: sudo holdfast fencing rotate " + peer + "; then a confirmation may be unnecessary"
}

// obtain gets the yes or the phrase, from the flags or from the terminal.
func (c *confirmation) obtain(ctx context.Context, d confirm.Decision) error {
	if d.Need == confirm.Phrase {
		return c.obtainPhrase(ctx, d.Phrase)
	}
	if c.yes || c.phrase != "" {
		return nil
	}
	return command.Agreed(ctx, c.streams, "Continue? Type yes: ", "yes")
}

func (c *confirmation) obtainPhrase(ctx context.Context, phrase string) error {
	given := c.phrase
	if given == "" && c.yes {
		return coded(command.ExitNotConfirmed, "a yes is not enough here, nothing was changed: pass --phrase '%s'", phrase)
	}
	if given == "" {
		answer, err := command.Ask(ctx, c.streams, fmt.Sprintf("To continue, type exactly: %s\n> ", phrase))
		if err != nil {
			return err
		}
		given = answer
	}
	if given != phrase {
		return coded(command.ExitNotConfirmed, "not confirmed, nothing was changed: the phrase must be %q", phrase)
	}
	return nil
}

// act carries out the confirmed decision.
func (c *confirmation) act(ctx context.Context, out *outcome) error {
	if out.Decision.PowerOff {
		if err := c.powerOff(ctx, out); err != nil {
			return err
		}
	}
	if out.Decision.Need == confirm.Nothing {
		return c.watch(ctx, out)
	}
	if err := c.write(out); err != nil {
		return err
	}
	return c.watch(ctx, out)
}

// powerOff switches the peer off and then decides again: the new situation must
// still need what was confirmed.
func (c *confirmation) powerOff(ctx context.Context, out *outcome) error {
	peer := out.Situation.Report.Snapshot.Peer
	c.say("switching %s off through its BMC and reading its state back; this may take a minute", peer)
	failed := c.host.off(ctx, peer)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.tried = true
	s, err := c.apart(ctx)
	if err != nil {
		return err
	}
	before := out.Decision
	out.Situation, out.Decision = s, confirm.Decide(s)
	switch now := out.Decision; {
	case now.Need == confirm.Nothing:
		c.say("%s", now.Reason)
		return nil
	case now.Need == confirm.Refuse || failed != nil && now.PowerOff:
		return coded(command.ExitRefused, "refused: %s%s", now.Reason, because(failed))
	case now.PowerOff, now.Force && !before.Force, now.Need == confirm.Wait:
		return coded(command.ExitRefused, "refused: the situation has changed (%s): run the command again", now.Reason)
	}
	c.say("the BMC of %s reports Off", peer)
	return nil
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}

// apartLimit is the time that Corosync gets to notice that the peer is gone.
const apartLimit = 30 * time.Second

// apart polls until the peer is out of contact: a confirmation counts only from
// then on.
func (c *confirmation) apart(ctx context.Context) (confirm.Situation, error) {
	end := c.host.now().Add(apartLimit)
	for {
		s, err := c.gather(ctx)
		if err != nil || !s.Agent || state.Is(s.Report.Snapshot.Pacemaker.Contact, false) || c.host.now().After(end) {
			return s, err
		}
		if s.BMC.Power.Known && s.BMC.Power.Value != state.PowerOff {
			return s, nil
		}
		if err := c.host.sleep(ctx, pollEvery); err != nil {
			return s, err
		}
	}
}

// write records the confirmation and then passes it to the etcd keeper.
func (c *confirmation) write(out *outcome) error {
	boot, at, err := c.host.boot()
	if err != nil {
		return fmt.Errorf("confirm: %w", err)
	}
	word := state.Confirmation{Who: c.by, Why: c.reason, Boot: boot, At: at, Force: out.Decision.Force}
	snap, bmc := out.Situation.Report.Snapshot, out.Situation.BMC
	line := state.ConfirmationEntry{
		Time: c.host.now().UTC(), Host: snap.Host, Peer: snap.Peer, Who: word.Who, Why: word.Why, Force: word.Force,
		Phrase: out.Decision.Phrase, Power: bmc.Power.Value, Rule: out.Situation.Report.Verdict.Rule,
		Record: snap.Record.Value.State, Boot: boot, At: at,
	}
	if !bmc.Power.Known {
		line.Power = "unknown: " + bmc.Problem
	}
	if err := c.host.audit(line); err != nil {
		return err
	}
	if err := c.host.confirm(word); err != nil {
		return err
	}
	out.Wrote = &word
	c.say("confirmed by %s: %s", word.Who, word.Why)
	return nil
}

// finish prints the outcome for a program, or the last sentence for a person.
func (c *confirmation) finish(out *outcome, err error) error {
	if c.output == "json" {
		if printErr := command.PrintJSON(c.streams.Out, out); printErr != nil {
			return printErr
		}
		return err
	}
	if err == nil && out.GoesOn {
		snap := out.Situation.Report.Snapshot
		_, err = fmt.Fprintf(c.streams.Out, "etcd on %s takes writes; when %s is back it joins by itself\n", snap.Host, snap.Peer)
	}
	return err
}

// say prints progress for a person, on the error stream.
func (c *confirmation) say(format string, args ...any) {
	_, _ = io.WriteString(c.streams.Err, page.Wrap("", fmt.Sprintf(format, args...), page.Narrow))
}
