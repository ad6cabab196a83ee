package site

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"
)

// JoinLifetime is the time for which the secret in a pointer opens the
// configuration server: as long as an installation may reasonably take.
const JoinLifetime = 24 * time.Hour

// AdministratorsGroup is the group of the kubeconfig that an installation makes.
// A binding gives it its rights, and can be taken away. The group system:masters
// is above all bindings, and ends only with its certificate.
const AdministratorsGroup = "holdfast:administrators"

// AdministratorBinding begins the names of the bindings of further administrators.
const AdministratorBinding = "holdfast-administrator-"

// AgentsGroup is the group of the agents of control planes.
const AgentsGroup = "holdfast:agents"

// AgentUser returns the name of a control plane's agent as a user of the API.
func AgentUser(host string) string { return "holdfast:agent:" + host }

// Identity holds what the installer generates once for a cluster.
type Identity struct {
	// ClusterID is a random UUID.
	ClusterID string `json:"clusterID"`
	// Created is the time at which the keys were made; all lifetimes start then.
	Created      time.Time `json:"created"`
	KubernetesCA KeyPair   `json:"kubernetesCA"`
	EtcdCA       KeyPair   `json:"etcdCA"`
	FrontProxyCA KeyPair   `json:"frontProxyCA"`
	ConfigCA     KeyPair   `json:"configCA"`
	// Admin is the administrator's pair: only the install directory has it, no host
	// does.
	Admin         KeyPair `json:"admin,omitzero"`
	ServiceSigner KeyPair `json:"serviceSigner"`
	// JoinUntil is the end of the join secrets if the installer renewed them.
	JoinUntil time.Time `json:"joinUntil,omitzero"`
	// JoinKey signs the join secrets of pointers, and the tokens that hosts get in
	// exchange for them.
	JoinKey []byte `json:"joinKey,omitempty"`
	// AdmissionToken is in the copy of a worker that is being installed. The host
	// exchanges it for its own token, once it knows its name.
	AdmissionToken string `json:"admissionToken,omitempty"`
	// ProgressToken opens the read-only progress of the installation.
	ProgressToken string `json:"progressToken,omitempty"`
	// EncryptionRoot is the root from which the keys of secrets in etcd are
	// derived. A site from before it existed stores secrets in clear text.
	EncryptionRoot []byte `json:"encryptionRoot,omitempty"`
	// EncryptionKeys lists the numbers of the keys in use when this copy was made;
	// the first one is used for writing.
	EncryptionKeys []int `json:"encryptionKeys,omitempty"`
}

// Encrypts reports whether the site's API servers write secrets encrypted.
func (id Identity) Encrypts() bool { return len(id.EncryptionRoot) > 0 && len(id.EncryptionKeys) > 0 }

// KeyPair is a certificate and its private key, both PEM. The service signer has
// a public key in place of the certificate.
type KeyPair struct {
	Cert string `json:"cert"`
	Key  string `json:"key,omitempty"`
}

// JoinExpiry returns the moment from which the join secrets in the site's
// pointers are refused.
func (id Identity) JoinExpiry() time.Time {
	if !id.JoinUntil.IsZero() {
		return id.JoinUntil
	}
	return id.Created.Add(JoinLifetime)
}

// public returns the identity without private keys, for a worker.
func (id Identity) public() Identity {
	return Identity{
		ClusterID:      id.ClusterID,
		Created:        id.Created,
		KubernetesCA:   KeyPair{Cert: id.KubernetesCA.Cert},
		ConfigCA:       KeyPair{Cert: id.ConfigCA.Cert},
		AdmissionToken: id.AdmissionToken,
	}
}

// Parse returns the certificate of the pair.
func (p KeyPair) Parse() (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(p.Cert))
	if block == nil {
		return nil, fmt.Errorf("certificate is not PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}
