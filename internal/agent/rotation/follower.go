package rotation

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/kubeletcert"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/flannel"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// The ConfigMap in which the controller manager publishes the authorities of the API to
// pods of a namespace. It follows ca.crt of the control planes. A kubelet may read it in
// the namespaces of its pods, and a pod of the pod network is on every host.
const (
	publishedNamespace = flannel.Namespace
	publishedName      = "kube-root-ca.crt"
	publishedKey       = "ca.crt"
)

// candidate is the kubeconfig that a worker is about to have: with it alone it has to
// reach the API before it drops an authority. It names kubelet's certificate and holds
// none.
const candidate = marks + "kubelet.conf.next"

// signTime is how long a worker waits for its certificate in one run.
const signTime = 30 * time.Second

// WorkerAPI is the part of the API that a worker needs, by its kubelet's account.
type WorkerAPI interface {
	ConfigMap(ctx context.Context, namespace, name string) (map[string]string, error)
	Annotate(ctx context.Context, node, name, value string) error
	CreateRequest(ctx context.Context, r joining.Request, life time.Duration) error
	IssuedCertificate(ctx context.Context, name string) ([]byte, error)
}

// WorkerOptions holds what a Follower needs.
type WorkerOptions struct {
	// Root is empty except in tests.
	Root string
	// Node is the name of the host's node.
	Node string
	// Try calls do with a server of the API that answers, which it knows and to which
	// it is known by a kubeconfig of this host.
	Try func(ctx context.Context, kubeconfig string, do func(context.Context, WorkerAPI) error) error
	Log *slog.Logger
	Now func() time.Time
}

// Follower does a worker's part when the Kubernetes CA is replaced. It has no key of an
// authority: control planes say in their nodes what is wished, the API publishes what to
// trust, and the controller manager signs kubelet's certificate.
//
// It owns ca.crt and what kubelet's kubeconfig trusts once a rotation has begun.
type Follower struct {
	WorkerOptions
	// files has the files, the mark and kubelet as on a control plane.
	files *Keeper

	mu    sync.Mutex
	nodes []state.Node
	// order is the last one on which all control planes agreed.
	order rotation.Order

	// wanted are the requests for what is to follow kubelet's present certificates, by
	// their paths. A request is repeated until it is signed.
	wanted map[string]wanted
}

// wanted is a request for the certificate after another one.
type wanted struct {
	after string
	pem   []byte
}

// NewFollower returns the Follower of a worker.
func NewFollower(o WorkerOptions) *Follower {
	return &Follower{WorkerOptions: o, wanted: map[string]wanted{}, files: New(Options{Root: o.Root, Node: o.Node, ControlPlanes: 1, Log: o.Log, Now: o.Now})}
}

// Nodes takes the whole list of nodes.
func (f *Follower) Nodes(nodes []state.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes = nodes
}

// Task returns the loop of the Follower.
func (f *Follower) Task() loop.Task {
	return loop.Task{
		Name: "authority of the API", First: every, Every: every, Limit: limit, Step: f.step,
		NotYet: func(err error) bool { return errors.Is(err, fs.ErrNotExist) }, // the host has not joined
	}
}

