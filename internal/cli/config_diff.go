package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/hostchange"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
)

func newConfigDiff(streams Streams) *cobra.Command {
	var f configFlags
	var in configInput
	var without []string
	cmd := &cobra.Command{
		Use:   "diff [POOL]",
		Short: "Show what changes on hosts, and whether a unit restarts or the host boots",
		Long: `Shows what is different between the configuration that hosts have and the one that
they are to have, and what each change needs: nothing, a reload or restart of a unit,
or a drain and a reboot. It shows no contents of files.

With --dry-run it shows what would change on hosts if the objects in a file or a
folder were applied, and with --without if a MachineConfig were deleted. With
--install-config it also lists what the cluster has otherwise than that file. Nothing
is changed, and what holdfast-operator would refuse is refused here, each mistake with
its field.

docs/host-changes.md lists what each sort of change needs, and why.

Exit codes: 0 no host differs, or the dry run is done; 3 a host does not have the
configuration of its pool yet; 7 the dry run found what would be refused; 1 it failed;
2 wrong usage.`,
		Example: `  holdfast config diff
  holdfast config diff worker -o wide
  holdfast config diff --dry-run motd.yaml --dry-run sysctl.yaml
  holdfast config diff --install-config install-config.yaml
  holdfast config diff --without 50-motd -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			given, err := in.read(streams.In)
			if err != nil {
				return &UsageError{Err: err}
			}
			c, s, err := f.read(cmd.Context())
			if err != nil {
				return err
			}
			report := diffReport{DryRun: in.given() || len(without) > 0}
			if report.DryRun {
				report.InstallConfig, report.Notes, err = given.compareInstall(cmd.Context(), c, s.objects)
				if err == nil {
					report.Steps, err = s.dryRun(args, s.wanted(given), without)
				}
			} else {
				report.Steps, err = s.behind(args)
			}
			if err != nil {
				return err
			}
			if err := report.print(streams.Out, f.output); err != nil {
				return err
			}
			if !report.DryRun && len(report.Steps) > 0 {
				return exitWith(command.ExitAttention)
			}
			return nil
		},
	}
	f.register(cmd)
	cmd.Flags().StringSliceVar(&in.files, "dry-run", nil, "files or folders with MachineConfigs, settings of kubelet and sets of mirrors, as if they were applied; - for standard input")
	cmd.Flags().StringVar(&in.installConfig, "install-config", "", "an install-config, as if what it says about hosts were applied")
	cmd.Flags().StringSliceVar(&without, "without", nil, "names of MachineConfigs, as if they were deleted")
	_ = cmd.MarkFlagFilename("dry-run", "yaml", "yml", "json")
	_ = cmd.MarkFlagFilename("install-config", "yaml", "yml", "json")
	return cmd
}

// configStep is the step of some hosts of a pool from one configuration to
// another.
type configStep struct {
	Pool  string   `json:"pool"`
	Hosts []string `json:"hosts"`
	// From is empty for hosts that have never had a configuration.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	// Unknown says why the changes are not known.
	Unknown string `json:"unknown,omitempty"`
	hostchange.Plan
	// Overrides lists what a later MachineConfig replaces.
	Overrides []string `json:"overrides,omitempty"`
}

// behind returns the steps of hosts that do not have the configuration of their
// pool.
func (s *machineConfigs) behind(args []string) ([]configStep, error) {
	pools, err := s.named(args)
	if err != nil {
		return nil, err
	}
	out := []configStep{}
	for _, p := range pools {
		to := p.Spec.Configuration.Name
		if to == "" {
			continue
		}
		hosts := map[string][]string{}
		for _, h := range s.members[p.Name] {
			if h.Current != to {
				hosts[h.Current] = append(hosts[h.Current], h.Name)
			}
		}
		for from, names := range hosts {
			out = append(out, s.step(configStep{Pool: p.Name, Hosts: names, From: from, To: to}))
		}
	}
	slices.SortStableFunc(out, func(a, b configStep) int {
		turn := func(c configStep) int {
			return slices.IndexFunc(pools, func(p mcfgv1.MachineConfigPool) bool { return p.Name == c.Pool })
		}
		return cmp.Or(cmp.Compare(turn(a), turn(b)), cmp.Compare(a.Hosts[0], b.Hosts[0]))
	})
	return out, nil
}

// step fills in the changes between two rendered objects.
func (s *machineConfigs) step(c configStep) configStep {
	from, why := s.rendered(c.From)
	to, also := s.rendered(c.To)
	if c.Unknown = cmp.Or(why, also); c.Unknown == "" {
		c.compare(from, to)
	}
	return c
}

// compare fills in the changes as the agent of a host sees them.
func (c *configStep) compare(from, to machineconfig.Config) {
	table, err := hostchange.TableOf(to)
	if err != nil {
		c.Unknown = err.Error()
		return
	}
	c.Plan = hostchange.Compare(from, to, table)
}

// rendered returns the contents of a rendered object, or why they are not known.
// A host that has never had one has an empty one.
func (s *machineConfigs) rendered(name string) (c machineconfig.Config, unknown string) {
	if name == "" {
		return c, ""
	}
	mc := s.config(name)
	if mc == nil {
		return c, name + " is not in the API"
	}
	c, err := machineconfig.Read(*mc)
	if err != nil {
		return machineconfig.Config{}, err.Error()
	}
	return c, ""
}

// dryRun returns the steps that hosts would take if objects were applied and
// MachineConfigs were deleted.
func (s *machineConfigs) dryRun(args []string, wanted machineconfig.Wanted, without []string) ([]configStep, error) {
	pools, err := s.named(args)
	if err != nil {
		return nil, err
	}
	for _, name := range without {
		if s.config(name) == nil {
			return nil, &UsageError{Err: fmt.Errorf("--without %s: there is no MachineConfig of this name", name)}
		}
	}
	then := s.objects
	gone := func(mc mcfgv1.MachineConfig) bool { return slices.Contains(without, mc.Name) }
	then.MachineConfigs = slices.DeleteFunc(slices.Clone(then.MachineConfigs), gone)
	if err := then.Check(wanted); err != nil {
		return nil, coded(command.ExitRefused, "refused, no host would be given it:\n%w", err)
	}
	then = then.With(wanted)
	out, mistakes := []configStep{}, []error{}
	for i := range pools {
		after, err := machineconfig.Of(&pools[i], then)
		if err != nil && s.refused(&pools[i]) {
			continue // other objects were wrong before: the pool has no new configuration
		}
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("pool %s: %w", pools[i].Name, err))
			continue
		}
		out = append(out, s.steps(&pools[i], after)...)
	}
	if len(mistakes) > 0 {
		return nil, coded(command.ExitRefused, "refused, no host would be given it:\n%w", errors.Join(mistakes...))
	}
	return out, nil
}

// refused reports whether the objects of a pool make no configuration now.
func (s *machineConfigs) refused(p *mcfgv1.MachineConfigPool) bool {
	_, err := machineconfig.Of(p, s.objects)
	return err != nil
}

// steps returns what the hosts of a pool need for a configuration, grouped by what
// they have. A pool without hosts has one step from its own configuration.
func (s *machineConfigs) steps(p *mcfgv1.MachineConfigPool, to machineconfig.Rendered) []configStep {
	now := p.Spec.Configuration.Name
	if now == to.Name {
		return nil
	}
	hosts := map[string][]string{}
	for _, h := range s.members[p.Name] {
		if from := cmp.Or(h.Current, now); from != to.Name {
			hosts[from] = append(hosts[from], h.Name)
		}
	}
	if len(s.members[p.Name]) == 0 {
		hosts[now] = []string{}
	}
	var out []configStep
	for from, names := range hosts {
		c := configStep{Pool: p.Name, Hosts: names, From: from, To: to.Name}
		before, why := s.rendered(from)
		if c.compare(before, to.Config); why != "" {
			c.Unknown = why
		}
		for _, o := range to.Overrides {
			c.Overrides = append(c.Overrides, o.String())
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b configStep) int {
		return strings.Compare(strings.Join(a.Hosts, " "), strings.Join(b.Hosts, " "))
	})
	return out
}

// diffReport is what `config diff` prints.
type diffReport struct {
	DryRun bool `json:"dryRun"`
	diffParts
}

func (r diffReport) print(out io.Writer, format string) error {
	if format == "json" || format == "yaml" {
		return printData(out, format, r)
	}
	printInstall(out, r.InstallConfig)
	if err := printSteps(out, format, r.DryRun, r.Steps); err != nil {
		return err
	}
	return printNotes(out, r.Notes)
}

func printSteps(out io.Writer, format string, dry bool, steps []configStep) error {
	if len(steps) == 0 {
		text := "every host has the configuration of its pool"
		if dry {
			text = "nothing would change on any host"
		}
		_, err := fmt.Fprintln(out, text)
		return err
	}
	for i, c := range steps {
		if i > 0 {
			_, _ = fmt.Fprintln(out)
		}
		if err := c.print(out, format == "wide"); err != nil {
			return err
		}
	}
	return nil
}

func (c configStep) print(out io.Writer, wide bool) error {
	_, _ = fmt.Fprintf(out, "pool %s: %s\nfrom %s to %s\n", c.Pool, cmp.Or(strings.Join(c.Hosts, ", "), "no host"), cmp.Or(c.From, "nothing"), c.To)
	if c.Unknown != "" {
		_, err := fmt.Fprintf(out, "the changes are not known: %s\n", c.Unknown)
		return err
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, change := range c.Changes {
		what := strings.TrimSpace(string(change.Kind) + " " + change.Name)
		if len(change.Parts) > 0 {
			what += " (" + strings.Join(change.Parts, ", ") + ")"
		}
		row := fmt.Sprintf("  %s\t%s\t%s", change.Verb, what, needs(change.Needs))
		if wide {
			row += "\t" + change.Rule
		}
		_, _ = fmt.Fprintln(w, row)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, o := range c.Overrides {
		_, _ = fmt.Fprintf(out, "  note: %s\n", o)
	}
	_, err := fmt.Fprintf(out, "each host: %s\n", needs(append(slices.Clone(c.Before), c.After...)))
	return err
}

// needs returns what a change needs, in words.
func needs(list []hostchange.Action) string {
	if len(list) == 0 {
		return "nothing"
	}
	if slices.Contains(list, hostchange.Action{Do: hostchange.Reboot}) {
		return "drain and reboot"
	}
	var out []string
	for _, a := range list {
		out = append(out, a.String())
	}
	return strings.Join(out, ", then ")
}
