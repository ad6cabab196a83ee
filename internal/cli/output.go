package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/cli/command"
)

// formatFlag adds -o with formats for people and for programs.
func formatFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "text", "text, wide, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "wide", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		switch *output {
		case "text", "wide", "json", "yaml":
			return nil
		}
		return &UsageError{Err: fmt.Errorf("output %q: must be text, wide, json or yaml", *output)}
	}
}

// printData prints a value for a program, as JSON or YAML.
func printData(out io.Writer, format string, v any) error {
	if format == "json" {
		return command.PrintJSON(out, v)
	}
	b, err := yaml.Marshal(v)
	if err != nil {
		return err
	}
	_, err = out.Write(b)
	return err
}

// exitWith returns an exit code without a message, for a command that has printed
// everything already.
func exitWith(code int) error { return &command.Coded{Code: code} }

func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

func firstLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return first
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// short formats a time for people.
func short(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	if d < time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
