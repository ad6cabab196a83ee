// Package balancer keeps haproxy on a control plane in step with the cluster: its
// static pod, its configuration for the next start, and the API servers of the
// running haproxy.
package balancer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/haproxy"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/haproxy"
)

// CAPath is the file in which kubeadm keeps the certificates that verify API
// servers. haproxy gets a copy: it may read nothing else in that folder, and a
// new authority is noticed.
const CAPath = state.KubernetesCA

// The times of a reload.
const (
	// reloadPause is the least time between two reloads. Only a change that does
	// not concern API servers needs a reload, which is rare. Should it come
	// often, it must not use up haproxy's old processes.
	reloadPause = 10 * time.Second
	// reloadTime bounds how long a new process may take to answer.
	reloadTime = 5 * time.Second
	reloadStep = 50 * time.Millisecond
)

// A haproxy that takes connections, and at whose socket nobody listens, can be told of no API server
// any more. Two that ran at once leave one behind, as in an upgrade that went back (lab,
// 2026-11-27). After deafFor its pod starts anew: kubelet takes up to 25 s to end the old one, so
// restartPause is the least time between two starts.
const (
	deafFor      = 15 * time.Second
	restartPause = 2 * time.Minute
)

// passes bounds how often one run looks at the servers: one that is drained and
// idle is removed in the second pass.
const passes = 3

// Options holds the paths, the image and the client of haproxy.
type Options struct {
	// Root is the root of the host's files, "/" except in tests.
	Root string
	// CA is the file with the cluster's authority, below Root.
	CA string
	// Image is haproxy's.
	Image string
	// Paths are haproxy's own, as haproxy sees them; Client's are as this process
	// does.
	Paths  render.Paths
	Client haproxy.Client
	// Accepts reports whether haproxy takes connections.
	Accepts func(context.Context) bool
	Now     func() time.Time
}

// HostOptions returns the options of a host.
func HostOptions(image string) Options {
	return Options{
		Root: "/", CA: CAPath, Image: image, Paths: render.HostPaths,
		Client: haproxy.Client{Socket: render.HostPaths.Socket}, Accepts: haproxy.Accepts, Now: time.Now,
	}
}

// Reconciler is the one writer of haproxy's files and servers.
type Reconciler struct {
	Options
	// reloaded is the time of the last reload of haproxy.
	reloaded time.Time
	// deaf is since when haproxy takes connections, and nobody listens at its socket.
	deaf time.Time
}

// New returns the reconciler.
func New(o Options) *Reconciler { return &Reconciler{Options: o} }

// Name returns the name for people.
func (*Reconciler) Name() string { return "haproxy" }

// Withdraw does nothing: haproxy outlives the agent.
func (*Reconciler) Withdraw(context.Context) error { return nil }

// Reconcile writes what haproxy starts with, then brings a running haproxy to it.
func (p *Reconciler) Reconcile(ctx context.Context, v state.NetworkView) (string, error) {
	wanted := apilb.Wanted(v)
	switch {
	case !wanted.Known:
		return "", nil
	case !wanted.Value:
		return p.remove()
	}
	site, known, err := p.site(v)
	if err != nil || !known {
		return "", err
	}
	info, unanswered := p.Client.Info(ctx)
	p.hear(ctx, unanswered)
	restarted, anew, err := p.restart()
	if err != nil {
		return "", err
	}
	files, err := render.Files(site, p.Image, restarted)
	if err != nil {
		return "", err
	}
	written, failed := host.WriteFiles(p.Root, files)
	var said []string
	if anew {
		said = append(said, "haproxy takes connections, and nobody listens at its socket: its pod starts anew")
	}
	if len(written) > 0 {
		said = append(said, "wrote "+strings.Join(written, ", "))
	}
	// A full disk must not keep lost API servers in a running haproxy.
	if unanswered != nil || info.Stopping { // kubelet starts it, or starts it anew
		return strings.Join(said, "; "), failed
	}
	done, err := p.lead(ctx, site, info, failed == nil)
	return strings.Join(append(said, done...), "; "), errors.Join(failed, err)
}

