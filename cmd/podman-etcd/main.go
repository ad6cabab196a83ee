// Command podman-etcd runs etcd on one of two hosts. With `serve` it is the
// etcd keeper, a daemon of the host. With an action of the OCF standard it is
// the resource agent, which asks the etcd keeper.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/keeper/ocf"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return ocf.Main(ctx, os.Environ(), command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:])
}
