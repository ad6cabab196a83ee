package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/labprogram"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/state"
	gathering "github.com/holdfast/holdfast/internal/report/status"
)

// place is where a cluster is looked at: through a kubeconfig, on the host that
// this runs on, or in a lab.
type place struct {
	kubeconfig, lab string
	// host is this machine, false where it is no host of a cluster. Tests set it.
	host func() (*gathering.Host, bool)
}

func (p *place) flags(cmd *cobra.Command) {
	p.host = gathering.ThisHost
	cmd.Flags().StringVar(&p.kubeconfig, "kubeconfig", "", "how the API is reached; empty for $KUBECONFIG, else this host's "+adminKubeconfig+" and its daemons, else ~/.kube/config")
	cmd.Flags().StringVar(&p.lab, "lab", "", "look at the lab of this name")
}

// check returns all mistakes of the command line at once.
func (p *place) check(every time.Duration) error {
	var mistakes []error
	if every < minInterval {
		mistakes = append(mistakes, fmt.Errorf("--interval %s: must be %s or more", every, minInterval))
	}
	if p.kubeconfig != "" && p.lab != "" {
		mistakes = append(mistakes, errors.New("--kubeconfig and --lab: one of the two"))
	}
	if p.kubeconfig != "" {
		if _, err := os.Stat(p.kubeconfig); err != nil {
			mistakes = append(mistakes, fmt.Errorf("--kubeconfig: %w", err))
		}
	}
	if err := errors.Join(mistakes...); err != nil {
		return &UsageError{Err: err}
	}
	return nil
}

// minInterval keeps a watch from being a load.
const minInterval = 200 * time.Millisecond

// open finds what there is to look at. It reaches nothing yet.
func (p *place) open(cmd *cobra.Command) (looker, error) {
	if p.lab != "" {
		return p.openLab(cmd)
	}
	g := &gathering.Gatherer{Now: time.Now}
	for _, path := range []string{p.kubeconfig, os.Getenv("KUBECONFIG")} {
		if path != "" {
			return lookWith(g), p.through(g, path)
		}
	}
	if h, here := p.host(); here {
		return lookWith(g), p.here(g, h)
	}
	path := kube.HomeKubeconfig
	if _, err := os.Stat(path); err != nil {
		return nil, &UsageError{Err: fmt.Errorf(
			"nothing to look at: this machine is no host of a cluster and %s does not exist: give --kubeconfig, or --lab", path)}
	}
	return lookWith(g), p.through(g, path)
}

func (p *place) through(g *gathering.Gatherer, kubeconfig string) error {
	api, err := gathering.OpenKubeconfig(kubeconfig, "")
	if err != nil {
		return &UsageError{Err: err}
	}
	g.Sources = append(g.Sources, api)
	return nil
}

const (
	// ownAPI is the API server of this host.
	ownAPI = "https://127.0.0.1:6443"
	// kubeletKubeconfig sees hosts and virtual IPs, and is there on workers too.
	kubeletKubeconfig = state.KubeletKubeconfig
)

// here is what a control plane tells, and the API through its own address and
// through that of this very host: the way to it may be what is broken. Who may
// not read the kubeconfig has the daemons alone, as far as they tell. Where somebody
// took the administrator's away the agent's tells most, then kubelet's.
func (p *place) here(g *gathering.Gatherer, h *gathering.Host) error {
	g.Sources = append(g.Sources, h)
	best := ""
	for _, access := range []struct{ path, server string }{
		{adminKubeconfig, ""}, {adminKubeconfig, ownAPI}, {state.AgentKubeconfig, ""}, {state.AgentKubeconfig, ownAPI}, {kubeletKubeconfig, ""},
	} {
		if best != "" && access.path != best {
			continue
		}
		api, err := gathering.OpenKubeconfig(filepath.Join(h.Root, access.path), access.server)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		best, g.Sources = access.path, append(g.Sources, api)
	}
	if m, may := gathering.MembersHere(); may {
		g.Members = m.Ask
	}
	return nil
}

// openLab looks through the lab's door to its API and into each of its control
// planes that runs, and takes the lab's word for their power.
func (p *place) openLab(cmd *cobra.Command) (looker, error) {
	at, err := labPlace(cmd.Context(), p.lab)
	if err != nil {
		return nil, err
	}
	var api []gathering.Source
	if at.Kubeconfig != "" {
		a, err := gathering.OpenKubeconfig(at.Kubeconfig, "")
		if err != nil {
			return nil, err
		}
		api = append(api, a)
	}
	return func(ctx context.Context) (standing.View, error) {
		limit, stop := context.WithTimeoutCause(ctx, labTime, fmt.Errorf("no answer within %s", labTime))
		defer stop()
		at, err := labPlace(limit, p.lab)
		if err != nil {
			return standing.View{}, err
		}
		g := &gathering.Gatherer{Now: time.Now}
		for _, h := range at.Hosts {
			if h.ControlPlane {
				g.Sources = append(g.Sources, labHost(h))
			}
		}
		g.Sources = append(g.Sources, api...)
		return standing.Describe(g.Gather(ctx)), nil
	}, nil
}

// labTime bounds the question to holdfast-lab, which is started for it, and whose
// daemon may hang at a host.
const labTime = 2 * time.Second

func labHost(h labprogram.Host) *gathering.Host {
	if h.Root == "" {
		return &gathering.Host{Name: h.Name, Root: noRoot, Power: standing.PowerOff, Now: time.Now}
	}
	return &gathering.Host{Name: h.Name, Root: h.Root, Power: standing.PowerOn, Now: time.Now}
}

// noRoot is the root of a host that is off: it holds no file, and an empty one
// would be that of this machine.
const noRoot = "/proc/0/root"