// step does what is wished, and publishes what the host uses.
func (f *Follower) step(ctx context.Context) (loop.Result, error) {
	f.mu.Lock()
	nodes := f.nodes
	f.mu.Unlock()
	order, waits := rotation.OrderOf(nodes, rotation.KubernetesCA)
	if waits == nil {
		f.order = order
	}
	now, err := f.read()
	if err != nil {
		return loop.Result{}, err
	}
	var did []string
	if waits == nil && order.Of != "" {
		err = f.files.remember(rotation.KubernetesCA, rotation.Followed{Of: order.Of}, order.Phase)
	}
	if waits == nil && err == nil {
		work, stop := context.WithTimeout(ctx, limit-tellTime)
		did, now, err = f.follow(work, order, now)
		stop()
	}
	if err == nil && len(now.unread) > 0 && rotation.Vanished(nodes, rotation.KubernetesCA) {
		did, now, err = f.catchUp(ctx, now)
	}
	said := rotation.Report{Of: f.order.Of, New: f.order.New, Phase: f.order.Phase, Turn: f.order.Turn}
	if now.Loaded {
		said.Trusts, said.Signs, said.Ends = now.Trusts, now.Leaf, now.ends
	}
	if problem := errors.Join(waits, err); problem != nil {
		said.Problem = problem.Error()
	}
	if is := (waiting{}); errors.As(err, &is) || isByPerson(err) {
		err = nil
	}
	text := rotation.Reports{Authorities: map[rotation.Authority]rotation.Report{rotation.KubernetesCA: said}} //nolint:exhaustive // a worker has no others
	return loop.Result{Changed: strings.Join(did, "; ")}, errors.Join(err, f.stranger(f.tell(ctx, text)))
}

// tell publishes the report.
func (f *Follower) tell(ctx context.Context, r rotation.Reports) error {
	return f.Try(ctx, f.Root+state.KubeletKubeconfig, func(ctx context.Context, c WorkerAPI) error {
		return f.files.tell(ctx, annotator{c}, r)
	})
}

// annotator is the part of Cluster that a worker has.
type annotator struct{ WorkerAPI }

func (annotator) Nodes(context.Context) ([]state.Node, error) { return nil, errors.ErrUnsupported }

func (annotator) Secret(context.Context, string, string) (map[string][]byte, error) {
	return nil, errors.ErrUnsupported
}

// stranger adds to an error what a person types, if the reason is that this host was
// away while the authority was replaced.
func (f *Follower) stranger(err error) error {
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); !unknown {
		return err
	}
	return fmt.Errorf("the API shows a certificate of an authority that this host does not know. Was the host away while 'holdfast ca rotate kubernetes-ca' ran? Then switch it off, type holdfast host remove %[1]s --is-off %[1]s on a control plane, if nobody has done that, and install it anew: holdfast host add %[1]s: %[2]w", f.Node, err)
}

// read reads the files of this host. A worker lacks a key, so Leaf is what signed
// kubelet's certificates. While they differ, that is the one that is not new.
func (f *Follower) read() (files, error) {
	out, k := files{authority: rotation.KubernetesCA}, f.files
	at := places[rotation.KubernetesCA].trusts
	trusts, err := os.ReadFile(f.Root + at)
	if err != nil {
		return out, err
	}
	if out.publics, err = keys.Publics(string(trusts)); err != nil {
		return out, fmt.Errorf("%s: %w", at, err)
	}
	for _, p := range out.publics {
		out.Trusts = append(out.Trusts, rotation.ID(p.ID))
	}
	conf, err := os.ReadFile(f.Root + state.KubeletKubeconfig)
	if err != nil {
		return out, err
	}
	if err := k.readConf(state.KubeletKubeconfig, conf, &out); err != nil {
		return out, fmt.Errorf("%s: %w", state.KubeletKubeconfig, err)
	}
	if _, err := os.Stat(f.Root + kubeadm.KubeletCertificate); err != nil {
		return out, err
	}
	if err := errors.Join(k.readPair(kubeadm.ServingCertificate, kubeletcert.PutServing, &out), k.readPair(kubeadm.KubeletCertificate, kubeletcert.Put, &out)); err != nil {
		return out, err
	}
	for _, l := range out.leaves {
		if l.signer != f.order.New {
			out.Leaf = l.signer
		}
	}
	for _, p := range out.publics {
		if p.ID == string(out.Leaf) {
			out.ends = p.Cert.NotAfter.UTC()
		}
	}
	out.unread, err = k.unread(rotation.KubernetesCA)
	out.Loaded = err == nil && len(out.unread) == 0 && len(out.uneven) == 0
	return out, err
}

