package ocf

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/keeper"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
)

// program is podman-etcd with what it reaches outside of its process.
type program struct {
	agent    agent
	keep     func(context.Context, keeper.Options) error
	hostname func() (string, error)
}

func onThisHost() program {
	return program{
		agent: agent{socket: state.EtcdSocketPath, alone: keeper.OnThisHost()}, keep: keeper.Serve, hostname: host.Name,
	}
}

// Main runs the whole command: an action for Pacemaker, or the daemon.
func Main(ctx context.Context, environ []string, s command.Streams, args []string) int {
	return onThisHost().main(ctx, environ, s, args) //nolint:contextcheck // what takes no context reads /proc
}

func (p program) main(ctx context.Context, environ []string, s command.Streams, args []string) int {
	if len(args) == 1 && isAction(args[0]) {
		return p.action(ctx, environ, s, args[0])
	}
	return command.Run(ctx, p.root(s), s, args) //nolint:contextcheck // cobra hands it to the command
}

func (p program) root(s command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "podman-etcd",
		Short: "Keep etcd on one of two hosts",
		Long: "podman-etcd is the resource agent ocf:holdfast:podman-etcd, which Pacemaker calls with start, stop, monitor,\n" +
			"notify, reload-agent, validate-all or meta-data, and the etcd keeper, the daemon that these actions ask (podman-etcd.service).\n\n" +
			"What etcd does on this host, and why: holdfast explain etcd",
		Example: "  systemctl status podman-etcd\n  " + payload.ResourceAgent + " meta-data",
		Version: payload.Version,
	}
	cmd.AddCommand(&cobra.Command{
		Use: "serve", Short: "Keep etcd on this host until stopped; etcd itself goes on", Args: cobra.NoArgs,
		Example: "  systemctl restart podman-etcd    # at any time: etcd is not touched",
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.serve(cmd.Context(), s) },
	})
	return cmd
}

func (p program) serve(ctx context.Context, s command.Streams) error {
	log := command.JournalLogger(s.Err)
	name, err := p.nodeName()
	if err != nil {
		log.Warn("cannot read this host's name, will retry", "err", err)
	}
	return p.keep(ctx, keeper.Options{
		Host: name, Rename: p.nodeName, Now: time.Now, Log: log,
	})
}

// nodeName returns this host's node name.
func (p program) nodeName() (string, error) {
	name, err := p.hostname()
	if err != nil {
		return "", fmt.Errorf("name of this host: %w", err)
	}
	return strings.ToLower(name), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
