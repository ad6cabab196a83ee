package keys

import (
	"crypto/x509/pkix"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/site"
)

// Authorities are the authorities of a control plane, each certificate with its key. They may
// differ from those of the installation, since a rotation may have replaced them.
type Authorities struct{ Kubernetes, Etcd, FrontProxy, ServiceSigner site.KeyPair }

// Revive returns the identity of a site that is restored. The site keeps the authorities and
// keys by which its people, pods and stored secrets know it; it gets new secrets for hosts
// that join, and a new key pair for its administrator.
func Revive(old site.Identity, now Authorities, at time.Time, random io.Reader) (site.Identity, error) {
	g := generator{now: at.UTC().Truncate(time.Second), random: random}
	id := old
	for _, a := range []struct {
		what string
		have site.KeyPair
		give *site.KeyPair
	}{
		{"Kubernetes' CA", now.Kubernetes, &id.KubernetesCA},
		{"etcd's CA", now.Etcd, &id.EtcdCA},
		{"the CA of the front proxy", now.FrontProxy, &id.FrontProxyCA},
	} {
		pair, err := SigningPair(a.have.Cert, a.have.Key)
		if err != nil {
			return site.Identity{}, fmt.Errorf("%s: %w", a.what, err)
		}
		a.give.Cert, a.give.Key = SplitPair(pair)
	}
	id.ServiceSigner = now.ServiceSigner
	id.JoinKey, id.JoinUntil = g.bytes(joinKeyBytes), g.now.Add(site.JoinLifetime)
	id.AdmissionToken = ""
	id.ProgressToken = strings.ToLower(g.text(32))
	id.Admin = g.administrator(id.KubernetesCA, pkix.Name{CommonName: "kubernetes-admin", Organization: []string{site.AdministratorsGroup}})
	return id, g.err
}

// Life returns a random name for a life of a site.
func Life(random io.Reader) (string, error) {
	g := generator{random: random}
	text := strings.ToLower(g.text(32))
	return text, g.err
}
