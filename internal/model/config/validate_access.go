package config

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/model/netaddr"
	"github.com/holdfast/holdfast/internal/model/secret"
)

const privateKeyHint = "holds a private key: give the public one, and replace the key if others have seen this file"

func (v *validator) sshKeys() {
	path := field.NewPath("sshKey")
	if isPrivateKey(v.c.SSHKey) {
		v.add(invalid(path, privateKeyHint))
		return
	}
	line := 0
	for text := range strings.Lines(v.c.SSHKey) {
		line++
		text = strings.TrimSpace(text)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text)); err != nil {
			v.add(invalid(path, fmt.Sprintf("line %d is not a public key as ssh-keygen writes it, for example ssh-ed25519 AAAA... name", line)))
		}
	}
}

func isPrivateKey(s string) bool { return strings.Contains(s, "PRIVATE KEY-----") }

// pullSecret demands the form that container tools call an authentication file.
// Messages show only the names of registries: the rest are passwords.
func (v *validator) pullSecret() {
	path := field.NewPath("pullSecret")
	text := v.c.PullSecret.Reveal()
	if text == "" {
		return
	}
	if text == secret.Redacted {
		v.add(invalid(path, "is the text printed in place of a secret, not a secret"))
		return
	}
	var file struct {
		Auths map[string]registryAccount `json:"auths"`
	}
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		v.add(invalid(path, `must be JSON of the form {"auths": {"registry.example.com": {"auth": "..."}}}`))
		return
	}
	if len(file.Auths) == 0 {
		v.add(invalid(path, `must name at least one registry under "auths"; leave pullSecret out if none needs one`))
	}
	for _, registry := range slices.Sorted(maps.Keys(file.Auths)) {
		if !file.Auths[registry].valid() {
			v.add(invalid(path, fmt.Sprintf(`the "auth" of %s must be name:password in base64, or give "username" and "password" in its place`,
				shownRegistry(registry))))
		}
	}
}

var registryName = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+(:[0-9]+)?$`)

// shownRegistry returns the name of a registry if it certainly is one.
func shownRegistry(name string) string {
	if registryName.MatchString(name) {
		return name
	}
	return "an entry"
}

// registryAccount is an entry of an authentication file. Container tools write
// it in either form.
type registryAccount struct {
	Auth     string `json:"auth"`
	Username string `json:"username"`
	Password string `json:"password"`
}

func (a registryAccount) valid() bool {
	if a.Auth == "" {
		return a.Username != "" && a.Password != ""
	}
	return isBasicAuth(a.Auth)
}

func isBasicAuth(s string) bool {
	plain, err := base64.StdEncoding.DecodeString(s)
	return err == nil && bytes.IndexByte(plain, ':') > 0
}

func (v *validator) proxy() {
	p := v.c.Proxy
	if p == nil {
		return
	}
	root := field.NewPath("proxy")
	if p.HTTPProxy == "" && p.HTTPSProxy == "" && v.readable("proxy") {
		v.add(field.Required(root, "give httpProxy, httpsProxy or both, or leave proxy out"))
	}
	v.proxyAt(root, *p)
}

func (v *validator) proxyAt(root *field.Path, p Proxy) {
	v.proxyURL(root.Child("httpProxy"), p.HTTPProxy, "http")
	v.proxyURL(root.Child("httpsProxy"), p.HTTPSProxy, "http", "https")
	v.noProxy(root.Child("noProxy"), p.NoProxy)
}

// CheckProxy returns the mistakes of a proxy at a path of another object. The details hold
// no name and no password.
func CheckProxy(at *field.Path, p Proxy) field.ErrorList {
	v := &validator{}
	v.proxyAt(at, p)
	return v.errs
}

// CheckTrustBundle returns the mistakes of certificates in PEM at a path of another object.
func CheckTrustBundle(at *field.Path, bundle string) field.ErrorList {
	v := &validator{}
	v.certificates(at, bundle)
	return v.errs
}

// proxyURL checks the URL of a proxy, which may hold a name and a password.
func (v *validator) proxyURL(path *field.Path, text string, schemes ...string) {
	if text == "" {
		return
	}
	want := strings.Join(schemes, "://... or ") + "://..."
	u, err := url.Parse(text)
	switch {
	case err != nil || strings.ContainsAny(text, " \t\r\n"):
		v.add(invalid(path, "must be a URL, "+want))
	case !slices.Contains(schemes, u.Scheme):
		v.add(field.Invalid(path, redactUserinfo(text), "must be a URL, "+want))
	case u.Hostname() == "":
		v.add(field.Invalid(path, redactUserinfo(text), "must name the proxy's host"))
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || strings.Contains(text, "#"):
		v.add(field.Invalid(path, redactUserinfo(text), "must not have a path, query or fragment"))
	}
}

func (v *validator) noProxy(path *field.Path, text string) {
	text = strings.TrimSpace(text)
	if text == "" {
		return
	}
	// A list may end with a comma, as templates write it.
	for i, entry := range strings.Split(strings.TrimSuffix(text, ","), ",") {
		if !isNoProxyEntry(strings.TrimSpace(entry)) {
			v.add(invalid(path, fmt.Sprintf("entry %d must be a domain, an address, a network in CIDR form or *", i+1)))
		}
	}
}

func isNoProxyEntry(s string) bool {
	if s == "*" {
		return true
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	if _, err := netip.ParsePrefix(s); err == nil {
		return true
	}
	return netaddr.IsName(strings.ToLower(strings.TrimPrefix(s, ".")))
}

func (v *validator) trustBundle() {
	if v.c.AdditionalTrustBundle != "" {
		v.certificates(field.NewPath("additionalTrustBundle"), v.c.AdditionalTrustBundle)
	}
}

func (v *validator) certificates(path *field.Path, bundle string) {
	rest := []byte(bundle)
	if isPrivateKey(bundle) {
		v.add(invalid(path, privateKeyHint))
		return
	}
	blocks := 0
	for {
		block, tail := pem.Decode(rest)
		if block == nil {
			break
		}
		blocks++
		if _, err := x509.ParseCertificate(block.Bytes); err != nil || block.Type != "CERTIFICATE" {
			v.add(invalid(path, fmt.Sprintf("block %d is not a certificate", blocks)))
		}
		rest = tail
	}
	switch {
	case blocks == 0:
		v.add(invalid(path, "must hold certificates in PEM form"))
	case bytes.Contains(rest, []byte("-----BEGIN")):
		v.add(invalid(path, fmt.Sprintf("block %d is cut short", blocks+1)))
	}
}
