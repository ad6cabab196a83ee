package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func tree() *cobra.Command {
	root := &cobra.Command{Use: "tool"}
	group := &cobra.Command{Use: "lab"}
	up := &cobra.Command{Use: "up", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
	group.AddCommand(up)
	fail := &cobra.Command{Use: "fail", RunE: func(*cobra.Command, []string) error { return errors.New("disk\x1b[2Jfull") }}
	need := &cobra.Command{Use: "need", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
	need.Flags().String("file", "", "")
	add := &cobra.Command{Use: "add FIRST SECOND", Args: cobra.ExactArgs(2), RunE: func(*cobra.Command, []string) error { return nil }}
	add.Flags().Duration("timeout", 0, "")
	add.Flags().Uint16("port", 0, "")
	add.Flags().Bool("fast", false, "")
	pick := &cobra.Command{Use: "pick [ONE]", ValidArgs: []string{"one"}, Args: cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs), RunE: add.RunE}
	if err := need.MarkFlagRequired("file"); err != nil {
		panic(err)
	}
	root.AddCommand(group, fail, need, add, pick)
	return root
}

func TestExitCodeTellsAWrongCommandLineFromFailedWork(t *testing.T) {
	tests := []struct {
		line string
		code int
		want string
	}{
		{"lab up", ExitOK, ""},
		{"lab", ExitOK, "Usage"},
		{"", ExitOK, "Usage"},
		{"fail", ExitFailed, "tool: disk [2Jfull\n"},
		{"nonsense", ExitUsage, `unknown command "nonsense"`},
		{"lab upp", ExitUsage, "did you mean up?"},
		{"lab up now", ExitUsage, "tool: takes no arguments, got \"now\"\nsee 'tool lab up --help'"},
		{"lab upp --fast yes", ExitUsage, "unknown command \"upp\", did you mean up?"},
		{"lab --fast upp", ExitUsage, "unknown flag: --fast"},
		{"add one", ExitUsage, "tool: takes the arguments FIRST SECOND, got 1\nsee 'tool add --help'"},
		{"add one two", ExitOK, ""},
		{"pick two", ExitUsage, `invalid argument "two" for "tool pick"`},
		{"pick one one", ExitUsage, "takes the arguments [ONE], got 2"},
		{"add --port 99999 one two", ExitUsage, "tool: --port \"99999\": must be a number from 0 to 65535\n"},
		{"add --fast=much one two", ExitUsage, `invalid argument "much" for "--fast" flag`},
		{"add --timeout 5 one two", ExitUsage, "tool: --timeout \"5\": must be a time with its unit, for example 30s or 5m\nsee 'tool add --help'"},
		{"lab up --fast", ExitUsage, "unknown flag: --fast"},
		{"need", ExitUsage, `required flag(s) "file" not set`},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			var out bytes.Buffer
			code := Run(context.Background(), tree(), Streams{Out: &out, Err: &out}, strings.Fields(tt.line))
			if code != tt.code || !strings.Contains(out.String(), tt.want) {
				t.Errorf("exit code %d, want %d; output %q lacks %q", code, tt.code, out.String(), tt.want)
			}
		})
	}
}

type ended int

func (e ended) Error() string { return "the command ended" }
func (e ended) ExitCode() int { return int(e) }

func TestAProgramThatWasRunForAPersonGivesItsOwnExitCode(t *testing.T) {
	if got := ExitCode(fmt.Errorf("on cp-1: %w", ended(7))); got != 7 {
		t.Errorf("got %d, want 7", got)
	}
}
