// Package names keeps a host's own name server in step with its cluster: the
// zone that it follows, its configuration, and the static pod that runs it.
package names

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	decide "github.com/holdfast/holdfast/internal/decide/names"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/coredns"
)

// Options holds what the reconciler needs besides the view.
type Options struct {
	// Root comes before every path; empty means the host itself.
	Root string
	// Zone is the path at which the server finds the zone file. On the host the
	// file is below Root. Empty means the same path.
	Zone string
	// Image is the full name of the image that holds CoreDNS.
	Image string
	// Reload makes a running server read its configuration again, and is no error
	// if none runs. Nil sends SIGUSR1.
	Reload func() error
	// Now is the clock.
	Now func() time.Time
}

// startGrace is the time for which a configuration with upstream name servers stays
// while the view has none: the agent may only just have begun to look for them.
const startGrace = 15 * time.Second

// Reconciler owns the name server's files.
type Reconciler struct {
	opts Options
	// begun is the time of the first view.
	begun time.Time
	// reload is true while a running server may not know its configuration.
	reload bool
}

// New returns the reconciler.
func New(opts Options) *Reconciler {
	if opts.Zone == "" {
		opts.Zone = coredns.ZonePath
	}
	if opts.Reload == nil {
		opts.Reload = func() error {
			return host.SignalPIDFile(filepath.Join(opts.Root, coredns.PIDFile), syscall.SIGUSR1)
		}
	}
	return &Reconciler{opts: opts}
}

// Name implements network.Reconciler.
func (p *Reconciler) Name() string { return "names" }

// Withdraw implements network.Reconciler. It does nothing: names are needed while the
// host runs.
func (p *Reconciler) Withdraw(context.Context) error { return nil }

// Reconcile implements network.Reconciler. The zone comes first, because a server that
// starts reads it; a running server sees a change of it by itself.
func (p *Reconciler) Reconcile(_ context.Context, view state.NetworkView) (string, error) {
	if p.begun.IsZero() {
		p.begun = p.opts.Now()
	}
	files, err := p.files(view)
	if err != nil || len(files) == 0 {
		return "", err
	}
	wrote, err := host.WriteFiles(p.opts.Root, files)
	for _, path := range wrote {
		p.reload = p.reload || path == p.path(coredns.ConfigPath)
	}
	if err != nil {
		return changed(wrote), fmt.Errorf("write the name server's files: %w", err)
	}
	if p.reload {
		if err := p.opts.Reload(); err != nil {
			return changed(wrote), fmt.Errorf("reload the name server: %w", err)
		}
		p.reload = false
	}
	return changed(wrote), nil
}

func (p *Reconciler) path(file string) string { return filepath.Join(p.opts.Root, file) }

// files returns the wanted files, or none while the view does not know enough:
// then the present files stay.
func (p *Reconciler) files(view state.NetworkView) ([]state.File, error) {
	zone, named := decide.Decide(view)
	server, placed := decide.DecideServer(view)
	wanted, err := p.wanted(view)
	if err != nil || !wanted || !named || !placed {
		return nil, err
	}
	var files []state.File
	if keep, err := p.keepsZone(zone); err != nil {
		return nil, err
	} else if !keep {
		files = append(files, state.File{Path: coredns.ZonePath, Data: coredns.Zone(zone)})
	}
	if keep, err := p.keepsConfig(server); err != nil {
		return nil, err
	} else if !keep {
		files = append(files, state.File{Path: coredns.ConfigPath, Data: coredns.Config(server, p.opts.Zone)})
	}
	pod, err := coredns.Pod(p.opts.Image)
	if err != nil {
		return nil, err
	}
	return append(files, state.File{Path: coredns.PodPath, Data: pod, Mode: state.SecretFileMode}), nil
}

// wanted reports whether the host has a name server of its own. An existing one
// stays when the site takes over the load balancer: it is still asked for names
// of nodes.
func (p *Reconciler) wanted(view state.NetworkView) (bool, error) {
	if decide.Ours(view) {
		return true, nil
	}
	have, err := readIfThere(p.path(coredns.PodPath))
	return len(have) > 0, err
}

// keepsZone reports whether the zone on disk is better than the new one: it has
// the nodes, and nobody knows them now.
func (p *Reconciler) keepsZone(z decide.Zone) (bool, error) {
	if z.Complete {
		return false, nil
	}
	have, err := readIfThere(p.path(coredns.ZonePath))
	return coredns.Complete(have), err
}

// keepsConfig reports whether the configuration on disk stays for a while,
// because no name server of the site has been found so far.
func (p *Reconciler) keepsConfig(s decide.Server) (bool, error) {
	if len(s.Upstreams) > 0 || p.opts.Now().Sub(p.begun) >= startGrace {
		return false, nil
	}
	have, err := readIfThere(p.path(coredns.ConfigPath))
	return coredns.Forwards(have), err
}

func readIfThere(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// changed names the files that were written.
func changed(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = filepath.Base(p)
	}
	return "wrote " + strings.Join(names, ", ")
}
