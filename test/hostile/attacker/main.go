// Command attacker plays root on a worker of a lab. Its only argument is a file
// with an attack.Config; each line that it prints is an attack.Line.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast/holdfast/test/hostile/attack"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) } //nolint:forbidigo // this is a main

func run(args []string, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := attacks(ctx, args, out); err != nil {
		_, _ = fmt.Fprintln(errs, err)
		return 1
	}
	return 0
}

func attacks(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: attacker CONFIG")
	}
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var c attack.Config
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("read %s: %w", args[0], err)
	}
	return attack.Run(ctx, c, out)
}
