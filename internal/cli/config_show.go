package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/ignition"
)

func newConfigShow(streams Streams) *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use:   "show [POOL]",
		Short: "Show the configuration of each pool, and how far its hosts are",
		Long: `Shows for each pool the configuration that its hosts are to have, for what they wait,
and what each host has and says. With the name of a pool it also lists what the
configuration contains, without the contents of files.

Exit codes: 0 every host has the configuration of its pool; 3 a host is on its way,
waits, failed or has no pool, or a configuration was refused; 1 it failed; 2 wrong usage.`,
		Example: `  holdfast config show
  holdfast config show -o wide
  holdfast config show worker
  holdfast config show -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, s, err := f.read(cmd.Context())
			if err != nil {
				return err
			}
			report, err := s.show(args)
			if err != nil {
				return err
			}
			if err := report.print(streams.Out, f.output); err != nil {
				return err
			}
			if !report.settled() {
				return exitWith(command.ExitAttention)
			}
			return nil
		},
	}
	f.register(cmd)
	return cmd
}

// configReport is what `config show` prints.
type configReport struct {
	Pools []poolReport `json:"pools"`
	Hosts []hostConfig `json:"hosts"`
}

type poolReport struct {
	Name string `json:"name"`
	// Configuration is what the hosts are to have, and MadeFrom its MachineConfigs.
	Configuration string   `json:"configuration,omitempty"`
	MadeFrom      []string `json:"madeFrom,omitempty"`
	// Updated is true if all hosts have it and take pods.
	Updated bool   `json:"updated"`
	Paused  bool   `json:"paused,omitempty"`
	State   string `json:"state"`
	// Why says for what hosts wait, or what is wrong.
	Why     string          `json:"why,omitempty"`
	Hosts   int32           `json:"hosts"`
	Have    int32           `json:"have"`
	Away    int32           `json:"away"`
	Failed  int32           `json:"failed"`
	Content *configContents `json:"content,omitempty"`
}

type hostConfig struct {
	Name    string        `json:"name"`
	Pool    string        `json:"pool,omitempty"`
	State   rollout.State `json:"state,omitempty"`
	Current string        `json:"current,omitempty"`
	Desired string        `json:"desired,omitempty"`
	Given   time.Time     `json:"given,omitzero"`
	Reason  string        `json:"reason,omitempty"`
	// Astray is true if no pool configures it, or not every pool that selects it: Reason says which.
	Astray bool `json:"astray,omitempty"`
}

// configContents lists what a configuration contains, without contents of files:
// those may be secrets.
type configContents struct {
	Files           []string `json:"files,omitempty"`
	Units           []string `json:"units,omitempty"`
	Keys            int      `json:"keys,omitempty"`
	KernelArguments []string `json:"kernelArguments,omitempty"`
}

func (s *machineConfigs) show(args []string) (configReport, error) {
	pools, err := s.named(args)
	if err != nil {
		return configReport{}, err
	}
	out := configReport{Pools: []poolReport{}, Hosts: []hostConfig{}}
	of := map[string]string{}
	for _, p := range pools {
		r := poolOf(p)
		if len(args) > 0 {
			if r.Content, err = s.contents(p.Spec.Configuration.Name); err != nil {
				return out, err
			}
		}
		out.Pools = append(out.Pools, r)
		for _, h := range s.members[p.Name] {
			of[h.Name] = p.Name
		}
	}
	for _, h := range s.hosts {
		if of[h.Name] == "" && len(args) > 0 {
			continue
		}
		r := hostConfig{h.Name, of[h.Name], h.State, h.Current, h.Desired, h.Given, h.Reason, false}
		for _, a := range s.astray {
			if a.Host == h.Name {
				r.Reason, r.Astray = strings.TrimPrefix(r.Reason+"; "+a.Why, "; "), true
			}
		}
		out.Hosts = append(out.Hosts, r)
	}
	return out, nil
}

// poolOf returns a pool as the operator reports it.
func poolOf(p mcfgv1.MachineConfigPool) poolReport {
	is := func(kind mcfgv1.MachineConfigPoolConditionType) (bool, string) {
		for _, c := range p.Status.Conditions {
			if c.Type == kind {
				return c.Status == corev1.ConditionTrue, c.Message
			}
		}
		return false, ""
	}
	st := p.Status
	r := poolReport{
		Name: p.Name, Configuration: p.Spec.Configuration.Name, Paused: p.Spec.Paused,
		Hosts: st.MachineCount, Have: st.UpdatedMachineCount, Away: st.UnavailableMachineCount, Failed: st.DegradedMachineCount,
	}
	for _, source := range p.Spec.Configuration.Source {
		r.MadeFrom = append(r.MadeFrom, source.Name)
	}
	updated, _ := is(mcfgv1.MachineConfigPoolUpdated)
	_, progress := is(mcfgv1.MachineConfigPoolUpdating)
	refused, mistakes := is(mcfgv1.MachineConfigPoolRenderDegraded)
	failed, failures := is(mcfgv1.MachineConfigPoolNodeDegraded)
	switch {
	case len(st.Conditions) == 0:
		r.State, r.Why = "unknown", "holdfast-operator has not reported on it yet"
	case refused:
		r.State, r.Why = "refused", mistakes
	case failed:
		r.State, r.Why = "failed", failures+"; "+progress
	case updated:
		r.State, r.Updated = "updated", true
	case p.Spec.Paused:
		r.State, r.Why = "paused", progress
	default:
		r.State, r.Why = "updating", progress
	}
	return r
}

func (s *machineConfigs) contents(name string) (*configContents, error) {
	mc := s.config(name)
	if mc == nil {
		return nil, nil //nolint:nilnil // nothing was made for the pool yet
	}
	c, err := machineconfig.Kept(*mc)
	if err != nil {
		return nil, err
	}
	out := &configContents{KernelArguments: c.KernelArguments}
	for _, file := range c.Ignition.Storage.Files {
		data, err := ignition.Contents(file.Contents)
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", file.Path, name, err)
		}
		out.Files = append(out.Files, fmt.Sprintf("%s (mode %04o, %d bytes)", file.Path, *file.Mode, len(data)))
	}
	for _, u := range c.Ignition.Systemd.Units {
		out.Units = append(out.Units, u.Name)
	}
	for _, u := range c.Ignition.Passwd.Users {
		out.Keys += len(u.SSHAuthorizedKeys)
	}
	return out, nil
}

// settled reports whether every host has a pool, and its configuration.
func (r configReport) settled() bool {
	for _, p := range r.Pools {
		if !p.Updated {
			return false
		}
	}
	return !slices.ContainsFunc(r.Hosts, func(h hostConfig) bool { return h.Astray })
}

func (r configReport) print(out io.Writer, format string) error {
	if format == "json" || format == "yaml" {
		return printData(out, format, r)
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "POOL\tSTATE\tHOSTS\tHAVE IT\tAWAY\tFAILED\tCONFIGURATION")
	for _, p := range r.Pools {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n", p.Name, p.State, p.Hosts, p.Have, p.Away, p.Failed, orDash(p.Configuration))
	}
	_, _ = fmt.Fprintln(w)
	r.printHosts(w, format == "wide")
	if err := w.Flush(); err != nil {
		return err
	}
	var text strings.Builder
	for _, p := range r.Pools {
		p.more(&text, format == "wide")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func (r configReport) printHosts(w io.Writer, wide bool) {
	head := "HOST\tPOOL\tSAYS\tHAS\tREASON"
	if wide {
		head = "HOST\tPOOL\tSAYS\tHAS\tIS TO HAVE\tSINCE\tREASON"
	}
	_, _ = fmt.Fprintln(w, head)
	for _, h := range r.Hosts {
		row := []string{h.Name, orDash(h.Pool), orDash(string(h.State)), orDash(h.Current)}
		if wide {
			since := "-"
			if !h.Given.IsZero() {
				since = timestamp(h.Given)
			}
			row = append(row, orDash(h.Desired), since)
		}
		_, _ = fmt.Fprintln(w, strings.Join(append(row, orDash(h.Reason)), "\t"))
	}
}

// more prints what does not fit into a table.
func (p poolReport) more(out *strings.Builder, wide bool) {
	if p.Why != "" {
		fmt.Fprintf(out, "\npool %s is %s:\n  %s\n", p.Name, p.State, strings.ReplaceAll(p.Why, "\n", "\n  "))
	}
	if wide || p.Content != nil {
		fmt.Fprintf(out, "\npool %s is made from: %s\n", p.Name, cmp.Or(strings.Join(p.MadeFrom, ", "), "no MachineConfig"))
	}
	if c := p.Content; c != nil {
		for _, part := range []struct {
			what string
			list []string
		}{{"files", c.Files}, {"units", c.Units}, {"kernel arguments", c.KernelArguments}} {
			for i, line := range part.list {
				if i == 0 {
					fmt.Fprintf(out, "  %s:\n", part.what)
				}
				fmt.Fprintf(out, "    %s\n", line)
			}
		}
		if c.Keys > 0 {
			fmt.Fprintf(out, "  keys of %s: %d\n", machineconfig.User, c.Keys)
		}
	}
}
