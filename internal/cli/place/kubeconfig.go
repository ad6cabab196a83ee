package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Files of this host.
const (
	ownAPI    = "https://127.0.0.1:6443" // this host's API server
	authority = state.KubernetesCA
)

func (f *Flags) file(path string) string { return filepath.Join(cmp.Or(f.root, "/"), path) }

// isHost reports whether this machine is a host of some cluster.
func (f *Flags) isHost() bool {
	_, err := os.Stat(f.file(site.Path))
	return err == nil || errors.Is(err, fs.ErrPermission)
}

// named returns the kubeconfig that somebody named, empty if nobody did.
func (f *Flags) named() string { return cmp.Or(f.Kubeconfig, os.Getenv("KUBECONFIG")) }

// here reports whether this machine is a host of the cluster that is meant. A
// kubeconfig of the same cluster trusts the authority that this host has.
func (f *Flags) here() bool {
	if !f.isHost() {
		return false
	}
	named := f.named()
	if named == "" {
		return true
	}
	own, err := os.ReadFile(f.file(authority))
	return err == nil && kube.Access{Kubeconfig: named}.Trusts(own)
}

// accesses returns the ways to the API.
func (f *Flags) accesses() ([]kube.Access, error) {
	if named := f.named(); named != "" {
		return []kube.Access{{Kubeconfig: named}}, nil
	}
	if f.isHost() {
		return f.own()
	}
	home := kube.HomeKubeconfig
	if _, err := os.Stat(home); err != nil {
		return nil, &command.UsageError{Err: fmt.Errorf("no cluster found: this machine is not a host of one, and %s does not exist: %s", home, f.ways())}
	}
	return []kube.Access{{Kubeconfig: home}}, nil
}

// own returns this host's ways to the API: the administrator's account or, if
// somebody removed its file, the agent's, each through its own address and
// through this host's API server, because the way to the first may be broken. A
// worker has only kubelet's account, which may read nodes and virtual IPs.
func (f *Flags) own() ([]kube.Access, error) {
	var failed error
	for _, path := range []string{state.AdminKubeconfig, state.AgentKubeconfig, state.KubeletKubeconfig} {
		path = f.file(path)
		if err := readable(path); err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		out := []kube.Access{{Kubeconfig: path}}
		if path != f.file(state.KubeletKubeconfig) {
			out = append(out, kube.Access{Kubeconfig: path, Server: ownAPI})
		}
		return out, nil
	}
	return nil, fmt.Errorf("read kubeconfig: %w", failed)
}

func readable(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return file.Close()
}

// OwnAccess returns this host's own way to the API, or that of --kubeconfig. It
// ignores the environment: see DeclareOwnKubeconfig.
func (f *Flags) OwnAccess(ctx context.Context) (kube.Access, error) {
	if f.Kubeconfig != "" {
		return kube.Access{Kubeconfig: f.Kubeconfig}, nil
	}
	all, err := f.own()
	if err != nil {
		return kube.Access{}, err
	}
	return best(ctx, all), nil
}

// probeLimit bounds the question whether a way to the API serves.
const probeLimit = 2 * time.Second

// best returns the first way that serves, or the first one if none does: its error is what
// a person then has to read. A single way is not asked.
func best(ctx context.Context, ways []kube.Access) kube.Access {
	if len(ways) > 1 {
		for _, way := range ways {
			if way.Serves(ctx, probeLimit) {
				return way
			}
		}
	}
	return ways[0]
}
