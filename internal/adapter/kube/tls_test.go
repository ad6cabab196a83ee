package kube

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestAConnectionWithoutAClientCertificateOrAVerifiedServerIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ cluster, user string }{
		"a server that is not verified": {"insecure-skip-tls-verify: true", "{}"},
		"a token":                       {"server: https://10.0.0.5:6443", "token: abc"},
		"a file that is not there":      {"certificate-authority: /nowhere/ca.crt", "client-certificate: /nowhere/a.pem"},
	} {
		path := filepath.Join(t.TempDir(), "kubelet.conf")
		text := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
			"clusters: [{name: c, cluster: {" + c.cluster + "}}]\nusers: [{name: u, user: {" + strings.Trim(c.user, "{}") + "}}]\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if config, err := TLS(path, "api-int.example.test"); err == nil || !strings.Contains(err.Error(), path) && !strings.Contains(err.Error(), "/nowhere") {
			t.Errorf("%s: %+v, %v", name, config, err)
		}
	}
	if _, err := TLS("/nowhere/kubelet.conf", "api-int.example.test"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestTheAnnotationOfANodesLeaseIsReadByNode(t *testing.T) {
	lease := func(namespace, name string, annotations map[string]string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations}}
	}
	c := &Client{set: fake.NewClientset(
		lease(NodeLeases, "worker-1", map[string]string{"holdfast.io/x": "measured"}), lease(NodeLeases, "worker-2", nil),
		lease("kube-system", "worker-3", map[string]string{"holdfast.io/x": "of another"}),
	)}
	got, err := c.NodeLeaseAnnotation(t.Context(), "holdfast.io/x")
	if err != nil || len(got) != 1 || got["worker-1"] != "measured" {
		t.Errorf("%v, %v", got, err)
	}
}
