// Package install turns a host that has its Ignition into a member of its
// cluster. It composes the release, kubeadm and the rendered configuration into
// steps; each can be cut off at any point and run again.
package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/observe/own"
	"github.com/holdfast/holdfast/internal/decide/installation"
	"github.com/holdfast/holdfast/internal/decide/wiping"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Files that tell the agent of a control plane how far its host is.
const (
	// CompletePath exists once a host is installed.
	CompletePath = state.InstalledPath
	// ReadyPath exists once a further control plane is a ready node: from then
	// on it takes part in the virtual IPs.
	ReadyPath = "/var/lib/holdfast/install/ready"
)

// doneDir holds one empty file for each step that the host has done.
const doneDir = state.InstallStepsDir

// retryAfter is the pause before a failed step is tried again.
const retryAfter = 3 * time.Second

// Options holds the inputs of an installation.
type Options struct {
	Site *site.Site
	// Text is the file from which Site was read.
	Text []byte
	// Release is the directory of the release on this host.
	Release string
	Log     io.Writer
	Now     func() time.Time
}

// run is one installation of this host.
type run struct {
	Options
	*recorder
	// done is the directory of the steps' markers, doneDir outside of tests.
	done string
	// pulled is the directory of a release from a registry.
	pulled string
	facts  state.HostFacts
	store  *release.Store
	// server gives this host its tokens and takes its reports.
	server *server
	// look reads what the host knows about itself. Tests have their own.
	look func([]netip.Prefix, []netip.Addr) (state.HostFacts, error)
	// lookup asks the host's name servers; root is /. Tests have their own.
	lookup func(context.Context, string) ([]netip.Addr, error)
	root   string
	// serves says what still serves of the site that is restored, empty for nothing.
	serves func(context.Context) (string, error)
	// life is lifeAt. Tests have their own.
	life func(ctx context.Context, address string) (l state.Life, knows bool, err error)
}

// step is one thing to do. It must be safe to repeat after it was cut off
// anywhere.
type step struct {
	name string
	do   func(context.Context) error
	// always marks a step that prepares something in memory for those after it,
	// or repairs what a reboot loses; it runs again even if it was done once.
	always bool
}

// Run installs this host and returns when it is complete, the context ends, or another
// program, or this one with another configuration, has to go on. It repeats a failing step for as long as it takes, because the
// step may wait for another host.
func Run(ctx context.Context, o Options) error {
	name, err := host.Name()
	if err != nil {
		return err
	}
	r := &run{Options: o, done: doneDir, pulled: pulledRelease, look: own.HostFacts, lookup: lookup, root: "/", recorder: &recorder{
		path: state.ProgressPath, now: o.Now, log: o.Log,
		p: state.Progress{Host: name, Role: o.Site.Role},
	}}
	r.serves, r.life = r.siteServes, r.lifeAt
	if r.server, err = newServer(o.Site, name, ownTokenPath, o.Now); err != nil {
		return err
	}
	report := newReporter(r.server.report)
	r.publish = report.publish
	reporting, stop := context.WithCancel(ctx)
	sent := make(chan struct{})
	go func() { report.run(reporting); close(sent) }()
	err = r.doAll(ctx)
	stop()
	<-sent
	if err == nil {
		report.flush(ctx, r.encoded())
	}
	return err
}

func (r *run) doAll(ctx context.Context) error {
	// A wipe that did not end was allowed to delete the host as it was before.
	if err := host.RemoveFile(filepath.Join(r.root, wiping.JournalPath)); err != nil {
		return err
	}
	for _, s := range r.steps() {
		if err := r.persist(ctx, s); err != nil {
			return err
		}
	}
	if _, err := Settle(); err != nil {
		return err
	}
	if err := host.WriteFileAtomic(CompletePath, nil, state.DefaultFileMode); err != nil {
		return err
	}
	r.complete()
	return nil
}

