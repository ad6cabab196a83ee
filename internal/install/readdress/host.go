// Package readdress gives the files of a host the addresses of another place
// (docs/adr/0095). decide/readdress says when, and which addresses. Programs read these
// files when they start, so the host boots afterwards.
//
// Each file is made from the copy that Keep made, so a move that was cut off anywhere is
// simply done again.
package readdress

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/observe/netwatch"
	"github.com/holdfast/holdfast/internal/adapter/observe/settings"
	decide "github.com/holdfast/holdfast/internal/decide/readdress"
	"github.com/holdfast/holdfast/internal/install/grow"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Dir holds the files of a move. Copies, below it, has the host's files as they were before:
// some of them hold keys.
const (
	Dir    = "/var/lib/holdfast/readdress"
	copies = Dir + "/before"
)

// keptDir is the folder with copies of files that the agent puts back if somebody deletes them.
const keptDir = "/etc/holdfast/kept"

// cib is Pacemaker's configuration, which Pacemaker writes while it runs.
const cib = "/var/lib/pacemaker/cib/cib.xml"

// named are the files that name addresses of hosts and virtual IPs, and that nothing makes
// anew by itself. A pattern of filepath.Glob may match several.
var named = []string{
	"/etc/hosts",
	"/etc/kubernetes/*.conf",
	"/etc/kubernetes/manifests/etcd.yaml",
	"/etc/kubernetes/manifests/kube-*.yaml",
	"/etc/kubernetes/static-pod-resources/etcd-static-pod.yaml",
	state.EtcdPodManifest,
	corosync.Path,
	cib,
	"/var/lib/kubelet/kubeadm-flags.env",
	state.EtcdParametersPath,
	"/var/lib/holdfast/network/node.json",
	state.NodesPath,
	"/var/lib/holdfast/network/peers/*.json",
	"/var/lib/holdfast/objects/*.json",
	netwatch.Path,
}

// forgotten are files with what the API or the network said of the old place. Whoever
// reads them goes by site.json if they are missing.
// Pacemaker refuses a configuration whose digest is another one, and takes one without.
var forgotten = []string{settings.Path, cib + ".sig"}

// Host is a host whose addresses change.
type Host struct {
	// Root is that of the host.
	Root string
	// Name returns the name of its node.
	Name func() string
	Now  func() time.Time
	// Write replaces a file durably and gives it to its owner. Remove removes a file or a
	// folder; it is no error if there is none.
	Write  func(path string, data []byte, mode fs.FileMode, uid, gid int) error
	Remove func(path string) error
}

// NewHost returns this host.
func NewHost(name func() string) *Host {
	return &Host{Root: "/", Name: name, Now: time.Now, Write: host.WriteFileFor, Remove: os.RemoveAll}
}

func (h *Host) at(path string) string { return filepath.Join("/", h.Root, path) }

// Keep copies all files that a move changes. It may be done again before the first of them
// is changed.
func (h *Host) Keep() error {
	if err := h.Remove(h.at(copies)); err != nil {
		return err
	}
	files, err := h.files()
	if err != nil {
		return err
	}
	for _, path := range files {
		data, err := os.ReadFile(h.at(path))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = h.Write(h.at(copies+path), data, state.SecretFileMode, os.Getuid(), os.Getgid())
		}
		if err != nil {
			return fmt.Errorf("copy %s before the move: %w", path, err)
		}
	}
	return os.MkdirAll(h.at(copies), 0o700)
}

