package rotation

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/haproxy"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/kubeletcert"
	agentleaf "github.com/holdfast/holdfast/internal/agent/leafcert"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/state"
	balancer "github.com/holdfast/holdfast/internal/render/haproxy"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// signs is the controller manager that signs by a file of its own.
var signs = host.PodProgram{Name: "kube-controller-manager", Flag: "--cluster-signing-cert-file", File: state.SigningPair}

// kubeletEndpoint is the host's kubelet.
const kubeletEndpoint = "127.0.0.1:10250"

// effects are those on this host that only a rotation of the Kubernetes CA
// needs. Tests replace them.
type effects struct {
	// reread has a static pod started anew if it has a former kubeconfig.
	reread func(ctx context.Context, name string) error
	// kubelet identifies the kubelet that runs, empty if none does, and restart starts
	// it anew.
	kubelet func() (string, error)
	restart func(ctx context.Context) error
	// balancer reports whether the host's balancer of the API works by the authorities
	// in a text. It is true on a host without one.
	balancer func(ctx context.Context, authorities []byte) (bool, error)
	// shown returns the certificate that a server shows, DER.
	shown func(ctx context.Context, address string) ([]byte, error)
}

// thisHost returns the effects on the running host.
func thisHost(o Options) effects {
	leaves := agentleaf.New(agentleaf.Options{Root: o.Root, Node: o.Node, Log: o.Log, Now: o.Now})
	return effects{
		reread:  leaves.Restart,
		kubelet: func() (string, error) { return kubeletcert.Running(o.Root) },
		restart: func(ctx context.Context) error {
			_, err := host.Run(ctx, host.Command("systemctl", "restart", "--", "kubelet.service"))
			return err
		},
		balancer: func(ctx context.Context, authorities []byte) (bool, error) { return balances(ctx, o.Root, authorities) },
		shown:    shown,
	}
}

