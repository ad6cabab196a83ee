package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/plans"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/workload"
)

// dryRun is what `host reboot --dry-run` and `host patch --dry-run` print.
type dryRun struct {
	Host string `json:"host"`
	// what is what it would do.
	what string
	// BootsNow is true if the host would get its turn now, and Waits says for what it
	// would wait.
	BootsNow bool   `json:"bootsNow"`
	Waits    string `json:"waits,omitempty"`
	// Moves are the pods that would move, and Stays counts those that stay.
	Moves    []string `json:"moves,omitempty"`
	Stays    int      `json:"stays"`
	InTheWay string   `json:"inTheWay,omitempty"`
	// KeepsPods is true if no other host takes pods.
	KeepsPods bool `json:"keepsPods,omitempty"`
}

// dry says what becomes of a wish. It decides with the operator's functions, and changes
// nothing.
func (f rebootFlags) dry(ctx context.Context, c client.Reader, out io.Writer, name string, kind rollout.Wish) error {
	r, err := foresee(ctx, c, name, kind.Patch, f.inWindow, time.Now())
	r.what = doesOf[kind.Patch]
	if err != nil {
		return err
	}
	if err := r.print(out, f.output); err != nil {
		return err
	}
	if !r.BootsNow || r.InTheWay != "" {
		return exitWith(command.ExitAttention)
	}
	return nil
}

// doesOf is what a host would do, by whether it is for updates.
var doesOf = map[bool]string{false: "boot", true: "be patched"}

func foresee(ctx context.Context, c client.Reader, name string, patch, inWindow bool, now time.Time) (dryRun, error) {
	out := dryRun{Host: name}
	n, err := hostNode(ctx, c, name)
	if err != nil {
		return out, err
	}
	nodes, err := hostNodes(ctx, c)
	if err != nil {
		return out, err
	}
	site, err := rolloutSite(ctx, c, nodes, now)
	if err != nil {
		return out, err
	}
	out.Waits = rollout.WouldWait(site, name, patch, inWindow)
	out.BootsNow = out.Waits == ""
	p, err := foreseeDrain(ctx, c, n, nodes, now)
	out.Moves, out.Stays, out.InTheWay, out.KeepsPods = p.Moves, p.Stays, p.InTheWay, p.Nowhere
	return out, err
}

// rolloutSite reads what decides about turns.
func rolloutSite(ctx context.Context, c client.Reader, nodes []corev1.Node, now time.Time) (rollout.Site, error) {
	site := rollout.Site{Now: now}
	for i := range nodes {
		site.Hosts = append(site.Hosts, rollout.HostOf(&nodes[i]))
	}
	var pools mcfgv1.MachineConfigPoolList
	if err := c.List(ctx, &pools); err != nil {
		return site, fmt.Errorf("list MachineConfigPools: %w", err)
	}
	for i := range pools.Items {
		p := rollout.PoolOf(&pools.Items[i], now, time.LoadLocation)
		p.Target = pools.Items[i].Spec.Configuration.Name
		site.Pools = append(site.Pools, p)
	}
	var err error
	if site.Kubelet, err = kubeletSettings(ctx, c, site.Hosts); err != nil {
		return site, err
	}
	installed, err := clusterConfig(ctx, c)
	if err != nil {
		return site, err
	}
	if installed != nil {
		site.ControlPlanes = installed.ControlPlaneReplicas()
	}
	var record corev1.ConfigMap
	err = c.Get(ctx, client.ObjectKey{Namespace: annotation.RecordNamespace, Name: annotation.RecordName}, &record)
	if client.IgnoreNotFound(err) != nil {
		return site, fmt.Errorf("read the record of the upgrade: %w", err)
	}
	site.Upgrade = hold.Of(state.Known(record.Data[annotation.RecordKey]), nodes).Away
	var lock corev1.ConfigMap
	err = c.Get(ctx, client.ObjectKey{Namespace: replace.LockNamespace, Name: replace.LockName}, &lock)
	if client.IgnoreNotFound(err) != nil {
		return site, fmt.Errorf("read the plan that changes control planes: %w", err)
	}
	site.Plan = plans.Changes(lock.Data)
	site.Spares, err = spares(ctx, c, now)
	return site, err
}

// kubeletSettings reads the settings of kubelet in configurations, as the operator does: they count while a host is
// short of memory or of process ids.
func kubeletSettings(ctx context.Context, c client.Reader, hosts []rollout.Host) (map[string]string, error) {
	if !slices.ContainsFunc(hosts, func(h rollout.Host) bool { return h.Pressed }) {
		return nil, nil //nolint:nilnil // nobody needs them
	}
	var all mcfgv1.MachineConfigList
	if err := c.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("list MachineConfigs: %w", err)
	}
	return machineconfig.KubeletOf(all.Items), nil
}

// spares says which control planes can be spared: by Pacemaker's status, or by the
// readiness of etcd's pods where no Pacemaker runs it.
func spares(ctx context.Context, c client.Reader, now time.Time) (map[string]rollout.Spare, error) {
	var cluster etcdv1.PacemakerCluster
	err := c.Get(ctx, client.ObjectKey{Name: "cluster"}, &cluster)
	if err == nil {
		return rollout.PairSpares(cluster.Status, now), nil
	}
	if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("read PacemakerCluster: %w", err)
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace("kube-system"), client.MatchingLabels{"component": "etcd"}); err != nil {
		return nil, fmt.Errorf("list the pods of etcd: %w", err)
	}
	serves := map[string]state.Fact[bool]{}
	for i := range pods.Items {
		serves[pods.Items[i].Spec.NodeName] = state.Known(workload.Ready(&pods.Items[i]))
	}
	return rollout.QuorumSpares(serves), nil
}

func (r dryRun) print(out io.Writer, format string) error {
	if format == "json" || format == "yaml" {
		return printData(out, format, r)
	}
	var text strings.Builder
	if r.BootsNow {
		fmt.Fprintf(&text, "%s would %s now: it would be its turn, and the cluster carries on without it\n", r.Host, r.what)
	} else {
		fmt.Fprintf(&text, "%s would wait: %s\n", r.Host, r.Waits)
	}
	switch {
	case r.KeepsPods:
		text.WriteString("no other host takes pods: its pods stay, and are away while it boots\n")
	default:
		fmt.Fprintf(&text, "pods: %d would move, %d belong to the host and stay\n", len(r.Moves), r.Stays)
	}
	writeMoves(&text, format, r.Moves, r.InTheWay)
	_, err := io.WriteString(out, text.String())
	return err
}
