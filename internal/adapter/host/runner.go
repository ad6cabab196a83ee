package host

import (
	"context"
	"slices"
	"strings"
)

// Runner runs a command on one host and returns what it printed. The command
// may print and still fail: both are returned.
type Runner func(ctx context.Context, args ...string) ([]byte, error)

// Local runs commands on this host.
func Local(ctx context.Context, args ...string) ([]byte, error) {
	return Run(ctx, Command(args[0], args[1:]...))
}

// Through returns a runner on another host. The words of way, such as "ssh
// root@{}", come before each command; {} is the host's name.
func Through(way, name string) Runner {
	return Behind(strings.Fields(strings.ReplaceAll(way, "{}", name)))
}

// Behind returns a runner that puts words before each command.
func Behind(words []string) Runner {
	return func(ctx context.Context, args ...string) ([]byte, error) {
		return Local(ctx, slices.Concat(words, args)...)
	}
}
