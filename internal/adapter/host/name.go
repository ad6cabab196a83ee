package host

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// NodeCertificate is the file by which kubelet is its node.
const NodeCertificate = "/var/lib/kubelet/pki/kubelet-client-current.pem"

// ofNode begins the subject of that certificate; the name of the node follows.
const ofNode = "system:node:"

// Name returns the name of this host as its node has it, in lower case. A host that has
// joined is what the certificate of its kubelet says, whatever a lease of DHCP or cloud-init
// has called it since: Corosync, its peer and the API know it by that name alone. Before, it
// is what the kernel says.
func Name() (string, error) { return name("/", Called) }

// Called returns the name that the kernel has for this host now.
func Called() (string, error) {
	called, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name of this host: %w", err)
	}
	return strings.ToLower(called), nil
}

func name(root string, called func() (string, error)) (string, error) {
	if joined := nodeIn(filepath.Join(root, NodeCertificate)); joined != "" {
		return joined, nil
	}
	return called()
}

// nodeIn returns the name of the node for which a file has a certificate, or nothing if it has none.
func nodeIn(path string) string {
	data, _ := os.ReadFile(path)
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return ""
		}
		node, is := strings.CutPrefix(certificate.Subject.CommonName, ofNode)
		if !is {
			return ""
		}
		return node
	}
	return ""
}
