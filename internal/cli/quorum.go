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
		Long: `One of two hosts continues without the other only with proof that the other is off.
If there is no proof, an administrator's confirmation replaces it.`,
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
		Short: "Confirm that the other host is off, so that this one may continue alone",
		Long: `Lets this host of a two-node control plane continue alone if it waits for proof that
its peer is off and cannot get that proof. Run it as root on the host that is to
continue. It needs no API.

It shows what is known: the power state that the peer's BMC reports now, when the
peer was last in contact, whose data are newer. Then it asks for as little as the
protocol needs:

  nothing   this host continues by itself, or the peer is present
  a yes     the peer's BMC reports Off, or can switch the peer off
  a phrase  nothing proves that the peer is off, or the data directory here may
            lack writes that only the peer has; the phrase names what you vouch for

If the BMC reports that the peer runs, the peer is switched off first and its state
read back. The command refuses if that fails, if a confirmation would not help, or if
another machine has the place of this host.
It records who confirmed, when and why in
/var/lib/holdfast/fencing/confirmations.jsonl, and also in the record of etcd if this
data directory is forced to lead. Then it waits until etcd on this host takes writes.
It is safe to run the command again at any time.

Exit codes: 0 this host continues, or nothing was needed; 1 it failed; 2 wrong
usage; 3 etcd takes writes, and Pacemaker still has to be told that the peer is down:
the last line says what to type; 4 confirmed, but etcd does not take writes yet; 7
refused, the reason says what to do; 8 the yes or the phrase was not given, nothing was
changed.`,
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
				return errors.New("the etcd keeper answers only root: run the command with sudo")
			}
			return f.run(cmd, streams, thisHost())
		},
	}
	flags := cmd.Flags()
	command.OutputFlag(cmd, &f.output)
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what is known and what would be done, and change nothing")
	flags.StringVar(&f.snapshot, "snapshot", "", "with --dry-run: decide on this recorded snapshot, on any machine")
	flags.BoolVar(&f.yes, "yes", false, "answer yes without a question; does not replace a phrase")
	flags.StringVar(&f.phrase, "phrase", "", "the phrase that --dry-run shows, given without a question; counts as a yes too")
	flags.StringVar(&f.reason, "reason", "", "why you confirm, for later readers of the record (required)")
	flags.StringVar(&f.by, "by", "", "who confirms (default: the user who ran sudo, or is logged in)")
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
		mistakes = append(mistakes, errors.New("--reason: must say why you confirm, for later readers of the record"))
	}
	if f.snapshot != "" && !f.dryRun {
		mistakes = append(mistakes, errors.New("--snapshot: needs --dry-run, because nothing can be done to a recorded host"))
	}
	if f.watchLimit < 0 {
		mistakes = append(mistakes, fmt.Errorf("--timeout %s: must not be negative", f.watchLimit))
	}
	if f.by == "" {
		f.by = login()
	}
	if f.by == "" && !f.dryRun {
		mistakes = append(mistakes, errors.New("--by: cannot determine the user; name the administrator who confirms"))
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