// files returns the paths of the host's files that a move changes, sorted.
func (h *Host) files() ([]string, error) {
	out := []string{site.Path}
	for _, pattern := range append(slices.Clone(named), state.FencingDir+"/*.json") {
		for _, in := range []string{"", keptDir} {
			found, err := filepath.Glob(h.at(in + pattern))
			if err != nil {
				return nil, err
			}
			for _, path := range found {
				out = append(out, "/"+strings.TrimPrefix(strings.TrimPrefix(path, h.at("/")), "/"))
			}
		}
	}
	out = append(out, keptDir+site.Path)
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Move gives the files of the host the addresses of one side of a plan.
func (h *Host) Move(p decide.Plan, to decide.Side, j decide.Journal) error {
	m := decide.Map(p, to, h.Name(), j)
	if err := h.addCertificates(p.Own(h.Name(), to, j), p.Place(to)); err != nil {
		return err
	}
	if err := h.ignition(p.Place(to)); err != nil {
		return err
	}
	// Pacemaker, which starts at each boot, puts a configuration aside whose digest is another one.
	for _, path := range forgotten {
		if err := h.Remove(h.at(path)); err != nil {
			return err
		}
	}
	return filepath.WalkDir(h.at(copies), func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		path := "/" + strings.TrimPrefix(strings.TrimPrefix(at, h.at(copies)), "/")
		data, err := os.ReadFile(at) //nolint:gosec // root alone writes in this folder
		if err == nil {
			data, err = h.changed(path, data, m, p.Place(to))
		}
		if err == nil {
			err = h.write(path, data)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
}

// changed returns what a file becomes.
func (h *Host) changed(path string, data []byte, m decide.Mapping, to decide.Place) ([]byte, error) {
	switch real := strings.TrimPrefix(path, keptDir); {
	case real == site.Path:
		return movedSite(data, to)
	case filepath.Dir(real) == state.FencingDir:
		return movedDevice(data, to)
	case path == "/etc/hosts":
		return h.movedNames(data, m)
	}
	return m.Rewrite(data), nil
}

// write replaces a file that is there, and keeps its mode and owner. A file that was
// removed since stays away, but for Pacemaker's configuration: Pacemaker itself puts that aside.
func (h *Host) write(path string, data []byte) error {
	info, err := os.Stat(h.at(path))
	mode := state.SecretFileMode
	switch {
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case path != cib:
		return nil
	default:
		if info, err = os.Stat(h.at(filepath.Dir(path))); err != nil {
			return err
		}
	}
	uid, gid := owner(info)
	return h.Write(h.at(path), data, mode, uid, gid)
}

func movedSite(data []byte, to decide.Place) ([]byte, error) {
	s, err := site.Unmarshal(data)
	if err != nil {
		return nil, err
	}
	s.Config = to.Config(s.Config)
	return s.Marshal()
}

// movedDevice gives a fencing device the URL of its BMC at the new place. All else of it
// stays: it is the same BMC.
func movedDevice(data []byte, to decide.Place) ([]byte, error) {
	var d state.FencingDevice
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, errors.New("no fencing device") // the cause may quote the file, which holds a password
	}
	at, named := to.BMCs[d.Target]
	if !named || at == d.Address {
		return data, nil
	}
	d.Address = at
	out, err := json.MarshalIndent(d, "", "  ")
	return append(out, '\n'), err
}

// movedNames changes /etc/hosts where the installation wrote it: in lines with a name of
// the API. The other lines belong to people.
func (h *Host) movedNames(data []byte, m decide.Mapping) ([]byte, error) {
	text, err := os.ReadFile(h.at(copies + site.Path))
	if err != nil {
		return nil, err
	}
	s, err := site.Unmarshal(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", site.Path, err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if slices.Contains(fields, s.APIName()) || slices.Contains(fields, s.ExternalAPIName()) {
			line = string(m.Rewrite([]byte(line)))
		}
		out.WriteString(line)
	}
	return []byte(out.String()), nil
}

// ignition writes the files of the host's Ignition config that differ at the new place, such
// as the networks that a proxy is not used for.
func (h *Host) ignition(to decide.Place) error {
	data, err := os.ReadFile(h.at(copies + site.Path))
	if err != nil {
		return err
	}
	have, err := site.Unmarshal(data)
	if err != nil {
		return fmt.Errorf("%s: %w", site.Path, err)
	}
	want := *have
	want.Config = to.Config(have.Config)
	cfg, err := grow.Difference(have, &want)
	if err != nil {
		return err
	}
	for _, u := range cfg.Units {
		return fmt.Errorf("unit %s names an address: nothing moves it", u.Name)
	}
	for _, f := range cfg.Files {
		if err := h.write(f.Path, f.Data); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return nil
}

// Forget removes the copies of the files as they were.
func (h *Host) Forget() error { return h.Remove(h.at(copies)) }
