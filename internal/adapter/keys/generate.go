// Package keys makes the keys and certificates of a site: the identity of a new
// cluster, and the short-lived serving certificates that are made from it later.
package keys

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base32"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
)

// Lifetimes; kubeadm too chose ten years for CAs.
const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	adminLifetime     = 365 * 24 * time.Hour
	// backdate allows for hosts whose clock is behind the installer's.
	backdate = time.Hour
)

// Generate makes the identity of a new cluster. The caller provides the clock and
// the randomness.
func Generate(now time.Time, random io.Reader) (site.Identity, error) {
	g := generator{now: now.UTC().Truncate(time.Second), random: random}
	id := site.Identity{
		ClusterID:     g.uuid(),
		Created:       g.now,
		KubernetesCA:  g.authority("kubernetes"),
		EtcdCA:        g.authority("etcd-ca"),
		FrontProxyCA:  g.authority("front-proxy-ca"),
		ConfigCA:      g.authority("holdfast-config-server"),
		ServiceSigner: g.signer(),
		JoinKey:       g.bytes(joinKeyBytes),

		EncryptionRoot: g.bytes(32),
		EncryptionKeys: []int{1},
	}
	id.ProgressToken = strings.ToLower(g.text(32))
	id.Admin = g.administrator(id.KubernetesCA, pkix.Name{CommonName: "kubernetes-admin", Organization: []string{site.AdministratorsGroup}})
	return id, g.err
}

// Administrator makes another certificate of the site's administrator, with a new
// key. It has the name and groups of the present one: a cluster knows the group
// with which it was installed.
func Administrator(id site.Identity, now time.Time, random io.Reader) (site.KeyPair, error) {
	old, err := id.Admin.Parse()
	if err != nil {
		return site.KeyPair{}, fmt.Errorf("present certificate of the administrator: %w", err)
	}
	g := generator{now: now.UTC().Truncate(time.Second), random: random}
	pair := g.administrator(id.KubernetesCA, old.Subject)
	return pair, g.err
}

// administratorReserve is the last third of an administrator's certificate: files
// that are made in it bring a new certificate.
const administratorReserve = adminLifetime / 3

// AdministratorServes reports whether the present certificate of the site's
// administrator may still be given out. It returns false if the certificate cannot
// be read or ends soon, unless it ends together with its CA.
func AdministratorServes(id site.Identity, now time.Time) bool {
	cert, err := id.Admin.Parse()
	if err != nil {
		return false
	}
	authority, err := id.KubernetesCA.Parse()
	return err == nil && (now.Add(administratorReserve).Before(cert.NotAfter) || cert.NotAfter.Equal(authority.NotAfter))
}

// joinKeyBytes is the length of the hash with which the key is used.
const joinKeyBytes = jointoken.MinKeyBytes

// JoinKey makes a key for join secrets, to replace one that must not be valid any
// more.
func JoinKey(random io.Reader) ([]byte, error) {
	g := generator{random: random}
	key := g.bytes(joinKeyBytes)
	return key, g.err
}

// BootstrapToken makes a token in kubeadm's form, "id.secret".
func BootstrapToken(random io.Reader) (string, error) {
	g := generator{random: random}
	token := strings.ToLower(g.text(6) + "." + g.text(16))
	return token, g.err
}

// generator collects the first error, so that Generate reads as a list.
type generator struct {
	now    time.Time
	random io.Reader
	err    error
}

func (g *generator) keep(err error) {
	if g.err == nil && err != nil {
		g.err = fmt.Errorf("generate keys: %w", err)
	}
}

func (g *generator) bytes(n int) []byte {
	b := make([]byte, n)
	_, err := io.ReadFull(g.random, b)
	g.keep(err)
	return b
}

// text returns n random characters of a-z and 2-7, five random bits each.
func (g *generator) text(n int) string {
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(g.bytes(n))[:n]
}

func (g *generator) uuid() string {
	b := g.bytes(16)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // RFC 9562, version 4
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func (g *generator) key() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.keep(err)
	return key
}

func (g *generator) signer() site.KeyPair {
	key := g.key()
	if g.err != nil {
		return site.KeyPair{}
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	g.keep(err)
	return site.KeyPair{Cert: encodePEM("PUBLIC KEY", public), Key: g.encodeKey(key)}
}

func (g *generator) authority(name string) site.KeyPair {
	return g.issue(site.KeyPair{}, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotAfter: g.now.Add(authorityLifetime),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
		IsCA:     true, BasicConstraintsValid: true,
	})
}

// administrator issues a certificate that never outlives its CA.
func (g *generator) administrator(authority site.KeyPair, subject pkix.Name) site.KeyPair {
	if g.err != nil {
		return site.KeyPair{}
	}
	parent, err := authority.Parse()
	if g.keep(err); err != nil {
		return site.KeyPair{}
	}
	return g.issue(authority, &x509.Certificate{
		Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotAfter: earlier(g.now.Add(adminLifetime), parent.NotAfter),
	})
}

func (g *generator) issue(parent site.KeyPair, template *x509.Certificate) site.KeyPair {
	key := g.key()
	if g.err != nil {
		return site.KeyPair{}
	}
	der, err := sign(parent, template, key, g.now)
	g.keep(err)
	return site.KeyPair{Cert: encodePEM("CERTIFICATE", der), Key: g.encodeKey(key)}
}

func (g *generator) encodeKey(key *ecdsa.PrivateKey) string {
	der, err := x509.MarshalECPrivateKey(key)
	g.keep(err)
	return encodePEM("EC PRIVATE KEY", der)
}

// sign completes the template and signs it with parent, or with itself if parent is
// empty. What an authority signs is valid from its first day on: a host whose clock is days
// behind takes it all the same.
func sign(parent site.KeyPair, template *x509.Certificate, key *ecdsa.PrivateKey, now time.Time) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1))
	if template.KeyUsage == 0 {
		template.KeyUsage = x509.KeyUsageDigitalSignature
	}
	if parent.Cert == "" {
		template.NotBefore = now.Add(-backdate)
		return x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	}
	issuer, err := parent.Parse()
	if err != nil {
		return nil, err
	}
	issuerKey, err := parseKey(parent.Key)
	if err != nil {
		return nil, err
	}
	template.NotBefore = issuer.NotBefore
	return x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, issuerKey)
}

func encodePEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func parseKey(text string) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, fmt.Errorf("private key is not PEM")
	}
	return x509.ParseECPrivateKey(block.Bytes)
}
