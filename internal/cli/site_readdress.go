package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/kube/vipobject"
	"github.com/holdfast/holdfast/internal/adapter/observe/settings"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/readdress"
	"github.com/holdfast/holdfast/internal/decide/vips"
	install "github.com/holdfast/holdfast/internal/install/readdress"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// moveAccess is the API of a cluster that moves.
type moveAccess struct {
	client client.Client
}

// open reads the file and compares it with the site: of the API, or with --here of this host.
func (f readdressFlags) open(ctx context.Context, streams Streams) (*move, error) {
	m := &move{readdressFlags: f, streams: streams, backup: f.backupFirst(streams, "before site readdress")}
	to, err := m.hosts()
	if err != nil {
		return nil, err
	}
	file, err := f.edited(streams)
	if err != nil {
		return nil, err
	}
	have, hosts, err := m.now(ctx, file)
	if err != nil {
		return nil, err
	}
	if err := sameCluster(have, file); err != nil {
		return nil, err
	}
	if m.plan, err = decide.New(have, file, hosts, to); err != nil {
		return nil, &UsageError{Err: fmt.Errorf("%s: %w", f.file, err)}
	}
	m.plan.ID, m.plan.By, m.plan.At, m.plan.Local = strings.ToLower(rand.Text()[:12]), cmp.Or(f.by, login()), time.Now().UTC().Truncate(time.Second), f.here
	if f.here {
		m.plan.ID = decide.LocalID(m.plan.To)
	}
	return m, nil
}

// edited returns the edited install-config.yaml.
func (f readdressFlags) edited(streams Streams) (*config.InstallConfig, error) {
	data, err := readFile(streams.In, f.file)
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	file, err := config.Parse(data)
	if err != nil {
		return nil, &UsageError{Err: fmt.Errorf("%s: %w", f.file, err)}
	}
	return file, nil
}

func sameCluster(have, file *config.InstallConfig) error {
	if have.ClusterDomain() == file.ClusterDomain() {
		return nil
	}
	return coded(command.ExitRefused, "refused: the file is that of %s, and this cluster is %s: choose the file or the cluster anew", file.ClusterDomain(), have.ClusterDomain())
}

// now returns the configuration of the site with the addresses that it has now, and the
// hosts' own addresses.
func (m *move) now(ctx context.Context, file *config.InstallConfig) (*config.InstallConfig, map[string][]netip.Addr, error) {
	if m.here {
		return here("/", file)
	}
	c, err := m.cluster(ctx)
	if err != nil {
		return nil, nil, err
	}
	m.access = c
	have, err := c.config(ctx)
	if err != nil {
		return nil, nil, err
	}
	hosts, err := c.hosts(ctx)
	return have, hosts, err
}

func (f readdressFlags) cluster(ctx context.Context) (*moveAccess, error) {
	access, err := f.place.OpenAPI(ctx)
	if err != nil {
		return nil, err
	}
	c, err := vipobject.Open(access)
	return &moveAccess{c}, err
}

// here returns the same by the files of this host. Whoever may read them is root here, so nothing has to be
// signed, and a worker needs no key of join secrets.
func here(root string, file *config.InstallConfig) (*config.InstallConfig, map[string][]netip.Addr, error) {
	data, err := os.ReadFile(filepath.Join(root, site.Path))
	if err != nil {
		return nil, nil, fmt.Errorf("the site of this host: %w", err)
	}
	s, err := site.Unmarshal(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", site.Path, err)
	}
	// holdfast vip changes what hosts keep of the API, and not the site's file
	now, err := settings.Load(s, filepath.Join(root, settings.Path))
	if err != nil {
		return nil, nil, err
	}
	have := decide.Today(s.Config, now)
	if !s.Role.ControlPlane() {
		have = decide.OfWorker(have, file)
	}
	data, err = os.ReadFile(filepath.Join(root, state.NodesPath))
	if err != nil {
		return nil, nil, fmt.Errorf("the addresses of the hosts: %w", err)
	}
	var list []state.Node
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", state.NodesPath, err)
	}
	hosts := map[string][]netip.Addr{}
	for _, n := range list {
		hosts[n.Name] = n.Addresses
	}
	return have, hosts, nil
}

