package install

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"time"
)

// aliveLimit bounds the question whether the site still serves.
const aliveLimit = 5 * time.Second

// siteServes reports whether an API server of this very site answers at its endpoint, although
// its first host has not started one yet: then a host of before still serves. No answer is
// no proof that none does, and a person has been told to switch them off.
func (r *run) siteServes(ctx context.Context) bool {
	return answersAs(ctx, r.Site.APIEndpoint(), r.Site.APIHost(), r.Site.Identity.KubernetesCA.Cert)
}

// answersAs reports whether something at an address shows a certificate of an authority for a
// name.
func answersAs(ctx context.Context, address, name, authority string) bool {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(authority)) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, aliveLimit)
	defer cancel()
	d := tls.Dialer{NetDialer: &net.Dialer{}, Config: &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12}}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
