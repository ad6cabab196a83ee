package site

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"
)

// JoinLifetime is how long the secret in a pointer Ignition opens the
// configuration server: as long as an installation may reasonably take.
const JoinLifetime = 24 * time.Hour

// AdministratorsGroup is the group of the kubeconfig that an installation makes.
// What it may do says a binding, which can be taken away; the group
// system:masters, which is above all bindings, ends with its certificate only.
const AdministratorsGroup = "holdfast:administrators"

// AgentsGroup is the group of the agents of control planes.
const AgentsGroup = "holdfast:agents"

// AgentUser is who the agent of a control plane is to the API.
func AgentUser(host string) string { return "holdfast:agent:" + host }

// Identity is what the installer generates once for a cluster.
type Identity struct {
	// ClusterID is a random UUID.
	ClusterID string `json:"clusterID"`
	// Created is when the keys were made; all lifetimes start here.
	Created      time.Time `json:"created"`
	KubernetesCA KeyPair   `json:"kubernetesCA"`
	EtcdCA       KeyPair   `json:"etcdCA"`
	FrontProxyCA KeyPair   `json:"frontProxyCA"`
	ConfigCA     KeyPair   `json:"configCA"`
	// Admin is the administrator's: the install directory has it, no host does.
	Admin         KeyPair `json:"admin,omitzero"`
	ServiceSigner KeyPair `json:"serviceSigner"`
	// JoinUntil is when the join secrets end, where the installer renewed them.
	JoinUntil time.Time `json:"joinUntil,omitzero"`
	// JoinKey signs the join secrets of pointer Ignitions, and what hosts get for
	// them.
	JoinKey []byte `json:"joinKey,omitempty"`
	// AdmissionToken is in the copy of a worker that is being installed: with it
	// the host gets its own token, once it knows its name.
	AdmissionToken string `json:"admissionToken,omitempty"`
	// ProgressToken opens the read-only progress of the installation.
	ProgressToken string `json:"progressToken,omitempty"`
	// EncryptionRoot is what the keys of secrets in etcd follow from. A site from
	// before there was one keeps them in clear text.
	EncryptionRoot []byte `json:"encryptionRoot,omitempty"`
	// EncryptionKeys are the numbers of the keys in use when this copy was made,
	// the one that is written with first.
	EncryptionKeys []int `json:"encryptionKeys,omitempty"`
}

// Encrypts reports whether the site's API servers write secrets encrypted.
func (id Identity) Encrypts() bool { return len(id.EncryptionRoot) > 0 && len(id.EncryptionKeys) > 0 }

// KeyPair is a certificate and its private key, both PEM. The service signer
// has a public key in place of a certificate.
type KeyPair struct {
	Cert string `json:"cert"`
	Key  string `json:"key,omitempty"`
}

// JoinExpiry is the moment from which the join secrets in the site's pointer
// Ignitions are not accepted any more.
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
