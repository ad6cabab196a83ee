package ingress

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/model/config"
)

// Keys of the Secret with the authority of default certificates. Beside the
// authority that signs, the Secret holds the next one, which is announced long
// before it signs, and the previous one, whose certificates may still be
// served.
const (
	AuthoritySecret = "router-ca"
	NextCert        = "next.crt"
	NextKey         = "next.key"
	PreviousCert    = "previous.crt"
)

// Lifetimes, and the fractions of a lifetime after which a successor is made.
// Between announceAt and renewAt, clients that trust the authority can learn
// the next one. LeafLifetime is for sites without a shorter certificateValidityPeriod.
const (
	AuthorityLifetime = 2 * 365 * 24 * time.Hour
	LeafLifetime      = 365 * 24 * time.Hour
	// Backdate is how much earlier than now a certificate begins, for clients whose
	// clock is behind.
	Backdate = time.Hour
	// reserve is the least time before the end of a leaf at which it is renewed, as long
	// as that is not more than a third of its life: kubelet brings a Secret to routers
	// up to a minute and a half later.
	reserve = 5 * time.Minute

	announceAt = 0.6
	renewAt    = 0.8
)

// Certificates holds the present certificates of one IngressController. Each
// map is the data of a Secret, nil if there is none.
type Certificates struct {
	// Name is the Secret that is served; Domain is the domain that its
	// certificate must cover.
	Name, Domain string
	// Authority signs certificates; routers serve Served.
	Authority, Served map[string][]byte
	// Wanted is the Secret that spec.defaultCertificate names, empty if it
	// names none.
	Wanted string
	// Given is that Secret's data.
	Given map[string][]byte
	// Period is the site's certificateValidityPeriod; zero if nobody knows it.
	Period time.Duration
}

// Life returns the life of a certificate of ours.
func (c Certificates) Life() time.Duration { return config.ShorterLife(LeafLifetime, c.Period) }

// CertificateWork lists the steps to take, and what is wrong.
type CertificateWork struct {
	// NewAuthority makes an authority if none can be used; NewNext announces
	// the next one; Promote lets the next one sign.
	NewAuthority, NewNext, Promote bool
	// NewLeaf signs a certificate for the domain; Copy takes over the given
	// one.
	NewLeaf, Copy bool
	// Problem says why the wanted certificate cannot be served; routers then
	// keep serving the present one unless NewLeaf is set. Warning says what
	// clients will refuse about the certificate that is served.
	Problem, Warning string
	// Again is the time until the next check.
	Again time.Duration
}

// lookForCertificates is the longest interval of checks when nothing has changed: for so long a
// certificate may be served that was made while this clock was ahead. lookOften is the shortest one.
const (
	lookForCertificates = time.Hour
	lookOften           = 10 * time.Second
)

// CertificatesOf decides about the certificates of one IngressController.
func CertificatesOf(c Certificates, now time.Time) CertificateWork {
	w := CertificateWork{Again: min(lookForCertificates, c.Life()/60)}
	authority := w.authority(c.Authority, now)
	served, err := ParsePair(c.Served[corev1.TLSCertKey], c.Served[corev1.TLSPrivateKeyKey])
	own := err == nil && authority != nil && served.CheckSignatureFrom(authority) == nil
	if own { // a short one ends soon, also while nobody knows the period
		w.Again = min(w.Again, max(lifeOf(served)/60, lookOften))
	}
	switch c.Wanted {
	case "":
		w.NewLeaf = !own || !c.good(served, now)
	case c.Name:
		w.Problem = given(c.Served, now) // an administrator maintains the routers' own Secret
	default:
		w.Problem = given(c.Given, now)
		w.Copy = w.Problem == "" && !samePair(c.Given, c.Served)
		w.NewLeaf = w.Problem != "" && c.useless(served, own, now)
	}
	if w.Problem != "" {
		w.Problem = fmt.Sprintf("Secret %s/%s: %s", OperandNamespace, c.Wanted, w.Problem)
	}
	w.Warning = warning(c, w)
	if ours := w.NewLeaf || own && !w.Copy; ours && authority != nil && now.Before(authority.NotBefore) {
		w.Warning = "the authority of the default certificate is valid only from " + authority.NotBefore.UTC().Format(time.RFC3339) +
			" on, and clients refuse it before: compare the clocks (date -u on each host), and set a wrong one. If they are right, have another authority made: " +
			"kubectl -n " + Namespace + " delete secret " + AuthoritySecret
	}
	return w
}

// authority decides what to do about the authority and returns it if it may
// keep signing. One from a later day may: a clock that is behind looks the same, and would
// throw away the one that everybody trusts. A person is told.
func (w *CertificateWork) authority(data map[string][]byte, now time.Time) *x509.Certificate {
	cert, err := ParsePair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	ended := err != nil || !cert.IsCA || now.After(cert.NotAfter)
	next, noNext := ParsePair(data[NextCert], data[NextKey])
	announced := noNext == nil && next.IsCA && now.Before(next.NotAfter)
	switch {
	case announced && (ended || past(cert, renewAt, now) && !now.Before(mayPromote(cert, next))):
		w.Promote = true
		return nil
	case ended:
		w.NewAuthority = true
		return nil
	case past(cert, announceAt, now) && !announced:
		w.NewNext = true
	}
	return cert
}

