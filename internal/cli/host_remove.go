package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/removal"
)

// removeFlags holds the flags of host remove.
type removeFlags struct {
	hostFlags
	isOff              string
	dryRun, yes, loses bool
	timeout            time.Duration
}

func newHostRemove(streams Streams) *cobra.Command {
	f := removeFlags{timeout: time.Hour}
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Take a worker out of the cluster for good",
		Long: `Moves the pods of the worker to other hosts, writes down that it was taken out, so that nothing
makes its Node again, and deletes its Node and all objects that are left under its name. The
command does not touch the host itself: run 'sudo holdfast-agent wipe' there.

The pods of a worker that does not answer cannot be moved. See yourself that it is off, and say
so with --is-off NAME. The command believes it only if nothing shows that the host lives.
Kubernetes then gives the pods and volumes of the host to other hosts: if it still runs, two
hosts write to one volume.

You can interrupt the command and run it again at any time: it goes on where it was. To take
the removal back before the Node is deleted, interrupt it, then: holdfast host uncordon NAME.

A worker that was given as off and came back is emptied first, if you leave --is-off out.

With --is-off NAME the command also shuts out a name of which the cluster knows nothing: after
a restore only you know whom you took out after the backup. 'holdfast host add' lets a host of
that name in again.

A control plane is not removed by this command; it says what to do instead.

Exit codes: 0 the host is out of the cluster (with --dry-run: nothing is in the way);
3 something was in the way until the timeout (with --dry-run: would be); 4 it was not
done at the timeout; 7 refused, nothing was changed; 8 not confirmed, nothing was changed;
1 it failed, or the host came back meanwhile; 2 wrong usage.`,
		Example: `  holdfast host remove worker-3 --dry-run
  holdfast host remove worker-3
  holdfast host remove worker-3 --is-off worker-3      a host that is gone for good`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.open(cmd.Context(), positive(f.timeout), f.mistake(args[0]))
			if err != nil {
				return err
			}
			r := hostRemoval{removeFlags: f, name: args[0], cluster: c, streams: streams, now: time.Now, answers: kubeletAnswers, by: login()}
			return r.run(cmd.Context())
		},
	}
	f.register(cmd)
	f.completeHosts(cmd)
	timeoutFlag(cmd, &f.timeout)
	flags := cmd.Flags()
	flags.StringVar(&f.isOff, "is-off", "", "state that the host is off for good, by its name once more")
	flags.BoolVar(&f.loses, "accept-loss", false, "with --yes: accept that data on volumes of this host alone is lost")
	flags.BoolVar(&f.dryRun, "dry-run", false, "change nothing; show each step, and what is lost")
	flags.BoolVar(&f.yes, "yes", false, "do not ask for the name of the host")
	return cmd
}

// mistake refuses a statement about another host, or about a name that no host can have.
func (f *removeFlags) mistake(name string) error {
	switch faults := validation.IsDNS1123Subdomain(name); {
	case f.isOff == "":
		return nil
	case f.isOff != name:
		return fmt.Errorf("--is-off %s: must be the name of the host to remove, %s", f.isOff, name)
	case len(faults) > 0: // its entry would shut nobody out
		return fmt.Errorf("--is-off %s: no host has such a name: %s", f.isOff, strings.Join(faults, "; "))
	}
	return nil
}

// removalReport is the output of host remove.
type removalReport struct {
	Host string `json:"host"`
	// Steps are the steps that the command would take, or took.
	Steps    []string `json:"steps"`
	Moves    []string `json:"moves,omitempty"`
	InTheWay string   `json:"inTheWay,omitempty"`
	Lost     []string `json:"lost,omitempty"`
	After    []string `json:"after,omitempty"`
	// Bound names the pods that are bound to the name although the host is out.
	Bound []string `json:"bound,omitempty"`
	// Removed is true if the host is out of the cluster.
	Removed bool `json:"removed"`
}

