package agent

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/hostnet"
	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/cli/command"
)

// monitorFlags are the flags of `holdfast-agent monitor`.
type monitorFlags struct {
	status string
	root   string
	output string
	follow bool
}

// errOutOfStep makes the command exit with 1 where something has to be done.
var errOutOfStep = errors.New("not in step")

func newMonitor(streams command.Streams) *cobra.Command {
	flags := monitorFlags{status: network.StatusPath, root: "/"}
	cmd := &cobra.Command{
		Use:   "monitor [keepalived|haproxy|coredns]",
		Short: "Compare keepalived, haproxy and CoreDNS with the agent's decisions",
		Long: `Compare keepalived, haproxy and CoreDNS on this host with what the agent decided:
their files, the agent's errors, the virtual IPs that this host holds, the API
servers that take requests, whether the name server answers.

It changes nothing: the agent itself keeps them in step. It exits with 1 if one
is not in step.`,
		Example: `  holdfast-agent monitor

  # each change, until it is stopped
  holdfast-agent monitor haproxy --follow`,
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: hostnet.Monitored(),
		RunE: func(cmd *cobra.Command, args []string) error {
			parts, err := chosen(args, hostnet.Monitored(), flags.output)
			if err != nil {
				return err
			}
			return runMonitor(cmd, streams, flags, parts)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.status, "status", flags.status, "status file of the agent")
	f.StringVar(&flags.root, "root", flags.root, "root directory of the host")
	f.StringVarP(&flags.output, "output", "o", "text", "text or json")
	f.BoolVar(&flags.follow, "follow", false, "keep running and show each change")
	return cmd
}

// pollInterval is the pause between two reads of the status, a file in memory.
const pollInterval = 500 * time.Millisecond

func runMonitor(cmd *cobra.Command, streams command.Streams, flags monitorFlags, parts []string) error {
	shown := ""
	for {
		text, inStep, err := monitorOnce(flags, parts)
		if err != nil && !flags.follow {
			return err
		}
		if err != nil {
			text = err.Error() + "\n"
		}
		if text != shown {
			shown = text
			if _, err := io.WriteString(streams.Out, text); err != nil {
				return err
			}
		}
		switch {
		case flags.follow:
		case inStep:
			return nil
		default:
			return errOutOfStep
		}
		if host.Sleep(cmd.Context(), pollInterval) != nil {
			return nil //nolint:nilerr // it was stopped
		}
	}
}

func monitorOnce(flags monitorFlags, parts []string) (text string, inStep bool, err error) {
	status, err := hostnet.ReadStatus(flags.status)
	if err != nil {
		return "", false, err
	}
	var found []hostnet.Finding
	inStep = true
	for _, part := range parts {
		f, err := hostnet.Monitor(part, status, flags.root, time.Now())
		if err != nil {
			return "", false, fmt.Errorf("monitor %s: %w", part, err)
		}
		inStep = inStep && f.InStep
		found = append(found, f)
	}
	var out strings.Builder
	if flags.output == "json" {
		err := writeJSON(&out, found)
		return out.String(), inStep, err
	}
	for _, f := range found {
		word := "in step"
		if !f.InStep {
			word = "NOT in step"
		}
		fmt.Fprintf(&out, "%s: %s\n", f.Part, word)
		for _, t := range f.Trouble {
			fmt.Fprintf(&out, "  ! %s\n", t)
		}
		for _, t := range f.Facts {
			fmt.Fprintf(&out, "    %s\n", t)
		}
	}
	return out.String(), inStep, nil
}