// steps returns the steps of this host's role, in order.
func (r *run) steps() []step {
	list := []step{
		{name: "look at this machine", do: r.lookAtHost, always: true},
		{name: "find own addresses", do: r.findAddresses, always: true},
		{name: "open release", do: r.openRelease, always: true},
	}
	if len(r.Site.Config.APIVIPs()) == 0 {
		list = append(list, step{name: "resolve API name", do: r.resolveAPI, always: true})
	}
	if r.Site.Role == state.RoleBootstrap {
		list = append(list, step{name: "hold API VIP", do: r.holdVIP, always: true})
	}
	list = append(list, step{name: "unpack release", do: r.unpack})
	if r.Site.Role != state.RoleBootstrap {
		list = append(list, step{name: "take machine configuration", do: r.takeFirst})
	}
	list = append(list, step{name: "load images", do: r.loadImages})
	if r.oneOfTwo() {
		list = append(list, step{name: "load etcd for podman", do: r.loadEtcdForPodman})
	}
	switch r.Site.Role {
	case state.RoleBootstrap:
		list = append(list,
			step{name: "write certificates", do: r.writeCertificates},
			step{name: "write files of the API server", do: r.writeAPIServerFiles})
		if r.Site.Restore != nil {
			list = append(list, step{name: "take the data of the backup", do: r.takeBackup})
		}
		list = append(list,
			step{name: "start control plane", do: r.kubeadmInit},
			step{name: "close files", do: closeFiles},
			step{name: "apply manifests", do: r.applyManifests},
			step{name: "join pod network", do: r.joinPodNetwork},
			step{name: "wait for control planes", do: r.waitControlPlanes})
		if r.oneOfTwo() {
			list = append(list, step{name: "wait for two-node set-up", do: r.waitTwoNode})
		}
		return append(list, step{name: "wait for nodes", do: r.waitCluster})
	case state.RoleMaster:
		list = append(list,
			step{name: "write certificates", do: r.writeCertificates},
			step{name: "write files of the API server", do: r.writeAPIServerFiles})
		if r.oneOfTwo() {
			list = append(list, step{name: "take the place of a lost host", do: r.takePlace})
		} else if r.Site.Topology().ControlPlanes > 1 {
			list = append(list, step{name: "come as the third control plane", do: r.comeAsThird})
		}
		return append(list,
			step{name: "join control plane", do: r.kubeadmJoin},
			step{name: "close files", do: closeFiles},
			step{name: "join pod network", do: r.joinPodNetwork},
			step{name: "wait until ready", do: r.waitReady},
			step{name: "take part in virtual IPs", do: r.joinVIPs})
	default:
		return append(list,
			step{name: "join cluster", do: r.kubeadmJoin},
			step{name: "close files", do: closeFiles},
			step{name: "join pod network", do: r.joinPodNetwork})
	}
}

// persist repeats a step until it succeeds, or this program has to end.
func (r *run) persist(ctx context.Context, s step) error {
	marker := filepath.Join(r.done, slug(s.name))
	if !s.always && host.Exists(marker) {
		return nil
	}
	r.start(s.name)
	for {
		err := r.sameSite()
		if err == nil {
			err = helped(s.do(ctx))
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			err = finish(marker)
		}
		r.end(err)
		if err == nil || ends(err) {
			return err
		}
		if err := host.Sleep(ctx, retryAfter); err != nil {
			return err
		}
		r.start(s.name)
	}
}

// helped adds to an error of the API what a person can do about it, where a step would otherwise be
// tried for ever.
func helped(err error) error {
	if err == nil {
		return nil
	}
	if help := installation.WebhookHelp(err.Error(), adminKubeconfig); help != "" {
		return fmt.Errorf("%w\n%s", err, help)
	}
	return err
}

// finish makes what a step did durable and then marks the step as done: kubeadm
// and containerd leave it to the kernel when their files reach the disk.
func finish(marker string) error {
	for _, dir := range []string{"/", "/var/lib/kubelet", "/var/lib/containerd", state.EtcdDataDir} {
		if err := host.SyncFilesystem(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return host.WriteFileAtomic(marker, nil, state.DefaultFileMode)
}

// started reports whether a step was begun before, in this run or an earlier
// one, and records that it is begun now.
func (r *run) started(name string) (bool, error) {
	path := r.startedPath(name)
	_, err := os.Stat(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	return false, host.WriteFileAtomic(path, nil, state.DefaultFileMode)
}

func (r *run) startedPath(name string) string { return filepath.Join(r.done, slug(name)+".started") }

// slug returns a step's name as a file name.
func slug(name string) string { return strings.ReplaceAll(name, " ", "-") }

// poll calls ready every interval until it answers true, or another configuration was
// applied. It shows what ready waits for, and its errors too, because the missing thing may
// be another host.
func (r *run) poll(ctx context.Context, interval time.Duration, ready func(context.Context) (bool, string, error)) error {
	for {
		if err := r.sameSite(); err != nil {
			return err
		}
		ok, waiting, err := ready(ctx)
		if ok && err == nil {
			return nil
		}
		if err != nil {
			waiting = err.Error()
		}
		r.wait(waiting)
		if err := host.Sleep(ctx, interval); err != nil {
			return err
		}
	}
}

func (r *run) systemctl(ctx context.Context, args ...string) error {
	_, err := host.Run(ctx, host.Command("systemctl", args...))
	if err != nil {
		return fmt.Errorf("units: %w", err)
	}
	return nil
}
