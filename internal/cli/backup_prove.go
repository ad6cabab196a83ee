package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/backup"
)

// backupProveFlags holds the flags of `backup prove`.
type backupProveFlags struct {
	backupFlags
	by     string
	dryRun bool
}

func newBackupProve(streams Streams) *cobra.Command {
	var f backupProveFlags
	cmd := &cobra.Command{
		Use:   "prove ID",
		Short: "Tell the site that you have opened a backup with the private key",
		Long: `Tells the site that somebody fetched a copy of this backup from a target and opened it with
the private key, on the machine where that key is kept. To open it there, without the site:
'holdfast backup verify FILE --identity KEY-FILE'. The site cannot open its own backups, so
status warns until somebody has proved one, and again after the recipients were changed.

The ConfigMap kube-system/holdfast-backup-proof says who proved which backup, and when.

A copy from before a change of the recipients proves nothing: open one that was sent since.

Exit codes: 0 it is written (with --dry-run: it would be); 7 refused: the backup is not good,
or no target has a copy of it that is encrypted to today's recipients; 1 it is not there, or the
API does not answer; 2 wrong usage.`,
		Example: `  holdfast backup verify 20261125T031700Z-cp-1.tar.age --identity owner.key
  holdfast backup prove 20261125T031700Z-cp-1
  holdfast backup prove 20261125T031700Z-cp-1 --by 'Ann, from the safe'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.by == "" {
				f.by = login()
			}
			var mistake error
			if f.by == "" {
				mistake = errors.New("--by: cannot determine the user; name who opened it")
			}
			c, err := f.open(cmd.Context(), mistake)
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), c, streams, args[0])
		},
	}
	f.register(cmd)
	f.completeIDs(cmd)
	cmd.Flags().StringVar(&f.by, "by", "", "who opened the backup (default: the user of this session)")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "write nothing; say what would be written")
	return cmd
}

func (f *backupProveFlags) run(ctx context.Context, c client.Client, streams Streams, id string) error {
	site, err := gatherBackups(ctx, c)
	if err != nil {
		return err
	}
	name, b, err := site.Find(id)
	if err != nil {
		return err
	}
	h, _ := site.Host(name)
	switch {
	case !b.Good:
		return coded(command.ExitRefused, "refused, nothing was changed: backup %s is not good: %s", b.ID, b.Why)
	case verifiedAt(b) == "":
		return coded(command.ExitRefused, "refused, nothing was changed: no target has a copy of backup %s, and the file on the host is not encrypted: it proves nothing about the key", b.ID)
	case !b.SentTo(h.Recipients):
		return coded(command.ExitRefused, "refused, nothing was changed: the copies of backup %s are encrypted to other recipients than those of today, so it proves nothing about today's keys: open one that was sent since the change (holdfast backup now takes one)", b.ID)
	}
	proof := backup.Proof{ID: b.ID, At: time.Now().UTC().Truncate(time.Second), By: f.by, Recipients: h.Recipients}
	if !f.dryRun {
		if err := writeProof(ctx, c, proof); err != nil {
			return err
		}
	}
	if f.output == "json" || f.output == "yaml" {
		return printData(streams.Out, f.output, proof)
	}
	verb := "proven"
	if f.dryRun {
		verb = "would be proven"
	}
	_, err = fmt.Fprintf(streams.Out, "backup %s: %s by %s, for %d recipients\n", proof.ID, verb, proof.By, len(proof.Recipients))
	return err
}

// writeProof replaces the former proof.
func writeProof(ctx context.Context, c client.Client, proof backup.Proof) error {
	text, err := json.Marshal(proof)
	if err != nil {
		return err
	}
	return refusedByAPI(writeKeys(ctx, c, backup.ProofNamespace, backup.ProofName, map[string]string{backup.ProofKey: string(text)}))
}
