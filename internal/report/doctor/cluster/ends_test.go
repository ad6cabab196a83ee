package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/model/state"
)

var ending = time.Date(2027, 2, 3, 4, 5, 6, 0, time.UTC)

// keyPair returns a Secret with a certificate, and a key that nobody looks at.
func keyPair(t *testing.T, namespace, name string, kind corev1.SecretType, labels map[string]string) *corev1.Secret {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: ending}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Type: kind,
		Data: map[string][]byte{corev1.TLSCertKey: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), corev1.TLSPrivateKeyKey: []byte("HUSH")},
	}
}

func TestCertificatesOfRoutersAndKubeconfigsHaveTheirEnds(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, rbacv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	binding := func(name, expires string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{state.AnnotationExpires: expires}}}
	}
	damaged := keyPair(t, ingress.OperandNamespace, "damaged", corev1.SecretTypeTLS, nil)
	damaged.Data[corev1.TLSCertKey] = []byte("no PEM")
	objects := []client.Object{
		keyPair(t, ingress.OperandNamespace, "router-certs-default", corev1.SecretTypeTLS, map[string]string{ingress.LabelOwner: "default"}),
		keyPair(t, ingress.OperandNamespace, "shop", corev1.SecretTypeTLS, nil),
		keyPair(t, ingress.OperandNamespace, "opaque", corev1.SecretTypeOpaque, nil),
		keyPair(t, ingress.Namespace, ingress.AuthoritySecret, corev1.SecretTypeTLS, nil),
		keyPair(t, "shop", "elsewhere", corev1.SecretTypeTLS, nil), damaged,
		binding("holdfast-administrator-alice-1a2b3c4d", ending.Format(time.RFC3339)),
		binding("holdfast-administrator-bob-1a2b3c4d", ""), // of an earlier build
		binding("somebody", ending.Format(time.RFC3339)),
	}
	var f decide.Facts
	(&Cluster{reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()}).Ends(t.Context(), &f)
	want := []decide.Ending{
		{What: "the certificate in Secret openshift-ingress/router-certs-default", Ends: ending, Renewer: "holdfast-operator"},
		{What: "the certificate in Secret openshift-ingress/shop", Ends: ending},
		{What: "the certificate in Secret openshift-ingress-operator/router-ca", Ends: ending, Renewer: "holdfast-operator"},
		{What: "the kubeconfig of administrator alice-1a2b3c4d (clusterrolebinding holdfast-administrator-alice-1a2b3c4d)", Ends: ending, Personal: true},
	}
	if diff := cmp.Diff(want, f.Cluster.Ends.Value); diff != "" || !f.Cluster.Ends.Known || len(f.Cluster.Trouble) > 0 {
		t.Errorf("%v\n%s", f.Cluster.Trouble, diff)
	}

	refusing := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("forbidden")
		},
	}).Build()
	f = decide.Facts{}
	(&Cluster{reader: refusing}).Ends(t.Context(), &f)
	if f.Cluster.Ends.Known || len(f.Cluster.Trouble) != 1 {
		t.Errorf("%+v", f.Cluster)
	}
}
