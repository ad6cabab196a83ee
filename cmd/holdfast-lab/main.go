// Command holdfast-lab is the lab: a whole site on this machine. Users call it
// as `holdfast lab`, which hands over to it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/lab/labcli"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return labcli.Run(ctx, command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:])
}
