// Package certificates exports to Prometheus when the certificates on a host end.
// In a cluster that was switched off for long, or is never upgraded, nobody
// renews them in time.
package certificates

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/metric"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Files are patterns of the files with certificates on a host: those of the
// cluster's servers and clients, and kubeconfigs with one inside.
var Files = []string{
	"/etc/kubernetes/pki/*.crt", state.EtcdPKIDir + "/*.crt", "/etc/kubernetes/pki/holdfast/*.pem", state.AgentPair,
	"/etc/kubernetes/*.conf",
	"/var/lib/kubelet/pki/kubelet-client-current.pem", "/var/lib/kubelet/pki/kubelet-server-current.pem", "/var/lib/kubelet/pki/kubelet.crt",
}

var notAfter = metric.Describe("certificate_not_after_timestamp_seconds", "When a certificate on this host expires.", "file")

// Collector exports the ends of the certificates that match Files. Root is empty
// except in tests.
type Collector struct{ Root string }

// Describe implements prometheus.Collector.
func (Collector) Describe(out chan<- *prometheus.Desc) { out <- notAfter }

// Collect implements prometheus.Collector. A file without a certificate gets no
// metric.
func (c Collector) Collect(out chan<- prometheus.Metric) {
	for _, pattern := range Files {
		files, _ := filepath.Glob(c.Root + pattern) // the patterns are well formed
		for _, file := range files {
			metric.Send(out).Time(notAfter, ends(file), file[len(c.Root):])
		}
	}
}

// ends returns when the first certificate of a file ends, or zero if it has none.
func ends(file string) time.Time {
	data, err := os.ReadFile(file)
	if err != nil {
		return time.Time{}
	}
	if filepath.Ext(file) == ".conf" {
		data = inside(data)
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			return c.NotAfter
		}
	}
	return time.Time{}
}

// inside returns the first client certificate of a kubeconfig, or nothing if it
// only names a file. It does not read the key beside it.
func inside(kubeconfig []byte) []byte {
	var config struct {
		Users []struct {
			User struct {
				Certificate string `json:"client-certificate-data"`
			} `json:"user"`
		} `json:"users"`
	}
	if yaml.Unmarshal(kubeconfig, &config) != nil {
		return nil
	}
	for _, u := range config.Users {
		if data, err := base64.StdEncoding.DecodeString(u.User.Certificate); err == nil && len(data) > 0 {
			return data
		}
	}
	return nil
}
