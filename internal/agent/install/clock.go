package install

import (
	"crypto/x509"
	"encoding/pem"

	"github.com/holdfast/holdfast/internal/decide/installation"
)

// ownClock refuses a clock that is behind what the host itself brings along. Everything after
// it needs the time: downloads, certificates, leases.
func (r *run) ownClock() error { return installation.Clock(r.Now(), r.passed()) }

// passed lists what happened before this host was given its configuration. A certificate that
// cannot be read says nothing here; whoever needs it says so.
func (r *run) passed() []installation.Moment {
	var out []installation.Moment
	id := r.Site.Identity
	for _, a := range []struct{ what, cert string }{
		{"Kubernetes' CA", id.KubernetesCA.Cert},
		{"etcd's CA", id.EtcdCA.Cert},
		{"the CA of the front proxy", id.FrontProxyCA.Cert},
		{"the authority of the configuration server", id.ConfigCA.Cert},
	} {
		if block, _ := pem.Decode([]byte(a.cert)); block != nil {
			if c, err := x509.ParseCertificate(block.Bytes); err == nil {
				out = append(out, installation.Moment{At: c.NotBefore, What: a.what + " of this site began"})
			}
		}
	}
	if b := r.Site.Restore; b != nil {
		out = append(out, installation.Moment{At: b.Taken, What: "the backup of this site was taken"})
	}
	return out
}