// config returns what the cluster was installed from, with the addresses that it has now.
func (a *moveAccess) config(ctx context.Context) (*config.InstallConfig, error) {
	var kept corev1.ConfigMap
	if err := a.client.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "cluster-config-v1"}, &kept); err != nil {
		return nil, fmt.Errorf("read what this cluster was installed from: %w", err)
	}
	out, err := config.Made([]byte(kept.Data["install-config"]))
	if err != nil {
		return nil, fmt.Errorf("ConfigMap kube-system/cluster-config-v1: %w", err)
	}
	infra, err := a.infrastructure(ctx)
	if err != nil {
		return nil, err
	}
	if p := infra.Status.PlatformStatus; p != nil && p.BareMetal != nil && out.Platform.BareMetal != nil {
		metal := *out.Platform.BareMetal
		metal.APIVIPs, metal.IngressVIPs = p.BareMetal.APIServerInternalIPs, p.BareMetal.IngressIPs
		out.Platform.BareMetal = &metal
		if len(p.BareMetal.MachineNetworks) > 0 {
			out.Networking.MachineNetwork = nil
			for _, n := range p.BareMetal.MachineNetworks {
				out.Networking.MachineNetwork = append(out.Networking.MachineNetwork, config.MachineNetworkEntry{CIDR: string(n)})
			}
		}
	}
	return out, nil
}

func (a *moveAccess) infrastructure(ctx context.Context) (*configv1.Infrastructure, error) {
	return infrastructureOf(ctx, a.client)
}

func infrastructureOf(ctx context.Context, c client.Reader) (*configv1.Infrastructure, error) {
	var out configv1.Infrastructure
	err := c.Get(ctx, client.ObjectKey{Name: "cluster"}, &out)
	return &out, err
}

// placeOf returns what the Infrastructure object says of a move. An address that cannot be read is
// that of no place.
func placeOf(infra *configv1.Infrastructure) decide.Object {
	out := decide.Object{Announced: infra.Annotations[kube.ReaddressAnnotation], Settled: infra.Annotations[kube.ReaddressedAnnotation]}
	p := infra.Status.PlatformStatus
	if p == nil || p.BareMetal == nil {
		return out
	}
	for _, text := range slices.Concat(p.BareMetal.APIServerInternalIPs, p.BareMetal.IngressIPs) {
		if a, err := netip.ParseAddr(text); err == nil {
			out.VIPs = append(out.VIPs, a)
		}
	}
	for _, text := range p.BareMetal.MachineNetworks {
		if n, err := netip.ParsePrefix(string(text)); err == nil {
			out.Networks = append(out.Networks, n)
		}
	}
	return out
}

func (a *moveAccess) nodes(ctx context.Context) ([]corev1.Node, error) {
	var list corev1.NodeList
	err := a.client.List(ctx, &list)
	return list.Items, err
}

// Nodes returns the nodes of the cluster.
func (a *moveAccess) Nodes(ctx context.Context) ([]state.Node, error) {
	list, err := a.nodes(ctx)
	var out []state.Node
	for _, n := range list {
		out = append(out, kube.NodeOf(&n))
	}
	return out, err
}

// backupFirst has the site take a backup for a reason, if it has no good one that is young enough.
func (f readdressFlags) backupFirst(streams Streams, reason string) backupFirst {
	return backupFirst{without: f.noBackup, take: takingBackup(f.place, streams, "", "", reason), out: streams.Err}
}

func (a *moveAccess) hosts(ctx context.Context) (map[string][]netip.Addr, error) {
	list, err := a.nodes(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string][]netip.Addr{}
	for _, n := range list {
		out[n.Name] = kube.NodeOf(&n).Addresses
	}
	return out, nil
}

// write sets annotations of the Infrastructure object as it was read, and removes those whose text
// is empty: of two who write at once, one is first.
func (a *moveAccess) write(ctx context.Context, infra *configv1.Infrastructure, texts map[string]string) error {
	after := infra.DeepCopy()
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	for annotation, text := range texts {
		if text == "" {
			delete(after.Annotations, annotation)
		} else {
			after.Annotations[annotation] = text
		}
	}
	return a.client.Patch(ctx, after, client.MergeFromWithOptions(infra, client.MergeFromWithOptimisticLock{}))
}

// free refuses a move while an upgrade or another change of the control planes is under way:
// both write the files that a move writes.
func (a *moveAccess) free(ctx context.Context) error {
	plan, err := planInForce(ctx, a.client)
	if err != nil {
		return err
	}
	if plan.Value != "" {
		return coded(command.ExitRefused, "refused, nothing was changed: %s", plan.Value)
	}
	var version configv1.ClusterVersion
	err = a.client.Get(ctx, client.ObjectKey{Name: "version"}, &version)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read ClusterVersion version: %w", err)
	}
	for _, c := range version.Status.Conditions {
		if c.Type == configv1.OperatorProgressing && c.Status == configv1.ConditionTrue {
			return coded(command.ExitRefused, "refused, nothing was changed: an upgrade goes on (%s); to follow it: holdfast upgrade status", c.Message)
		}
	}
	return nil
}

