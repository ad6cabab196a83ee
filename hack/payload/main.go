// Command payload maintains the modules that a release is built from, those
// below payload/:
//
//	go run ./hack/payload newer        names what has a newer patch release
//	go run ./hack/payload tidy NAME    writes go.mod and go.sum of one again
//
// newer asks the module proxy. It exits with 1 if it names something that
// docs/DEPENDENCIES.md does not excuse. Where the proxy cannot be asked, newer
// says so and exits with 0, so that it does not block work without a network.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"

	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/payload"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "payload:", err)
		code = 2
	}
	os.Exit(code) //nolint:forbidigo // this is a main
}

var errUsage = errors.New("usage: go run ./hack/payload newer | tidy NAME")

func run(ctx context.Context, args []string, out io.Writer) (int, error) {
	switch {
	case slices.Equal(args, []string{"newer"}):
		return newer(ctx, out)
	case len(args) == 2 && args[0] == "tidy":
		return 0, tidy(ctx, args[1])
	}
	return 2, errUsage
}

func tidy(ctx context.Context, name string) error {
	var names []string
	for _, c := range payload.Components() {
		if c.Name == name {
			return release.Tidy(ctx, ".", c)
		}
		names = append(names, c.Name)
	}
	return fmt.Errorf("%q: must be one of %q", name, names)
}