// Former returns the authority that a new one follows, nil if there is none.
func Former(data map[string][]byte) *x509.Certificate {
	block, _ := pem.Decode(data[corev1.TLSCertKey])
	if block == nil {
		return nil
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil || !cert.IsCA {
		return nil
	}
	return cert
}

// mayPromote returns the earliest time at which the next authority may sign.
// Normally it was announced at announceAt and signs at renewAt, so it waits for
// that part of the present authority's life. If it was announced later, because
// the cluster was off, it waits at most half of the time that the present
// authority had left then.
func mayPromote(present, next *x509.Certificate) time.Time {
	life, left := present.NotAfter.Sub(present.NotBefore), present.NotAfter.Sub(next.NotBefore)
	return next.NotBefore.Add(min(time.Duration(float64(life)*(renewAt-announceAt)), left/2))
}

// useless reports whether one of our certificates must replace the served one
// although an administrator's is wanted. Routers need some certificate to start
// with, and an expired one is of no use to anybody.
func (c Certificates) useless(served *x509.Certificate, own bool, now time.Time) bool {
	switch {
	case served == nil:
		return true
	case own:
		return !c.good(served, now)
	}
	block, _ := pem.Decode(c.Authority[PreviousCert])
	if block != nil {
		if before, err := x509.ParseCertificate(block.Bytes); err == nil && served.CheckSignatureFrom(before) == nil {
			return true // ours too, signed by the previous authority
		}
	}
	return now.After(served.NotAfter)
}

// lifeOf returns the life of a certificate of ours. It began when that was made, which is
// Backdate after its beginning.
func lifeOf(cert *x509.Certificate) time.Duration {
	return cert.NotAfter.Sub(cert.NotBefore) - Backdate
}

// good reports whether a certificate of ours may still be served. One that lives longer than a
// new one would is from before the site's period was known.
func (c Certificates) good(cert *x509.Certificate, now time.Time) bool {
	life, left := lifeOf(cert), cert.NotAfter.Sub(now)
	rest := max(time.Duration(float64(life)*(1-renewAt)), min(reserve, life/3), 0)
	return cert.VerifyHostname("any."+c.Domain) == nil && life <= c.Life() && left >= rest && !now.Before(cert.NotBefore)
}

// past reports whether the given fraction of a certificate's life is over.
func past(cert *x509.Certificate, part float64, now time.Time) bool {
	life := cert.NotAfter.Sub(cert.NotBefore)
	return now.After(cert.NotBefore.Add(time.Duration(float64(life) * part)))
}

// given returns the reason why an administrator's certificate cannot be served,
// empty if it can.
func given(data map[string][]byte, now time.Time) string {
	if data == nil {
		return "it does not exist yet"
	}
	cert, err := ParsePair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	switch {
	case err != nil:
		return err.Error()
	case now.After(cert.NotAfter):
		return "its certificate expired on " + cert.NotAfter.UTC().Format(time.DateOnly)
	}
	return ""
}

// warning checks the certificate that will be served.
func warning(c Certificates, w CertificateWork) string {
	data := c.Served
	if w.Copy {
		data = c.Given
	}
	cert, err := ParsePair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	switch {
	case err != nil || w.NewLeaf:
		return ""
	case len(cert.DNSNames) == 0 && len(cert.IPAddresses) == 0:
		return "the default certificate has no subject alternative name: clients refuse it"
	case cert.VerifyHostname("any."+c.Domain) != nil:
		return "the default certificate is not valid for *." + c.Domain
	}
	return ""
}

func samePair(a, b map[string][]byte) bool {
	return bytes.Equal(a[corev1.TLSCertKey], b[corev1.TLSCertKey]) && bytes.Equal(a[corev1.TLSPrivateKeyKey], b[corev1.TLSPrivateKeyKey])
}

// ParsePair reads a certificate and its key, both PEM, and returns the first
// certificate. Errors never show anything of the key.
func ParsePair(cert, key []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(cert)
	if block == nil {
		return nil, errors.New(corev1.TLSCertKey + " holds no certificate in PEM")
	}
	out, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", corev1.TLSCertKey, err)
	}
	signer, err := ParseKey(key)
	if err != nil {
		return nil, err
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(out.PublicKey) {
		return nil, errors.New("certificate and key do not belong together")
	}
	return out, nil
}

// ParseKey reads a private key in any of the usual forms.
func ParseKey(data []byte) (crypto.Signer, error) {
	block, rest := pem.Decode(data)
	for block != nil && block.Type == "EC PARAMETERS" {
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		return nil, errors.New(corev1.TLSPrivateKeyKey + " holds no key in PEM")
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if signer, ok := key.(crypto.Signer); err == nil && ok {
		return signer, nil
	}
	return nil, errors.New(corev1.TLSPrivateKeyKey + " is not a private key of a known kind (it must not have a passphrase)")
}
