package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/version"

	"github.com/holdfast/holdfast/internal/adapter/clock"
	"github.com/holdfast/holdfast/internal/adapter/eviction"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/doctor"
)

// Gatherer looks at what the gates ask of a host. A look reads files and asks programs
// of this host. Programs are started for it only to ask Corosync, once in linksLife, and
// rpm, after its database has changed.
type Gatherer struct {
	Name     string
	Kind     parachute.Kind
	Releases Releases
	Now      func() time.Time
	// Version asks this host's API server for its version.
	Version func(ctx context.Context) (version.Info, error)
	// Pacemaker is what the agent last saw of it; nil on a host without it.
	Pacemaker func() pacemakerstatus.Input
	// Links asks Corosync whether its links work; nil on a host without it.
	Links func(ctx context.Context) (bool, error)
	// Packages tells what etcd runs on. It remembers its answer while no file changes.
	Packages func(ctx context.Context) (updates.Stack, error)

	links kept[bool]
	proxy kept[gate.Version]
	sizes kept[uint64]
}

// kept is an answer that stays while its key does, and for a time.
type kept[T any] struct {
	key   string
	at    time.Time
	value state.Fact[T]
}

// get returns the answer. One that is unknown is asked for each time.
func (k *kept[T]) get(key string, now time.Time, life time.Duration, ask func() (T, error)) state.Fact[T] {
	if age := now.Sub(k.at); k.value.Known && k.key == key && age >= 0 && age < life {
		return k.value
	}
	value, err := ask()
	*k = kept[T]{key, now, state.Fact[T]{Known: err == nil, Value: value}}
	return k.value
}

// known makes a fact of an answer.
func known[T any](value T, err error) state.Fact[T] {
	if err != nil {
		return state.Fact[T]{}
	}
	return state.Known(value)
}

// proxyLife is how long the version of kube-proxy is taken for true: its metrics are
// the only thing that tells it, and are long.
const proxyLife = 10 * time.Minute

// linksLife is how long the state of Corosync's links is taken for true.
const linksLife = time.Minute

// Gather looks once.
func (g *Gatherer) Gather(ctx context.Context) gate.Host {
	out := gate.Host{Name: g.Name, Worker: g.Kind == parachute.Worker, Pacemaker: g.Kind == parachute.OfTwo}
	running, err := release.Current("/")
	if err != nil {
		running = ""
	}
	out.Kubelet = g.kubelet(kubeletOf(running))
	out.Proxy = g.proxy.get("", g.Now(), proxyLife, func() (gate.Version, error) { return proxyVersion(ctx, proxyMetrics) })
	if !out.Worker {
		out.APIServer, out.Emulates = g.server(ctx)
	}
	if about, err := g.Releases.About(running); err == nil {
		out.Written = state.Known(written(about))
	}
	if out.Pacemaker && g.Pacemaker != nil {
		addPacemaker(&out, g.Pacemaker())
	}
	if out.Pacemaker && g.Packages != nil {
		if below, err := g.Packages(ctx); err == nil {
			out.Stack, out.Loose = state.Known(below.Have), state.Known(below.Loose)
		}
	}
	if out.Pacemaker && g.Links != nil {
		out.Links = g.links.get("", g.Now(), linksLife, func() (bool, error) { return g.Links(ctx) })
	}
	out.Disks = known(g.disks(running))
	out.Certificates = known(certificates("/"))
	if kept, off, err := clock.Read(); err == nil {
		out.Synchronised = state.Known(kept)
		out.Offset = state.Fact[time.Duration]{Known: kept, Value: off}
	}
	if running != "" {
		out.Edited = known(release.Changed("/", running))
	}
	return out
}

// kubelet returns the version of the kubelet of a release.
func (g *Gatherer) kubelet(running string) state.Fact[gate.Version] {
	if about, err := g.Releases.About(running); err == nil {
		return state.Known(about.Kubernetes)
	}
	// The agent came with a kubelet. That one is in the place of this agent, unless
	// somebody changed it, which is another gate.
	return known(gate.ParseVersion(payload.KubernetesVersion))
}

// server returns the version of this host's API server, and as which it behaves.
func (g *Gatherer) server(ctx context.Context) (is, emulates state.Fact[gate.Version]) {
	info, err := g.Version(ctx)
	if err != nil {
		return is, emulates
	}
	is = known(gate.ParseVersion(info.GitVersion))
	emulates = is
	emulates.Value.Patch = 0
	if info.EmulationMajor != "" {
		emulates = known(gate.ParseVersion(info.EmulationMajor + "." + info.EmulationMinor + ".0"))
	}
	return is, emulates
}

// proxyMetrics is where kube-proxy of this host tells of itself.
const proxyMetrics = "http://127.0.0.1:10249/metrics"

// maxMetrics bounds what is read of them, in bytes.
const maxMetrics = 4 << 20

