package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/backup"
)

// backupNowFlags holds the flags of `backup now`.
type backupNowFlags struct {
	backupFlags
	host, gone, reason string
	dryRun, noWait     bool
	timeout            time.Duration
	// follows is set if the host has to follow the configuration that stands in the API.
	follows bool
}

// backupTime is how long a command waits for a backup by default.
const backupTime = time.Hour

func newBackupNow(streams Streams) *cobra.Command {
	f := backupNowFlags{timeout: backupTime}
	cmd := &cobra.Command{
		Use:   "now",
		Short: "Have a control plane take a backup now, and follow it",
		Long: `Asks one control plane for a backup now, and follows it until it is good and every target has
a copy that was read back, or until it failed. The wish is an annotation of the node; the agent
of the host carries it out even if the command has ended or its terminal is gone. This backup
gives way to the same things as any other (a take-over, a member of etcd that catches up, a
host that is away), and the command says what it waits for.

Exit codes: 0 the backup is good and lies at all targets (with --dry-run: it would begin now);
1 it failed; 3 it is good and a target lacks it, or something was in its way at the timeout
(with --dry-run: something is in its way); 4 it was on its way at the timeout; 2 wrong usage;
7 no control plane can take one.`,
		Example: `  holdfast backup now
  holdfast backup now --reason 'before the move'
  holdfast backup now --host cp-2 --no-wait
  holdfast backup now --is-gone cp-2       cp-2 burnt while it was at work
  holdfast backup now --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.open(cmd.Context(), positive(f.timeout))
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), c, streams)
		},
	}
	f.register(cmd)
	timeoutFlag(cmd, &f.timeout)
	cmd.Flags().StringVar(&f.host, "host", "", "the control plane that takes it (default: one that can)")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why you want it, for people who look at the backup later")
	cmd.Flags().StringVar(&f.gone, "is-gone", "", "a control plane that is lost: while its node is not Ready, nothing waits for the work that it was at, nor for its etcd to catch up (not with --dry-run)")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "do not wait until the backup is there")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "change nothing; say which host would take the backup, and what is in its way")
	_ = cmd.RegisterFlagCompletionFunc("host", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("is-gone", cobra.NoFileCompletions)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

func (f *backupNowFlags) run(ctx context.Context, c client.Client, streams Streams) error {
	if err := f.check(ctx, c); err != nil {
		return err
	}
	if f.dryRun {
		h, err := f.choose(ctx, c)
		if err != nil {
			return err
		}
		return f.dry(streams, h)
	}
	if f.noWait {
		h, wish, err := f.ask(ctx, c)
		if err != nil {
			return err
		}
		return asked{Host: h.Name, Wish: wish}.print(streams, f.output, h.Name+" is asked for a backup; to see it: holdfast backup list")
	}
	h, err := f.take(ctx, c, streams)
	if err != nil {
		return err
	}
	return f.taken(streams, h)
}

// check refuses a host of --is-gone that nothing waits for: a word that is spelled wrong would change nothing.
// Nobody asks a host in a dry run, and what it says by itself is about the backups that wait for the lost one.
func (f *backupNowFlags) check(ctx context.Context, c client.Client) error {
	switch {
	case f.gone == "":
		return nil
	case f.dryRun:
		return &UsageError{Err: fmt.Errorf("--dry-run says what is in the way of the host's own backups, which wait for %s too: leave --dry-run or --is-gone out", f.gone)}
	}
	site, err := gatherBackups(ctx, c)
	if err != nil {
		return err
	}
	switch _, is := site.Host(f.gone); {
	case !is:
		return &UsageError{Err: fmt.Errorf("--is-gone %q: there is no such control plane; see: holdfast host list", f.gone)}
	case site.Ready[f.gone]:
		return coded(command.ExitRefused, "--is-gone %s: its node is Ready, so it is not gone, and the backup gives way to its work", f.gone)
	}
	return nil
}

// ask asks a host for a backup, and returns it and the wish.
func (f *backupNowFlags) ask(ctx context.Context, c client.Client) (h backup.Host, wish string, err error) {
	if h, err = f.choose(ctx, c); err != nil {
		return h, "", err
	}
	wish = backup.AskWithout(time.Now(), f.gone, f.reason)
	return h, wish, askForBackup(ctx, c, h.Name, wish)
}

// take has a host take a backup, shows what it does until the backup is good, and returns its last
// report. Commands that begin with a backup share it.
func (f *backupNowFlags) take(ctx context.Context, c client.Client, streams Streams) (backup.Host, error) {
	h, wish, err := f.ask(ctx, c)
	if err != nil {
		return h, err
	}
	h, err = followBackup(ctx, c, streams, h.Name, wish, f.timeout)
	if err == nil && h.Answer.Failed != "" {
		err = coded(command.ExitFailed, "%s made no good backup: %s; the schedule goes on. For the log: ssh %s sudo journalctl -u holdfast-backup", h.Name, h.Answer.Failed, h.Name)
	}
	return h, err
}

// choose returns the host that is asked.
func (f *backupNowFlags) choose(ctx context.Context, c client.Client) (backup.Host, error) {
	site, err := gatherBackups(ctx, c)
	if err != nil {
		return backup.Host{}, err
	}
	name := f.host
	if name == "" {
		if name, err = site.Choose(site.Ready); err != nil {
			return backup.Host{}, coded(command.ExitRefused, "%w", err)
		}
	}
	h, is := site.Host(name)
	if !is {
		return h, &UsageError{Err: fmt.Errorf("--host %q: there is no such control plane; see: holdfast host list", name)}
	}
	if h.Silent != "" {
		return h, coded(command.ExitRefused, "%s cannot be asked: %s", name, h.Silent)
	}
	return h, nil
}

func (f *backupNowFlags) dry(streams Streams, h backup.Host) error {
	a := asked{Host: h.Name, BeginsNow: new(h.Doing == nil && h.Waits == ""), Waits: h.Waits, Targets: h.Targets}
	switch {
	case h.Doing != nil:
		a.Waits = "backup " + h.Doing.ID
		return a.print(streams, f.output, fmt.Sprintf("%s takes backup %s since %s; another one would follow", h.Name, h.Doing.ID, timestamp(h.Doing.Since)))
	case h.Waits != "":
		return errors.Join(a.print(streams, f.output, fmt.Sprintf("%s would wait: %s", h.Name, h.Waits)), exitWith(command.ExitAttention))
	}
	return a.print(streams, f.output, fmt.Sprintf("%s would take a backup now, and send it to %s", h.Name, orDash(strings.Join(h.Targets, ", "))))
}

// askForBackup writes a wish for a backup to the node of a host.
func askForBackup(ctx context.Context, c client.Client, name, wish string) error {
	return changeNode(ctx, c, name, func(n *corev1.Node) error {
		return annotate(ctx, c, n, map[string]*string{backup.WantedOf: &wish}, false)
	})
}

// taken prints the backup that a host has just taken, and says what it lacks.
func (f *backupNowFlags) taken(streams Streams, h backup.Host) error {
	name, site := h.Name, backup.Site{Hosts: []backup.Host{h}}
	_, b, err := site.Find(h.Answer.ID)
	if err != nil {
		return err
	}
	if err := printBackup(streams.Out, f.output, name, b); err != nil {
		return err
	}
	if f.follows && len(h.Refused) > 0 {
		return coded(command.ExitAttention, "backup %s is good and lies on %s, but the host does not follow the configuration: %s", b.ID, name, strings.Join(h.Refused, "; "))
	}
	if lacks := h.Lack(b); len(lacks) > 0 {
		return coded(command.ExitAttention, "backup %s is good and lies on %s, and a target lacks it: %s. The host tries again by itself", b.ID, name, strings.Join(lacks, "; "))
	}
	return nil
}

// followBackup waits until a host has answered a wish, and returns its last report.
func followBackup(ctx context.Context, c client.Client, streams Streams, name, wish string, timeout time.Duration) (backup.Host, error) {
	last := backup.Host{Name: name}
	err := follow{cluster: c, out: streams.Err, timeout: timeout}.node(ctx, name, func(n *corev1.Node) (string, bool, error) {
		last = backup.HostOf(n.Name, n.Annotations)
		doing, done := last.Says(wish)
		if !done && n.Annotations[backup.WantedOf] != wish {
			return doing, false, coded(command.ExitFailed, "somebody else asked %s for another backup meanwhile; see: holdfast backup list", name)
		}
		return doing, done, nil
	}, func(cause error) error { return endedBackup(cause, last, wish, timeout) })
	return last, err
}

// endedBackup explains an end before the backup was there.
func endedBackup(cause error, h backup.Host, wish string, timeout time.Duration) error {
	if !errors.Is(cause, errNotYet) {
		return errors.New("interrupted: the wish stands and is carried out; to see it: holdfast backup list")
	}
	code := command.ExitRecovers
	if h.Waits != "" || h.Silent != "" {
		code = command.ExitAttention
	}
	doing, _ := h.Says(wish)
	return coded(code, "%s has no backup after %s: %s. The wish stands; to see it: holdfast backup list", h.Name, timeout, doing)
}
