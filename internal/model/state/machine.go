package state

import (
	"strings"
	"time"
)

// AnnotationMachine holds the Machine that a node runs on, written by its own
// agent, so that the peer can tell whether a BMC belongs to that machine.
const AnnotationMachine = "holdfast.io/machine"

// AnnotationEncryption holds the keys of secrets in etcd that a control plane's
// API server has loaded, written by its own agent.
const AnnotationEncryption = "holdfast.io/encryption"

// AnnotationAuthorities holds a digest of the authorities of etcd's certificates
// on a control plane, written by its own agent.
const AnnotationAuthorities = "holdfast.io/etcd-authorities"

// Machine holds a machine's identity from its SMBIOS; either may be empty.
type Machine struct{ UUID, Serial string }

// String writes a machine for an annotation. A machine without either is
// written, too: it shows that the machine was asked.
func (m Machine) String() string { return "uuid=" + m.UUID + " serial=" + m.Serial }

// ParseMachine reads the form that String writes; false for anything else.
func ParseMachine(s string) (Machine, bool) {
	uuid, serial, ok := strings.Cut(s, " serial=")
	uuid, isUUID := strings.CutPrefix(uuid, "uuid=")
	return Machine{UUID: uuid, Serial: serial}, ok && isUUID
}

// AnnotationRenewal holds a CertificateRenewal of a control plane, written by its
// own agent.
const AnnotationRenewal = AnnotationDomain + "certificate-renewal"

// CertificateRenewal says whether a control plane renews its leaf certificates
// now. No two do at the same time.
type CertificateRenewal struct {
	// Since is zero while it does not.
	Since time.Time `json:"since,omitzero"`
	// Waits says for what it waits with that, and WaitsSince since when. Waits is empty while it
	// does not.
	Waits      string    `json:"waits,omitempty"`
	WaitsSince time.Time `json:"waitsSince,omitzero"`
}

// AnnotationExpires says of the binding of a further administrator when the one
// certificate that it serves ends. 'holdfast kubeconfig' writes it.
const AnnotationExpires = AnnotationDomain + "expires"

// AnnotationTrust holds which authorities a control plane trusts and by which it
// signs, written by its own agent.
const AnnotationTrust = AnnotationDomain + "authorities"
