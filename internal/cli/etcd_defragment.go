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
	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// defragmentFlags holds the flags of `etcd defragment`.
type defragmentFlags struct {
	hostFlags
	host                string
	dryRun, noWait, yes bool
	timeout             time.Duration
}

func newEtcdDefragment(streams Streams) *cobra.Command {
	f := defragmentFlags{timeout: 15 * time.Minute}
	cmd := &cobra.Command{
		Use:   "defragment",
		Short: "Have a control plane defragment its member of etcd now, and follow it",
		Long: `Asks one control plane to defragment its member of etcd now, and follows it until that is done.
The wish is an annotation of the node; the agent of the host carries it out even if the command
has ended or its terminal is gone. It waits for whatever else is at work (a backup, a host that
catches up or is away), and says for what; after ten minutes the wish has lapsed. A member that
leads hands over the lead first, so no write waits for it.

The only member serves nobody while it is defragmented, 1 to 10 s for each GiB: the API does not
answer meanwhile. Pods go on. The command asks before that.

Exit codes: 0 it is done (with --dry-run: it would begin now); 1 it failed; 3 something was in its
way at the timeout (with --dry-run: something is in its way); 4 it was on its way at the timeout;
7 it leads to nothing, or waited too long; 8 not confirmed; 2 wrong usage.`,
		Example: `  holdfast etcd defragment --dry-run
  holdfast etcd defragment
  holdfast etcd defragment --host cp-2 --no-wait
  holdfast etcd defragment --yes                  one control plane, without a question`,
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
	cmd.Flags().StringVar(&f.host, "host", "", "the control plane whose member it is (default: the one with most to gain)")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "do not wait until it is done")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "change nothing; say which member it would be, what it would gain, and what is in the way")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask before the API is away")
	_ = cmd.RegisterFlagCompletionFunc("host", cobra.NoFileCompletions)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

func (f *defragmentFlags) run(ctx context.Context, c client.Client, streams Streams) error {
	site, err := gatherSpaces(ctx, c)
	if err != nil {
		return err
	}
	h, err := f.choose(site)
	if err != nil {
		return err
	}
	warning := aloneWarning(site, h)
	if f.dryRun {
		return f.dry(streams, h, warning)
	}
	if warning != "" && !f.yes {
		if err := command.Agreed(ctx, streams, warning+"\nContinue? Type yes: ", "yes"); err != nil {
			return err
		}
	}
	wish := etcdspace.Ask(time.Now())
	if err := askForDefragmentation(ctx, c, h.Name, wish); err != nil {
		return err
	}
	if f.noWait {
		return asked{Host: h.Name, Wish: wish}.print(streams, f.output, h.Name+" is asked for a defragmentation; to see it: holdfast etcd status")
	}
	return f.follow(ctx, c, streams, h.Name, wish)
}

// choose returns the host that is asked.
func (f *defragmentFlags) choose(site spaceSite) (etcdspace.Host, error) {
	if f.host == "" {
		h, err := etcdspace.Choose(site.Hosts, site.Ready)
		if err != nil {
			return h, coded(command.ExitRefused, "%w", err)
		}
		return h, nil
	}
	h, is := site.host(f.host)
	if !is {
		return h, &UsageError{Err: fmt.Errorf("--host %q: there is no such control plane; see: holdfast host list", f.host)}
	}
	if h.Silent != "" {
		return h, coded(command.ExitRefused, "%s cannot be asked: %s", h.Name, h.Silent)
	}
	return h, nil
}

// aloneWarning says what a defragmentation of the only member means; empty for one of several.
func aloneWarning(site spaceSite, h etcdspace.Host) string {
	if h.Voters > 1 || h.Voters == 0 && len(site.Hosts) > 1 {
		return ""
	}
	return fmt.Sprintf("etcd on %s is the only member. The API does not answer while it is defragmented: 1 to 10 s for each GiB, and it has %s. Pods go on.", h.Name, mebibytes(h.Size))
}