// site returns what haproxy should be, unknown while the nodes are or while the
// host has no authority yet.
func (p *Reconciler) site(v state.NetworkView) (render.Site, bool, error) {
	backends := apilb.Backends(v)
	if !backends.Known {
		return render.Site{}, false, nil
	}
	ca, err := os.ReadFile(filepath.Join(p.Root, p.CA))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(ca) == 0 {
		return render.Site{}, false, nil
	}
	if err != nil {
		return render.Site{}, false, fmt.Errorf("read the cluster's authority: %w", err)
	}
	_, v6 := apilb.Families(v)
	return render.Site{V6: v6, Backends: backends.Value, CA: ca, Paths: p.Paths}, true, nil
}

// hear notes since when haproxy takes connections, and nobody listens at its socket. err is that
// of a question.
func (p *Reconciler) hear(ctx context.Context, err error) {
	switch {
	case !haproxy.Unheard(err) || !p.Accepts(ctx):
		p.deaf = time.Time{}
	case p.deaf.IsZero():
		p.deaf = p.Now()
	}
}

// restart returns the annotation of the pod's last start by the agent, and whether it starts anew
// now. The file itself remembers it, so that an agent that starts anew changes nothing.
func (p *Reconciler) restart() (at string, anew bool, err error) {
	data, err := os.ReadFile(filepath.Join(p.Root, render.PodPath))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", false, fmt.Errorf("read haproxy's pod: %w", err)
	}
	var pod corev1.Pod
	if yaml.Unmarshal(data, &pod) == nil { // what is torn is written anew
		at = pod.Annotations[render.Restarted]
	}
	now := p.Now()
	last, _ := time.Parse(time.RFC3339, at)
	since := now.Sub(last) // negative if the clock was ahead then: that start says nothing
	if p.deaf.IsZero() || now.Sub(p.deaf) < deafFor || since >= 0 && since < restartPause {
		return at, false, nil
	}
	p.deaf = time.Time{}
	return now.UTC().Format(time.RFC3339), true, nil
}

// remove removes the pod from a host that should have none.
func (p *Reconciler) remove() (string, error) {
	err := os.Remove(filepath.Join(p.Root, render.PodPath))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return "removed its pod", nil
}

// lead brings a running haproxy to what was written. One that does not run starts
// with it.
func (p *Reconciler) lead(ctx context.Context, site render.Site, info haproxy.Info, written bool) ([]string, error) {
	fingerprint, err := render.Fingerprint(site)
	if err != nil {
		return nil, err
	}
	var said []string
	var failed error
	if written && info.Fingerprint != fingerprint && p.Now().Sub(p.reloaded) >= reloadPause {
		p.reloaded = p.Now()
		if failed = p.reload(ctx, fingerprint); failed == nil {
			said = append(said, "reloaded")
		}
	}
	changes, err := p.serve(ctx, site)
	return append(said, changes...), errors.Join(failed, err)
}

// reload makes haproxy read its configuration and waits until haproxy works by
// it.
func (p *Reconciler) reload(ctx context.Context, fingerprint string) error {
	if err := p.Client.Reload(ctx); err != nil {
		return fmt.Errorf("reload haproxy: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reloadTime)
	defer cancel()
	for {
		info, err := p.Client.Info(ctx)
		if err == nil && info.Fingerprint == fingerprint {
			return nil
		}
		if err := host.Sleep(ctx, reloadStep); err != nil {
			return errors.New("haproxy keeps its old configuration; the error in the new one is in /var/log/pods/kube-system_haproxy-*")
		}
	}
}

// serve adds, drains and removes API servers until nothing is left to do now.
func (p *Reconciler) serve(ctx context.Context, site render.Site) ([]string, error) {
	var said []string
	for range passes {
		servers, err := p.Client.Servers(ctx)
		if errors.Is(err, haproxy.ErrStopping) {
			return said, nil
		}
		if err != nil {
			return said, err
		}
		changes := apilb.Changes(servers, site.Backends)
		if len(changes) == 0 {
			break
		}
		for _, c := range changes {
			if err := p.Client.Apply(ctx, c, p.Paths.CA); err != nil {
				return said, err
			}
			said = append(said, string(c.Verb)+" "+c.Server)
		}
	}
	return said, nil
}
