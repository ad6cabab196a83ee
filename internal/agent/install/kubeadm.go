package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/keepalived"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// Files of kubeadm on the host.
const (
	kubeadmConfig   = "/etc/holdfast/kubeadm.yaml"
	adminKubeconfig = state.AdminKubeconfig
	kubeletConfig   = state.KubeletKubeconfig
)

// kubeadmInit starts the cluster on this host. kubeadm keeps certificates,
// kubeconfigs and etcd data that it finds, so a second run after a crash goes
// on; only its checks for a clean host have to be skipped then.
func (r *run) kubeadmInit(ctx context.Context) error {
	if err := r.systemctl(ctx, "start", renderhost.ContainerdUnit); err != nil {
		return err
	}
	resuming, err := r.started("start control plane")
	if err != nil {
		return err
	}
	conf, err := kubeadm.Init(r.Site, r.facts, resuming)
	if err != nil {
		return err
	}
	if err := r.writeKubeadmConfig(conf); err != nil {
		return err
	}
	if err := r.awaitKeepalived(ctx); err != nil {
		return err
	}
	return r.kubeadm(ctx, initArgs...)
}

// initArgs keep the bootstrap token, which kubeadm would print twice, out of
// the journal.
var initArgs = []string{"init", "--config", kubeadmConfig, "--skip-token-print"}

// kubeadmJoin joins this host. An interrupted join is gone on with, never
// taken back: this host's etcd may be a voter already, and of two voters the
// one that is emptied takes the other's quorum with it. Kubelet starts such an
// etcd by itself after a boot, so that the API is there to go on with.
func (r *run) kubeadmJoin(ctx context.Context) error {
	if r.joined(ctx) {
		return nil
	}
	if err := r.systemctl(ctx, "start", renderhost.ContainerdUnit); err != nil {
		return err
	}
	resuming, err := r.started("join")
	if err != nil {
		return err
	}
	before := kubeadm.Progress{Resuming: resuming, KubeletBootstrapped: host.Exists(kubeletConfig) && host.Exists(kubeadm.KubeletCertificate)}
	conf, err := kubeadm.Join(r.Site, r.Site.Role, r.facts, before)
	if err != nil {
		return err
	}
	if err := r.writeKubeadmConfig(conf); err != nil {
		return err
	}
	if err := r.writeAccess(ctx, before); err != nil {
		return err
	}
	if err := r.askAnew(ctx, before); err != nil {
		return err
	}
	return errors.Join(r.kubeadm(ctx, "join", "--config", kubeadmConfig), os.Remove(kubeadm.AccessPath))
}

// tokenInterval is the time between two questions for a bootstrap token.
const tokenInterval = time.Second

// writeAccess lays down how kubeadm reaches the cluster. Each try has a token of
// its own, but where kubelet has its certificate: that proves that the Node of this
// name is this host's, of which a token is given for new names only.
func (r *run) writeAccess(ctx context.Context, before kubeadm.Progress) error {
	token := ""
	if !before.KubeletBootstrapped {
		err := r.poll(ctx, tokenInterval, func(ctx context.Context) (ok bool, waiting string, err error) {
			token, err = r.server.bootstrapToken(ctx)
			return err == nil, "", err
		})
		if err != nil {
			return err
		}
	}
	access, err := kubeadm.Access(r.Site, token)
	if err != nil {
		return err
	}
	_, err = host.WriteFiles("/", []state.File{{Path: kubeadm.AccessPath, Data: access, Mode: state.SecretFileMode}})
	return err
}

// unansweredKey is kubelet's key of a request for its certificate that was not
// answered yet.
const unansweredKey = "/var/lib/kubelet/pki/kubelet-client.key.tmp"

// askAnew has kubelet make another request for its certificate. It would come back
// to the one of a try that was cut off, by its key; that one was made with a token
// which this try has ended, and is approved by nobody. kubelet runs until here: of two
// control planes this one's etcd may be the voter without which no token is given.
func (r *run) askAnew(ctx context.Context, before kubeadm.Progress) error {
	if before.KubeletBootstrapped {
		return nil
	}
	if err := r.systemctl(ctx, "stop", renderhost.KubeletUnit); err != nil { // kubeadm starts it
		return err
	}
	if err := os.Remove(unansweredKey); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// joined reports whether an earlier run joined this host completely: kubeadm's
// last step labels the node, and a worker's is kubelet's own certificate.
func (r *run) joined(ctx context.Context) bool {
	if _, err := os.Stat(kubeletConfig); err != nil {
		return false
	}
	if !r.Site.Role.ControlPlane() {
		_, err := os.Stat(kubeadm.KubeletCertificate)
		return err == nil
	}
	out, err := host.Run(ctx, host.Command("kubectl", "--kubeconfig", adminKubeconfig, "--request-timeout=5s",
		"get", "nodes", "--selector", state.LabelControlPlane,
		"--field-selector", "metadata.name="+r.facts.NodeName, "--output", "name"))
	return err == nil && len(out) > 0
}

func (r *run) writeKubeadmConfig(conf []byte) error {
	_, err := host.WriteFiles("/", []state.File{{Path: kubeadmConfig, Data: conf, Mode: state.SecretFileMode}})
	return err
}

// withoutProxy takes the site's proxy from a program's environment. kubeadm
// would write it, password and all, into pods that everybody may read; and what
// it and kubectl talk to lies inside of the site.
var withoutProxy = []string{"HTTP_PROXY=", "http_proxy=", "HTTPS_PROXY=", "https_proxy=", "NO_PROXY=", "no_proxy="}

func (r *run) kubeadm(ctx context.Context, args ...string) error {
	_, err := host.Run(ctx, host.Cmd{Name: "kubeadm", Args: args, Stdout: r.Log, Env: withoutProxy})
	if err != nil {
		return fmt.Errorf("kubeadm: %w", err)
	}
	return nil
}

// awaitKeepalived waits until the agent has laid down keepalived, which kubelet
// then starts before any API server, as soon as kubeadm starts kubelet.
func (r *run) awaitKeepalived(ctx context.Context) error {
	if len(r.Site.Config.APIVIPs()) == 0 {
		return nil
	}
	return r.poll(ctx, 100*time.Millisecond, func(context.Context) (bool, string, error) {
		return host.Exists(keepalived.PodPath), "the agent (holdfast-agent.service) has not prepared keepalived yet", nil
	})
}
