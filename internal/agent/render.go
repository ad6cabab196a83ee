package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/agent/hostnet"
	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/cli/command"
)

// renderFlags are the flags of `holdfast-agent render`.
type renderFlags struct {
	view   string
	root   string
	output string
}

func newRender(streams command.Streams) *cobra.Command {
	flags := renderFlags{view: network.StatusPath, root: "/"}
	cmd := &cobra.Command{
		Use:   "render [keepalived|haproxy|coredns|resolver]",
		Short: "Show what the agent would write for this host's network",
		Long: `Show what the agent would write for this host's network, and why: the
configurations and static pods of keepalived, haproxy and CoreDNS, and the
resolver's configuration. Nothing is changed.

It follows from one view of the network: what this host's agent sees now, or a
view from a file, such as /run/holdfast/network.json of another host.`,
		Example: `  holdfast-agent render

  # of another host, at another time
  holdfast-agent render keepalived --view cp-2-network.json

  # only the paths of the files
  holdfast-agent render -o json | jq '.[].files[].path'`,
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: hostnet.Parts(),
		RunE: func(_ *cobra.Command, args []string) error {
			return runRender(streams, flags, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.view, "view", flags.view, "file with the view, or - for the standard input")
	f.StringVar(&flags.root, "root", flags.root, "root directory of the host, for the certificate and the resolver's configuration")
	f.StringVarP(&flags.output, "output", "o", "text", "text or json")
	return cmd
}

func runRender(streams command.Streams, flags renderFlags, args []string) error {
	parts, err := chosen(args, hostnet.Parts(), flags.output)
	if err != nil {
		return err
	}
	data, err := readAll(streams.In, flags.view)
	if err != nil {
		return &command.UsageError{Err: fmt.Errorf("view: %w", err)}
	}
	view, err := hostnet.ReadView(data)
	if err != nil {
		return &command.UsageError{Err: fmt.Errorf("view %s: %w", flags.view, err)}
	}
	var all []hostnet.Rendered
	for _, part := range parts {
		r, err := hostnet.Render(part, view, flags.root)
		if err != nil {
			return fmt.Errorf("render %s: %w", part, err)
		}
		all = append(all, r)
	}
	if flags.output == "json" {
		return writeJSON(streams.Out, shown(all))
	}
	return showRendered(streams.Out, all)
}

// chosen returns the part that args names, or all of them where it names none.
func chosen(args, all []string, output string) ([]string, error) {
	if output != "text" && output != "json" {
		return nil, &command.UsageError{Err: fmt.Errorf("--output %s: use text or json", output)}
	}
	if len(args) == 0 {
		return all, nil
	}
	if !slices.Contains(all, args[0]) {
		return nil, &command.UsageError{Err: fmt.Errorf("%s: choose one of %v, or none for all", args[0], all)}
	}
	return args, nil
}

func readAll(stdin io.Reader, path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(path)
}

func showRendered(out io.Writer, all []hostnet.Rendered) error {
	for _, r := range all {
		if _, err := fmt.Fprintf(out, "### %s: %s\n", r.Part, r.Why); err != nil {
			return err
		}
		for _, f := range r.Files {
			if _, err := fmt.Fprintf(out, "## %s %04o\n%s\n", f.Path, f.Perm(), f.Data); err != nil {
				return err
			}
		}
	}
	return nil
}

// shownPart is a hostnet.Rendered whose files are text in JSON.
type shownPart struct {
	Part  string      `json:"part"`
	Why   string      `json:"why"`
	Files []shownFile `json:"files"`
}

type shownFile struct {
	Path string `json:"path"`
	Mode string `json:"mode"`
	Text string `json:"text"`
}

func shown(all []hostnet.Rendered) []shownPart {
	out := []shownPart{}
	for _, r := range all {
		p := shownPart{Part: r.Part, Why: r.Why, Files: []shownFile{}}
		for _, f := range r.Files {
			p.Files = append(p.Files, shownFile{Path: f.Path, Mode: fmt.Sprintf("%04o", f.Perm()), Text: string(f.Data)})
		}
		out = append(out, p)
	}
	return out
}

func writeJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// writeData writes JSON or YAML.
func writeData(out io.Writer, format string, v any) error {
	if format == "json" {
		return writeJSON(out, v)
	}
	text, err := yaml.Marshal(v)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}
