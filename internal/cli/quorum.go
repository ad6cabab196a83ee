package cli

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
)

func newQuorum(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quorum",
		Short: "Confirm that the peer is off, so that this host may continue alone",
		Long: `On two hosts nothing but proof lets one go on without the other. Where no proof
can be had, a person's word stands in for it.`,
	}
	cmd.AddCommand(newQuorumConfirm(streams))
	return cmd
}

// confirmFlags holds the flags of a confirmation.
type confirmFlags struct {
	yes, dryRun        bool
	phrase, reason, by string
	output, snapshot   string
	watchLimit         time.Duration
}

func newQuorumConfirm(streams Streams) *cobra.Command {
	var f confirmFlags
	cmd := &cobra.Command{
		Use:   "confirm",
		Short: "Confirm that the other host is off, so that this one goes on alone",
		Long: `Lets this host of a two-node control plane go on alone where it waits for proof
that its peer is off, and cannot have it. Run it as root on the host that is to
go on. It needs no API.

It shows what is known: what the peer's BMC says now, when the peer was last in
contact, whose data are newer. Then it asks for as little as the protocol needs:

  nothing   this host goes on by itself, or the peer is there
  a yes     the peer's BMC says Off, or can switch it off
  a phrase  nothing proves that the peer is off, or this copy may lack writes
            that only the peer has; the phrase names what you vouch for

A peer that its BMC says is running is switched off first and read back. It
refuses where that fails, and where no word would help. Who, when and why is
recorded in /var/lib/holdfast/fencing/confirmations.jsonl and, where this copy is
forced, in the record of etcd. It then waits until etcd here takes writes. To run
it again at any point is safe.

Exit codes: 0 this host goes on, or nothing was needed; 1 it failed; 2 wrong
usage; 4 confirmed, but etcd does not take writes yet; 7 refused, the reason says
what helps; 8 the yes or the phrase was not given, nothing was changed.`,
		Example: `  sudo holdfast quorum confirm --dry-run
  sudo holdfast quorum confirm --reason 'cp-2 burnt, ticket 4711'
  holdfast quorum confirm --dry-run --snapshot test/corpus/etcd/70-03-older-alone.json
  ssh cp-1 "sudo holdfast quorum confirm --yes --reason 'site power test'"
  ssh cp-1 "sudo holdfast quorum confirm --phrase 'cp-2 is off' --reason 'rack B has no mains'"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if f.snapshot != "" {
				h, err := recordedHost(f.snapshot)
				if err != nil {
					return &UsageError{Err: err}
				}
				return f.run(cmd, streams, h)
			}
			if os.Geteuid() != 0 {
				return errors.New("the agent of etcd answers only root: run the command with sudo")
			}
			return f.run(cmd, streams, thisHost())
		},
	}
	flags := cmd.Flags()
	command.OutputFlag(cmd, &f.output)
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what is known and what would be done, and change nothing")
	flags.StringVar(&f.snapshot, "snapshot", "", "with --dry-run: rehearse on this recorded snapshot, anywhere")
	flags.BoolVar(&f.yes, "yes", false, "say yes beforehand; never takes the place of a phrase")
	flags.StringVar(&f.phrase, "phrase", "", "the phrase that --dry-run shows, typed beforehand; a yes too")
	flags.StringVar(&f.reason, "reason", "", "why, for whoever reads the record later (required)")
	flags.StringVar(&f.by, "by", "", "who says so (default: the user who ran sudo, or is logged in)")
	flags.DurationVar(&f.watchLimit, "timeout", 2*time.Minute, "how long to wait until etcd takes writes")
	return cmd
}

func (f *confirmFlags) run(cmd *cobra.Command, streams Streams, h quorumHost) error {
	c := confirmation{confirmFlags: *f, streams: streams, host: h}
	return c.run(cmd.Context())
}

// check returns all mistakes of the command line at once.
func (f *confirmFlags) check() error {
	var mistakes []error
	if f.reason == "" && !f.dryRun {
		mistakes = append(mistakes, errors.New("--reason: say why, for whoever reads the record later"))
	}
	if f.snapshot != "" && !f.dryRun {
		mistakes = append(mistakes, errors.New("--snapshot: only with --dry-run, nothing can be done to a recorded host"))
	}
	if f.watchLimit < 0 {
		mistakes = append(mistakes, fmt.Errorf("--timeout %s: must not be negative", f.watchLimit))
	}
	if f.by == "" {
		f.by = login()
	}
	if f.by == "" && !f.dryRun {
		mistakes = append(mistakes, errors.New("--by: who says so is not known here"))
	}
	if len(mistakes) > 0 {
		return &UsageError{Err: errors.Join(mistakes...)}
	}
	return nil
}

// login returns the name of the user behind this process: from sudo, otherwise
// from the session.
func login() string {
	for _, name := range []string{"SUDO_USER", "LOGNAME", "USER"} {
		if who := os.Getenv(name); who != "" {
			return who
		}
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// coded returns an error with an exit code of its own.
func coded(code int, format string, args ...any) error {
	return &command.Coded{Err: fmt.Errorf(format, args...), Code: code}
}
