package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/backup/catalogue"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/backup"
	model "github.com/holdfast/holdfast/internal/model/backup"
)

// backupLine is a backup with its host, for programs.
type backupLine struct {
	Host string `json:"host"`
	backup.Brief
}

// backupReport is what `backup list` prints for programs.
type backupReport struct {
	Backups []backupLine `json:"backups"`
	// Hosts has what else each control plane reports.
	Hosts []backupHost `json:"hosts"`
}

// backupHost is the report of one control plane about its backups.
type backupHost struct {
	Name     string          `json:"name"`
	Silent   string          `json:"silent,omitempty"`
	Schedule string          `json:"schedule,omitempty"`
	Next     time.Time       `json:"next,omitzero"`
	Doing    *backup.Doing   `json:"doing,omitempty"`
	Waits    string          `json:"waits,omitempty"`
	Failed   *backup.Failure `json:"failed,omitempty"`
	Targets  []string        `json:"targets,omitempty"`
	Refused  []string        `json:"refused,omitempty"`
	Left     []string        `json:"left,omitempty"`
}

func newBackupList(streams Streams) *cobra.Command {
	var f backupFlags
	var at fromFlags
	var from, moment string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the backups on all control planes",
		Long: `Lists the backups that the control planes report, the newest first, with the targets where a copy
of each was read back. It does not list copies at a target of backups that no host has any more:
--from does, and needs no site. It reads s3://BUCKET/NAME or sftp://USER@SERVER/PATH, with the account
in --targets or as for 'holdfast backup fetch', or a mounted folder. With --before it lists only
what was taken before that moment, and names the newest good one of these. If backups of several
sites lie there, it names the newest good one of each. A backup whose host's clock was ahead has the
age future, and is never the newest one.

Exit codes: 0 there is a good backup; 3 there is none, or status shows a problem with backups;
6 no control plane reports its backups; 1 the API or the target does not answer; 2 wrong usage.`,
		Example: `  holdfast backup list
  holdfast backup list -o wide
  holdfast backup list --from s3://shop-1 --targets backups.yaml
  holdfast backup list --from /mnt/backups/shop.example.com
  holdfast backup list --from s3://shop-1 --targets backups.yaml --before 2026-11-25T14:00:00+01:00
  holdfast backup list -o json | jq -r '.backups[] | select(.good) | .id'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			before, err := beforeMoment(moment, from)
			if err != nil {
				return err
			}
			if from != "" {
				return at.printPlace(cmd.Context(), streams, from, f.output, before)
			}
			c, err := f.open(cmd.Context())
			if err != nil {
				return err
			}
			site, err := gatherBackups(cmd.Context(), c)
			if err != nil {
				return err
			}
			return printBackups(streams.Out, f.output, site.Site)
		},
	}
	f.register(cmd)
	at.register(cmd)
	cmd.Flags().StringVar(&from, "from", "", "list what lies at this target instead: a URL or a folder")
	cmd.Flags().StringVar(&moment, "before", "", "with --from: only what was taken before this moment, as in 2026-11-25T14:00:00Z")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

// beforeMoment reads the moment of --before; zero for none.
func beforeMoment(moment, from string) (time.Time, error) {
	if moment == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, moment)
	if err != nil {
		err = fmt.Errorf("--before %q: must be a time with its zone, as in 2026-11-25T14:00:00Z", moment)
	}
	if from == "" {
		err = errors.Join(err, errors.New("--before: needs --from"))
	}
	if err != nil {
		return time.Time{}, &UsageError{Err: err}
	}
	return t, nil
}

// printBackups prints all backups, and returns the exit code.
func printBackups(out io.Writer, format string, s backup.Site) error {
	r := backupReport{Backups: []backupLine{}, Hosts: []backupHost{}}
	for _, h := range s.Hosts {
		r.Hosts = append(r.Hosts, backupHost{h.Name, h.Silent, h.Schedule, h.Next, h.Doing, h.Waits, h.Failed, h.Targets, h.Refused, h.Left})
		for _, b := range h.Kept {
			r.Backups = append(r.Backups, backupLine{h.Name, b})
		}
	}
	slices.SortStableFunc(r.Backups, func(a, b backupLine) int { return b.Taken.Compare(a.Taken) })
	var err error
	if format == "json" || format == "yaml" {
		err = printData(out, format, r)
	} else {
		err = printBackupTable(out, s, r, format == "wide")
	}
	if err != nil {
		return err
	}
	_, _, is := s.Newest()
	switch {
	case !s.Known():
		return exitWith(command.ExitUnknown)
	case !is, len(s.Troubles()) > 0:
		return exitWith(command.ExitAttention)
	}
	return nil
}

func printBackupTable(out io.Writer, s backup.Site, r backupReport, wide bool) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	head := "ID\tHOST\tAGE\tGOOD\tSIZE\tAT\tREASON"
	if wide {
		head += "\tTAKEN\tREVISION\tKUBERNETES\tWHY NOT"
	}
	_, _ = fmt.Fprintln(w, head)
	for _, l := range r.Backups {
		line := fmt.Sprintf("%s\t%s\t%s\t%s\t%d MiB\t%s\t%s", l.ID, l.Host, ageOf(l.Taken, s.Now), yesNo(l.Good), l.Size>>20, orDash(verifiedAt(l.Brief)), orDash(l.Reason))
		if wide {
			why := l.Why
			if lacks := l.Unsent(); len(lacks) > 0 {
				why = strings.TrimPrefix(why+"; "+strings.Join(lacks, "; "), "; ")
			}
			line += fmt.Sprintf("\t%s\t%d\t%s\t%s", timestamp(l.Taken), l.Revision, orDash(l.Kubernetes), orDash(why))
		}
		_, _ = fmt.Fprintln(w, line)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, h := range r.Hosts {
		if h.Silent != "" {
			_, _ = fmt.Fprintf(out, "%s: %s\n", h.Name, h.Silent)
		}
	}
	for _, line := range s.Lines() {
		_, _ = fmt.Fprintln(out, line)
	}
	for _, t := range s.Troubles() {
		_, _ = fmt.Fprintf(out, "! %s\n", strings.TrimSpace(strings.Join([]string{string(t.Kind), t.Subject}, " "))+": "+t.Why)
	}
	return nil
}

// verifiedAt lists the targets at which a copy was read back.
func verifiedAt(b backup.Brief) string {
	var out []string
	for _, c := range b.Copies {
		if !c.Verified.IsZero() {
			out = append(out, c.Target)
		}
	}
	return strings.Join(out, ",")
}

func newBackupShow(streams Streams) *cobra.Command {
	var f backupFlags
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one backup: when it was taken, how it was checked, and where copies lie",
		Long: `Shows one backup that a control plane reports; the beginning of its id is enough. Run as root on
the host that has the backup, with the whole id, it shows everything in the catalogue: versions,
revision, raft index, hashes, every check, and the digests of the file here and at the targets.

Exit codes: 0 it is good; 3 it is not; 1 it is not there, or nobody answers; 2 wrong usage.`,
		Example: `  holdfast backup show 20261125T031700Z-cp-1
  ssh cp-1 sudo holdfast backup show 20261125T031700Z-cp-1 -o yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if e, err := (catalogue.Catalogue{Dir: model.Dir}).Entry(args[0]); err == nil {
				return printBackupEntry(streams.Out, f.output, e)
			} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				return err
			}
			c, err := f.open(cmd.Context())
			if err != nil {
				return err
			}
			site, err := gatherBackups(cmd.Context(), c)
			if err != nil {
				return err
			}
			name, b, err := site.Find(args[0])
			if err != nil {
				return err
			}
			if err := printBackup(streams.Out, f.output, name, b); err != nil || b.Good {
				return err
			}
			return exitWith(command.ExitAttention)
		},
	}
	f.register(cmd)
	f.completeIDs(cmd)
	return cmd
}

func printBackupEntry(out io.Writer, format string, e model.Entry) error {
	if format != "json" {
		format = "yaml"
	}
	if err := printData(out, format, e); err != nil || e.Good {
		return err
	}
	return exitWith(command.ExitAttention)
}

func printBackup(out io.Writer, format, host string, b backup.Brief) error {
	if format == "json" || format == "yaml" {
		return printData(out, format, backupLine{host, b})
	}
	_, err := fmt.Fprintf(out, "backup %s of %s\n  taken     %s (%s)\n  good      %s\n  revision  %d, Kubernetes %s\n  size      %d MiB\n",
		b.ID, host, timestamp(b.Taken), orDash(b.Reason), strings.TrimSuffix(yesNo(b.Good)+": "+b.Why, ": "), b.Revision, orDash(b.Kubernetes), b.Size>>20)
	for _, c := range b.Copies {
		text := "read back there " + timestamp(c.Verified)
		if c.Verified.IsZero() {
			text = "not there: " + orDash(c.Failed)
		}
		_, _ = fmt.Fprintf(out, "  at %s  %s\n", c.Target, text)
	}
	return err
}
