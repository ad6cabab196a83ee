package config

import (
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/model/netaddr"
)

// validator collects the mistakes of one configuration.
type validator struct {
	c    *InstallConfig
	errs field.ErrorList
	// broken are the paths of values that could not be read; see decoder.
	broken []string
}

// validate checks every rule on c, whose defaults are filled in. It skips rules
// about an unreadable value: the mistake of the value itself is enough.
func validate(c *InstallConfig, broken []string) field.ErrorList {
	v := &validator{c: c, broken: broken}
	if !v.readable("") {
		return nil
	}
	v.identity()
	nets := v.networking()
	v.controlPlane()
	v.compute()
	v.platform(nets)
	v.rendezvous(nets)
	v.bootstrapInPlace()
	v.features()
	v.sshKeys()
	v.pullSecret()
	v.proxy()
	v.trustBundle()
	v.releaseRegistry()
	v.certificateValidityPeriod()
	v.etcdQuota()
	return v.errs
}

// add records mistakes, except those of a value that could not be read.
func (v *validator) add(errs ...*field.Error) {
	for _, e := range errs {
		if !v.insideBroken(e.Field) {
			v.errs = append(v.errs, e)
		}
	}
}

func (v *validator) insideBroken(path string) bool {
	for _, b := range v.broken {
		if isBelow(path, b) {
			return true
		}
	}
	return false
}

// readable reports whether the value at path and all within it were read.
func (v *validator) readable(path string) bool {
	for _, b := range v.broken {
		if b == "" || isBelow(b, path) || isBelow(path, b) {
			return false
		}
	}
	return true
}

// isBelow reports whether path is at or within the value at root.
func isBelow(path, root string) bool {
	rest, ok := strings.CutPrefix(path, root)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// duplicate names the place where a value was first given. The value may be
// written differently there.
func duplicate(path *field.Path, value string, first *field.Path) *field.Error {
	e := field.Duplicate(path, value)
	e.Detail = fmt.Sprintf("is the same as %s", first)
	return e
}

// ServiceDomain is Kubernetes' own: the cluster's DNS answers for names below
// it, and they would never reach the site's DNS.
const ServiceDomain = "cluster.local"

// maxClusterDomain leaves room for a host's name and its dot in the 253
// characters that DNS allows.
const maxClusterDomain = 253 - 1 - netaddr.MaxLabel

func (v *validator) identity() {
	switch v.c.APIVersion {
	case APIVersion:
	case "":
		v.add(field.Required(field.NewPath("apiVersion"), "must be v1"))
	default:
		v.add(field.NotSupported(field.NewPath("apiVersion"), v.c.APIVersion, []string{APIVersion}))
	}
	name, base := field.NewPath("metadata", "name"), field.NewPath("baseDomain")
	okName := v.clusterName(name)
	okBase := v.baseDomain(base)
	if okName && okBase {
		v.clusterDomain(base)
	}
}

func (v *validator) clusterName(path *field.Path) bool {
	name := v.c.Metadata.Name
	if name == "" {
		v.add(field.Required(path, "a cluster needs a name, for example lab"))
		return false
	}
	if !netaddr.IsLabel(name) {
		v.add(field.Invalid(path, name, labelRule))
		return false
	}
	return true
}

func (v *validator) baseDomain(path *field.Path) bool {
	base := v.c.BaseDomain
	_, notIP := netip.ParseAddr(base)
	switch {
	case base == "":
		v.add(field.Required(path, "names of the cluster lie below it, for example example.com"))
	case notIP == nil:
		v.add(field.Invalid(path, base, "must be a domain name, not an address"))
	case strings.HasSuffix(base, "."):
		v.add(field.Invalid(path, base, "must not end with a dot"))
	case !netaddr.IsName(base):
		v.add(field.Invalid(path, base, nameRule))
	default:
		return true
	}
	return false
}

func (v *validator) clusterDomain(path *field.Path) {
	domain := v.c.ClusterDomain()
	if len(domain) > maxClusterDomain {
		v.add(field.Invalid(path, v.c.BaseDomain, fmt.Sprintf(
			"the cluster's domain %s has %d characters; at most %d leave room for the names of hosts",
			domain, len(domain), maxClusterDomain)))
	}
	if isSubdomain(domain, ServiceDomain) || isSubdomain(ServiceDomain, domain) {
		v.add(field.Invalid(path, v.c.BaseDomain, fmt.Sprintf(
			"the cluster's domain %s collides with %s, which Kubernetes keeps for its services", domain, ServiceDomain)))
	}
}

func isSubdomain(name, of string) bool {
	return name == of || strings.HasSuffix(name, "."+of)
}
