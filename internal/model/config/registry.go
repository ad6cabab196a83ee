package config

import (
	"encoding/json"
	"net/netip"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/model/secret"
)

// releaseReference is HOST[:PORT]/REPOSITORY with a tag, a digest or neither,
// as the OCI distribution specification writes names.
var releaseReference = regexp.MustCompile(`^([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`)

// releaseRegistry checks the place from which hosts pull the release. Its files
// run as root, so nobody may be able to change them on the way: a registry with
// a name is reached over TLS, one with an address perhaps without, which then
// needs the digest.
func (v *validator) releaseRegistry() {
	path := field.NewPath("releaseRegistry")
	ref := v.c.ReleaseRegistry
	if ref == "" {
		return
	}
	host, _, _ := strings.Cut(ref, "/")
	switch {
	case !releaseReference.MatchString(ref) || !isRegistryHost(host):
		v.add(invalid(path, "must be HOST[:PORT]/REPOSITORY with :TAG or @sha256:DIGEST, for example registry.example.com:5000/holdfast/release:1.0"))
	case isAddress(hostOfRegistry(host)) && !strings.Contains(ref, "@sha256:"):
		v.add(field.Invalid(path, ref, "needs @sha256:DIGEST: a registry named by its address may have no TLS "+
			"('holdfast release inspect' shows the digest)"))
	}
}

// isRegistryHost reports whether container tools treat the first part of a
// reference as a registry instead of a part of the path.
func isRegistryHost(host string) bool { return strings.ContainsAny(host, ".:") }

// hostOfRegistry returns a registry without its port.
func hostOfRegistry(host string) string {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, _, _ = strings.Cut(inner, "]")
		return inner
	}
	name, _, _ := strings.Cut(host, ":")
	return name
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost"
}

// ReleaseByAddress reports whether the release's registry is named by its
// address. It may then have no TLS, so such a reference must hold the digest,
// which proves that the download is the release.
func (c *InstallConfig) ReleaseByAddress() bool {
	host, _, _ := strings.Cut(c.ReleaseRegistry, "/")
	return isAddress(hostOfRegistry(host))
}

// ReleaseAuth returns the part of the pull secret for the release's registry, as
// an authentication file of its own; empty if there is none. A registry that may
// have no TLS gets no account: anybody on the way could read it, and the digest
// alone proves the download.
func (c *InstallConfig) ReleaseAuth() secret.Text {
	host, _, ok := strings.Cut(c.ReleaseRegistry, "/")
	var file struct {
		Auths map[string]json.RawMessage `json:"auths"`
	}
	if !ok || c.PullSecret == "" || c.ReleaseByAddress() || json.Unmarshal([]byte(c.PullSecret.Reveal()), &file) != nil {
		return ""
	}
	auth, ok := file.Auths[host]
	if !ok {
		return ""
	}
	out, err := json.Marshal(map[string]map[string]json.RawMessage{"auths": {host: auth}})
	if err != nil {
		return ""
	}
	return secret.Text(out)
}
