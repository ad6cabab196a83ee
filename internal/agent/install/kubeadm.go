package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/install/restore"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
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

// The names under which started records that kubeadm was begun.
const (
	beganInit = "start control plane"
	beganJoin = "join"
)

// blank returns an error if etcd has data although kubeadm was never begun here: its disk may be one
// of a former site, and have the last copy. kubeadm's own check for that holds for its first run
// only. A restore has brought its data before.
func (r *run) blank(began string) error {
	if r.Site.Restore != nil || host.Exists(r.startedPath(began)) {
		return nil
	}
	return restore.Blank(filepath.Join(r.root, state.EtcdDataDir), "an installation")
}

// kubeadmInit starts the cluster on this host. kubeadm keeps certificates,
// kubeconfigs and etcd data that it finds, so a second run after a crash goes
// on; only its checks for a clean host have to be skipped then. A restored site has its
// data of etcd before it begins.
func (r *run) kubeadmInit(ctx context.Context) error {
	if err := r.blank(beganInit); err != nil {
		return err
	}
	if err := r.systemctl(ctx, "start", renderhost.ContainerdUnit); err != nil {
		return err
	}
	resuming, err := r.started(beganInit)
	if err != nil {
		return err
	}
	conf, err := kubeadm.Init(r.Site, r.facts, resuming || r.Site.Restore != nil)
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

// initArgs keeps the bootstrap token out of the journal, where kubeadm would
// print it twice.
var initArgs = []string{"init", "--config", kubeadmConfig, "--skip-token-print"}

// kubeadmJoin joins this host. It goes on with an interrupted join and never
// takes it back: this host's etcd may be a voter already, and if one of two
// voters is emptied, the other loses its quorum. Kubelet starts such an etcd by
// itself after a boot, so that the API is there to go on with.
func (r *run) kubeadmJoin(ctx context.Context) error {
	if r.joined(ctx) {
		return nil
	}
	pair := host.Exists(placePath) // then this host's etcd runs already
	if r.Site.Role.ControlPlane() && !pair {
		if err := r.blank(beganJoin); err != nil {
			return err
		}
	}
	if err := r.systemctl(ctx, "start", renderhost.ContainerdUnit); err != nil {
		return err
	}
	resuming, err := r.started(beganJoin)
	if err != nil {
		return err
	}
	before := kubeadm.Progress{Resuming: resuming, KubeletBootstrapped: host.Exists(kubeletConfig) && host.Exists(kubeadm.KubeletCertificate), Pair: pair}
	if err := r.writeJoin(before); err != nil {
		return err
	}
	if err := r.writeAccess(ctx, before, r.Site.Role.ControlPlane() && !pair); err != nil {
		return err
	}
	if err := r.askAnew(ctx, before); err != nil {
		return err
	}
	return errors.Join(r.kubeadm(ctx, "join", "--config", kubeadmConfig), os.Remove(kubeadm.AccessPath))
}

// writeJoin writes kubeadm's configuration of a join, and its patches.
func (r *run) writeJoin(before kubeadm.Progress) error {
	conf, err := kubeadm.Join(r.Site, r.Site.Role, r.facts, before)
	if err != nil {
		return err
	}
	if r.Site.Role.ControlPlane() {
		if _, err := host.WriteFiles("/", kubeadm.Patches()); err != nil {
			return err
		}
	}
	return r.writeKubeadmConfig(conf)
}

// tokenInterval is the pause between two requests for a bootstrap token.
const tokenInterval = time.Second

// writeAccess writes the file by which kubeadm reaches the cluster. Each try gets
// a token of its own, unless kubelet has its certificate already: that proves
// that the Node of this name is this host's, and a token is given for new names
// only. adds is true if kubeadm adds this host's etcd with it.
func (r *run) writeAccess(ctx context.Context, before kubeadm.Progress, adds bool) error {
	var given configserver.Secret
	if !before.KubeletBootstrapped {
		err := r.poll(ctx, tokenInterval, func(ctx context.Context) (ok bool, waiting string, err error) {
			says := configserver.JoinRequest{Release: r.store.Manifest().Digest}
			if adds { // read each time: kubelet may start etcd meanwhile, by the file of an earlier try
				says.NewEtcd = r.newEtcd()
			}
			given, err = r.server.bootstrapToken(ctx, says)
			return err == nil, "", err
		})
		if err != nil {
			return err
		}
	}
	access, err := kubeadm.Access(r.Site, given.Token, given.Authority)
	if err != nil {
		return err
	}
	_, err = host.WriteFiles("/", []state.File{{Path: kubeadm.AccessPath, Data: access, Mode: state.SecretFileMode}})
	return err
}

// newEtcd returns the peer URL at which etcd starts from nothing on this host; empty if it goes on with
// data. etcd itself goes by the same files.
func (r *run) newEtcd() string {
	if logs, _ := filepath.Glob(filepath.Join(r.root, state.EtcdDataDir, "member", "wal", "*.wal")); len(logs) > 0 { // the pattern is right
		return ""
	}
	return etcdpod.PeerURL(r.facts.Addresses[0])
}

// unansweredKey is kubelet's key for a certificate request that was not answered
// yet.
const unansweredKey = "/var/lib/kubelet/pki/kubelet-client.key.tmp"

// askAnew makes kubelet send another request for its certificate. By its key
// kubelet would return to the request of a try that was cut off. That request was
// made with a token which this try has ended, and nobody approves it. kubelet
// runs until here: of two control planes this one's etcd may be the voter without
// which no token is given.
func (r *run) askAnew(ctx context.Context, before kubeadm.Progress) error {
	if before.KubeletBootstrapped {
		return nil
	}
	if err := r.systemctl(ctx, "stop", renderhost.KubeletUnit); err != nil { // kubeadm starts it
		return err
	}
	return host.RemoveFile(unansweredKey)
}

// joined reports whether an earlier run joined this host completely. kubeadm's
// last step on a control plane labels the node; a worker then has kubelet's own
// certificate.
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

// withoutProxy removes the site's proxy from kubeadm's environment. kubeadm would
// write it, password and all, into pods that everybody may read; and kubeadm
// talks only to hosts inside the site.
var withoutProxy = []string{"HTTP_PROXY=", "http_proxy=", "HTTPS_PROXY=", "https_proxy=", "NO_PROXY=", "no_proxy="}

func (r *run) kubeadm(ctx context.Context, args ...string) error {
	_, err := host.Run(ctx, host.Cmd{Name: "kubeadm", Args: args, Stdout: r.Log, Env: withoutProxy})
	if err != nil {
		return fmt.Errorf("kubeadm: %w", err)
	}
	return nil
}

// awaitKeepalived waits until the agent has written keepalived's pod, which
// kubelet starts before any API server, as soon as kubeadm starts kubelet.
func (r *run) awaitKeepalived(ctx context.Context) error {
	if len(r.Site.Config.APIVIPs()) == 0 {
		return nil
	}
	return r.poll(ctx, 100*time.Millisecond, func(context.Context) (bool, string, error) {
		return host.Exists(keepalived.PodPath), "the agent (holdfast-agent.service) has not prepared keepalived yet", nil
	})
}
