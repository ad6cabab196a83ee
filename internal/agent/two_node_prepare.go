package agent

import (
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/install/restore"
)

func newPrepareBackup(streams command.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "prepare-backup FROM TO",
		Short: "Write a copy of etcd's snapshot without what would begin by itself in a restore in place",
		Long: `Write a copy of a snapshot of etcd for a restore in place on two running hosts. It
lacks what would begin by itself there: upgrades, plans and turns of the day of
the backup, wishes for a boot, updates or a drain, and pods that end by themselves.
CronJobs, and Jobs that had not ended, are suspended; volumes are retained. What
"holdfast restore" leaves out because the hosts are new ones stays.

It prints as JSON what it left out and changed, and what people had wished. FROM
stays as it is; the folder of TO needs room for twice the snapshot. It changes
nothing else on this host, and asks neither etcd nor the API.`,
		Example: `  sudo holdfast-agent two-node prepare-backup /root/backup.db /root/prepared.db`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if os.Geteuid() != 0 {
				return &command.UsageError{Err: errors.New("prepare-backup reads a backup with secrets: run it as root")}
			}
			report, err := restore.Prepare(cmd.Context(), restore.Preparation{From: args[0], To: args[1], Now: time.Now(), Log: streams.Err})
			if err != nil {
				return err
			}
			out := json.NewEncoder(streams.Out)
			out.SetIndent("", "  ")
			return out.Encode(report)
		},
	}
}
