package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/deleted"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/report/ownplace"
)

func newLife(streams command.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "life",
		Short: "Ask whether the site was restored and serves without this host",
		Long: `Ask whether the site of this control plane was restored from a backup and serves without it
(docs/adr/0105). Each boot runs this command before anything of the cluster starts
(` + renderhost.LifeUnit + `). It asks the configuration servers at the site's virtual IPs and
at the addresses of the other control planes, for five seconds at most. They prove that
they are of this site by its authority.

If a control plane of a later life answers, and none of this one, the host writes that
into ` + replacement.OustedPath + ` and
switches itself off. From then on systemd starts nothing of the cluster here. Whoever does
not answer holds nothing up.

On one of three control planes it first has etcd start only with the data that it has
(docs/adr/0109): it writes that into the manifest from which kubelet runs etcd.

It changes the host: run it as root.`,
		Example: `  # what it said at this boot
  sudo journalctl --boot --unit=holdfast-life

  # the restored site is given up, and this host is to serve again
  sudo rm ` + replacement.OustedPath + ` && sudo reboot`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return &command.UsageError{Err: errors.New("life may switch this host off: run it as root")}
			}
			said, err := askLife(cmd.Context())
			if said != "" {
				_, _ = fmt.Fprintln(streams.Out, said)
			}
			return err
		},
	}
}

func askLife(ctx context.Context) (said string, err error) {
	s, err := readSite()
	if err != nil {
		return "", err
	}
	if !s.Role.ControlPlane() {
		return "this host runs no control plane: nothing to ask", nil
	}
	sealed, unsealed := sealEtcd(s)
	said, err = lifeOf(ctx, s)
	return strings.Trim(sealed+"\n"+said, "\n"), errors.Join(unsealed, err)
}

// sealEtcd has etcd of one of three control planes or more start only with its data, before kubelet of
// this boot starts it.
func sealEtcd(s *site.Site) (said string, err error) {
	if s.Topology().ControlPlanes <= 2 || !host.Exists(state.InstalledPath) {
		return "", nil
	}
	return deleted.Etcd{Runs: deleted.EtcdRuns}.BeforeKubelet()
}

func lifeOf(ctx context.Context, s *site.Site) (said string, err error) {
	name, err := host.Name()
	if err != nil {
		return "", err
	}
	b := bootLook{
		out:       replacement.ThisStore().Ousted,
		succeeded: func(ctx context.Context) string { return ownplace.Succeeded(ctx, s, name) },
		note:      replacement.ThisStore().PutOusted,
		off:       switchOff,
	}
	return b.look(ctx)
}

// switchOff has systemd switch the host off, and does not wait for it.
func switchOff(ctx context.Context) error {
	_, err := host.Run(ctx, host.Command("systemctl", "--no-block", "poweroff"))
	return err
}

// bootLook is what a boot asks before anything of the cluster starts.
type bootLook struct {
	// out says why the host is out of its site since an earlier look; empty if it is not.
	out func() (string, error)
	// succeeded says that the site was restored and serves without the host; empty if nobody says so.
	succeeded func(context.Context) string
	// note writes down why the host is out.
	note func(why string) error
	off  func(context.Context) error
}

// look returns what it found. One answer is enough here, unlike in the agent's looks: nothing serves
// yet that could have told it otherwise.
func (b bootLook) look(ctx context.Context) (string, error) {
	// Where the file cannot be read the agent tells that. The question counts as well.
	if why, err := b.out(); err == nil && why != "" {
		return "nothing of the cluster starts here: " + why, nil
	}
	why := b.succeeded(ctx)
	if why == "" {
		return "no later life of the site answers", nil
	}
	// A host that cannot write it down goes off all the same, and asks again at its next boot.
	err := b.note(why)
	return "this host switches itself off: " + why, errors.Join(err, b.off(ctx))
}

// arm has each later boot ask, and reports whether that is so now: only a host whose installation is
// complete has a place.
func arm(ctx context.Context) (bool, error) {
	if !host.Exists(state.InstalledPath) {
		return false, nil
	}
	err := host.EnableUnit(ctx, renderhost.LifeUnit, renderhost.LifeUnits(replacement.OustedPath))
	return err == nil, err
}
