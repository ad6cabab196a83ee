// Package account makes a kubeconfig for one more administrator, with rights that
// can be taken back without taking anybody else's.
package account

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmd "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The bounds of an account's life: the API server signs nothing shorter, and the
// controller manager nothing longer.
const (
	leastLife = 10 * time.Minute
	mostLife  = 365 * 24 * time.Hour
)

// signTime bounds the wait for the controller manager.
const signTime = 30 * time.Second

// Account is the account to make.
type Account struct {
	Name string
	// File is the kubeconfig to write, Life how long it is valid.
	File string
	Life time.Duration
	// Server is how the API is reached. Nothing of its own account is taken.
	Server *rest.Config
}

// accountName keeps a name readable in logs, and valid in the name of a binding.
var accountName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Check returns all mistakes, with the flags of the command.
func (a Account) Check() []error {
	var out []error
	if !accountName.MatchString(a.Name) {
		out = append(out, fmt.Errorf("name %q: may contain only lower-case letters, digits and -, at most 63 of them, and no - at either end", a.Name))
	}
	if a.Life < leastLife || a.Life > mostLife {
		out = append(out, fmt.Errorf("--life %s: must be 10m to 365d", a.Life))
	}
	switch _, err := os.Lstat(a.File); {
	case err == nil:
		out = append(out, fmt.Errorf("--file %s: exists already: name another file", a.File))
	case !errors.Is(err, fs.ErrNotExist):
		out = append(out, fmt.Errorf("--file: %w", err))
	}
	return out
}

// Cluster is the part of the API that an account is made with.
type Cluster interface {
	CreateRequest(ctx context.Context, r joining.Request, life time.Duration) error
	DecideRequest(ctx context.Context, name string, v joining.Verdict) (bool, error)
	IssuedCertificate(ctx context.Context, name string) ([]byte, error)
	CreateObject(ctx context.Context, collection string, object []byte) error
}

// Make makes the account and returns what to tell the person. The binding is
// last: until then nobody has rights, and what was made does no harm.
func (a Account) Make(ctx context.Context, c Cluster) (string, error) {
	if a.Server.Insecure {
		return "", errors.New("refused, nothing was changed: the kubeconfig in use does not verify the API server (insecure-skip-tls-verify), and another one made from it would not either")
	}
	id := make([]byte, 4)
	_, _ = rand.Read(id) // it never fails
	unique := a.Name + "-" + hex.EncodeToString(id)
	group, binding := site.AdministratorsGroup+":"+unique, site.AdministratorBinding+unique
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	certificate, err := a.sign(ctx, c, key, binding, group)
	if err != nil {
		return "", err
	}
	text, err := a.render(certificate, key)
	if err != nil {
		return "", err
	}
	if err := host.WriteFileAtomic(a.File, text, state.SecretFileMode); err != nil {
		return "", err
	}
	if err := c.CreateObject(ctx, kube.ClusterRoleBindings, bindingOf(binding, group, certificate.NotAfter)); err != nil {
		return "", errors.Join(fmt.Errorf("give the kubeconfig its rights: %w", err), os.Remove(a.File))
	}
	return fmt.Sprintf("%s: all rights until %s; protect it like a password\nto take the rights back:\n  kubectl delete clusterrolebinding %s\n",
		a.File, certificate.NotAfter.UTC().Format(time.RFC3339), binding), nil
}

// sign has the cluster sign a certificate for the key.
func (a Account) sign(ctx context.Context, c Cluster, key *ecdsa.PrivateKey, request, group string) (*x509.Certificate, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "holdfast:administrator:" + a.Name, Organization: []string{group}},
	}, key)
	if err != nil {
		return nil, err
	}
	r := joining.Request{
		Name: request, Signer: clientSigner, Usages: joining.ClientUsages,
		PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
	}
	if err := c.CreateRequest(ctx, r, a.Life); err != nil {
		return nil, err
	}
	v := joining.Verdict{Action: joining.Approve, Reason: "HoldfastKubeconfig", Message: "requested by 'holdfast kubeconfig " + a.Name + "'"}
	if _, err := c.DecideRequest(ctx, request, v); err != nil {
		return nil, err
	}
	text, err := kube.AwaitCertificate(ctx, c.IssuedCertificate, request, signTime)
	if errors.Is(err, kube.ErrNotSigned) {
		return nil, fmt.Errorf("the controller manager has not signed the certificate after %s: is kube-controller-manager running (holdfast status)?", signTime)
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("what the controller manager signed is not in PEM form")
	}
	return x509.ParseCertificate(block.Bytes)
}

// clientSigner signs certificates of clients of the API.
const clientSigner = "kubernetes.io/kube-apiserver-client"

// render returns the kubeconfig, for the server that made it.
func (a Account) render(certificate *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	cfg := rest.CopyConfig(a.Server)
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return nil, err
	}
	const cluster = "cluster"
	return yaml.Marshal(clientcmd.Config{
		APIVersion: "v1", Kind: "Config", CurrentContext: a.Name,
		Clusters: []clientcmd.NamedCluster{{Name: cluster, Cluster: clientcmd.Cluster{
			Server: cfg.Host, TLSServerName: cfg.ServerName, CertificateAuthorityData: cfg.CAData,
		}}},
		AuthInfos: []clientcmd.NamedAuthInfo{{Name: a.Name, AuthInfo: clientcmd.AuthInfo{
			ClientCertificateData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}),
			ClientKeyData:         pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}),
		}}},
		Contexts: []clientcmd.NamedContext{{Name: a.Name, Context: clientcmd.Context{Cluster: cluster, AuthInfo: a.Name}}},
	})
}

// bindingOf gives a group all rights. Its annotation says when the one certificate of
// the group ends, so that doctor can tell.
func bindingOf(name, group string, ends time.Time) []byte {
	out, _ := json.Marshal(rbacv1.ClusterRoleBinding{ // strings always encode
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{state.AnnotationExpires: ends.UTC().Format(time.RFC3339)}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
	})
	return out
}
