package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/hostreport"
	"github.com/holdfast/holdfast/internal/report/doctor"
	"github.com/holdfast/holdfast/internal/report/observer"
)

// reportFlags holds the flags of report.
type reportFlags struct {
	output string
	only   []string
}

func newReport(streams command.Streams) *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Print what this host reports about itself",
		Long: `Print what this host reports about itself: what its agent and its etcd keeper say,
its record, proofs, fences and incidents, Pacemaker's answer, its boot and its
SMBIOS identity, and what 'holdfast doctor' checks of it. Each fact has its source
and its time, or the reason why it is unknown. 'holdfast status', 'holdfast explain',
'holdfast doctor' and 'holdfast fencing verify' see a host through it. It changes
nothing and prints no secret. Run it as root: much is readable by root only.

Parts: ` + strings.Join(partNames(), ", ") + `. The part
disk belongs to the checks, and only who names it gets it: it measures etcd's disk,
and for that writes at most 8 MiB within 2 s, in small pieces, each made durable,
into a file without a name beside etcd's data.`,
		Example: `  sudo holdfast-agent report
  sudo holdfast-agent report -o json --only etcd,devices
  sudo holdfast-agent report --only checks,disk`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			parts, err := f.check()
			if err != nil {
				return err
			}
			h := observer.This()
			h.Checks = doctor.ObserveThisHost
			r, err := h.Report(cmd.Context(), parts...)
			if err != nil {
				return err
			}
			return writeData(streams.Out, f.output, r)
		},
	}
	cmd.Flags().StringVarP(&f.output, "output", "o", "yaml", "yaml or json")
	cmd.Flags().StringSliceVar(&f.only, "only", nil, "only these parts, comma-separated")
	return cmd
}

func partNames() []string {
	var out []string
	for _, p := range append(hostreport.Parts(), hostreport.Disk) {
		out = append(out, string(p))
	}
	return out
}

// check returns the parts to gather, or all mistakes of the command line.
func (f *reportFlags) check() ([]hostreport.Part, error) {
	var mistakes []error
	if f.output != "yaml" && f.output != "json" {
		mistakes = append(mistakes, fmt.Errorf("output %q: must be yaml or json", f.output))
	}
	var parts []hostreport.Part
	for _, name := range f.only {
		if parts = append(parts, hostreport.Part(name)); !slices.Contains(partNames(), name) {
			mistakes = append(mistakes, fmt.Errorf("--only %q: must be one of %s", name, strings.Join(partNames(), ", ")))
		}
	}
	if err := errors.Join(mistakes...); err != nil {
		return nil, &command.UsageError{Err: err}
	}
	if len(parts) == 0 {
		parts = hostreport.Parts()
	}
	return parts, nil
}