// run shows the plan, asks, and carries it out.
func (r *hostRemoval) run(ctx context.Context) error {
	f, err := r.gather(ctx)
	if err != nil {
		return err
	}
	if err := refusedBy(removal.Gates(f)); err != nil {
		return err
	}
	p := removal.Foresee(f)
	report := removalReport{Host: r.name, Steps: p.Steps, Moves: p.Moves, InTheWay: p.InTheWay, Lost: p.Lost, After: p.After}
	switch step := removal.Next(f); step.Action {
	case removal.Unknown:
		return r.nobody(f)
	case removal.Done:
		report.Steps, report.Removed, report.Bound = []string{}, true, step.Bound
		return r.print(report)
	case removal.Leave, removal.Drain, removal.Wait, removal.Mark, removal.Detach, removal.Delete, removal.Sweep:
	}
	if r.dryRun {
		if err := r.print(report); err != nil || p.InTheWay == "" {
			return err
		}
		return exitWith(command.ExitAttention)
	}
	if err := r.confirm(ctx, report); err != nil {
		return err
	}
	if report.Steps, err = r.carryOut(ctx); err != nil {
		return err
	}
	report.Removed, report.InTheWay, report.Bound = true, "", r.bound
	return r.print(report)
}

// nobody returns the error for a name of which the cluster knows nothing. Where a host of that name may be on its way,
// nobody is sent to the command that would be refused.
func (r *hostRemoval) nobody(f removal.Facts) error {
	if given, until := f.OnItsWay(); !until.IsZero() {
		return coded(command.ExitRefused, "refused, nothing was changed: host %q: there is none, and the name was given again at %s; its host may be on its way. To shut the name out, try again after %s",
			r.name, timestamp(given), timestamp(until))
	}
	return &UsageError{Err: fmt.Errorf("host %q: there is none; see: holdfast host list. Was it taken out after the backup from which this site was restored? To shut it out: holdfast host remove %[1]s --is-off %[1]s", r.name)}
}

// refusedBy returns the error for gates that are closed before anything was changed.
func refusedBy(shut []removal.Gate) error {
	if len(shut) == 0 {
		return nil
	}
	return coded(command.ExitRefused, "refused, nothing was changed:\n%s", gateLines(shut))
}

func gateLines(shut []removal.Gate) string {
	var out []string
	for _, g := range shut {
		out = append(out, "  "+g.String())
	}
	return strings.Join(out, "\n")
}

// confirm asks for the name of the host. With --yes it asks nothing, and needs another
// flag if data would be lost.
func (r *hostRemoval) confirm(ctx context.Context, p removalReport) error {
	if r.yes {
		if len(p.Lost) > 0 && !r.loses {
			return coded(command.ExitNotConfirmed, "not confirmed, nothing was changed: the data of %s is on %s alone and would be lost; pass --accept-loss", strings.Join(p.Lost, ", "), r.name)
		}
		return nil
	}
	return command.Agreed(ctx, r.streams, p.text("would")+"To continue, type the name of the host: ", r.name)
}

func (r *hostRemoval) print(p removalReport) error {
	if r.output == "json" || r.output == "yaml" {
		return printData(r.streams.Out, r.output, p)
	}
	mode := "would"
	if p.Removed {
		mode = "did"
	}
	_, err := io.WriteString(r.streams.Out, p.text(mode))
	return err
}

// text is the report for people.
func (p removalReport) text(mode string) string {
	var out strings.Builder
	if p.Removed {
		fmt.Fprintf(&out, "%s is out of the cluster\n", p.Host)
	} else {
		fmt.Fprintf(&out, "to remove %s, the command %s:\n", p.Host, mode)
		for i, s := range p.Steps {
			fmt.Fprintf(&out, "  %d. %s\n", i+1, s)
		}
		writeMoves(&out, "text", p.Moves, p.InTheWay)
	}
	for _, l := range p.Lost {
		fmt.Fprintf(&out, "lost with it: %s\n", l)
	}
	for _, l := range p.Bound {
		fmt.Fprintf(&out, "still bound to the name: %s\n", l)
	}
	for _, l := range p.After {
		fmt.Fprintf(&out, "then: %s\n", l)
	}
	return out.String()
}

// ended returns the error for an end before the host was out.
func (r *hostRemoval) ended(cause error, last string, inTheWay bool) error {
	again := r.again
	if again == "" {
		again = "holdfast host remove " + r.name
		if r.isOff != "" {
			again += " --is-off " + r.name
		}
	}
	if !errors.Is(cause, errNotYet) {
		return fmt.Errorf("interrupted: %s; to go on: %s", last, again)
	}
	code := command.ExitRecovers
	if inTheWay {
		code = command.ExitAttention
	}
	return coded(code, "%s is not out after %s: it %s; to go on: %s", r.name, r.timeout, last, again)
}
