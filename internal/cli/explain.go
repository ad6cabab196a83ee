package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/confirm"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	words "github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/hostreport"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/report/explain"
	"github.com/holdfast/holdfast/internal/report/observer"
)

// explainExits is part of the help of each explanation.
const explainExits = `Exit codes: 0 healthy, or this host is not one of two control planes; 3 etcd takes
writes, but one more failure stops the cluster or loses data; 4 no writes now, and
it recovers by itself; 5 an administrator, or the peer, is needed; 6 too little is
known; 1 the command failed; 2 wrong usage.`

type explainFlags struct {
	output, snapshot string
	rules            bool
	host             observer.Host
	times            clockAndCertificates
}

func newExplain(streams Streams) *cobra.Command {
	f := explainFlags{host: observer.This(), times: thisClock()}
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Explain what this host does, why, and which commands are safe now",
		Long: `Shows what this host of a two-node control plane is doing, since when, why it is
read-only or waiting, on what evidence, and exactly which commands are safe. It
runs on a host as root and needs no API: it asks the etcd keeper of the host, or
reads the keeper's files if that does not answer. It adds what Pacemaker does, what
this host fenced last and what administrators confirmed on it. On any host of a
cluster it names certificates that have expired and a clock that is wrong, and tells
the one from the other. It changes nothing.

` + explainExits + `
Code 3 also says that a certificate of this host has expired, or that its clock is
wrong.`,
		Example: `  sudo holdfast explain
  ssh cp-2 sudo holdfast explain etcd -o json
  holdfast explain etcd --snapshot incident.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return explainAll(cmd, streams, f) },
	}
	formatFlag(cmd, &f.output)
	cmd.AddCommand(newExplainEtcd(streams), newExplainConfig(streams), newExplainUpgrade(streams))
	return cmd
}

func newExplainEtcd(streams Streams) *cobra.Command {
	f := explainFlags{host: observer.This()}
	cmd := &cobra.Command{
		Use:   "etcd",
		Short: "Explain what etcd on this host does, why, and which commands are safe now",
		Long: `Shows what etcd on this host does and why: the rule of the two-node protocol that
applies now, since when, whose data are newer, the evidence, and which commands are
safe now. It runs on a host as root and needs no API.

--rules prints the whole protocol as a table. --snapshot decides on a recorded
snapshot, on any machine: a file of test/corpus/etcd, or the output of -o json.

` + explainExits,
		Example: `  sudo holdfast explain etcd
  ssh cp-2 sudo holdfast explain etcd -o json
  holdfast explain etcd --rules
  holdfast explain etcd --snapshot test/corpus/etcd/70-03-older-alone.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case f.rules && f.snapshot != "":
				return &UsageError{Err: errors.New("--rules and --snapshot: cannot be combined")}
			case f.rules:
				return printRules(streams.Out, f.output)
			}
			return explainEtcd(cmd, streams, f)
		},
	}
	formatFlag(cmd, &f.output)
	cmd.Flags().BoolVar(&f.rules, "rules", false, "print the rules of the protocol and of the confirmation")
	cmd.Flags().StringVar(&f.snapshot, "snapshot", "", "decide on this recorded snapshot instead of on this host")
	return cmd
}

func explainEtcd(cmd *cobra.Command, streams Streams, f explainFlags) error {
	in, err := inputOf(cmd.Context(), f)
	if err != nil {
		return err
	}
	e := words.Etcd(in)
	if err := printExplained(streams.Out, f.output, in, e); err != nil {
		return err
	}
	return status(e.Status)
}

