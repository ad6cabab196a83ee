// Command podman-etcd keeps etcd on one of two hosts. With `serve` it is the
// host's daemon; with an action of the OCF standard it is the resource agent
// that asks the daemon.
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
