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

// place selects the way to a cluster: through a kubeconfig, on this host, or in
// a lab.
type place struct {
	kubeconfig, lab string
	// host returns this machine, and false if it is no host of a cluster. Tests
	// set it.
	host func() (*gathering.Host, bool)
}

func (p *place) flags(cmd *cobra.Command) {
	p.host = gathering.ThisHost
	cmd.Flags().StringVar(&p.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; empty for $KUBECONFIG, else this host's "+adminKubeconfig+" and its daemons, else ~/.kube/config")
	cmd.Flags().StringVar(&p.lab, "lab", "", "show the lab of this name")
}

// check returns all mistakes of the command line at once.
func (p *place) check(every time.Duration) error {
	var mistakes []error
	if every < minInterval {
		mistakes = append(mistakes, fmt.Errorf("--interval %s: must be %s or more", every, minInterval))
	}
	if p.kubeconfig != "" && p.lab != "" {
		mistakes = append(mistakes, errors.New("--kubeconfig and --lab: cannot be combined"))
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

// minInterval keeps a watch from becoming a load.
const minInterval = 200 * time.Millisecond

// open finds the sources of the view. At this point it contacts only
// holdfast-lab.
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
			"no cluster found: this machine is not a host of one, and %s does not exist: give --kubeconfig or --lab", path)}
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
	// ownAPI is the address of this host's API server.
	ownAPI = "https://127.0.0.1:6443"
	// kubeletKubeconfig may read hosts and virtual IPs, and exists on workers too.
	kubeletKubeconfig = state.KubeletKubeconfig
)

// here adds this control plane as a source, and the API both through its own address
// and through this host's, because the way to the first may be broken. A user who
// cannot read the kubeconfig gets only what the daemons report. If somebody removed
// the administrator's kubeconfig, the agent's is used, then kubelet's.
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

// openLab reads the lab's API through its forwarded port, and each of its
// control planes that runs. Their power states come from holdfast-lab.
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

// labTime bounds the question to holdfast-lab. It is started for each question,
// and its daemon may hang at a host.
const labTime = 2 * time.Second

func labHost(h labprogram.Host) *gathering.Host {
	if h.Root == "" {
		return &gathering.Host{Name: h.Name, Root: noRoot, Power: standing.PowerOff, Now: time.Now}
	}
	return &gathering.Host{Name: h.Name, Root: h.Root, Power: standing.PowerOn, Now: time.Now}
}

// noRoot is the root folder of a host that is off. It contains no files; an
// empty root would mean this machine's.
const noRoot = "/proc/0/root"