// explainAll prints the explanation of etcd and the history of this host.
func explainAll(cmd *cobra.Command, streams Streams, f explainFlags) error {
	r, in, err := observed(cmd.Context(), f.host, append(hostreport.ForExplanation(), hostreport.History, hostreport.Pacemaker)...)
	if err != nil {
		return err
	}
	past, err := historyOf(r)
	if err != nil {
		return err
	}
	e := words.Etcd(in)
	var beside *pacemakerState
	if !in.Unmanaged {
		beside = pacemakerStateOf(r)
	}
	times := f.times.of(r.Host)
	switch f.output {
	case "json", "yaml":
		err = printData(streams.Out, f.output, struct {
			Etcd      explainOutput   `json:"etcd"`
			Pacemaker *pacemakerState `json:"pacemaker,omitempty"`
			ownTimes
			history
		}{withSnapshot(in, e), beside, times, past})
	default:
		err = errors.Join(printExplained(streams.Out, f.output, in, e), times.print(streams.Out), beside.print(streams.Out), past.print(streams.Out))
	}
	if err != nil {
		return err
	}
	switch e.Status {
	case words.Healthy, words.Unmanaged, words.Unknown: // the worst of both
		if len(times.Findings) > 0 {
			return exitWith(command.ExitAttention)
		}
	case words.Degraded, words.Waiting, words.Stopped, words.NeedsHuman:
	}
	return status(e.Status)
}

// status returns nil if all is well, otherwise an error that carries the exit
// code.
func status(s words.Status) error {
	switch s {
	case words.Degraded:
		return exitWith(command.ExitAttention)
	case words.Waiting, words.Stopped:
		return exitWith(command.ExitRecovers)
	case words.NeedsHuman:
		return exitWith(command.ExitPerson)
	case words.Unknown:
		return exitWith(command.ExitUnknown)
	case words.Healthy, words.Unmanaged:
	}
	return nil
}

// inputOf returns the input about etcd, from a recorded snapshot or this host.
func inputOf(ctx context.Context, f explainFlags) (words.Input, error) {
	if f.snapshot == "" {
		_, in, err := observed(ctx, f.host, hostreport.ForExplanation()...)
		return in, err
	}
	in, err := explain.Snapshot(f.snapshot)
	if err != nil {
		return in, &UsageError{Err: err}
	}
	return in, nil
}

// observed returns parts of a host's report, and what they say about etcd.
func observed(ctx context.Context, h observer.Host, parts ...hostreport.Part) (hostreport.Report, words.Input, error) {
	r, err := h.Report(ctx, parts...)
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return r, words.Input{}, err
	}
	in, err := r.Explained()
	return r, in, err
}

// explainOutput is the output for a program: the explanation, and the snapshot
// behind it, which --snapshot reads again.
type explainOutput struct {
	words.Explanation
	Snapshot any `json:"snapshot,omitempty"`
}

func withSnapshot(in words.Input, e words.Explanation) explainOutput {
	v := explainOutput{Explanation: e}
	if !in.Unmanaged {
		v.Snapshot = in.Report.Snapshot
	}
	return v
}

func printExplained(out io.Writer, format string, in words.Input, e words.Explanation) error {
	switch format {
	case "json", "yaml":
		return printData(out, format, withSnapshot(in, e))
	}
	_, err := io.WriteString(out, words.Text(e, page.Style{Colour: command.IsTerminal(out), Wide: format == "wide"}))
	return err
}

type ruleLine struct {
	Section string `json:"section"`
	ID      string `json:"id"`
	When    string `json:"when"`
	Action  string `json:"action"`
	Why     string `json:"why"`
}

func ruleLines() []ruleLine {
	var out []ruleLine
	for _, r := range etcdmember.Rules() {
		out = append(out, ruleLine{r.Section, r.ID, r.When, string(r.Action), r.Why})
	}
	for _, r := range confirm.Rules() {
		out = append(out, ruleLine{"holdfast quorum confirm", "confirm." + r.ID, r.When, string(r.Need), r.Why})
	}
	return out
}

// printRules prints the protocol. The first matching rule of a section decides,
// and the first section with a matching rule counts.
func printRules(out io.Writer, format string) error {
	lines := ruleLines()
	if format == "json" || format == "yaml" {
		return printData(out, format, lines)
	}
	section := ""
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, r := range lines {
		if r.Section != section {
			section = r.Section
			_, _ = fmt.Fprintf(w, "\n%s\n", section)
		}
		line := "  " + r.ID + "\t" + r.Action + "\t" + r.When
		if format == "wide" {
			line += "\t" + r.Why
		}
		_, _ = fmt.Fprintln(w, line)
	}
	return w.Flush()
}
