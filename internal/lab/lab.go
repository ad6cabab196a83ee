package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// DefaultRoot is the directory below which every lab keeps its state.
const DefaultRoot = "/var/lib/holdfast/labs"

// Files of a lab's directory.
const (
	optionsFile = "lab.json"
	faultsFile  = "faults.json"
	socketFile  = "control.sock"
	daemonFile  = "daemon.json"
	daemonLock  = "daemon.lock"
	daemonLog   = "daemon.log"
	siteDir     = "site"
	logsDir     = "logs"
)

// ErrNoLab reports that there is no lab of the wanted name.
var ErrNoLab = errors.New("no such lab")

// StickPath is where a host has the stick.
const StickPath = "/media/holdfast"

// Options holds what a lab is made from. They are stored with the lab, so that
// every later command sees the same.
type Options struct {
	Spec Spec `json:"spec"`
	// Release is the directory of the release. It is mounted read-only into
	// every host, or served to them if the spec says so; empty mounts none.
	Release string `json:"release,omitempty"`
	// Stick is a directory that every host finds at StickPath, read-only, as if
	// somebody had plugged in a USB stick; empty plugs in none.
	Stick string `json:"stick,omitempty"`
	// Agent is the holdfast-agent binary given to every host; empty gives none.
	Agent string `json:"agent,omitempty"`
	// Image is the reference of the host image in podman.
	Image string `json:"image"`
}

// Lab is one lab: the directory of its state, the options it was made from, and
// the layout that follows from them. It is a plain value; the daemon owns the
// hosts' power.
type Lab struct {
	Dir     string
	Options Options
	Layout  Layout
}

// New returns the lab that options describe. It touches nothing.
func New(root string, o Options) (*Lab, error) {
	o.Spec = o.Spec.WithDefaults()
	if err := o.Spec.Validate(); err != nil {
		return nil, err
	}
	return &Lab{Dir: filepath.Join(root, o.Spec.Name), Options: o, Layout: NewLayout(o.Spec)}, nil
}

// Open reads the lab of a name. It returns ErrNoLab if there is none.
func Open(root, name string) (*Lab, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	path := filepath.Join(root, name, optionsFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s (see 'holdfast lab list')", ErrNoLab, name)
	}
	if err != nil {
		return nil, err
	}
	var o Options
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return New(root, o)
}

// List returns the names of the labs below root, sorted.
func List(root string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(root, "*", optionsFile))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(found))
	for _, f := range found {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	return names, nil
}

func (b *Lab) save() error { return writeJSON(b.file(optionsFile), b.Options) }

// file returns the path of a file in the lab's directory.
func (b *Lab) file(name string) string { return filepath.Join(b.Dir, name) }

func (b *Lab) hostDir(h Host) string { return filepath.Join(b.Dir, "hosts", h.ID) }

// SiteDir returns the install directory of the lab's site.
func (b *Lab) SiteDir() string { return b.file(siteDir) }

// Kubeconfig returns the path at which the installer leaves the site's
// kubeconfig.
func (b *Lab) Kubeconfig() string { return filepath.Join(b.SiteDir(), "auth", "kubeconfig") }

// writeJSON writes a value that this package reads again later.
func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(path, append(data, '\n'), 0o600)
}

func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
