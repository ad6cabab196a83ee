package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/place"
)

func newHost(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "host",
		Short: "Add and remove hosts, empty, boot or patch one in its turn, and show what each does",
		Long: `A drain, a reboot or a patch is a wish that the command writes to the node of the host.
holdfast-operator and the host's agent carry it out, also when the command has ended or
its terminal is gone. A control plane boots only while the cluster carries on without it.`,
	}
	cmd.AddCommand(newHostList(streams), newHostShow(streams), newHostDrain(streams), newHostUncordon(streams), newHostReboot(streams), newHostPatch(streams),
		newHostAdd(streams), newHostRemove(streams), newHostReplace(streams))
	return cmd
}

// hostFlags holds the flags of all commands about hosts.
type hostFlags struct {
	place  place.Flags
	output string
}

func (f *hostFlags) register(cmd *cobra.Command) {
	formatFlag(cmd, &f.output)
	f.place.DeclareKubeconfig(cmd)
	f.place.DeclareLab(cmd)
}

// completeHosts completes the argument of a command with the names of hosts. It says
// nothing of an API that does not answer.
func (f *hostFlags) completeHosts(cmd *cobra.Command) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var nodes corev1.NodeList
		if c, err := f.open(cmd.Context()); err != nil || c.List(cmd.Context(), &nodes) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		for _, n := range nodes.Items {
			out = append(out, n.Name)
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// open opens the cluster that the flags name, after mistakes of other flags.
func (f *hostFlags) open(ctx context.Context, mistakes ...error) (client.Client, error) {
	if err := f.place.Check(mistakes...); err != nil {
		return nil, err
	}
	access, err := f.place.OpenAPI(ctx)
	if err != nil {
		return nil, err
	}
	cfg, err := access.Config()
	if err != nil {
		return nil, err
	}
	scheme, err := hostScheme()
	if err != nil {
		return nil, err
	}
	return client.New(cfg, client.Options{Scheme: scheme})
}

// hostScheme returns the kinds that commands about hosts read and write.
func hostScheme() (*runtime.Scheme, error) {
	return kube.NewScheme(mcfgv1.Install, storagev1.AddToScheme, coordinationv1.AddToScheme)
}

// hostNode reads the node of a host. A name that no host has is a mistake of the
// command line.
func hostNode(ctx context.Context, c client.Reader, name string) (*corev1.Node, error) {
	n := &corev1.Node{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, n)
	if apierrors.IsNotFound(err) {
		return nil, &UsageError{Err: fmt.Errorf("host %q: there is none; see: holdfast host list", name)}
	}
	if err != nil {
		return nil, fmt.Errorf("read node %s: %w", name, err)
	}
	return n, nil
}

// hostNodes reads the nodes of all hosts, by their names.
func hostNodes(ctx context.Context, c client.Reader) ([]corev1.Node, error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	slices.SortFunc(nodes.Items, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes.Items, nil
}

// annotate writes annotations of a node; those that are nil are removed. uncordons
// also takes the cordon away. It holds only for the node that was read.
func annotate(ctx context.Context, c client.Client, n *corev1.Node, values map[string]*string, uncordons bool) error {
	what := map[string]any{"metadata": map[string]any{"resourceVersion": n.ResourceVersion, "annotations": values}}
	if uncordons {
		what["spec"] = map[string]any{"unschedulable": false}
	}
	return writeNode(ctx, c, n, what)
}

// writeNode merges fields into a node. what has the version of the node that was read.
func writeNode(ctx context.Context, c client.Client, n *corev1.Node, what map[string]any) error {
	patch, err := json.Marshal(what)
	if err != nil {
		return err
	}
	err = c.Patch(ctx, n.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsConflict(err) {
		return errTryAgain
	}
	if err != nil {
		return fmt.Errorf("write to node %s: %w", n.Name, err)
	}
	return nil
}

// errTryAgain is returned where somebody else wrote a node meanwhile. Kubelet writes
// it every few seconds.
var errTryAgain = errors.New("somebody else changed the node meanwhile")

// change reads a node and writes to it, once more if somebody else did meanwhile.
func changeNode(ctx context.Context, c client.Client, name string, change func(n *corev1.Node) error) error {
	const tries = 5
	for i := 1; ; i++ {
		n, err := hostNode(ctx, c, name)
		if err != nil {
			return err
		}
		if err := change(n); !errors.Is(err, errTryAgain) || i == tries {
			return err
		}
	}
}

// writeKeys writes keys of a ConfigMap, which it makes if there is none. Its other keys stay.
func writeKeys(ctx context.Context, c client.Client, namespace, name string, data map[string]string) error {
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
	err := c.Create(ctx, o.DeepCopy())
	if apierrors.IsAlreadyExists(err) {
		patch, wrong := json.Marshal(map[string]any{"data": data})
		if wrong != nil {
			return wrong
		}
		err = c.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch))
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", namespace, name, err)
	}
	return nil
}

// roles returns the roles of a node, as kubectl shows them.
func roles(n *corev1.Node) string {
	var out []string
	for label := range n.Labels {
		if role, ok := strings.CutPrefix(label, "node-role.kubernetes.io/"); ok {
			out = append(out, role)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}