var buildInfo = regexp.MustCompile(`(?m)^kubernetes_build_info\{[^}]*git_version="([^"]+)"`)

func proxyVersion(ctx context.Context, from string) (gate.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return gate.Version{}, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return gate.Version{}, err
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxMetrics))
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return gate.Version{}, err
	}
	found := buildInfo.FindSubmatch(data)
	if found == nil {
		return gate.Version{}, errors.New("kube-proxy does not say its version")
	}
	return gate.ParseVersion(string(found[1]))
}

// addPacemaker adds what Pacemaker says of this host.
func addPacemaker(out *gate.Host, in pacemakerstatus.Input) {
	if !in.Cluster.Known {
		return
	}
	c := in.Cluster.Value
	out.Fencing = state.Known(c.Options.FencingEnabled)
	i := slices.IndexFunc(c.Nodes, func(n crmmon.Node) bool { return n.Name == in.Host })
	if i < 0 {
		out.Online = state.Known(false)
		return
	}
	n := c.Nodes[i]
	out.Online = state.Known(n.Online && !n.Pending && !n.Unclean)
	out.Features = state.Fact[string]{Known: n.Features != "", Value: n.Features}
	out.Marked = state.Known(marks(c, n))
	failed := []string{}
	for _, f := range c.Failures {
		if f.Node == n.Name {
			failed = append(failed, strings.TrimSpace(f.Task+" of "+f.Resource))
		}
	}
	slices.Sort(failed)
	out.Failed = state.Known(slices.Compact(failed))
}

// marks lists what keeps Pacemaker from working on a node.
func marks(c crmmon.Cluster, n crmmon.Node) []string {
	out := []string{}
	for what, is := range map[string]bool{
		"standby": n.Standby || n.StandbyOnFail, "maintenance": n.Maintenance, "maintenance-mode of the cluster": c.Options.Maintenance, "stop-all-resources": c.Options.StopAll,
	} {
		if is {
			out = append(out, what)
		}
	}
	slices.Sort(out)
	return out
}

// The file systems that count, with kubelet's signal for each and its share of the hundred where
// the host sets no threshold.
var filesystems = []struct {
	path, signal string
	share        uint64
}{{payload.ReleasesDir, "", 0}, {"/var/lib/holdfast", "nodefs.available", 10}, {"/var/lib/containerd", "imagefs.available", 15}, {"/var/lib/kubelet", "nodefs.available", 10}}

// disks returns what is free. While another release lies here whole, none needs more
// room.
func (g *Gatherer) disks(running string) ([]gate.Disk, error) {
	var out []gate.Disk
	seen := map[uint64]int{}
	need, evicts := g.need(running), eviction.Thresholds("/")
	for _, f := range filesystems {
		var st unix.Stat_t
		path := f.path
		for ; path != "/" && !host.Exists(path); path = filepath.Dir(path) {
			continue
		}
		free, size, err := host.Space(path)
		if err := errors.Join(err, unix.Stat(path, &st)); err != nil {
			return nil, fmt.Errorf("file system of %s: %w", f.path, err)
		}
		d := gate.Disk{Path: f.path, Free: free, Need: need[f.path], Line: eviction.Line(evicts[f.signal], size, f.share)}
		if i, known := seen[st.Dev]; known { // two folders of one file system
			out[i].Need += d.Need
			out[i].Line = max(out[i].Line, d.Line)
			continue
		}
		seen[st.Dev] = len(out)
		out = append(out, d)
	}
	return out, nil
}

// need returns what a further release takes: as much as the one that runs, with its
// images twice, packed and unpacked.
func (g *Gatherer) need(running string) map[string]uint64 {
	layout := g.sizes.get(running, g.Now(), 24*time.Hour, func() (uint64, error) {
		store, err := layoutOf("/", running)
		if err != nil {
			return 0, err
		}
		return sizeOf(store.Dir())
	}).Value
	programs, err := sizeOf(filepath.Join(payload.ReleasesDir, strings.TrimPrefix(running, "sha256:")))
	if running == "" || err != nil {
		programs = 0
	}
	return map[string]uint64{payload.ReleasesDir: programs, "/var/lib/holdfast": layout, "/var/lib/containerd": 2 * layout}
}

// sizeOf adds up the files of a folder, in bytes; 0 if there is none.
func sizeOf(dir string) (uint64, error) {
	var sum uint64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			sum += uint64(max(info.Size(), 0))
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return sum, err
}

// certificates returns those of a host with their ends.
func certificates(root string) ([]gate.Certificate, error) {
	list, err := doctor.Certificates(root)
	if err != nil {
		return nil, err
	}
	out := []gate.Certificate{}
	for _, c := range list {
		out = append(out, gate.Certificate{Name: c.Path, Ends: c.Ends.UTC()})
	}
	return out, nil
}
