package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/encryption"
	"github.com/holdfast/holdfast/internal/render/apiserver"
)

// defaultRotation is six times the duration of a rotation on healthy hosts.
const defaultRotation = 30 * time.Minute

// keysEvery is the pause between two readings; API servers reload their keys
// once a minute.
const keysEvery = 2 * time.Second

func newEncryptionRotate(streams Streams) *cobra.Command {
	var f encryptionFlags
	timeout := defaultRotation
	withoutBackup := false
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Replace the key that encrypts secrets in etcd, while the cluster runs",
		Long: `Replaces the key in four steps. Each step begins when every API server reports the
one before as done: all can read the new key; all write with it; everything stored is
rewritten unchanged; the old key is dropped. That takes about five minutes, because an
API server reloads its keys once a minute. No API server is restarted.

The command refuses while a control plane is absent, has no Node, is being installed,
or does not report its keys, and while a plan replaces, adds or takes out one: nothing
may be written that a control plane cannot read. A host that goes away, or comes, in
the middle holds the rotation where it is. It begins with a good backup that is at
most four hours old. If there is none it takes one first, and is refused if that
fails. You may interrupt it at any time and run it again to continue; until then the
cluster works with both keys.

Use it if somebody may have seen a control plane's files, or if a policy demands it.
It does not help against somebody who has the install directory or a control plane's
/etc/holdfast/site.json, because all keys are derived from these.

Exit codes: 0 everything is encrypted with a new key, and no API server has the old
one; 1 it failed, or is not complete in time; 2 wrong usage; 7 refused, nothing was
changed.`,
		Example: `  holdfast encryption rotate
  holdfast encryption rotate --timeout 1h -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var mistake error
			if timeout <= 0 {
				mistake = fmt.Errorf("--timeout %s: must be positive", timeout)
			}
			if err := f.place.Check(mistake); err != nil {
				return err
			}
			access, err := f.place.OpenAPI(cmd.Context())
			if err != nil {
				return err
			}
			c, err := access.Client()
			if err != nil {
				return err
			}
			w, err := kube.OpenRewriter(access)
			if err != nil {
				return err
			}
			first := backupFirst{without: withoutBackup, take: takingBackup(f.place, streams, "", "", "before encryption rotate"), out: streams.Err}
			r := keyRotation{cluster: c, rewrite: w.Rewrite, out: streams.Err, backup: first}
			report, err := r.run(cmd.Context(), timeout)
			if err != nil {
				return err
			}
			return report.print(streams.Out, f.output)
		},
	}
	f.register(cmd)
	withoutBackupFlag(cmd, &withoutBackup)
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait until all hosts have the key")
	return cmd
}

// keyRotation is one run of the command.
type keyRotation struct {
	cluster encryptionCluster
	rewrite func(ctx context.Context, kind string) (int, error)
	out     io.Writer
	said    string
	written int
	backup  backupFirst
}

// run takes one step after another until every API server has one key. If a
// rotation is already in progress, run finishes that one and begins no other.
func (r *keyRotation) run(ctx context.Context, timeout time.Duration) (keysReport, error) {
	settled, begin, err := r.prepare(ctx)
	if err != nil {
		return keysReport{}, err
	}
	ctx, stop := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not complete after %s; run the command again to continue", timeout))
	defer stop()
	for {
		s, err := readKeys(ctx, r.cluster)
		why := ""
		if err == nil {
			// Once another wish is there the rotation has begun: by this run, also if the
			// answer to its write was lost, or by another one.
			begin = begin && (s.Wish == nil || slices.Equal(s.Wish, settled.Keys))
			step := encryption.Next(s.Seen, begin)
			if step.Kind == encryption.Done {
				report := reportOf(s.Seen, step)
				report.Written = r.written
				return report, nil
			}
			r.say(step.Why)
			why = step.Why
			err = r.do(ctx, s, step)
		}
		if host.Sleep(ctx, keysEvery) != nil {
			if err == nil && why != "" {
				err = errors.New(why)
			}
			return keysReport{}, errors.Join(context.Cause(ctx), err)
		}
	}
}

// prepare reads where the keys stand. If the run begins a rotation, it has the site take a backup
// unless there is a young one.
func (r *keyRotation) prepare(ctx context.Context) (settled encryption.Step, begin bool, err error) {
	first, err := readKeys(ctx, r.cluster)
	if err != nil {
		return settled, false, err
	}
	settled = encryption.Next(first.Seen, false)
	if step := encryption.Next(first.Seen, true); step.Kind == encryption.Refuse {
		return settled, false, coded(command.ExitRefused, "refused, nothing was changed: %s", step.Why)
	}
	if begin = settled.Kind == encryption.Done; begin {
		err = r.backup.before(ctx, r.cluster, time.Now)
	}
	return settled, begin, err
}

// do takes one step. The next round retries a step that failed: a short outage of
// the API does not end a rotation.
func (r *keyRotation) do(ctx context.Context, s keysSeen, step encryption.Step) error {
	switch step.Kind {
	case encryption.Ask:
		rewritten := s.Rewritten
		if step.Again {
			rewritten = 0
		}
		return r.ask(ctx, s, step.Keys, rewritten)
	case encryption.Rewrite:
		written := 0
		for _, kind := range apiserver.Encrypted {
			n, err := r.rewrite(ctx, kind)
			if err != nil {
				return err
			}
			written += n
		}
		r.written = written
		r.say(fmt.Sprintf("rewrote %d objects", written))
		return r.ask(ctx, s, step.Keys, step.Keys[0])
	case encryption.Refuse, encryption.Wait, encryption.Done:
	}
	return nil
}

// ask writes the requested keys, unless somebody else has written meanwhile: what was
// decided then counts no more, and the next round reads again.
func (r *keyRotation) ask(ctx context.Context, s keysSeen, keys encryption.Keys, rewritten int) error {
	wish := encryption.Wish{Keys: keys, Rewritten: rewritten, At: time.Now()}
	return ignoreChanged(r.cluster.SwapConfigMap(ctx, encryption.WishNamespace, encryption.WishName, s.wish, wish.Data()))
}

// say prints a message unless it repeats the last one.
func (r *keyRotation) say(words string) {
	if words != r.said {
		r.said = words
		_, _ = fmt.Fprintln(r.out, words)
	}
}
