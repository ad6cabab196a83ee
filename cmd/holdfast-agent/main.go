// Command holdfast-agent sets up a host as its configuration says, and keeps
// the host's part of the cluster in step.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // some hosts have no time zones

	"github.com/holdfast/holdfast/internal/agent"
	"github.com/holdfast/holdfast/internal/cli/command"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return agent.Run(ctx, command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:])
}
