package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/cli/place"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

func newJoinSecret(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "join-secret",
		Short: "Invalidate the secrets with which hosts join",
		Long: `A join secret is part of master.ign, worker.ign and the files that 'holdfast create
join-config' writes. With it a host of its role fetches its configuration until the
secret expires. It is signed with a key that the install directory and the control
planes hold.`,
	}
	cmd.AddCommand(newJoinSecretRotate(streams))
	return cmd
}

// rotateKeyFlags holds the flags of join-secret rotate.
type rotateKeyFlags struct {
	dir, api, output string
	place            place.Flags
	dryRun           bool
	timeout          time.Duration
}

func newJoinSecretRotate(streams Streams) *cobra.Command {
	f := rotateKeyFlags{dir: ".", timeout: 30 * time.Second}
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Replace the key for join secrets, which invalidates all existing join secrets",
		Long: `Replaces the key for join secrets, in the running cluster and in the install
directory. No earlier join secret works any more: neither pointers on boot servers
and in images, nor those of hosts that are being installed right now. Start such a
host again with a new pointer. Nodes are not affected.

Each control plane loads the key by itself within seconds; one that is off loads it
before it serves again. The command asks the control planes that it can reach
whether they refuse an old secret.

Exit codes: 0 the key was replaced, and no control plane was found that accepts old
secrets; 1 it failed, or one accepts them; 2 wrong usage.`,
		Example: `  holdfast join-secret rotate --dir store-17 --dry-run
  holdfast join-secret rotate --dir store-17
  holdfast create join-config --dir store-17       the next pointer`,
		Args: cobra.NoArgs,
	}
	command.OutputFlag(cmd, &f.output)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var mistake error
		if f.timeout <= 0 {
			mistake = fmt.Errorf("--timeout %s: must be positive", f.timeout)
		}
		if err := f.place.Check(mistake); err != nil {
			return err
		}
		r := joinKeyRotation{rotateKeyFlags: f, in: newInstaller(streams, f.dir), out: streams.Out, now: time.Now, open: f.cluster, ask: opens}
		return r.run(cmd.Context())
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dir, "dir", f.dir, "install directory")
	f.place.DeclareFolderKubeconfig(cmd)
	flags.StringVar(&f.api, "api", "", "URL of the API, if this machine reaches it at another address than the site does")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what would become invalid and change nothing")
	flags.DurationVar(&f.timeout, "timeout", f.timeout, "how long to wait until control planes refuse an old secret")
	return cmd
}

// joinKeyCluster is the cluster as a rotation uses it.
type joinKeyCluster interface {
	Nodes(ctx context.Context) ([]state.Node, error)
	Secret(ctx context.Context, namespace, name string) (map[string][]byte, error)
	PutSecret(ctx context.Context, namespace, name string, data map[string][]byte) error
}

func (f rotateKeyFlags) cluster(s *site.Site) (joinKeyCluster, error) {
	server := f.api
	if server == "" && f.place.Kubeconfig == "" && len(s.Config.APIVIPs()) > 0 {
		server = "https://" + s.APIEndpoint() // works even if no name server knows the site
	}
	return kube.OpenAt(cmp.Or(f.place.Kubeconfig, filepath.Join(f.dir, installer.Kubeconfig)), server)
}

// opens asks the configuration server at an address whether it accepts a token.
func opens(ctx context.Context, s *site.Site, address, token string) (bool, error) {
	c := &configserver.Client{Addresses: []string{address}, ServerName: s.APIName(), CA: s.Identity.ConfigCA.Cert}
	return c.Opens(ctx, state.RoleWorker, token)
}

// joinKeyRotation is one run of the command.
type joinKeyRotation struct {
	rotateKeyFlags
	in   *installer.Installer
	out  io.Writer
	now  func() time.Time
	open func(*site.Site) (joinKeyCluster, error)
	ask  func(ctx context.Context, s *site.Site, address, token string) (bool, error)
}

// rotatedKey is the output for a program.
type rotatedKey struct {
	Changed       bool           `json:"changed"`
	ControlPlanes []controlPlane `json:"controlPlanes"`
	// Void lists the files of the directory whose join secrets have ended, or
	// would end.
	Void []string `json:"void"`
}

