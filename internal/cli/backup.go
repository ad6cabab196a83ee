package cli

import (
	"context"
	"fmt"
	"time"

	configv1alpha1 "github.com/openshift/api/config/v1alpha1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

func newBackup(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Take backups of the site, say where they go, and prove that they can be opened",
		Long: `Each control plane takes backups of etcd, and of the files that a restore needs besides. All
follow one schedule, each at a time of its own: once a day unless you configure another one.
A backup counts as good once it was restored into an empty folder and compared. Backups lie on
the control planes, below /var/lib/holdfast/backups. 'holdfast backup configure' names targets
outside, which get copies encrypted to public keys of age; the private keys are not on the site.`,
	}
	cmd.AddCommand(newBackupNow(streams), newBackupList(streams), newBackupShow(streams), newBackupConfigure(streams), newBackupVerify(streams), newBackupProve(streams),
		newBackupFetch(streams), newBackupInspect(streams), newBackupDiff(streams), newBackupExtract(streams))
	return cmd
}

// backupFlags holds the flags of the commands about backups.
type backupFlags struct{ hostFlags }

// open opens the cluster that the flags name. mistakes are those of other flags, which it
// returns together with its own before it opens anything.
func (f *backupFlags) open(ctx context.Context, mistakes ...error) (client.Client, error) {
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
	scheme, err := kube.NewScheme(configv1alpha1.Install)
	if err != nil {
		return nil, err
	}
	return client.New(cfg, client.Options{Scheme: scheme})
}

// completeIDs completes the argument of a command with the ids of backups.
func (f *backupFlags) completeIDs(cmd *cobra.Command) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := f.open(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		s, err := gatherBackups(cmd.Context(), c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		for _, h := range s.Hosts {
			for _, b := range h.Kept {
				out = append(out, cobra.CompletionWithDesc(b.ID, h.Name))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// backupSite is what the API says about the backups of a site.
type backupSite struct {
	backup.Site
	// Ready is true for control planes whose kubelet reports.
	Ready map[string]bool
}

// gatherBackups reads what the control planes report about their backups.
func gatherBackups(ctx context.Context, c client.Reader) (backupSite, error) {
	out := backupSite{Site: backup.Site{Now: time.Now()}, Ready: map[string]bool{}}
	nodes, err := hostNodes(ctx, c)
	if err != nil {
		return out, err
	}
	for i := range nodes {
		n := &nodes[i]
		if _, control := n.Labels[state.LabelControlPlane]; !control {
			continue
		}
		h := backup.HostOf(n.Name, n.Annotations)
		h.Lost = kube.NodeOf(n).Silent
		out.Hosts, out.Ready[n.Name] = append(out.Hosts, h), rollout.HostOf(n).Ready
	}
	var o corev1.ConfigMap
	err = c.Get(ctx, client.ObjectKey{Namespace: backup.ProofNamespace, Name: backup.ProofName}, &o)
	switch {
	case err == nil, apierrors.IsNotFound(err):
		out.Proof = state.Known(backup.ReadProof(o.Data))
	case !apierrors.IsForbidden(err):
		return out, fmt.Errorf("read ConfigMap %s/%s: %w", backup.ProofNamespace, backup.ProofName, err)
	}
	return out, nil
}
