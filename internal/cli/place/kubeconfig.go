package place

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Files of this host.
const (
	ownAPI    = "https://127.0.0.1:6443" // this host's API server
	authority = "/etc/kubernetes/pki/ca.crt"
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
func (f *Flags) OwnAccess() (kube.Access, error) {
	if f.Kubeconfig != "" {
		return kube.Access{Kubeconfig: f.Kubeconfig}, nil
	}
	all, err := f.own()
	if err != nil {
		return kube.Access{}, err
	}
	return all[0], nil
}