// follow makes changes until nothing is to be done or something is in the way.
func (f *Follower) follow(ctx context.Context, o rotation.Order, now files) (did []string, _ files, err error) {
	for range maxChanges {
		// Where it rests even if the new authority alone is published, nobody is asked.
		if c, _ := rotation.Follow(o, f.Node, now.Have, []rotation.ID{o.New}); c.Act == rotation.Rest {
			return did, now, nil
		}
		published, text, err := f.published(ctx, f.Root+state.KubeletKubeconfig)
		if err != nil {
			return did, now, f.stranger(err)
		}
		c, waits := rotation.Follow(o, f.Node, now.Have, published)
		switch {
		case waits != nil:
			return did, now, waiting{waits}
		case c.Act == rotation.Rest:
			return did, now, nil
		}
		if err := f.change(ctx, c, o.New, now, text); err != nil {
			return did, now, err
		}
		did = append(did, fmt.Sprintf("%s: %s", now.authority, c.Act))
		if now, err = f.read(); err != nil {
			return did, now, err
		}
	}
	return did, now, nil
}

// published returns the authorities that the API publishes to pods, read with a
// kubeconfig.
func (f *Follower) published(ctx context.Context, kubeconfig string) (ids []rotation.ID, text string, err error) {
	err = f.Try(ctx, kubeconfig, func(ctx context.Context, c WorkerAPI) error {
		data, err := c.ConfigMap(ctx, publishedNamespace, publishedName)
		text = data[publishedKey]
		return err
	})
	if err != nil {
		return nil, "", err
	}
	publics, err := keys.Publics(text)
	if err != nil {
		return nil, "", fmt.Errorf("ConfigMap %s/%s: %w", publishedNamespace, publishedName, err)
	}
	for _, p := range publics {
		ids = append(ids, rotation.ID(p.ID))
	}
	return ids, text, nil
}

// change makes one change.
func (f *Follower) change(ctx context.Context, c rotation.Change, fresh rotation.ID, now files, published string) error {
	k := f.files
	switch c.Act {
	case rotation.WriteTrusts:
		text, err := trusted(c.Trusts, now, published)
		if err != nil {
			return err
		}
		if len(c.Trusts) < len(now.Trusts) {
			if err := f.proves(ctx, c.Trusts, text); err != nil {
				return err
			}
		}
		if err := k.note(now, markTrusts); err != nil {
			return err
		}
		return k.put(places[rotation.KubernetesCA].trusts, text)
	case rotation.WriteLeaf:
		return f.signed(ctx, fresh, now)
	case rotation.Load:
		return f.load(ctx, now)
	case rotation.Rest, rotation.WriteKey:
	}
	return nil
}

// trusted returns the text of authorities, of which this host has some, and the API has
// published the others.
func trusted(ids []rotation.ID, now files, published string) (string, error) {
	more, err := keys.Publics(published)
	if err != nil {
		return "", err
	}
	now.publics = append(slices.Clip(now.publics), more...)
	return bundle(ids, now, authority{}), nil
}

// proves returns nil if this host reaches the API with fewer authorities, and its
// present certificate, and finds the same authorities published there.
func (f *Follower) proves(ctx context.Context, want []rotation.ID, trusts string) error {
	conf, err := os.ReadFile(f.Root + state.KubeletKubeconfig)
	if err == nil {
		conf, err = kube.WithAuthorities(conf, []byte(trusts))
	}
	if err != nil {
		return err
	}
	if err := f.files.write(f.Root+candidate, conf, state.SecretFileMode); err != nil {
		return err
	}
	ids, _, err := f.published(ctx, f.Root+candidate)
	switch {
	case err != nil:
		return waiting{fmt.Errorf("this host does not reach the API by the new authority alone yet: %w", err)}
	case !sameSet(ids, want):
		return waiting{errors.New("the API publishes other authorities to those who know the new one alone")}
	}
	return f.files.remove(f.Root + candidate)
}

// signed gives kubelet certificates of the new authority, for the keys of its present
// ones. They are approved and signed as when kubelet renews its own.
func (f *Follower) signed(ctx context.Context, fresh rotation.ID, now files) error {
	for _, own := range now.leaves {
		if own.signer == fresh {
			continue
		}
		if err := f.sign(ctx, own, fresh, now); err != nil {
			return err
		}
	}
	return nil
}

