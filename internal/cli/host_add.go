package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// addFlags holds the flags of host add.
type addFlags struct {
	hostFlags
	dir, role, out string
	addresses      []string
	life, timeout  time.Duration
	stdout, dryRun bool
	wait           bool
}

func newHostAdd(streams Streams) *cobra.Command {
	f := addFlags{role: string(state.RoleWorker), life: site.JoinLifetime, timeout: time.Hour}
	cmd := &cobra.Command{
		Use:   "add [NAME]",
		Short: "Make the join file of a host that is to join the running cluster",
		Long: `Asks the cluster whether it has a place for the host under this name, and writes join-NAME.ign.
With this Ignition config the host fetches its configuration. The file holds a secret for
that one host and a limited time; give it to the host and to nobody else. Without a
name any host of the role may use the file, and it is join-ROLE.ign.

The key of the secret is in the install directory (--dir) and on each control plane. Without
--dir run the command on a control plane, as root:

  ssh root@cp-1 holdfast host add worker-3 --stdout > join-worker-3.ign

With --wait the command shows what the host does until its Node is Ready. The file is
written first, and an interrupt takes nothing back.

Exit codes: 0 the file was written, with --wait the host is ready; 4 it was not ready at
the timeout, and goes on; 7 refused, nothing was written; 1 it failed; 2 wrong usage.`,
		Example: `  holdfast host add worker-3 --dir store-17
  holdfast host add worker-3 --dir store-17 --ttl 2h --address 192.0.2.23 --wait
  holdfast host add --role worker --dir store-17 --dry-run`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			c, err := f.open(cmd.Context(), positive(f.timeout), f.mistakes(name))
			if err != nil {
				return err
			}
			a := addition{addFlags: f, name: name, cluster: c, streams: streams, now: time.Now, root: "/"}
			return a.run(cmd.Context())
		},
	}
	f.register(cmd)
	timeoutFlag(cmd, &f.timeout)
	flags := cmd.Flags()
	flags.StringVar(&f.dir, "dir", "", "install directory; empty for the keys of this control plane")
	flags.StringVar(&f.role, "role", f.role, "worker or master")
	flags.StringSliceVar(&f.addresses, "address", nil, "address that the host is going to have, to check that it is free; may be repeated")
	flags.DurationVar(&f.life, "ttl", f.life, "how long its join secret is valid, up to a week")
	flags.StringVar(&f.out, "out", "", "path of the file (default: join-NAME.ign in --dir or in this folder)")
	flags.BoolVar(&f.stdout, "stdout", false, "write the join file to standard output, and no file")
	flags.BoolVar(&f.wait, "wait", false, "follow the host until its Node is Ready")
	flags.BoolVar(&f.dryRun, "dry-run", false, "write nothing; say whether the cluster has a place for the host")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"worker", "master"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// mistakes returns all mistakes of the flags, joined.
func (f *addFlags) mistakes(name string) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if f.life < installer.MinJoinLife || f.life > installer.MaxJoinLife {
		wrong("--ttl %s: must be %s to %s", f.life, installer.MinJoinLife, installer.MaxJoinLife)
	}
	for _, a := range f.addresses {
		if _, err := netip.ParseAddr(a); err != nil {
			wrong("--address %q: must be an IP address", a)
		}
	}
	if f.wait && (name == "" || f.dryRun) {
		wrong("--wait: needs the name of a host, and no --dry-run")
	}
	if f.stdout && (f.out != "" || f.output != "text") {
		wrong("--stdout: cannot be combined with --out or --output")
	}
	return errors.Join(errs...)
}

// addition is one run of host add.
type addition struct {
	addFlags
	name    string
	cluster client.Client
	streams Streams
	now     func() time.Time
	root    string // of this host
}

// addReport is the output of host add.
type addReport struct {
	Host  string   `json:"host,omitempty"`
	Role  string   `json:"role"`
	Notes []string `json:"notes,omitempty"`
	// File is the path of the join file, Until the time at which its secret ends. Both are
	// empty in a dry run, and File is empty if the file went to standard output.
	File  string `json:"file,omitempty"`
	Until string `json:"until,omitempty"`
	Ready bool   `json:"ready,omitempty"`
}

