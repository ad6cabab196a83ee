package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/cli/place"
	"github.com/holdfast/holdfast/internal/decide/encryption"
	authorities "github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/state"
)

func newEncryption(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "encryption",
		Short: "Show or replace the keys that encrypt secrets in etcd",
		Long: `API servers store Secrets and the requests to API proxies encrypted in etcd, so that
a data directory, a snapshot or a disk of etcd does not reveal them. The keys have
numbers. Each key is derived from its number and from a root that only control
planes hold (/etc/holdfast/site.json). So no key is ever sent anywhere, and none is
lost while one control plane is left.`,
	}
	cmd.AddCommand(newEncryptionStatus(streams), newEncryptionRotate(streams))
	return cmd
}

// encryptionFlags holds the flags of both commands.
type encryptionFlags struct {
	place  place.Flags
	output string
}

func (f *encryptionFlags) register(cmd *cobra.Command) {
	command.OutputFlag(cmd, &f.output)
	f.place.DeclareKubeconfig(cmd)
}

// encryptionCluster is the cluster as both commands read and change it.
type encryptionCluster interface {
	Nodes(ctx context.Context) ([]state.Node, error)
	workOnHosts
	SwapConfigMap(ctx context.Context, namespace, name string, before, after map[string]string) error
}

// keysSeen is what the cluster says of the keys, and the wish as it was read.
type keysSeen struct {
	encryption.Seen
	wish map[string]string
}

// readKeys reads the requested keys and the keys that the hosts have loaded.
func readKeys(ctx context.Context, c encryptionCluster) (keysSeen, error) {
	data, err := c.ConfigMap(ctx, encryption.WishNamespace, encryption.WishName)
	if err != nil {
		return keysSeen{}, err
	}
	wish, err := encryption.ReadWish(data)
	s := keysSeen{wish: data, Seen: encryption.Seen{Wish: wish.Keys, Rewritten: wish.Rewritten}}
	if err != nil {
		return s, err
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return s, err
	}
	said := map[string]string{}
	for _, n := range nodes {
		said[n.Name] = n.Annotations[state.AnnotationEncryption]
	}
	hosts, _ := authorities.HostsOf(nodes, authorities.ServiceAccountKey) // any authority: all know how many there are
	for _, of := range hosts {
		h := encryption.Host{Name: of.Name, Ready: of.Ready, Joins: of.Joins, ControlPlanes: of.ControlPlanes}
		if loaded, kept, err := encryption.ParseTold(said[of.Name]); err == nil {
			h.Loaded, h.Kept = loaded, kept
		}
		s.Hosts = append(s.Hosts, h)
	}
	// Control planes alone get keys, as they get the key of service accounts.
	if s.AtWork, err = othersAtWork(ctx, c, authorities.ServiceAccountKey, nodes, time.Now()); err != nil {
		// A Secret that cannot be read keeps tokens from being listed. The step that mends that asks nothing of them.
		s.AtWork = "which hosts are being installed is not known: " + err.Error()
	}
	return s, nil
}

// keysReport is the state of the keys.
type keysReport struct {
	// Wanted lists the numbers of the keys that every API server is to have. The
	// first one is used for writing.
	Wanted []int        `json:"wanted"`
	Hosts  []keysOfHost `json:"hosts"`
	// Next is the next step of `holdfast encryption rotate`, and Why its reason.
	Next encryption.Kind `json:"next"`
	Why  string          `json:"why"`
	// Written is the number of objects that this run rewrote.
	Written int `json:"written,omitempty"`
}

type keysOfHost struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	Keys  []int  `json:"keys"`
}

func reportOf(s encryption.Seen, step encryption.Step) keysReport {
	out := keysReport{Wanted: s.Agreed(), Hosts: []keysOfHost{}, Next: step.Kind, Why: step.Why}
	for _, h := range s.Hosts {
		out.Hosts = append(out.Hosts, keysOfHost{h.Name, h.Ready, h.Loaded})
	}
	return out
}

func (r keysReport) print(w io.Writer, output string) error {
	if output == "json" {
		return command.PrintJSON(w, r)
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(t, "wanted\t%s\n", orDash(encryption.Keys(r.Wanted).String()))
	for _, h := range r.Hosts {
		ready := "ready"
		if !h.Ready {
			ready = "not ready"
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\n", h.Name, orDash(encryption.Keys(h.Keys).String()), ready)
	}
	_, _ = fmt.Fprintf(t, "state\t%s\n", r.Why)
	return t.Flush()
}

func newEncryptionStatus(streams Streams) *cobra.Command {
	var f encryptionFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which keys are wanted and which each API server has",
		Long: `Shows the numbers of the keys that every API server must have, and of the keys that
each API server reports as loaded. It writes with the first one. Two numbers mean
that a rotation is in progress, or that a host keeps a key with which it wrote after
the others had dropped it: 'holdfast encryption rotate' ends either.

Exit codes: 0 all have the same single key; 3 a rotation is in progress, a host is
behind, is missing or does not report; 1 it failed; 2 wrong usage.`,
		Example: `  holdfast encryption status
  holdfast encryption status -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.place.Check(); err != nil {
				return err
			}
			access, err := f.place.OpenAPI(cmd.Context())
			if err != nil {
				return err
			}
			c, err := access.Client()
			if err != nil {
				return err
			}
			s, err := readKeys(cmd.Context(), c)
			if err != nil {
				return err
			}
			step := encryption.Next(s.Seen, false)
			if err := reportOf(s.Seen, step).print(streams.Out, f.output); err != nil {
				return err
			}
			if step.Kind != encryption.Done {
				return coded(command.ExitAttention, "not settled: %s", step.Why)
			}
			return nil
		},
	}
	f.register(cmd)
	return cmd
}