// controlPlane is the answer of a control plane about the old join secrets.
type controlPlane struct {
	Name string `json:"name"`
	// Takes reports whether it accepts them; nil if it was not reached.
	Takes *bool `json:"takesOldSecrets,omitempty"`
	// Why says why the answer is unknown.
	Why string `json:"unknown,omitempty"`
}

func (r *joinKeyRotation) run(ctx context.Context) error {
	s, err := r.in.Made()
	if err != nil {
		return createError(err)
	}
	cluster, err := r.open(s)
	if err != nil {
		return err
	}
	nodes, err := cluster.Nodes(ctx)
	if err != nil {
		return err
	}
	former, err := cluster.Secret(ctx, jointoken.KeyNamespace, jointoken.KeySecret)
	if err != nil {
		return err
	}
	done := rotatedKey{Changed: !r.dryRun}
	if done.Void, err = r.in.Pointers(); err != nil {
		return err
	}
	if !r.dryRun {
		s, err = r.in.ReplaceJoinKey(func(key []byte) error {
			return cluster.PutSecret(ctx, jointoken.KeyNamespace, jointoken.KeySecret, map[string][]byte{jointoken.KeyField: key})
		})
		if err != nil {
			return createError(err)
		}
	}
	// The cluster may have replaced the directory's key: who refuses a secret of that one tells nothing.
	if done.ControlPlanes, err = r.controlPlanes(ctx, signing(s, s.Identity.JoinKey, former[jointoken.KeyField]), nodes); err != nil {
		return err
	}
	return errors.Join(r.print(done), done.err())
}

// controlPlanes asks each control plane about a join secret signed with the key
// of s: once in a dry run, otherwise until the control plane refuses it.
func (r *joinKeyRotation) controlPlanes(ctx context.Context, s *site.Site, nodes []state.Node) ([]controlPlane, error) {
	old := *s
	old.Identity.JoinUntil = r.now().Add(time.Hour)
	token, err := old.JoinToken(state.RoleWorker, "")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, r.timeout)
	defer stop()
	var out []controlPlane
	for _, n := range nodes {
		if n.ControlPlane() {
			out = append(out, r.controlPlane(ctx, s, n, token))
		}
	}
	return out, nil
}

// askEvery is the pause between two questions to a control plane.
const askEvery = time.Second

func (r *joinKeyRotation) controlPlane(ctx context.Context, s *site.Site, n state.Node, token string) controlPlane {
	out := controlPlane{Name: n.Name, Why: "it has no address"}
	if len(n.Addresses) == 0 {
		return out
	}
	for {
		takes, err := r.ask(ctx, s, site.HostPort(n.Addresses[0].String(), site.ConfigServerPort), token)
		if err != nil {
			out.Takes, out.Why = nil, err.Error()
			return out
		}
		out.Takes, out.Why = &takes, ""
		if !takes || r.dryRun || host.Sleep(ctx, askEvery) != nil {
			return out
		}
	}
}

// err returns an error if a control plane still accepts old secrets after the
// change.
func (d rotatedKey) err() error {
	for _, c := range d.ControlPlanes {
		if d.Changed && c.Takes != nil && *c.Takes {
			return fmt.Errorf("%s still accepts old secrets: its agent may be of an older release, or may not reach the API; see: journalctl -u holdfast-agent", c.Name)
		}
	}
	return nil
}

func (r *joinKeyRotation) print(d rotatedKey) error {
	if r.output == "json" {
		return command.PrintJSON(r.out, d)
	}
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(r.out, format+"\n", args...) }
	void := "no longer valid"
	switch {
	case d.Changed:
		say("the key for join secrets was replaced, in the cluster and in %s", r.dir)
	default:
		say("nothing was changed")
		void = "would no longer be valid"
	}
	for _, c := range d.ControlPlanes {
		switch {
		case c.Takes == nil:
			say("%s: not asked: %s", c.Name, c.Why)
		case *c.Takes:
			say("%s: accepts secrets of the old key", c.Name)
		default:
			say("%s: refuses secrets of the old key", c.Name)
		}
	}
	for _, path := range d.Void {
		say("%s: %s", path, void)
	}
	if d.Changed {
		say("to make a new pointer: holdfast create join-config --dir %s", r.dir)
	}
	return nil
}
