package cli

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/decide/removal"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// gather reads the facts about the removal.
func (r *hostRemoval) gather(ctx context.Context) (removal.Facts, error) {
	f := removal.Facts{Now: r.now(), Name: r.name, Off: r.isOff == r.name, Replaces: r.again != "", Keeps: r.keeps}
	for _, read := range []func(context.Context, *removal.Facts) error{r.nodes, r.pods, r.volumes, r.retired, r.traces, r.site, r.upgrade} {
		if err := read(ctx, &f); err != nil {
			return f, err
		}
	}
	if r.plane != nil {
		f.Typed, f.Off = r.isOff, f.Gone(r.isOff)
	}
	if f.Off {
		f.Answers = r.alive(ctx, removal.Addresses(f.Node))
	}
	return f, nil
}

func (r *hostRemoval) nodes(ctx context.Context, f *removal.Facts) error {
	nodes, err := hostNodes(ctx, r.cluster)
	if err != nil {
		return err
	}
	f.Others = otherNodes(nodes, r.name)
	if i := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == r.name }); i >= 0 {
		f.Node = &nodes[i]
	}
	return nil
}

func (r *hostRemoval) pods(ctx context.Context, f *removal.Facts) error {
	var pods corev1.PodList
	if err := r.cluster.List(ctx, &pods, client.MatchingFields{"spec.nodeName": r.name}); err != nil {
		return fmt.Errorf("list the pods of %s: %w", r.name, err)
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := r.cluster.List(ctx, &budgets); err != nil {
		return fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	f.Pods, f.Budgets = pods.Items, budgets.Items
	return nil
}

func (r *hostRemoval) volumes(ctx context.Context, f *removal.Facts) error {
	var volumes corev1.PersistentVolumeList
	if err := r.cluster.List(ctx, &volumes); err != nil {
		return fmt.Errorf("list PersistentVolumes: %w", err)
	}
	var attachments storagev1.VolumeAttachmentList
	if err := r.cluster.List(ctx, &attachments); err != nil {
		return fmt.Errorf("list VolumeAttachments: %w", err)
	}
	f.Volumes = volumes.Items
	f.Attachments = slices.DeleteFunc(attachments.Items, func(a storagev1.VolumeAttachment) bool { return a.Spec.NodeName != r.name })
	return nil
}

func (r *hostRemoval) retired(ctx context.Context, f *removal.Facts) error {
	list, err := readRetired(ctx, r.cluster)
	f.Retired = list
	return err
}

// readRetired reads the list of hosts that were taken out. A list with an entry that
// cannot be read is unknown.
func readRetired(ctx context.Context, c client.Reader) (state.Fact[retired.List], error) {
	var cm corev1.ConfigMap
	err := c.Get(ctx, client.ObjectKey{Namespace: retired.Namespace, Name: retired.ConfigMap}, &cm)
	if client.IgnoreNotFound(err) != nil {
		return state.Fact[retired.List]{}, fmt.Errorf("read ConfigMap %s/%s: %w", retired.Namespace, retired.ConfigMap, err)
	}
	list, err := retired.Read(cm.Data)
	if err != nil {
		return state.Fact[retired.List]{}, nil //nolint:nilerr // a gate says so, with what to do
	}
	return state.Known(list), nil
}

// traces reads the host's Lease and its bootstrap tokens.
func (r *hostRemoval) traces(ctx context.Context, f *removal.Facts) error {
	var lease coordinationv1.Lease
	err := r.cluster.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: r.name}, &lease)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the Lease of %s: %w", r.name, err)
	}
	if f.Lease = err == nil; f.Lease && lease.Spec.RenewTime != nil {
		f.Seen = lease.Spec.RenewTime.Time
	}
	var tokens corev1.SecretList
	if err := r.cluster.List(ctx, &tokens, client.InNamespace(kube.TokenNamespace), client.HasLabels{kube.LabelToken}); err != nil {
		return fmt.Errorf("list bootstrap tokens: %w", err)
	}
	for _, t := range tokens.Items {
		if t.Annotations[kube.AnnotationTokenHost] == r.name {
			f.Tokens = append(f.Tokens, removal.Token{Name: t.Name, Made: t.CreationTimestamp.Time})
		}
	}
	return nil
}

// site reads from the site's configuration which control planes it has.
func (r *hostRemoval) site(ctx context.Context, f *removal.Facts) error {
	c, err := clusterConfig(ctx, r.cluster)
	if c != nil {
		f.ControlPlanes, f.Named = c.ControlPlaneReplicas(), joining.Of(c).Named
	}
	return err
}

// clusterConfig reads the site's configuration without its secrets. It is nil if the
// cluster has none that can be read.
func clusterConfig(ctx context.Context, c client.Reader) (*config.InstallConfig, error) {
	var cm corev1.ConfigMap
	err := c.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "cluster-config-v1"}, &cm)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read the site's configuration: %w", err)
	}
	parsed, err := config.Unmarshal([]byte(cm.Data["install-config"]))
	if err != nil || cm.Data["install-config"] == "" {
		return nil, nil //nolint:nilerr,nilnil // the nodes say the most of it
	}
	return parsed, nil
}

func (r *hostRemoval) upgrade(ctx context.Context, f *removal.Facts) (err error) {
	f.Upgrade, err = upgradeUnderWay(ctx, r.cluster, f.Now)
	return err
}

// upgradeUnderWay says what an upgrade of the site does now; empty if none is under way.
func upgradeUnderWay(ctx context.Context, c client.Reader, now time.Time) (string, error) {
	u, err := gatherUpgrade(ctx, c, now)
	if err != nil {
		return "", err
	}
	switch phase, why := u.Phase(); phase {
	case cluster.Idle:
		return "", nil
	case "":
		return "its state is not known: " + why, nil
	default:
		return string(phase) + ": " + why, nil
	}
}

// kubeletPort is the port at which kubelet takes connections; answerLimit bounds one try.
const (
	kubeletPort = "10250"
	answerLimit = 2 * time.Second
)

// alive reports whether a kubelet takes connections at any of the addresses.
func (r *hostRemoval) alive(ctx context.Context, addresses []string) bool {
	return slices.ContainsFunc(addresses, func(a string) bool { return r.answers(ctx, a) })
}

func kubeletAnswers(ctx context.Context, address string) bool {
	conn, err := (&net.Dialer{Timeout: answerLimit}).DialContext(ctx, "tcp", net.JoinHostPort(address, kubeletPort))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