// sign gives kubelet one certificate of the new authority.
func (f *Follower) sign(ctx context.Context, own leaf, fresh rotation.ID, now files) error {
	name, request, err := f.requests(own)
	if err != nil {
		return fmt.Errorf("%s: %w", own.path, err)
	}
	var cert []byte
	err = f.Try(ctx, f.Root+state.KubeletKubeconfig, func(ctx context.Context, c WorkerAPI) (err error) {
		if err = c.CreateRequest(ctx, request, 0); err == nil {
			cert, err = kube.AwaitCertificate(ctx, c.IssuedCertificate, name, signTime)
		}
		return err
	})
	if errors.Is(err, kube.ErrNotSigned) {
		return waiting{fmt.Errorf("certificate request %s: %w", name, err)}
	}
	delete(f.wanted, own.path)
	if err != nil {
		return err
	}
	if _, err := tls.X509KeyPair(cert, []byte(own.key)); err != nil {
		return fmt.Errorf("certificate request %s got another one's certificate: %w", name, err)
	}
	made := files{publics: now.publics}
	if made.add(leaf{cert: string(cert)}); made.Leaf != fresh {
		return waiting{errors.New("the controller manager signs by another authority than the new one")}
	}
	if err := f.files.note(now, markLeaf); err != nil {
		return err
	}
	return own.replace(string(cert))
}

// requests returns the request for a certificate like a present one, the same until it
// was answered.
func (f *Follower) requests(own leaf) (string, joining.Request, error) {
	w := f.wanted[own.path]
	if w.after != own.cert {
		pair, err := tls.X509KeyPair([]byte(own.cert), []byte(own.key))
		if err != nil {
			return "", joining.Request{}, err
		}
		signer, ok := pair.PrivateKey.(crypto.Signer)
		if !ok {
			return "", joining.Request{}, errors.New("its key cannot sign")
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
			RawSubject: pair.Leaf.RawSubject, DNSNames: pair.Leaf.DNSNames, IPAddresses: pair.Leaf.IPAddresses,
		}, signer)
		if err != nil {
			return "", joining.Request{}, err
		}
		w = wanted{own.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}
		f.wanted[own.path] = w
	}
	sum := sha256.Sum256(w.pem)
	name := "rotated-" + strings.TrimRight(f.Node[:min(len(f.Node), 200)], "-.") + "-" + hex.EncodeToString(sum[:8])
	if own.path == kubeadm.ServingCertificate {
		return name, joining.Request{Name: name, Signer: joining.ServingSigner, PEM: w.pem, Usages: joining.ServingUsages}, nil
	}
	return name, joining.Request{Name: name, Signer: joining.KubeletSigner, PEM: w.pem, Usages: joining.ClientUsages}, nil
}

// catchUp has kubelet read what a rotation left here that is no longer known: somebody took its
// wish away, or restored etcd from before it. It changes no authority.
func (f *Follower) catchUp(ctx context.Context, now files) ([]string, files, error) {
	if err := f.load(ctx, now); err != nil {
		return nil, now, err
	}
	after, err := f.read()
	return []string{fmt.Sprintf("%s: kubelet has read what an earlier rotation left", now.authority)}, after, err
}

// load has kubelet use what the files hold, and then removes the mark.
func (f *Follower) load(ctx context.Context, now files) error {
	k := f.files
	trusts, err := os.ReadFile(f.Root + places[rotation.KubernetesCA].trusts)
	if err != nil {
		return err
	}
	for _, path := range now.uneven {
		if err := k.rewrite(path, func(conf []byte) ([]byte, error) { return kube.WithAuthorities(conf, trusts) }); err != nil {
			return err
		}
	}
	if err := k.kubeletReads(ctx, annotator{}, now); err != nil {
		return err
	}
	if err := k.remove(k.mark(rotation.KubernetesCA)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
