// Package apiserver renders what an API server reads beside its certificates:
// what it admits, what it records, whom it answers without a name, and the keys
// with which it writes secrets into etcd. Every control plane has these files
// before its API server starts, and none of them is asked of the API: a cold
// boot has none.
package apiserver

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Paths on a control plane, and in the pod of its API server.
const (
	// Dir holds the files; it is mounted as a whole, since a file that is
	// replaced is another one.
	Dir                = "/etc/holdfast/apiserver"
	AdmissionPath      = Dir + "/admission.yaml"
	AuthenticationPath = Dir + "/authentication.yaml"
	AuditPolicyPath    = Dir + "/audit-policy.yaml"
	// EncryptionPath holds keys.
	EncryptionPath = Dir + "/encryption.yaml"
	// AuditDir is root's alone.
	AuditDir  = "/var/log/kubernetes/audit"
	AuditPath = AuditDir + "/audit.log"
)

// Flag is an argument of a program of the control plane.
type Flag struct{ Name, Value string }

// Mount is a folder of the host in the API server's pod.
type Mount struct {
	Name, Path string
	// Log is true for the folder of the log, which is written to.
	Log bool
}

// Flags are the arguments of an API server that name the files.
func Flags(s *site.Site) []Flag {
	out := []Flag{
		{"admission-control-config-file", AdmissionPath},
		{"authentication-config", AuthenticationPath},
	}
	out = append(out, auditFlags()...)
	if s.Identity.Encrypts() {
		out = append(out,
			Flag{"encryption-provider-config", EncryptionPath},
			// Keys are rotated without a restart, one host after the other.
			Flag{"encryption-provider-config-automatic-reload", "true"},
		)
	}
	return out
}

// Mounts are the folders that the pod of an API server needs for Flags.
func Mounts() []Mount {
	return []Mount{{Name: "holdfast-apiserver", Path: Dir}, {Name: "audit", Path: AuditDir, Log: true}}
}

// Files are the files of a control plane. None is for others to read: what is not
// recorded, and who is exempt, is an attacker's question.
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
