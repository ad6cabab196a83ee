package state

import "strings"

// AnnotationMachine is where a node's own agent says which machine it runs on,
// so that the peer can tell whether a BMC is that machine's.
const AnnotationMachine = "holdfast.io/machine"

// AnnotationEncryption is where a control plane's own agent says which keys of
// secrets in etcd its API server has loaded.
const AnnotationEncryption = "holdfast.io/encryption"

// AnnotationAuthorities is where a control plane's own agent says which
// authorities of etcd's certificates it has, as a digest.
const AnnotationAuthorities = "holdfast.io/etcd-authorities"

// Machine is what a machine's SMBIOS tells about it; either may be empty.
type Machine struct{ UUID, Serial string }

// String writes a machine for an annotation. A machine that tells nothing is
// written too: it has been asked.
func (m Machine) String() string { return "uuid=" + m.UUID + " serial=" + m.Serial }

// ParseMachine reads what String wrote; false where that is something else.
func ParseMachine(s string) (Machine, bool) {
	uuid, serial, ok := strings.Cut(s, " serial=")
	uuid, isUUID := strings.CutPrefix(uuid, "uuid=")
	return Machine{UUID: uuid, Serial: serial}, ok && isUUID
}
