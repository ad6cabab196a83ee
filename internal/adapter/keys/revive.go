package keys

import (
	"crypto/x509/pkix"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/site"
)

// Authorities are the files of a control plane that sign for its site, each with the key
// beside it. A rotation may have replaced those with which the site was installed.
type Authorities struct{ Kubernetes, Etcd, FrontProxy, ServiceSigner site.KeyPair }

// Revive returns the identity of a site that is restored: it keeps what its people, pods
// and stored secrets know it by, and gets new secrets for hosts that join, and a new pair
// for its administrator.
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

// Life returns a name that no other life of a site has.
func Life(random io.Reader) (string, error) {
	g := generator{random: random}
	text := strings.ToLower(g.text(32))
	return text, g.err
}