func (a *addition) run(ctx context.Context) error {
	s, err := a.site(ctx)
	if err != nil {
		return err
	}
	wanted, err := a.gather(ctx, s)
	if err != nil {
		return err
	}
	refused, notes := joining.Add(joining.Of(s.Config), wanted)
	if len(refused) > 0 {
		return coded(command.ExitRefused, "refused, nothing was written:\n%w", errors.Join(refused...))
	}
	report := addReport{Host: a.name, Role: a.role, Notes: notes}
	if !a.dryRun {
		if report.File, report.Until, err = a.write(s); err != nil {
			return err
		}
	}
	if a.wait {
		if err := a.follow(ctx, s); err != nil {
			return err
		}
		report.Ready = true
	}
	return a.print(report)
}

// write makes the join file.
func (a *addition) write(s *site.Site) (path, until string, err error) {
	fresh := *s
	fresh.Identity.JoinUntil = a.now().Add(a.life).UTC().Truncate(time.Second)
	data, err := installer.Pointer(&fresh, state.Role(a.role), a.name)
	if err != nil {
		return "", "", err
	}
	until = fresh.Identity.JoinUntil.Format(time.RFC3339)
	if a.stdout {
		_, err := a.streams.Out.Write(data)
		return "", until, err
	}
	path = a.out
	if path == "" {
		name := a.role
		if a.name != "" {
			name = a.name
		}
		path = filepath.Join(a.dir, "join-"+name+".ign")
	}
	return path, until, host.WriteFileAtomic(path, data, state.SecretFileMode)
}

func (a *addition) print(r addReport) error {
	if a.output == "json" || a.output == "yaml" {
		return printData(a.streams.Out, a.output, r)
	}
	out := a.streams.Out
	if a.stdout {
		out = a.streams.Err // standard output has the join file
	}
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	for _, n := range r.Notes {
		say("note: %s", n)
	}
	switch {
	case a.dryRun:
		say("nothing was written: the cluster has a place for the host")
	case r.File != "":
		say("%s (valid until %s; it is a secret)", r.File, r.Until)
	default:
		say("the join file is valid until %s; it is a secret", r.Until)
	}
	if r.Ready {
		say("%s is a ready node", r.Host)
	} else if !a.dryRun {
		say("boot the host with it, or run on the host: holdfast-agent apply --ignition FILE --start")
	}
	return nil
}

// site returns the site as it is now. The install directory and this host say whose keys count.
func (a *addition) site(ctx context.Context) (*site.Site, error) {
	if a.dir != "" {
		s, err := newInstaller(Streams{Err: io.Discard}, a.dir).Made()
		if err != nil {
			return nil, createError(err)
		}
		return a.current(ctx, s, s.Identity.JoinKey)
	}
	s, key, err := ownSite(a.root)
	if err != nil {
		return nil, err
	}
	return a.current(ctx, s, key)
}

// current returns the site with the key that signs join secrets now, and with the addresses and control
// planes that the cluster has now.
func (a *addition) current(ctx context.Context, s *site.Site, found []byte) (*site.Site, error) {
	key, err := clusterJoinKey(ctx, a.cluster)
	if err != nil {
		return nil, err
	}
	out := signing(s, found, key)
	out.Config, err = a.configNow(ctx, s.Config)
	return out, err
}

// configNow returns the configuration that the cluster keeps of itself. What was found in an install
// directory is from before the site moved, grew or shrank; it counts where the cluster keeps none.
func (a *addition) configNow(ctx context.Context, found *config.InstallConfig) (*config.InstallConfig, error) {
	now, err := (&moveAccess{a.cluster}).config(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return found, nil
	case err != nil:
		return nil, err
	case now.ClusterDomain() != found.ClusterDomain():
		return nil, coded(command.ExitRefused, "refused, nothing was written: the keys are those of %s, and this cluster is %s: choose --dir or the cluster anew", found.ClusterDomain(), now.ClusterDomain())
	}
	return now, nil
}

// signing returns the site with the cluster's key of join secrets where it has one of
// its own, and otherwise with the one that was found.
func signing(s *site.Site, found, cluster []byte) *site.Site {
	out := *s
	if out.Identity.JoinKey = found; len(cluster) >= jointoken.MinKeyBytes {
		out.Identity.JoinKey = cluster
	}
	return &out
}
