package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/state"
	unit "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/staticpod"
)

// The functional level of a host is nowhere remembered. It is what its static pods are told
// to behave as, and the release to which the link of kubelet leads.

// levelBy returns what tells the functional level that a host keeps between two releases.
func levelBy(releases Releases) func(from, to string) (string, error) {
	return func(from, to string) (string, error) {
		was, err := releases.About(from)
		if err != nil {
			return "", err
		}
		is, err := releases.About(to)
		if err != nil {
			return "", err
		}
		return cluster.Level(was.Kubernetes, is.Kubernetes), nil
	}
}

// held returns the release whose kubelet this host starts, if that is not the current one.
func (m machine) held() (string, error) { return heldAt(m.root) }

func heldAt(root string) (string, error) {
	kubelet, err := release.Kubelet(root)
	if err != nil {
		return "", err
	}
	current, err := release.Current(root)
	if err != nil || kubelet == current {
		return "", err
	}
	return kubelet, nil
}

// kubeletOf returns the release whose kubelet this host starts while another one runs.
func kubeletOf(running string) string {
	if held, err := heldAt("/"); err == nil && held != "" {
		return held
	}
	return running
}

// Low lists the static pods that are told to behave as an older minor release, in the
// order in which they rise: the API server is the first.
func (p Pods) Low() ([]string, error) {
	var out []string
	for _, path := range podFiles {
		data, err := os.ReadFile(filepath.Join(p.Root, path))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		level, err := staticpod.Level(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if level != "" {
			out = append(out, path)
		}
	}
	return out, nil
}

// Rise has the program of a static pod behave as what it is. kubelet starts it anew.
func (p Pods) Rise(path string) error {
	at := filepath.Join(p.Root, path)
	data, err := os.ReadFile(at)
	if err != nil {
		return err
	}
	if data, err = staticpod.At(data, ""); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return p.WriteFile(at, data, podsMode)
}

// raiseKubelet has a unit let the link of kubelet lead to the current release. Nothing is
// restarted.
func (m machine) raiseKubelet(ctx context.Context) error {
	digest, err := m.pods.Current()
	if err != nil {
		return err
	}
	file := unit.Raise(digest)
	if _, err := host.WriteFiles(m.root, []state.File{file}); err != nil {
		return err
	}
	err = errors.Join(m.systemctl(ctx, "daemon-reload"), m.systemctl(ctx, "start", unit.RaiseUnit))
	return errors.Join(err, remove(filepath.Join(m.root, file.Path)), m.systemctl(ctx, "daemon-reload"))
}

// letKubeletRise is what that unit does.
func (m machine) letKubeletRise() error {
	j, _, err := m.store.Read()
	if err != nil {
		return err
	}
	if !j.Step.AtRest() || j.Step == parachute.Accepted && !j.Closed {
		return fmt.Errorf("raise kubelet: the journal of the upgrade says %q, and the way back is open", j.Step)
	}
	current, err := m.pods.Current()
	if err != nil {
		return err
	}
	return m.switchTo(current, "")
}

// Server returns the version of this host's API server, and as which it behaves.
func (g *Gatherer) Server(ctx context.Context) (is, emulates state.Fact[gate.Version]) {
	return g.server(ctx)
}

// Emulates reports whether this host's API server behaves as an older minor release. It is
// unknown while that does not answer.
func (g *Gatherer) Emulates(ctx context.Context) state.Fact[bool] {
	is, as := g.server(ctx)
	return state.Fact[bool]{Known: is.Known && as.Known, Value: is.Value.Series() != as.Value.Series()}
}

// risen tells whether the servers of this host behave as what they are.
func (a *Agent) risen(ctx context.Context) state.Fact[bool] {
	if a.Kind == parachute.Worker {
		return state.Known(true)
	}
	low, err := a.Low()
	if err != nil {
		return state.Fact[bool]{}
	}
	if len(low) > 0 {
		return state.Known(false)
	}
	emulates := a.Emulates(ctx)
	return state.Fact[bool]{Known: emulates.Known, Value: !emulates.Value}
}

// holds reports whether the kubelet of this host is that of another release.
func (a *Agent) holds() (bool, error) {
	held, err := a.Held()
	if err != nil {
		return false, fmt.Errorf("whose kubelet the host starts: %w", err)
	}
	return held != "", nil
}

// raiseServers has the servers of this host rise: the API server, and the others once that
// has risen. Clients go to another host meanwhile.
func (a *Agent) raiseServers(ctx context.Context) error {
	a.depart(ctx)
	low, err := a.Low()
	if err != nil {
		return err
	}
	for _, pod := range low {
		if pod != apiServerPod && !state.Is(a.Emulates(ctx), false) {
			return nil
		}
		if err := a.Rise(pod); err != nil || pod == apiServerPod {
			return err
		}
	}
	return nil
}

// raiseKubelet has kubelet rise. Pods run on. Of two control planes Pacemaker has kubelet,
// and etcd is ordered after it: nobody may restart it behind Pacemaker's back, so the host
// leaves as for any planned stop.
func (a *Agent) raiseKubelet(ctx context.Context) error {
	stops := a.Kind == parachute.OfTwo
	if stops {
		a.depart(ctx)
		if gave, err := a.GiveLead(ctx); err != nil || !gave {
			return err
		}
	}
	if err := a.Journal.SetDown(true); err != nil {
		return err
	}
	if stops {
		if err := a.Stop(ctx); err != nil {
			return err
		}
	}
	if err := a.RaiseKubelet(ctx); err != nil {
		return err
	}
	return a.Start(ctx)
}

// raised tells whether a host works at the level of the release that runs: its API server
// behaves as the minor release that it is of, and its kubelet is of that one too. down is
// true while daemons were ended and not seen to run since.
func raised(h gate.Host, of gate.Release, down bool) state.Fact[bool] {
	if of.Digest == "" || !h.Kubelet.Known {
		return state.Fact[bool]{}
	}
	kubelet := state.Known(!down && h.Kubelet.Value.Series() == of.Kubernetes.Series())
	if h.Worker {
		return kubelet
	}
	if !h.APIServer.Known || !h.Emulates.Known {
		return state.Fact[bool]{}
	}
	return all(state.Known(h.APIServer.Value.Series() == h.Emulates.Value.Series()), kubelet)
}

// behaves: the API server is that of the release, and behaves as the minor release of the
// kubelet that this host starts.
func (p *Prover) behaves(ctx context.Context, digest string) state.Fact[bool] {
	held, err := p.Held()
	if err != nil {
		return state.Fact[bool]{}
	}
	if held == "" {
		held = digest
	}
	about, err := p.Releases.About(digest)
	if err != nil {
		return state.Fact[bool]{}
	}
	level, err := p.Releases.About(held)
	if err != nil {
		return state.Fact[bool]{}
	}
	is, as := p.Version(ctx)
	return all(
		state.Fact[bool]{Known: is.Known, Value: is.Value == about.Kubernetes},
		state.Fact[bool]{Known: as.Known, Value: as.Value.Series() == level.Kubernetes.Series()},
	)
}
