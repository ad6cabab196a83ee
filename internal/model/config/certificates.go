package config

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CertificateLife is the life of a cluster's leaf certificates, kubeadm's own
// choice and its limit.
const CertificateLife = 365 * 24 * time.Hour

// shortestCertificate is the shortest life of a certificate: that which
// kube-controller-manager gives to kubelets begins five minutes before its issue.
const shortestCertificate = 10 * time.Minute

// warnedCertificate is the life at which a certificate is renewed just before
// doctor warns of it, thirty days before its end.
const warnedCertificate = 90 * 24 * time.Hour

// certificateValidityPeriod checks the life of certificates.
func (v *validator) certificateValidityPeriod() {
	text := v.c.CertificateValidityPeriod
	if text == "" {
		return
	}
	path := field.NewPath("certificateValidityPeriod")
	switch d, err := time.ParseDuration(text); {
	case err != nil:
		v.add(field.Invalid(path, text, "must be a duration in hours and minutes, for example 8760h, 720h or 10m"))
	case d < shortestCertificate || d > CertificateLife:
		v.add(field.Invalid(path, text, "must be from 10m to 8760h, a year"))
	case d != d.Truncate(time.Second):
		v.add(field.Invalid(path, text, "must be whole seconds"))
	}
}

// CertificateLife returns the life of the cluster's leaf certificates.
func (c *InstallConfig) CertificateLife() time.Duration {
	d, err := time.ParseDuration(c.CertificateValidityPeriod)
	if err != nil {
		return CertificateLife // it is empty: any other text was checked
	}
	return d
}

// ShorterLife returns the life of a certificate that Holdfast makes itself: its own one, or the
// site's period if that is shorter. A period that no site may have is one that nobody knows, and
// shortens nothing.
func ShorterLife(own, period time.Duration) time.Duration {
	if period < shortestCertificate {
		return own
	}
	return min(own, period)
}

// PeriodOf returns CertificateLife of the text of a configuration; zero if the text tells nothing.
func PeriodOf(text string) time.Duration {
	c, err := Unmarshal([]byte(text))
	if text == "" || err != nil {
		return 0
	}
	return c.CertificateLife()
}
