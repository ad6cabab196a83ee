// Package apiserver renders the files that an API server reads besides its
// certificates: what it admits, what it records, which requests need no name,
// and the keys with which it encrypts secrets in etcd. Every control plane has
// these files before its API server starts. None of them comes from the API,
// because there is none in a cold boot.
package apiserver

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Paths on a control plane, and in the pod of its API server.
const (
	// Dir holds the files. The pod mounts the whole folder, because replacing a
	// file creates a new one, which a mount of the file would not show.
	Dir                = "/etc/holdfast/apiserver"
	AdmissionPath      = Dir + "/admission.yaml"
	AuthenticationPath = Dir + "/authentication.yaml"
	AuditPolicyPath    = Dir + "/audit-policy.yaml"
	// EncryptionPath holds keys.
	EncryptionPath = Dir + "/encryption.yaml"
	// AuditDir is readable by root only.
	AuditDir  = "/var/log/kubernetes/audit"
	AuditPath = AuditDir + "/audit.log"
)

// Flag is an argument of a program of the control plane.
type Flag struct{ Name, Value string }

// Mount is a folder of the host in the API server's pod.
type Mount struct {
	Name, Path string
	// Log is true for the folder of the log, which the server writes.
	Log bool
}

// Flags returns the arguments of an API server that name the files.
func Flags(s *site.Site) []Flag {
	out := []Flag{
		{"admission-control-config-file", AdmissionPath},
		{"authentication-config", AuthenticationPath},
	}
	out = append(out, auditFlags()...)
	if s.Identity.Encrypts() {
		out = append(out,
			Flag{"encryption-provider-config", EncryptionPath},
			// Keys are rotated without a restart, on one host after the other.
			Flag{"encryption-provider-config-automatic-reload", "true"},
		)
	}
	return out
}

// Mounts returns the folders that the pod of an API server needs for Flags.
func Mounts() []Mount {
	return []Mount{{Name: "holdfast-apiserver", Path: Dir}, {Name: "audit", Path: AuditDir, Log: true}}
}

// Files returns the files of a control plane. Only root may read them, because an
// attacker would like to know what is not recorded and who is exempt.
func Files(s *site.Site) ([]state.File, error) {
	objects := []struct {
		path string
		of   any
	}{
		{AdmissionPath, admission()}, {AuthenticationPath, authentication()}, {AuditPolicyPath, auditPolicy()},
	}
	var out []state.File
	for _, o := range objects {
		data, err := yaml.Marshal(o.of)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", o.path, err)
		}
		out = append(out, state.File{Path: o.path, Data: data, Mode: state.SecretFileMode})
	}
	if !s.Identity.Encrypts() {
		return out, nil
	}
	encryption, err := Encryption(s.Identity.EncryptionRoot, s.Identity.EncryptionKeys)
	return append(out, encryption), err
}
