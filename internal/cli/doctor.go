package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/cli/place"
	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/page"
)

// doctorFlags holds the flags of doctor.
type doctorFlags struct {
	place                  place.Flags
	output, explain, facts string
	list, disk             bool
	in                     string
	after                  time.Duration // what in says
}

func newDoctor(streams Streams) *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor [CHECK...]",
		Short: "Find what would prevent the cluster from surviving the next failure",
		Long: `Looks for problems that the guards of the API cannot see: other tools that switch
hosts off or reboot them, fencing that would not work, ring and BMCs on one switch,
clocks, disks and certificates, disruption budgets that block a drain for ever, a
workload that one host could not carry. It changes nothing. A cluster with one or
three control planes gets the checks that apply to it.

Its sources:
  the API      through --kubeconfig; without an answer the other checks still run
  this host    if it belongs to the cluster; as root, or much stays unknown
  other hosts  what their agents publish every half hour; with --hosts their agents
               run the checks now, through ssh or the command of --exec; with --lab
               the hosts of a lab

--in tells which certificates of control planes will have expired after a time,
and which of them nothing renews. It makes no other check.

--disk measures etcd's disk: each host that is asked writes at most 8 MiB within
2 s, in small synchronous writes, into a temporary file without a name. Without
--disk the disk is judged by what etcd itself has measured.

Exit codes: 0 nothing found, or notes only; 3 a warning; 5 a critical finding;
6 neither, but some checks are unknown; 1 it failed; 2 wrong usage.`,
		Example: `  sudo holdfast doctor
  sudo holdfast doctor etcd-disk --disk
  holdfast doctor --hosts cp-1,cp-2 -o wide
  holdfast doctor --in 400d
  holdfast doctor --kubeconfig site-a.conf -o json
  holdfast doctor --list
  holdfast doctor --explain fence-network
  holdfast doctor --facts recorded.json     # what -o json printed, anywhere`,
		ValidArgs: checkIDs(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return err
			}
			return f.run(cmd.Context(), streams, args)
		},
	}
	formatFlag(cmd, &f.output)
	flags := cmd.Flags()
	flags.BoolVar(&f.list, "list", false, "list the checks")
	flags.StringVar(&f.explain, "explain", "", "explain why this check matters, and which commands help")
	flags.StringVar(&f.in, "in", "", "tell which certificates and kubeconfigs will have expired after this time, for example 400d or 36h")
	flags.BoolVar(&f.disk, "disk", false, "measure etcd's disk, on this host and on those of --hosts or --lab: at most 2 s and 8 MiB")
	f.place.DeclareKubeconfig(cmd)
	f.place.DeclareHosts(cmd)
	f.place.DeclareLab(cmd)
	flags.StringVar(&f.facts, "facts", "", "judge these recorded facts instead of gathering new ones")
	_ = cmd.RegisterFlagCompletionFunc("explain", cobra.FixedCompletions(checkIDs(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func checkIDs() []string {
	var out []string
	for _, c := range decide.Checks() {
		out = append(out, string(c.ID))
	}
	return out
}

// check returns all mistakes of the command line at once.
func (f *doctorFlags) check(args []string) error {
	var mistakes []error
	wrong := func(format string, a ...any) { mistakes = append(mistakes, fmt.Errorf(format, a...)) }
	named := args
	if f.explain != "" {
		named = append(slices.Clip(named), f.explain)
	}
	for _, id := range named {
		if _, ok := decide.Find(finding.ID(id)); !ok {
			wrong("check %q: no such check (see 'holdfast doctor --list')", id)
		}
	}
	instead := map[string]bool{"--list": f.list, "--explain": f.explain != "", "--facts": f.facts != ""}
	var set []string
	for _, name := range []string{"--list", "--explain", "--facts"} {
		if instead[name] {
			set = append(set, name)
		}
	}
	if len(set) > 0 && f.place.Lab != "" {
		set = append(set, "--lab")
	}
	if len(set) > 0 && len(f.place.Hosts) > 0 {
		set = append(set, "--hosts")
	}
	if len(set) > 1 {
		wrong("%s: one of them at a time", strings.Join(set, ", "))
	}
	if f.in != "" {
		var err error
		if f.after, err = parseDays(f.in); err != nil {
			wrong("--in: %w", err)
		}
		if f.list || f.explain != "" || f.disk {
			wrong("--in: cannot be combined with --list, --explain or --disk")
		}
		for _, id := range args {
			if id != "certificates" {
				wrong("--in: is about the check certificates, not about %s", id)
			}
		}
	}
	if f.facts != "" && f.disk {
		wrong("--disk: cannot be combined with --facts: recorded facts cannot be measured again")
	}
	return f.place.Check(mistakes...)
}

func (f *doctorFlags) run(ctx context.Context, streams Streams, only []string) error {
	switch {
	case f.list:
		return f.printList(streams)
	case f.explain != "":
		return f.printExplanation(streams)
	}
	facts, err := f.gather(ctx)
	if err != nil {
		return err
	}
	var ids []finding.ID
	for _, id := range only {
		ids = append(ids, finding.ID(id))
	}
	results := decide.Examine(facts, ids...)
	if f.in != "" {
		results = []decide.Result{decide.WillExpire(facts, f.after)}
	}
	if err := f.print(streams, facts, results); err != nil {
		return err
	}
	switch decide.Worst(results) {
	case finding.Critical:
		return exitWith(command.ExitPerson)
	case finding.Warning:
		return exitWith(command.ExitAttention)
	case finding.Unknown:
		return exitWith(command.ExitUnknown)
	case finding.OK, finding.Note:
	}
	return nil
}

// parseDays reads a time to come: days (400d) or hours and less (36h).
func parseDays(text string) (time.Duration, error) {
	const day, most = 24 * time.Hour, 36500
	if number, inDays := strings.CutSuffix(text, "d"); inDays {
		if n, err := strconv.Atoi(number); err == nil && n >= 0 && n <= most {
			return time.Duration(n) * day, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%q: must be a number of days up to %d (400d) or a time (36h), and not negative", text, most)
}

// doctorOutput is the output for a program. --facts reads it again.
type doctorOutput struct {
	Verdict finding.Severity `json:"verdict"`
	Checks  []decide.Result  `json:"checks"`
	Facts   *decide.Facts    `json:"facts"`
}

func (f *doctorFlags) print(streams Streams, facts decide.Facts, results []decide.Result) error {
	if f.output == "json" || f.output == "yaml" {
		return printData(streams.Out, f.output, doctorOutput{decide.Worst(results), results, &facts})
	}
	_, err := fmt.Fprint(streams.Out, decide.Text(facts, results, page.Style{Colour: command.IsTerminal(streams.Out), Wide: f.output == "wide"}))
	return err
}

// checkOutput describes a check for a program.
type checkOutput struct {
	ID       finding.ID   `json:"id"`
	Title    string       `json:"title"`
	For      decide.Scope `json:"for"`
	Meaning  string       `json:"meaning"`
	Commands []string     `json:"commands,omitempty"`
}

func checkOutputOf(c decide.Check) checkOutput {
	return checkOutput{c.ID, c.Title, c.For, c.Meaning, c.Lines}
}

func (f *doctorFlags) printList(streams Streams) error {
	if f.output == "json" || f.output == "yaml" {
		var all []checkOutput
		for _, c := range decide.Checks() {
			all = append(all, checkOutputOf(c))
		}
		return printData(streams.Out, f.output, all)
	}
	w := tabwriter.NewWriter(streams.Out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "CHECK\tFINDS OUT WHETHER\tFOR")
	for _, c := range decide.Checks() {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", c.ID, c.Title, c.For)
	}
	return w.Flush()
}

func (f *doctorFlags) printExplanation(streams Streams) error {
	c, _ := decide.Find(finding.ID(f.explain)) // it was checked
	if f.output == "json" || f.output == "yaml" {
		return printData(streams.Out, f.output, checkOutputOf(c))
	}
	_, err := fmt.Fprint(streams.Out, c.Explanation(page.Style{Wide: f.output == "wide"}))
	return err
}

// recordedFacts reads the facts in the output of -o json.
func recordedFacts(path string) (decide.Facts, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return decide.Facts{}, &UsageError{Err: err}
	}
	var in doctorOutput
	if err = json.Unmarshal(data, &in); err == nil && in.Facts == nil {
		err = errors.New("the file holds no facts")
	}
	if err != nil {
		return decide.Facts{}, &UsageError{Err: fmt.Errorf("--facts %s: %w (it must be what 'holdfast doctor -o json' printed)", path, err)}
	}
	return *in.Facts, nil
}
