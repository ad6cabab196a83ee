package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/place"
	decide "github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/report/incident"
)

// incidentsFrom selects the place from which the reports are read.
type incidentsFrom struct {
	place       place.Flags
	output, dir string
	files       bool
	// api reads them from the API.
	api func(ctx context.Context, access kube.Access) (incident.List, error)
}

// apiAnswer is the time that the API gets before the host's files are read
// instead.
const apiAnswer = 8 * time.Second

func newIncidents(streams Streams) *cobra.Command {
	return newIncidentsWith(streams, &incidentsFrom{dir: incident.Dir, api: incidentsOfCluster})
}

func newIncidentsWith(streams Streams, f *incidentsFrom) *cobra.Command {
	list := newIncidentsList(streams, f)
	cmd := &cobra.Command{
		Use:   "incidents",
		Short: "Report in plain words what happened when a host was lost, left or came back",
		Long: `Reports what happened when one of two hosts was lost, left or came back: when the
host was lost and fenced; when the other one decided; when etcd took writes again, and
the API, the virtual IPs and the pods were back; when the hosts saw each other and both
voted again; and what the journals of both hosts recorded.

The reports are read from the API. On a host whose API does not answer, they are read
from ` + incident.Dir + ` of that host, and a note says so.`,
		Example: list.Example,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, args []string) error { return list.RunE(cmd, args) },
	}
	f.flags(cmd)
	cmd.AddCommand(list, newIncidentsShow(streams, f))
	return cmd
}

func (f *incidentsFrom) flags(cmd *cobra.Command) {
	formatFlag(cmd, &f.output)
	f.place.DeclareKubeconfig(cmd)
	f.place.DeclareLab(cmd)
	cmd.Flags().BoolVar(&f.files, "files", false, "read the reports that this host keeps, and do not ask the API")
}

func newIncidentsList(streams Streams, f *incidentsFrom) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List incidents, the newest first",
		Example: `  holdfast incidents
  holdfast incidents list -o wide
  holdfast incidents --lab default
  ssh cp-1 sudo holdfast incidents --files`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := f.read(cmd)
			if err != nil {
				return err
			}
			if f.output == "json" || f.output == "yaml" {
				return printData(streams.Out, f.output, l)
			}
			return printIncidents(streams.Out, l, f.output == "wide")
		},
	}
	f.flags(cmd)
	return cmd
}

func newIncidentsShow(streams Streams, f *incidentsFrom) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [N|ID]",
		Short: "Show the report of one incident: 1 is the newest",
		Example: `  holdfast incidents show
  holdfast incidents show 2
  holdfast incidents show 20261120-090001-cp-2 -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := f.read(cmd)
			if err != nil {
				return err
			}
			which := "1"
			if len(args) == 1 {
				which = args[0]
			}
			i, err := pick(l, which)
			if err != nil {
				return err
			}
			if f.output == "json" || f.output == "yaml" {
				return printData(streams.Out, f.output, i)
			}
			return printIncident(streams.Out, l, i)
		},
	}
	f.flags(cmd)
	return cmd
}

// check returns all mistakes of the command line at once.
func (f *incidentsFrom) check() error {
	var mistake error
	if f.files && f.elsewhere() {
		mistake = errors.New("--files: cannot be combined with --kubeconfig or --lab: only this host keeps the files")
	}
	return f.place.Check(mistake)
}

// elsewhere reports whether the command line names a place.
func (f *incidentsFrom) elsewhere() bool { return f.place.Kubeconfig != "" || f.place.Lab != "" }

// read reads the reports from the API or, if it does not answer, from the files
// of this host.
func (f *incidentsFrom) read(cmd *cobra.Command) (incident.List, error) {
	if err := f.check(); err != nil {
		return incident.List{}, err
	}
	if f.files {
		return incident.OnHost(f.dir)
	}
	ctx := cmd.Context()
	access, err := f.place.OpenAPI(ctx)
	if err != nil && f.place.Lab != "" {
		return incident.List{}, err
	}
	if err == nil {
		var l incident.List
		if l, err = f.fromAPI(ctx, access); err == nil {
			return l, nil
		}
	}
	if _, missing := os.Stat(f.dir); missing != nil || f.elsewhere() {
		return incident.List{}, fmt.Errorf("read incidents from the API: %w; on a control plane: sudo holdfast incidents --files", err)
	}
	l, onHost := incident.OnHost(f.dir)
	l.Limits = append([]string{"the API could not be read (" + firstLine(err.Error()) + "): these are only the reports of this host"}, l.Limits...)
	return l, onHost
}

// fromAPI reads the reports from the API.
func (f *incidentsFrom) fromAPI(ctx context.Context, access kube.Access) (incident.List, error) {
	limit, stop := context.WithTimeoutCause(ctx, apiAnswer, fmt.Errorf("no answer within %s", apiAnswer))
	defer stop()
	l, err := f.api(limit, access)
	if cause := context.Cause(limit); err != nil && cause != nil && ctx.Err() == nil {
		err = cause
	}
	return l, err
}

func incidentsOfCluster(ctx context.Context, access kube.Access) (incident.List, error) {
	c, err := access.Client()
	if err != nil {
		return incident.List{}, err
	}
	return incident.InCluster(ctx, c)
}

// pick returns the incident that the user names by its number, its id, or a
// prefix of its id with at least the date.
func pick(l incident.List, which string) (decide.Incident, error) {
	if n, err := strconv.Atoi(which); err == nil && n >= 1 && n <= len(l.Incidents) {
		return l.Incidents[n-1], nil
	}
	var found []decide.Incident
	for _, i := range l.Incidents {
		if i.ID == which {
			return i, nil
		}
		if strings.HasPrefix(i.ID, which) && len(which) >= len("20060102") {
			found = append(found, i)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(l.Incidents) == 0:
		return decide.Incident{}, errors.New("no incidents recorded" + whyNone(l))
	case len(found) > 1:
		return decide.Incident{}, &UsageError{Err: fmt.Errorf("incident %q: %d ids begin with it; see: holdfast incidents -o wide", which, len(found))}
	}
	return decide.Incident{}, &UsageError{Err: fmt.Errorf("incident %q: must be 1 to %d, or an id; see: holdfast incidents -o wide", which, len(l.Incidents))}
}

func whyNone(l incident.List) string {
	if len(l.Limits) == 0 {
		return ""
	}
	return ": " + l.Limits[0]
}

func printIncidents(out io.Writer, l incident.List, wide bool) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	if len(l.Incidents) == 0 {
		_, _ = fmt.Fprintln(w, "no incidents recorded")
	} else {
		head := "N\tBEGAN\tWHAT"
		if wide {
			head = "N\tBEGAN\tID\tSTATE\tJOURNALS\tWHAT"
		}
		_, _ = fmt.Fprintln(w, head)
	}
	for n, i := range l.Incidents {
		if wide {
			_, _ = fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", n+1, timestamp(i.Start), i.ID, i.State, strings.Join(i.Journals, ","), i.Title)
			continue
		}
		_, _ = fmt.Fprintf(w, "%d\t%s\t%s\n", n+1, timestamp(i.Start), i.Title)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printLimits(out, l)
}

func printIncident(out io.Writer, l incident.List, i decide.Incident) error {
	if _, err := io.WriteString(out, i.Words()); err != nil {
		return err
	}
	return printLimits(out, l)
}

func printLimits(out io.Writer, l incident.List) error {
	var text strings.Builder
	for _, limit := range l.Limits {
		fmt.Fprintf(&text, "note: %s\n", limit)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
