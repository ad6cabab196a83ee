package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/install/apply"
	"github.com/holdfast/holdfast/internal/install/plan"
)

// defaultIgnition is the path of a host's configuration after imaging.
const defaultIgnition = "/etc/holdfast/ignition.json"

// applyFlags are the flags of `holdfast-agent apply`.
type applyFlags struct {
	ignition     string
	root         string
	output       string
	dryRun       bool
	firstBoot    bool
	start        bool
	skipPackages bool
	wait         time.Duration
}

func newApply(streams command.Streams) *cobra.Command {
	var flags applyFlags
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Apply an Ignition configuration to this host",
		Long: `Apply an Ignition configuration to this package-based host: packages, users and
their keys, directories, files, links and systemd units. Sources that the
configuration names are fetched first. Disks and the boot loader are refused.

A second run has nothing to do. A run that was interrupted, for example by a
power failure, is completed by the next one.`,
		Example: `  # show what would change
  holdfast-agent apply --ignition worker.ign --dry-run

  # what the first boot does
  holdfast-agent apply --ignition /etc/holdfast/ignition.json --first-boot

  # apply a configuration to a running host and start its units
  holdfast-agent apply --ignition https://config.example.com/host.ign --start`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runApply(cmd.Context(), streams, flags)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.ignition, "ignition", defaultIgnition, "file or URL of the configuration, - for standard input")
	f.StringVar(&flags.root, "root", "/", "root directory of the host; in another one than / nothing is started")
	f.StringVarP(&flags.output, "output", "o", "text", "text or json")
	f.BoolVar(&flags.dryRun, "dry-run", false, "show what would change and change nothing")
	f.BoolVar(&flags.firstBoot, "first-boot", false, "apply once: do nothing if an earlier run finished this configuration; starts units without waiting for them")
	f.BoolVar(&flags.start, "start", false, "start enabled units and stop masked ones")
	f.BoolVar(&flags.skipPackages, "skip-packages", false, "do not install missing packages")
	f.DurationVar(&flags.wait, "wait", apply.DefaultWait, "how long to wait for the servers that the configuration names")
	return cmd
}

func runApply(ctx context.Context, streams command.Streams, flags applyFlags) error {
	if flags.output != "text" && flags.output != "json" {
		return &command.UsageError{Err: fmt.Errorf("--output %s: use text or json", flags.output)}
	}
	if flags.root == "/" && os.Geteuid() != 0 {
		return &command.UsageError{Err: errors.New("apply changes this host: run it as root")}
	}
	raw, err := readIgnition(streams.In, flags.ignition)
	if err != nil {
		return &command.UsageError{Err: err}
	}
	req := apply.Request{
		Config: raw, FirstBoot: flags.firstBoot, Start: flags.start, DryRun: flags.dryRun, SkipPackages: flags.skipPackages,
		Fetch: &apply.Fetcher{
			Wait: flags.wait, Now: time.Now, Sleep: host.Sleep,
			Say: func(line string) { _, _ = fmt.Fprintln(streams.Err, line) },
		},
	}
	if flags.output == "text" && !flags.dryRun {
		req.OnStep = func(s plan.Step) { _, _ = fmt.Fprintf(streams.Out, "%s (%s)\n", s.ID, s.Why) }
	}
	res, err := apply.NewHost(flags.root).Apply(ctx, req)
	if _, bad := errors.AsType[*apply.InputError](err); bad {
		return &command.UsageError{Err: err}
	}
	if err != nil {
		return err
	}
	return showResult(streams.Out, res, flags)
}

// readIgnition returns a configuration's bytes. For a URL it returns a
// configuration that the one at the URL replaces, so that one way fetches both.
func readIgnition(stdin io.Reader, source string) ([]byte, error) {
	switch {
	case source == "-":
		return io.ReadAll(stdin)
	case strings.HasPrefix(source, "https://") || strings.HasPrefix(source, "http://"):
		return json.Marshal(map[string]any{"ignition": map[string]any{
			"version": "3.0.0", "config": map[string]any{"replace": map[string]any{"source": source}},
		}})
	default:
		return os.ReadFile(source)
	}
}

func showResult(out io.Writer, res apply.Result, flags applyFlags) error {
	if flags.output == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(res)
	}
	var words strings.Builder
	if flags.dryRun {
		for _, s := range res.Steps {
			words.WriteString(showStep(s))
		}
	}
	for _, n := range res.Notes {
		fmt.Fprintf(&words, "note: %s\n", n)
	}
	words.WriteString(summary(res))
	_, err := io.WriteString(out, words.String())
	return err
}

func showStep(s plan.Step) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s (%s)\n", s.ID, s.Why)
	for line := range strings.Lines(s.Diff) {
		fmt.Fprintf(&out, "    %s\n", strings.TrimSuffix(line, "\n"))
	}
	return out.String()
}

func summary(res apply.Result) string {
	switch {
	case res.Before:
		return "nothing to do: an earlier run finished this first boot\n"
	case len(res.Steps) == 0:
		return "nothing to do\n"
	case res.Applied:
		return fmt.Sprintf("done, %d steps\n", len(res.Steps))
	default:
		return fmt.Sprintf("%d steps to take, nothing was changed\n", len(res.Steps))
	}
}
