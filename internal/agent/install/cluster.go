package install

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/parts"
	"github.com/holdfast/holdfast/internal/decide/encryption"
	"github.com/holdfast/holdfast/internal/decide/installation"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/clusterdns"
	"github.com/holdfast/holdfast/internal/render/cni"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/keepalived"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// applyManifests brings the network and the cluster's objects into the API:
// kinds first, then objects, then the status of those that have one.
func (r *run) applyManifests(ctx context.Context) error {
	if err := withoutAutoApproval(ctx); err != nil {
		return err
	}
	if err := r.apply(ctx, "network"); err != nil {
		return err
	}
	if err := r.apply(ctx, "manifests/crds"); err != nil {
		return err
	}
	if _, err := r.kubectl(ctx, "wait", "--for=condition=Established", "--timeout=30s",
		"--filename", filepath.Join(renderhost.ManifestDir, "manifests/crds")); err != nil {
		return err
	}
	if err := r.apply(ctx, "manifests"); err != nil {
		return err
	}
	if err := r.wishKeys(ctx); err != nil {
		return err
	}
	if err := r.apply(ctx, "manifests/status", "--subresource=status"); err != nil {
		return err
	}
	return r.markParts(ctx)
}

// markParts tells the cluster which release has brought its objects, and which: an upgrade
// takes away what the next one does not have.
func (r *run) markParts(ctx context.Context) error {
	client, err := kube.Open(adminKubeconfig)
	if err != nil {
		return err
	}
	b, err := parts.NewBringer(client.Bringer(), r.Site, r.store.Manifest().Digest)
	if err != nil {
		return err
	}
	return b.Installed(ctx)
}

// withoutAutoApproval deletes kubeadm's binding, by which a token of kubeadm's
// group gets the certificate of any node's name approved. No such token was made,
// but an administrator may make one. From then on the agent keeps the binding
// away.
func withoutAutoApproval(ctx context.Context) error {
	client, err := kube.Open(adminKubeconfig)
	if err != nil {
		return err
	}
	return client.DeleteObject(ctx, kube.ClusterRoleBindings+"/"+kubeadm.AutoApproval)
}

// apply applies the files of one manifest folder, without its subfolders. A
// missing folder holds nothing.
func (r *run) apply(ctx context.Context, folder string, flags ...string) error {
	dir := filepath.Join(renderhost.ManifestDir, folder)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	args := append([]string{
		"apply", "--server-side", "--force-conflicts", "--field-manager=" + kube.InstallManager,
		"--filename", dir,
	}, flags...)
	_, err := r.kubectl(ctx, args...)
	return err
}

func (r *run) kubectl(ctx context.Context, args ...string) ([]byte, error) {
	return host.Run(ctx, host.Command("kubectl", append([]string{"--kubeconfig", adminKubeconfig}, args...)...))
}

// joinPodNetwork waits for this host's share of the pod network and connects
// the container runtime to it.
func (r *run) joinPodNetwork(ctx context.Context) error {
	if r.Site.Config.Networking.NetworkType == config.NetworkTypeNone {
		return nil
	}
	var lease cni.Lease
	err := r.poll(ctx, 200*time.Millisecond, func(context.Context) (bool, string, error) {
		data, err := os.ReadFile(cni.SubnetFile)
		if errors.Is(err, fs.ErrNotExist) {
			return false, "flannel has no lease for this host yet", nil
		}
		if err == nil {
			lease, err = cni.ParseLease(data)
		}
		return err == nil, "", err
	})
	if err != nil {
		return err
	}
	conf, err := cni.File(lease)
	if err != nil {
		return err
	}
	_, err = host.WriteFiles("/", []state.File{conf})
	return err
}

// waitControlPlanes waits until all control planes are ready, then tells the
// cluster that bootstrapping is over.
func (r *run) waitControlPlanes(ctx context.Context) error {
	want := r.Site.Config.ControlPlaneReplicas()
	err := r.waitNodes(ctx, "control planes", want, func(n state.Node) bool { return n.ControlPlane() })
	if err != nil {
		return err
	}
	return r.mark(ctx, installation.BootstrapMark)
}

// mark tells the cluster how far its installation is, for whoever waits for it:
// each mark that was reached, in the order of the installation.
func (r *run) mark(ctx context.Context, reached ...string) error {
	data := map[string]string{}
	for _, m := range reached {
		data[m] = installation.Complete
	}
	return r.putConfigMap(ctx, installation.MarksNamespace, installation.MarksName, data)
}

