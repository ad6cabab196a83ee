package twonode

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/etcdmanifest"
	"github.com/holdfast/holdfast/internal/render/operator"
)

const (
	// tokenSecret holds the secret of the two hosts, from which their keys are
	// made.
	tokenSecret = "pacemaker-auth"
	tokenKey    = "token"
	tokenBytes  = 32
	// fencingPrefix and a node's name form the name of the Secret with its BMC's
	// account.
	fencingPrefix = "fencing-credentials-"
)

// material holds the inputs of Jobs.
type material struct {
	cluster   string
	hosts     []Host // two, in the order of their names
	token     string
	devices   []state.FencingDevice
	manifests map[string]string // by node
	quota     etcdpod.Quota
}

// collect reads what Jobs are made from, or notes what is missing.
func (r *Reconciler) collect(ctx context.Context, g *gathered, hosts []Host) error {
	if len(hosts) != 2 || len(g.nodes) != 2 {
		return nil
	}
	m := &material{hosts: hosts, manifests: map[string]string{}}
	var infra configv1.Infrastructure
	if err := r.Client.Get(ctx, client.ObjectKey{Name: clusterName}, &infra); err != nil {
		return fmt.Errorf("read the cluster's name: %w", err)
	}
	m.cluster = infra.Status.InfrastructureName
	var err error
	if m.token, err = r.token(ctx); err != nil {
		return err
	}
	for _, h := range hosts {
		data, err := r.secret(ctx, fencingPrefix+h.Name)
		if err != nil {
			return err
		}
		device, missing := deviceOf(h.Name, hosts, data)
		device.UUID, device.Serial = h.Machine.UUID, h.Machine.Serial
		m.devices = append(m.devices, device)
		g.missing = append(g.missing, missing...)
	}
	quota, unknown, err := r.quota(ctx)
	if err != nil || unknown != "" {
		g.missing = appendText(g.missing, unknown)
		return err
	}
	m.quota = quota
	if err := r.renderPods(m); err != nil {
		return err
	}
	g.material = m
	return nil
}

// token returns the secret of the hosts' trust, and creates it the first time.
func (r *Reconciler) token(ctx context.Context) (string, error) {
	data, err := r.secret(ctx, tokenSecret)
	if err != nil || len(data[tokenKey]) > 0 {
		return string(data[tokenKey]), err
	}
	raw := make([]byte, tokenBytes)
	_, _ = rand.Read(raw) // it never fails
	token := hex.EncodeToString(raw)
	err = r.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: tokenSecret},
		Data:       map[string][]byte{tokenKey: []byte(token)},
	})
	if err != nil {
		return "", fmt.Errorf("create the secret of the hosts' trust: %w", err)
	}
	return token, nil
}

// deviceOf reads a BMC's account, and returns what it lacks.
func deviceOf(node string, hosts []Host, data map[string][]byte) (state.FencingDevice, []string) {
	name := fencingPrefix + node
	if data == nil {
		return state.FencingDevice{}, []string{"Secret " + operator.Namespace + "/" + name + " does not exist"}
	}
	var missing []string
	for _, key := range []string{"address", "username", "password"} {
		if len(data[key]) == 0 {
			missing = append(missing, "Secret "+operator.Namespace+"/"+name+" has no "+key)
		}
	}
	device := state.FencingDevice{
		Target: node, Address: string(data["address"]), Username: string(data["username"]), Password: string(data["password"]),
		Insecure:    string(data["certificateVerification"]) == "Disabled",
		Fingerprint: string(data[state.FencingPinKey]),
		LegacyTLS:   string(data["tls"]) == "Legacy",
		SystemID:    string(data["systemID"]),
		Delay:       fencing.DelayOf(node, []string{hosts[0].Name, hosts[1].Name}),
	}
	if first := string(data[state.FencingFirstPinKey]); device.Fingerprint == "" && device.Insecure && first != "" {
		device.Fingerprint, device.FirstSight = first, true
	}
	return device, missing
}

// ordered returns devices as somebody ordered them. A host that reports which
// certificate it saw first has that certificate already, and needs no Job for it.
func ordered(devices []state.FencingDevice) []state.FencingDevice {
	out := slices.Clone(devices)
	for i := range out {
		if out[i].FirstSight {
			out[i].Fingerprint, out[i].FirstSight = "", false
		}
	}
	return out
}

// renderPods renders the manifest of etcd for each host.
func (r *Reconciler) renderPods(m *material) error {
	bundle, err := r.authorities()
	if err != nil {
		return err
	}
	spec := etcdmanifest.Spec{Image: payload.Image("etcd"), CABundle: bundle, Quota: m.quota}
	for i, h := range m.hosts {
		if spec.Nodes[i], err = etcdmanifest.NodeOf(h.Name, h.Address); err != nil {
			return err
		}
	}
	for _, h := range m.hosts {
		spec.Name, spec.Digest = h.Name, h.Authorities
		pod, err := etcdmanifest.Pod(spec)
		if err != nil {
			return err
		}
		m.manifests[h.Name] = string(pod)
	}
	return nil
}

// input returns the input of the steps on a host.
func (m *material) input(node string) ([]byte, error) {
	in := twonode.Input{Cluster: m.cluster, Self: node, Token: m.token, Fencing: m.devices, Manifest: m.manifests[node]}
	for _, h := range m.hosts {
		in.Nodes = append(in.Nodes, twonode.Node{Name: h.Name, Address: h.Address})
	}
	return json.Marshal(in)
}

func (m *material) digests() handover.Digests {
	d := handover.Digests{
		Release:  payload.Version,
		Hosts:    m.digest(m.cluster, m.hosts),
		Fencing:  m.digest(m.hosts, ordered(m.devices)),
		Manifest: map[string]string{},
	}
	for _, h := range m.hosts {
		d.Manifest[h.Name] = m.digest(m.manifests[h.Name])
	}
	return d
}

// digest stands for values and reveals no secret among them: it is keyed by the
// hosts' secret, and so changes with that too.
func (m *material) digest(values ...any) string {
	mac := hmac.New(sha256.New, []byte(m.token))
	for _, v := range values {
		data, err := json.Marshal(v)
		if err != nil {
			panic(err) // cannot happen: JSON can hold the values of this package
		}
		mac.Write(data)
		mac.Write([]byte{0})
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// redact hides the secrets that Jobs are given in their output. Nothing of ours
// writes one; a BMC or a program may.
func (m *material) redact(text string) string {
	if m == nil {
		return text
	}
	secrets := []string{m.token}
	for _, d := range m.devices {
		secrets = append(secrets, d.Password)
	}
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "<redacted>")
		}
	}
	return text
}