func (f *defragmentFlags) dry(streams Streams, h etcdspace.Host, warning string) error {
	v, at := h.IfAsked, timestamp(h.At)
	if v.Step == etcdspace.None {
		verb := "would wait"
		if v.Final() {
			verb = "would not be defragmented"
		}
		a := asked{Host: h.Name, BeginsNow: new(false), Waits: v.Why}
		return errors.Join(a.print(streams, f.output, fmt.Sprintf("%s %s (as of %s): %s", h.Name, verb, at, v.Why)), exitWith(command.ExitAttention))
	}
	words := fmt.Sprintf("%s would be defragmented now (as of %s): %s", h.Name, at, v.Why)
	if warning != "" {
		words += "\n" + warning + "\nThe command would ask before; --yes answers."
	}
	return asked{Host: h.Name, BeginsNow: new(true), Why: v.Why, Warning: warning}.print(streams, f.output, words)
}

// askForDefragmentation writes a wish to the node of a host. An etcd that is full refuses it.
func askForDefragmentation(ctx context.Context, c client.Client, name, wish string) error {
	err := changeNode(ctx, c, name, func(n *corev1.Node) error {
		return annotate(ctx, c, n, map[string]*string{etcdspace.WantedOf: &wish}, false)
	})
	if err != nil && strings.Contains(err.Error(), "database space exceeded") {
		return coded(command.ExitFailed, "etcd is full, so the API takes no wish. The agents mend it by themselves if enough is free: sudo holdfast etcd status on a control plane says what they do. To ask %s all the same: ssh %s sudo touch %s", name, name, state.EtcdDefragmentWantedPath)
	}
	return err
}

// defragmented is the result, for programs.
type defragmented struct {
	Host string `json:"host"`
	etcdspace.Done
}

// follow shows what a host does until it has answered a wish.
func (f *defragmentFlags) follow(ctx context.Context, c client.Client, streams Streams, name, wish string) error {
	last := etcdspace.Host{Name: name}
	err := follow{cluster: c, out: streams.Err, timeout: f.timeout}.node(ctx, name, func(n *corev1.Node) (string, bool, error) {
		last = etcdspace.HostOf(n.Name, n.Annotations)
		doing, done := last.Says(wish)
		if !done && n.Annotations[etcdspace.WantedOf] != wish {
			return doing, false, coded(command.ExitFailed, "somebody else asked %s meanwhile; see: holdfast etcd status", name)
		}
		return doing, done, nil
	}, func(cause error) error { return endedDefragmentation(cause, last, wish, f.timeout) })
	switch a := last.Answer; {
	case err != nil:
		return err
	case a.Refused != "":
		return coded(command.ExitRefused, "%s was not defragmented: %s", name, a.Refused)
	case a.Failed != "":
		return coded(command.ExitFailed, "the defragmentation of %s failed: %s. For the log: ssh %s sudo journalctl -u holdfast-agent", name, a.Failed, name)
	case f.output == "json" || f.output == "yaml":
		return printData(streams.Out, f.output, defragmented{name, a.Done})
	}
	_, err = fmt.Fprintf(streams.Out, "etcd on %s is defragmented, %s\n", name, last.Answer.Done)
	return err
}

// endedDefragmentation explains an end before the answer.
func endedDefragmentation(cause error, h etcdspace.Host, wish string, timeout time.Duration) error {
	if !errors.Is(cause, errNotYet) {
		return errors.New("interrupted: the wish stands for ten minutes and is carried out; to see it: holdfast etcd status")
	}
	code := command.ExitRecovers
	if h.Silent != "" || h.Verdict.Step == etcdspace.None {
		code = command.ExitAttention
	}
	doing, _ := h.Says(wish)
	return coded(code, "%s is not defragmented after %s: %s. To see it: holdfast etcd status", h.Name, timeout, doing)
}