// wishKeys stores in the cluster which keys its secrets are written with, so that
// every copy of etcd's data says which keys can read it.
func (r *run) wishKeys(ctx context.Context) error {
	if !r.Site.Identity.Encrypts() {
		return nil
	}
	return r.putConfigMap(ctx, encryption.WishNamespace, encryption.WishName, map[string]string{
		encryption.WishKeys: encryption.Keys(r.Site.Identity.EncryptionKeys).String(),
	})
}

func (r *run) putConfigMap(ctx context.Context, namespace, name string, data map[string]string) error {
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": data,
		"metadata": map[string]string{"name": name, "namespace": namespace},
	})
	if err != nil {
		return err
	}
	_, err = host.Run(ctx, host.Cmd{Name: "kubectl", Args: []string{
		"--kubeconfig", adminKubeconfig, "apply", "--server-side", "--field-manager=" + kube.InstallManager, "--filename", "-",
	}, Stdin: bytes.NewReader(manifest)})
	return err
}

// notScheduled prints why pods have no node.
const notScheduled = `jsonpath={.items[*].status.conditions[?(@.reason=="Unschedulable")].message}`

// waitNameService waits for CoreDNS on every host. If its pods have no node, the
// error says why.
func (r *run) waitNameService(ctx context.Context) error {
	r.wait("waiting for the cluster's name service")
	_, err := r.kubectl(ctx, "--namespace", clusterdns.Namespace, "rollout", "status", "daemonset/"+clusterdns.Name, "--timeout=60s")
	if err == nil {
		return nil
	}
	why, askErr := r.kubectl(ctx, "--namespace", clusterdns.Namespace, "get", "pods",
		"--selector", clusterdns.Label+"="+clusterdns.ServiceName, "--output", notScheduled)
	if askErr != nil || len(why) == 0 {
		return err
	}
	return fmt.Errorf("the pods of the cluster's name service have no node: %s (kubectl describe nodes shows their taints)", why)
}

// waitCluster waits for every node of the configuration and for the cluster's
// name service, which shows that pods run.
func (r *run) waitCluster(ctx context.Context) error {
	want := r.Site.Config.ControlPlaneReplicas() + r.Site.Config.ComputeReplicas()
	if err := r.waitNodes(ctx, "nodes", want, func(state.Node) bool { return true }); err != nil {
		return err
	}
	if r.Site.Config.Networking.NetworkType != config.NetworkTypeNone {
		if err := r.waitNameService(ctx); err != nil {
			return err
		}
	}
	return r.mark(ctx, installation.BootstrapMark, installation.InstallMark)
}

// waitReady waits until this host's own node is ready.
func (r *run) waitReady(ctx context.Context) error {
	return r.waitNodes(ctx, "this node", 1, func(n state.Node) bool { return n.Name == r.facts.NodeName })
}

// joinVIPs lets the agent start keepalived and waits until it runs: a host counts
// as installed only when it can take over the VIP of one that dies.
func (r *run) joinVIPs(ctx context.Context) error {
	if len(r.Site.Config.APIVIPs()) == 0 {
		return nil
	}
	if err := host.WriteFileAtomic(ReadyPath, nil, state.DefaultFileMode); err != nil {
		return err
	}
	return r.poll(ctx, 200*time.Millisecond, func(context.Context) (bool, string, error) {
		running, err := host.RunsByPIDFile(keepalived.PIDFile)
		return running, "keepalived does not run yet", err
	})
}

// waitNodes waits until the wanted number of the chosen nodes are ready and carry
// their role labels.
func (r *run) waitNodes(ctx context.Context, what string, want int, chosen func(state.Node) bool) error {
	client, err := kube.Open(adminKubeconfig)
	if err != nil {
		return err
	}
	return r.poll(ctx, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		nodes, err := client.Nodes(ctx)
		if err != nil {
			return false, "", err
		}
		ready := 0
		var waiting []string
		for _, n := range nodes {
			switch {
			case !chosen(n):
			case n.Ready && n.HasRole():
				ready++
			default:
				waiting = append(waiting, n.Name)
			}
		}
		return ready >= want, describeNodes(what, ready, want, waiting), nil
	})
}

func describeNodes(what string, ready, want int, waiting []string) string {
	message := fmt.Sprintf("%s: %d of %d ready", what, ready, want)
	if len(waiting) > 0 {
		message += ", waiting for " + strings.Join(waiting, ", ")
	}
	return message
}
