package ingress

import (
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
)

// TLSProfile returns the profile that is in force, Intermediate by default.
func TLSProfile(p *configv1.TLSSecurityProfile) *configv1.TLSProfileSpec {
	kind := configv1.TLSProfileIntermediateType
	if p != nil && p.Type != "" {
		kind = p.Type
	}
	if kind == configv1.TLSProfileCustomType {
		if p.Custom == nil {
			return &configv1.TLSProfileSpec{}
		}
		return p.Custom.TLSProfileSpec.DeepCopy()
	}
	if known, ok := configv1.TLSProfiles[kind]; ok {
		return known.DeepCopy()
	}
	return configv1.TLSProfiles[configv1.TLSProfileIntermediateType].DeepCopy()
}

// cipherNames maps the profile names of the ciphers that Go's TLS has to the
// names of the registry. The ciphers of TLS 1.3 are always available and cannot
// be chosen.
var cipherNames = map[string]string{
	"ECDHE-ECDSA-AES128-GCM-SHA256": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
	"ECDHE-RSA-AES128-GCM-SHA256":   "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
	"ECDHE-ECDSA-AES256-GCM-SHA384": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
	"ECDHE-RSA-AES256-GCM-SHA384":   "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
	"ECDHE-ECDSA-CHACHA20-POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
	"ECDHE-RSA-CHACHA20-POLY1305":   "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
	"ECDHE-ECDSA-AES128-SHA256":     "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
	"ECDHE-RSA-AES128-SHA256":       "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
	"ECDHE-ECDSA-AES128-SHA":        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
	"ECDHE-RSA-AES128-SHA":          "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
	"ECDHE-ECDSA-AES256-SHA":        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
	"ECDHE-RSA-AES256-SHA":          "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
	"AES128-GCM-SHA256":             "TLS_RSA_WITH_AES_128_GCM_SHA256",
	"AES256-GCM-SHA384":             "TLS_RSA_WITH_AES_256_GCM_SHA384",
	"AES128-SHA256":                 "TLS_RSA_WITH_AES_128_CBC_SHA256",
	"AES128-SHA":                    "TLS_RSA_WITH_AES_128_CBC_SHA",
	"AES256-SHA":                    "TLS_RSA_WITH_AES_256_CBC_SHA",
	"DES-CBC3-SHA":                  "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
}

// alwaysThere lists the ciphers of TLS 1.3. notThere lists those that Go never
// had; a profile may name them nevertheless.
var (
	alwaysThere = []string{"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
	notThere    = []string{
		"ECDHE-ECDSA-AES256-SHA384", "ECDHE-RSA-AES256-SHA384", "AES256-SHA256", "DHE-RSA-AES128-GCM-SHA256",
		"DHE-RSA-AES256-GCM-SHA384", "DHE-RSA-CHACHA20-POLY1305", "DHE-RSA-AES128-SHA256", "DHE-RSA-AES256-SHA256",
	}
)

// Ciphers returns a profile's ciphers under the registry's names, without those
// of TLS 1.3.
func Ciphers(p *configv1.TLSProfileSpec) []string {
	var out []string
	for _, c := range p.Ciphers {
		if name, ok := cipherNames[c]; ok && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

var tlsVersions = []configv1.TLSProtocolVersion{
	configv1.VersionTLS10, configv1.VersionTLS11, configv1.VersionTLS12, configv1.VersionTLS13,
}

// tlsProblems lists what is wrong with a profile.
func tlsProblems(given *configv1.TLSSecurityProfile) []string {
	if given == nil || given.Type != configv1.TLSProfileCustomType {
		return nil
	}
	const path = "spec.tlsSecurityProfile.custom"
	p := TLSProfile(given)
	var out []string
	if !slices.Contains(tlsVersions, p.MinTLSVersion) {
		out = append(out, fmt.Sprintf("%s.minTLSVersion: %q is not one of %v", path, p.MinTLSVersion, tlsVersions))
	}
	for i, c := range p.Ciphers {
		if _, ok := cipherNames[c]; !ok && !slices.Contains(alwaysThere, c) && !slices.Contains(notThere, c) {
			out = append(out, fmt.Sprintf("%s.ciphers[%d]: %q is unknown", path, i, c))
		}
	}
	if len(Ciphers(p)) == 0 && p.MinTLSVersion != configv1.VersionTLS13 {
		out = append(out, path+".ciphers: none of them can be used below TLS 1.3")
	}
	return out
}