func (m *move) announce(ctx context.Context) error {
	if err := m.show(); err != nil {
		return err
	}
	if !m.yes {
		if err := command.Agreed(ctx, m.streams, "Every host takes these addresses when it has them, and none of the old ones. Continue? Type yes: ", "yes"); err != nil {
			return err
		}
	}
	if m.here {
		return m.keepHere()
	}
	if err := m.access.free(ctx); err != nil {
		return err
	}
	if err := m.backup.before(ctx, m.access, time.Now); err != nil {
		return err
	}
	infra, err := m.access.infrastructure(ctx)
	if err != nil {
		return err
	}
	// From the announcement on nobody changes them. One that goes on now is not in the plan.
	if d := vips.Decide(vips.SnapshotOf(infra, nil, nil)); d.Outcome != vips.Settled && d.Outcome != vips.Unmanaged {
		return coded(command.ExitRefused, "refused, nothing was changed: the virtual IPs of the site are being changed, or somebody wishes what it cannot have: holdfast vip check")
	}
	data, err := json.Marshal(m.plan)
	if err != nil {
		return err
	}
	if err := m.access.write(ctx, infra, announcing(string(data))); err != nil {
		return fmt.Errorf("announce the move: %w", err)
	}
	// A plan that took the lock since the first look may not have seen the announcement. One that
	// takes the lock from now on sees it.
	if err := m.access.free(ctx); err != nil {
		return errors.Join(err, m.access.takeBack(ctx))
	}
	return m.await(ctx, m.streams, m.access, func(r moveReport) (string, bool) {
		late, begun := r.without(m.plan.ID)
		if begun != "" {
			return begun + " carries out another move: it keeps that one", false
		}
		late = append(late, r.unable()...)
		return strings.Join(late, ", "), len(late) == 0
	}, "every host has the plan: now shut the hosts down and move them, or change their network")
}

// announcing returns the annotations of a move that begins, or of none: what an earlier one wrote
// of its end goes.
func announcing(plan string) map[string]string {
	return map[string]string{kube.ReaddressAnnotation: plan, kube.ReaddressedAnnotation: ""}
}

// keepHere gives the plan to this host.
func (m *move) keepHere() error {
	name, err := host.Name()
	if err != nil {
		return err
	}
	var store install.Store
	begins := decide.Announced(m.plan.From.Hosts[name])
	if err := install.NewHost(func() string { return name }).Able(m.plan, decide.To, begins); err != nil {
		return coded(command.ExitRefused, "refused, nothing was changed: this host cannot move: %w", err)
	}
	if err := store.Replace(m.plan, begins); errors.Is(err, install.ErrBegun) {
		return coded(command.ExitRefused, "refused: this host carries out another move already: holdfast site readdress show")
	} else if err != nil {
		return err
	}
	_, err = fmt.Fprintln(m.streams.Err, "this host has the plan: it takes the new addresses when it has them, and boots; give the plan to the other hosts, too")
	return err
}

// await looks until done says that every host follows.
func (f readdressFlags) await(ctx context.Context, streams Streams, a *moveAccess, done func(moveReport) (missing string, ok bool), words string) error {
	missing, cause := untilDone(ctx, f.timeout, streams, "waiting for ", a.report, done, words)
	return notDone(cause, fmt.Sprintf("not every host at the timeout of %s (%s): it is heard when it runs", f.timeout, missing), "holdfast site readdress show")
}

// notDone explains why a command looks no more, nil if what it looked at came to its end. late is
// what it says at the timeout, see the command that shows it.
func notDone(cause error, late, see string) error {
	switch {
	case cause == nil:
		return nil
	case errors.Is(cause, errNotYet):
		return coded(command.ExitAttention, "%s; %s", late, see)
	}
	return fmt.Errorf("interrupted: the hosts go on without this command; to see it: %s", see)
}

// untilDone looks once a second until done says that nothing is to come, and shows what is waited
// for. A look that fails is made again: the API may be away for a while. Before the end the cause
// is errNotYet or an interrupt, and missing is what it said last.
func untilDone[R any](ctx context.Context, timeout time.Duration, streams Streams, wait string, look func(context.Context) (R, error), done func(R) (missing string, ok bool), words string) (missing string, cause error) {
	limited, stop := context.WithTimeoutCause(ctx, timeout, errNotYet)
	defer stop()
	for said := ""; ; {
		line := said
		r, err := look(limited)
		if err == nil {
			var ok bool
			if missing, ok = done(r); ok {
				_, _ = fmt.Fprintln(streams.Err, words)
				return "", nil
			}
			line = wait + missing
		} else if limited.Err() == nil {
			missing = "no answer: " + firstLine(err.Error())
			line = missing
		}
		if line != said {
			_, _ = fmt.Fprintln(streams.Err, line)
			said = line
		}
		if host.Sleep(limited, time.Second) != nil {
			return missing, context.Cause(limited)
		}
	}
}
