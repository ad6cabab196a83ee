// Package dualstack gives the files of a host, and the objects of its cluster, the second
// address family (docs/adr/0104). decide/dualstack says when, and what a text becomes. Each of
// these steps may be cut off anywhere and done again.
package dualstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/observe/settings"
	decide "github.com/holdfast/holdfast/internal/decide/dualstack"
	"github.com/holdfast/holdfast/internal/install/grow"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/render/cni"
)

// The files of a host that name networks or addresses of a family.
const (
	serverPath  = "/etc/kubernetes/manifests/kube-apiserver.yaml"
	managerPath = "/etc/kubernetes/manifests/kube-controller-manager.yaml"
	flagsPath   = "/var/lib/kubelet/kubeadm-flags.env"
)

// keptDir is the folder with copies of files that the agent puts back if somebody deletes them.
const keptDir = "/etc/holdfast/kept"

// Host is a host that gets the second family.
type Host struct {
	// Root is that of the host.
	Root string
	// Write replaces a file durably and gives it to its owner.
	Write func(path string, data []byte, mode fs.FileMode, uid, gid int) error
}

// NewHost returns this host.
func NewHost() *Host { return &Host{Root: "/", Write: host.WriteFileFor} }

func (h *Host) at(path string) string { return filepath.Join("/", h.Root, path) }

// pods says what becomes of the files of the static pods.
var pods = []struct {
	path string
	both func([]byte, decide.Plan) ([]byte, error)
}{{serverPath, decide.Server}, {managerPath, decide.Manager}}

// Serve gives the files of the API server and of the controller manager both families. kubelet
// starts these programs anew.
func (h *Host) Serve(p decide.Plan) error {
	for _, m := range pods {
		err := h.change(m.path, func(have []byte) ([]byte, error) { return m.both(have, p) })
		if err != nil {
			return err
		}
	}
	return nil
}

// Serves reports whether these files have both families.
func (h *Host) Serves(p decide.Plan) (bool, error) {
	for _, m := range pods {
		have, err := os.ReadFile(h.at(m.path))
		if err != nil {
			return false, err
		}
		both, err := m.both(have, p)
		if err != nil {
			return false, fmt.Errorf("%s: %w", m.path, err)
		}
		if !slices.Equal(have, both) {
			return false, nil
		}
	}
	return true, nil
}

// Change gives the files of this host both families; programs read them at the next boot.
// addresses are the host's own, and shares those of its Node in the pod networks, one of each
// family. site.json is last: by it the host is one of both families.
func (h *Host) Change(p decide.Plan, addresses []netip.Addr, shares []netip.Prefix) error {
	err := h.change(flagsPath, func(have []byte) ([]byte, error) { return decide.NodeIP(have, addresses) })
	if err != nil {
		return err
	}
	if err := h.runtime(shares); err != nil {
		return err
	}
	data, err := os.ReadFile(h.at(site.Path))
	if err != nil {
		return err
	}
	have, err := site.Unmarshal(data)
	if err != nil {
		return fmt.Errorf("%s: %w", site.Path, err)
	}
	want := *have
	want.Config = p.Config(have.Config)
	if err := h.ignition(have, &want); err != nil {
		return err
	}
	if err := h.settings(p); err != nil {
		return err
	}
	return h.change(site.Path, func(have []byte) ([]byte, error) {
		s, err := site.Unmarshal(have)
		if err != nil {
			return nil, err
		}
		s.Config = p.Config(s.Config)
		return s.Marshal()
	})
}

// runtime connects the container runtime to the host's shares of both pod networks, as the
// installation does.
func (h *Host) runtime(shares []netip.Prefix) error {
	data, err := os.ReadFile(h.at(cni.SubnetFile))
	if err != nil {
		return fmt.Errorf("the share of the pod network: %w", err)
	}
	lease, err := cni.ParseLease(data)
	if err != nil {
		return fmt.Errorf("%s: %w", cni.SubnetFile, err)
	}
	lease.Subnets = shares
	file, err := cni.File(lease)
	if err != nil {
		return err
	}
	return h.Write(h.at(file.Path), file.Data, file.Mode, os.Getuid(), os.Getgid())
}

// settings adds the network of the second family to what the API last said of the site's network. All
// else stays: site.json does not know it, and the host starts with it, such as the router ids of VRRP.
func (h *Host) settings(p decide.Plan) error {
	network, err := netip.ParsePrefix(p.Machines)
	if err != nil {
		return err
	}
	err = h.rewrite(settings.Path, func(have []byte) ([]byte, error) {
		var in kube.Infrastructure
		if json.Unmarshal(have, &in) != nil || len(in.MachineNetworks) == 0 || slices.Contains(in.MachineNetworks, network) {
			return have, nil //nolint:nilerr // without networks in it, those of site.json count
		}
		in.MachineNetworks = append(in.MachineNetworks, network)
		out, err := json.Marshal(in)
		return append(out, '\n'), err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ignition writes the files of the host's Ignition config that differ with both families, such
// as the networks that a proxy is not used for.
func (h *Host) ignition(have, want *site.Site) error {
	cfg, err := grow.Difference(have, want)
	if err != nil {
		return err
	}
	for _, u := range cfg.Units {
		return fmt.Errorf("unit %s names a network: nothing changes it", u.Name)
	}
	for _, f := range cfg.Files {
		if err := h.change(f.Path, func([]byte) ([]byte, error) { return f.Data, nil }); err != nil {
			return err
		}
	}
	return nil
}

// change replaces a file, and the copy from which the agent puts it back; the copy first, so
// that no deletion brings the old one. A copy that is not there stays away; a file that is not
// there is an error.
func (h *Host) change(path string, to func([]byte) ([]byte, error)) error {
	for _, at := range []string{keptDir + path, path} {
		err := h.rewrite(at, to)
		if err != nil && (at == path || !errors.Is(err, fs.ErrNotExist)) {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return nil
}

func (h *Host) rewrite(path string, to func([]byte) ([]byte, error)) error {
	have, err := os.ReadFile(h.at(path))
	if err != nil {
		return err
	}
	is, err := to(have)
	if err != nil || slices.Equal(have, is) {
		return err
	}
	info, err := os.Stat(h.at(path))
	if err != nil {
		return err
	}
	uid, gid := os.Getuid(), os.Getgid()
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		uid, gid = int(sys.Uid), int(sys.Gid)
	}
	return h.Write(h.at(path), is, info.Mode().Perm(), uid, gid)
}