// readKubernetes adds what the Kubernetes CA has beside the files of every authority:
// kubeconfigs, kubelet's certificates, and the file by which the controller manager
// signs.
func (k *Keeper) readKubernetes(out *files) error {
	for _, path := range places[rotation.KubernetesCA].confs {
		data, err := os.ReadFile(k.Root + path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = k.readConf(path, data, out)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	// kubelet's kubeconfig may contain its certificate, and it may sign itself the one
	// by which it serves.
	if err := errors.Join(k.readPair(kubeadm.ServingCertificate, kubeletcert.PutServing, out), k.readPair(kubeadm.KubeletCertificate, kubeletcert.Put, out)); err != nil {
		return err
	}
	return k.readSigning(out)
}

// readPair adds a certificate of kubelet's that is in one file with its key, if there is
// one.
func (k *Keeper) readPair(path string, put func(string, []byte, time.Time, func(string, []byte, fs.FileMode) error) error, out *files) error {
	pair, err := os.ReadFile(k.Root + path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	cert, key := keys.SplitPair(string(pair))
	out.add(leaf{path: path, cert: cert, key: key, replace: func(cert string) error { return put(k.Root, []byte(cert+key), k.Now(), k.write) }})
	return nil
}

// readConf adds a kubeconfig.
func (k *Keeper) readConf(path string, data []byte, out *files) error {
	text, err := kube.Authorities(data)
	if err != nil {
		return err
	}
	var trusts []rotation.ID
	if len(text) > 0 { // else it names a file
		publics, err := keys.Publics(string(text))
		if err != nil {
			return err
		}
		for _, p := range publics {
			trusts = append(trusts, rotation.ID(p.ID))
		}
		if !sameSet(trusts, out.Trusts) {
			out.uneven = append(out.uneven, path)
		}
	}
	cert, key, err := kube.ClientPair(data)
	if err != nil || len(cert) == 0 {
		return err
	}
	out.add(leaf{path: path, cert: string(cert), key: string(key), replace: func(cert string) error {
		return k.rewrite(path, func(conf []byte) ([]byte, error) { return kube.WithClientCertificate(conf, []byte(cert)) })
	}})
	return nil
}

// rewrite changes a kubeconfig as it is now.
func (k *Keeper) rewrite(path string, change func([]byte) ([]byte, error)) error {
	data, err := os.ReadFile(k.Root + path)
	if err != nil {
		return err
	}
	if data, err = change(data); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return k.put(path, string(data))
}

// readSigning adds the file by which the controller manager signs. The host shows
// what that signs.
func (k *Keeper) readSigning(out *files) error {
	pair, err := os.ReadFile(k.Root + state.SigningPair)
	if errors.Is(err, fs.ErrNotExist) {
		out.unable = "the controller manager of this host signs by ca.crt itself, so that file can hold no second authority: the site was installed by an earlier release"
		return nil
	}
	if err != nil {
		return err
	}
	_, key := keys.SplitPair(string(pair))
	id, err := keys.KeyID(key)
	if err != nil {
		return fmt.Errorf("%s: %w", state.SigningPair, err)
	}
	if rotation.ID(id) != out.Key {
		out.Leaf = rotation.ID(id)
	}
	return nil
}

// signBy has the controller manager sign by the authority that a key belongs to, with
// one write: it follows the file.
func (k *Keeper) signBy(trusts, key string) error {
	pair, err := keys.SigningPair(trusts, key)
	if err != nil {
		return err
	}
	return k.write(k.Root+state.SigningPair, []byte(pair), state.SecretFileMode)
}

// signsApart returns nil if ca.crt may hold several authorities: a controller manager
// that signs by that file would end, and not start again.
func (k *Keeper) signsApart(now files) error {
	if now.authority != rotation.KubernetesCA {
		return nil
	}
	if now.unable != "" {
		return errors.New(now.unable)
	}
	running, err := k.running(signs)
	if err != nil {
		return err
	}
	if len(running) == 0 {
		return waiting{fmt.Errorf("no controller manager runs on this host that signs by %s", state.SigningPair)}
	}
	return nil
}

// kubernetesReads returns nil once every program of this host knows the API, and is
// known to it, by the present files. The API server and kubelet's server follow what
// they trust, and say which authorities that is. Controller manager and scheduler are
// started anew, and so is kubelet: as a client it reads everything at its start
// (docs/adr/0074).
func (k *Keeper) kubernetesReads(ctx context.Context, cluster Cluster, now files) error {
	at := places[rotation.KubernetesCA]
	bundle, err := os.ReadFile(k.Root + at.trusts)
	if err != nil {
		return err
	}
	for _, path := range now.uneven {
		if err := k.rewrite(path, func(conf []byte) ([]byte, error) { return kube.WithAuthorities(conf, bundle) }); err != nil {
			return err
		}
	}
	if err := k.followers(ctx, now, bundle); err != nil {
		return err
	}
	for _, name := range []string{leafcert.ControllerManager, leafcert.Scheduler} {
		if err := k.kubernetes.reread(ctx, name); err != nil {
			return fmt.Errorf("restart %s: %w", name, err)
		}
	}
	if err := k.takes(ctx, "the API server", k.Endpoint, at.trusts, places[rotation.FrontProxyCA].trusts); err != nil {
		return err
	}
	if err := k.shows(ctx, "the API server", k.Endpoint, leafcert.APIServer); err != nil {
		return err
	}
	return k.kubeletReads(ctx, cluster, now)
}

// followers returns nil once other loops of this agent have followed: those of its
// own account and of the balancer.
func (k *Keeper) followers(ctx context.Context, now files, bundle []byte) error {
	pair, err := os.ReadFile(k.Root + state.AgentPair)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(now.publics, func(p keys.Public) bool { return p.ID == string(now.Key) })
	if i < 0 || !keys.SignedBy(string(pair), now.publics[i].Cert) {
		return waiting{errors.New("the agent gets its own certificate from the present authority within half a minute")}
	}
	switch follows, err := k.kubernetes.balancer(ctx, bundle); {
	case err != nil:
		return waiting{fmt.Errorf("the balancer of the API: %w", err)}
	case !follows:
		return waiting{errors.New("the agent brings the balancer of the API up to date within a minute")}
	}
	return nil
}

// shows returns nil once a server of this host shows the certificate in its file.
func (k *Keeper) shows(ctx context.Context, name, address, path string) error {
	data, err := os.ReadFile(k.Root + path)
	if err != nil {
		return err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return fmt.Errorf("%s is not PEM", path)
	}
	raw, err := k.kubernetes.shown(ctx, address)
	switch {
	case err != nil:
		return waiting{fmt.Errorf("%s does not show its certificate: %w", name, err)}
	case !bytes.Equal(raw, block.Bytes):
		return waiting{fmt.Errorf("%s shows another certificate than %s: it reads that within a minute", name, path)}
	}
	return nil
}

// kubeletReads returns nil once kubelet was started after the files were complete,
// takes clients of the authorities in its file, and shows its present certificate.
//
// A kubelet that only trusts less than before is not started anew: as a client it
// drops the old authority at its next start, as a server at once.
func (k *Keeper) kubeletReads(ctx context.Context, cluster Cluster, now files) error {
	if len(now.Trusts) == 1 && !slices.Contains(now.unread, markLeaf) {
		return k.kubeletTakes(ctx)
	}
	runs, err := k.kubernetes.kubelet()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(now.unread, func(w string) bool { return strings.HasPrefix(w, markKubelet) })
	former := markKubelet + runs
	if i >= 0 && len(now.uneven) == 0 {
		former = now.unread[i]
	} else if err := k.note(now, former); err != nil {
		return err
	}
	switch {
	case runs == "":
		return waiting{errors.New("kubelet does not run")}
	case former != markKubelet+runs: // it is another one
	case k.Kept:
		return byPerson{fmt.Errorf("kubelet reads what it trusts and shows only when it starts, and Pacemaker decides when it may: holdfast host reboot %s", k.Node)}
	default:
		if err := k.spared(ctx, cluster); err != nil {
			return err
		}
		if err := k.kubernetes.restart(ctx); err != nil {
			return fmt.Errorf("restart kubelet: %w", err)
		}
		return k.await(ctx, func(ctx context.Context) error {
			if runs, err := k.kubernetes.kubelet(); err != nil || runs == "" || former == markKubelet+runs {
				return errors.Join(err, waiting{errors.New("kubelet starts")})
			}
			return k.kubeletTakes(ctx)
		})
	}
	return k.kubeletTakes(ctx)
}

// kubeletTakes returns nil once kubelet takes clients of the authorities in its file, and
// shows the certificate in the other one, where it does not sign its own.
func (k *Keeper) kubeletTakes(ctx context.Context) error {
	if err := k.takes(ctx, "kubelet", kubeletEndpoint, places[rotation.KubernetesCA].trusts); err != nil {
		return err
	}
	if !host.Exists(k.Root + kubeadm.ServingCertificate) {
		return nil
	}
	return k.shows(ctx, "kubelet", kubeletEndpoint, kubeadm.ServingCertificate)
}

// balances reports whether this host's haproxy runs with a configuration that was
// written for some authorities.
func balances(ctx context.Context, root string, authorities []byte) (bool, error) {
	if !host.Exists(root + balancer.PodPath) {
		return true, nil
	}
	own, err := os.ReadFile(root + balancer.HostPaths.CA)
	if err != nil || !bytes.Equal(own, authorities) {
		return false, err
	}
	conf, err := os.ReadFile(root + balancer.HostPaths.Config)
	if err != nil {
		return false, err
	}
	info, err := haproxy.Client{Socket: root + balancer.HostPaths.Socket}.Info(ctx)
	if err != nil {
		return false, err
	}
	return !info.Stopping && info.Fingerprint != "" && bytes.Contains(conf, []byte("description "+info.Fingerprint+"\n")), nil
}

// shown returns the certificate that a server of this host shows.
func shown(ctx context.Context, address string) (raw []byte, err error) {
	ctx, stop := context.WithTimeout(ctx, dialLimit)
	defer stop()
	dialer := &tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // it is compared, not trusted
		VerifyConnection: func(c tls.ConnectionState) error {
			raw = c.PeerCertificates[0].Raw
			return nil
		},
	}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return raw, conn.Close()
}
