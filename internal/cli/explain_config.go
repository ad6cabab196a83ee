package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/standing"
)

func newExplainConfig(streams Streams) *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use:   "config [POOL]",
		Short: "Explain why hosts do not have their configuration yet, and what to type",
		Long: `Says for each pool of hosts for what it waits, what each host that is not done does, who
is in its way, and which command helps. It asks the API and changes nothing;
holdfast config show lists every host.

Exit codes: 0 every host has the configuration of its pool and does nothing else; 3 one
does not, has no pool, or is at work; 1 the command failed; 2 wrong usage.`,
		Example: `  holdfast explain config
  holdfast explain config worker -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, s, err := f.read(cmd.Context())
			if err != nil {
				return err
			}
			e, err := s.explain(time.Now(), args)
			if err != nil {
				return err
			}
			if err := e.print(streams.Out, f.output); err != nil {
				return err
			}
			if len(e.Pools)+len(e.Findings) > 0 {
				return exitWith(command.ExitAttention)
			}
			return nil
		},
	}
	f.register(cmd)
	return cmd
}

// configExplanation says what is not done yet, and why.
type configExplanation struct {
	Pools    []explainedPool   `json:"pools"`
	Findings []finding.Finding `json:"findings"`
}

// explainedPool is a pool that is not done, or a host of it is not.
type explainedPool struct {
	Name          string `json:"name"`
	Configuration string `json:"configuration,omitempty"`
	State         string `json:"state"`
	// Why is for what the pool waits, or what is wrong with it.
	Why   string          `json:"why,omitempty"`
	Hosts []explainedHost `json:"hosts"`
}

type explainedHost struct {
	Name string `json:"name"`
	Has  string `json:"has,omitempty"`
	// Does is empty for a host that waits for its turn alone.
	Does  string `json:"does,omitempty"`
	Waits string `json:"waits,omitempty"`
}

// explain returns what is not done of the pools of an argument.
func (s *machineConfigs) explain(now time.Time, args []string) (configExplanation, error) {
	out := configExplanation{Pools: []explainedPool{}, Findings: []finding.Finding{}}
	pools, err := s.named(args)
	if err != nil {
		return out, err
	}
	var hosts []rollout.Host
	var states []rollout.PoolState
	for i := range pools {
		p := &pools[i]
		hosts = append(hosts, s.members[p.Name]...)
		states = append(states, rollout.PoolStateOf(p))
		r := poolOf(*p)
		e := explainedPool{Name: p.Name, Configuration: r.Configuration, State: r.State, Why: r.Why, Hosts: []explainedHost{}}
		for _, h := range s.members[p.Name] {
			does := s.doing(h.Name)
			if does != (rollout.Activity{}) || h.Current != r.Configuration {
				e.Hosts = append(e.Hosts, explainedHost{h.Name, h.Current, does.Does, does.Waits})
			}
		}
		if len(e.Hosts) > 0 || !r.Updated {
			out.Pools = append(out.Pools, e)
		}
	}
	if len(args) == 0 { // those that no pool has
		for _, h := range s.hosts {
			if !slices.ContainsFunc(hosts, func(o rollout.Host) bool { return o.Name == h.Name }) {
				hosts = append(hosts, h)
			}
		}
	}
	out.Findings = append(out.Findings, standing.Configurations(now, hosts, states)...)
	return out, nil
}

func (s *machineConfigs) doing(host string) rollout.Activity {
	for i := range s.nodes {
		if s.nodes[i].Name == host {
			return rollout.Doing(&s.nodes[i])
		}
	}
	return rollout.Activity{}
}

func (e configExplanation) print(out io.Writer, format string) error {
	if format == "json" || format == "yaml" {
		return printData(out, format, e)
	}
	var text strings.Builder
	if len(e.Pools)+len(e.Findings) == 0 {
		text.WriteString("every host has the configuration of its pool\n")
	}
	for _, p := range e.Pools {
		fmt.Fprintf(&text, "pool %s is %s, to %s\n", p.Name, p.State, cmp.Or(p.Configuration, "nothing yet"))
		if p.Why != "" {
			fmt.Fprintf(&text, "  %s\n", strings.ReplaceAll(p.Why, "\n", "\n  "))
		}
		for _, h := range p.Hosts {
			fmt.Fprintf(&text, "  %s has %s: %s\n", h.Name, cmp.Or(h.Has, "no configuration"), cmp.Or(h.Does, "waits for its turn"))
			if h.Waits != "" {
				fmt.Fprintf(&text, "    waits: %s\n", h.Waits)
			}
		}
		text.WriteString("\n")
	}
	writeFindings(&text, e.Findings)
	_, err := io.WriteString(out, text.String())
	return err
}

// writeFindings writes findings for people, each with what to type and to read.
func writeFindings(text *strings.Builder, list []finding.Finding) {
	for _, f := range list {
		fmt.Fprintf(text, "%s: %s\n  %s\n", f.Severity, f.Problem, f.Meaning)
		for _, c := range f.Commands {
			on := ""
			if c.Host != "" {
				on = " on " + c.Host
			}
			fmt.Fprintf(text, "  type%s: %s\n", on, c.Line)
		}
		if f.Page != "" {
			fmt.Fprintf(text, "  read: %s\n", f.Page)
		}
	}
}
