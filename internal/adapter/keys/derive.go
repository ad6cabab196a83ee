package keys

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/holdfast/holdfast/internal/model/site"
)

// minRoot is the least length of a secret from which a key may be derived.
const minRoot = 32

// DeriveSigner derives a key that signs tokens, with its public part. Equal inputs
// give equal bytes on every host.
func DeriveSigner(root, salt []byte, purpose string) (site.KeyPair, error) {
	key, err := derive(root, salt, purpose)
	if err != nil {
		return site.KeyPair{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return site.KeyPair{}, fmt.Errorf("derive %s: %w", purpose, err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	return site.KeyPair{Cert: encodePEM("PUBLIC KEY", public), Key: encodePEM("EC PRIVATE KEY", secret)}, err
}

// DeriveCA derives a CA like an old one: it has its names and usages, another key,
// and is valid from a time on for as long as CAs of a site are. Its subject has a
// serial number, so that a server that names the CAs it accepts tells them apart.
// Equal inputs give equal bytes on every host.
func DeriveCA(old string, root, salt []byte, purpose string, from time.Time) (site.KeyPair, error) {
	like, err := parseCertificate(old)
	if err != nil {
		return site.KeyPair{}, fmt.Errorf("derive %s: present certificate: %w", purpose, err)
	}
	key, err := derive(root, salt, purpose)
	if err != nil {
		return site.KeyPair{}, err
	}
	number := sha256.Sum256(append([]byte(purpose), salt...))
	serial := new(big.Int).SetBytes(number[:16])
	template := &x509.Certificate{
		SerialNumber: serial.SetBit(serial, 127, 0).SetBit(serial, 126, 1),
		Subject:      pkix.Name{CommonName: like.Subject.CommonName, SerialNumber: from.UTC().Format("20060102T150405Z")},
		DNSNames:     like.DNSNames, KeyUsage: like.KeyUsage, ExtKeyUsage: like.ExtKeyUsage, IsCA: true, BasicConstraintsValid: true,
		NotBefore: from.UTC().Add(-backdate), NotAfter: from.UTC().Add(authorityLifetime),
	}
	// Without randomness the signature is that of RFC 6979: always the same.
	der, err := x509.CreateCertificate(nil, template, template, &key.PublicKey, key)
	if err != nil {
		return site.KeyPair{}, fmt.Errorf("derive %s: %w", purpose, err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	return site.KeyPair{Cert: encodePEM("CERTIFICATE", der), Key: encodePEM("EC PRIVATE KEY", secret)}, err
}

// derive maps 384 bits of a derived secret to a key of P-256. So many bits leave no
// bias that counts.
func derive(root, salt []byte, purpose string) (*ecdsa.PrivateKey, error) {
	if len(root) < minRoot || len(salt) < minRoot {
		return nil, fmt.Errorf("derive %s: the site has no root for keys", purpose)
	}
	bits, err := hkdf.Key(sha256.New, root, salt, "holdfast: "+purpose, 48)
	if err != nil {
		return nil, fmt.Errorf("derive %s: %w", purpose, err)
	}
	curve := elliptic.P256()
	least := big.NewInt(1)
	scalar := new(big.Int).Mod(new(big.Int).SetBytes(bits), new(big.Int).Sub(curve.Params().N, least))
	return ecdsa.ParseRawPrivateKey(curve, scalar.Add(scalar, least).FillBytes(make([]byte, 32)))
}

// ID identifies a public key: the SHA-256 of its form in certificates, as API
// servers name the keys of tokens.
func ID(public any) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return "", err
	}
	return spkiID(der), nil
}

func spkiID(der []byte) string {
	digest := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(digest[:])
}

// Public is one public key of a PEM text, as a block of its own, and the
// certificate that contains it, nil for a key alone.
type Public struct {
	ID, Block string
	Cert      *x509.Certificate
}

// Publics returns the certificates or public keys of a PEM text. Anything else in
// it is an error, so that nobody rewrites a text that is not understood.
func Publics(text string) ([]Public, error) {
	var out []Public
	rest := []byte(text)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		p := Public{Block: string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			p.ID, p.Cert = spkiID(c.RawSubjectPublicKeyInfo), c
		} else if key, err := x509.ParsePKIXPublicKey(block.Bytes); err == nil {
			if p.ID, err = ID(key); err != nil {
				return nil, err
			}
		} else {
			return nil, fmt.Errorf("contains a %s that is neither a certificate nor a public key", block.Type)
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, errors.New("is not PEM")
	}
	return out, nil
}

// KeyID returns the ID of a private key.
func KeyID(key string) (string, error) {
	signer, err := parseSigner(key)
	if err != nil {
		return "", err
	}
	return ID(signer.Public())
}

// SignedBy reports whether a certificate was signed with a CA's key.
func SignedBy(cert string, ca *x509.Certificate) bool {
	parsed, err := parseCertificate(cert)
	return err == nil && parsed.CheckSignatureFrom(ca) == nil
}
