// Package cni renders a host's CNI configuration from the subnet that flannel
// leased for it: a bridge with host-local addresses of each family, and port
// mappings.
package cni

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Paths on the host.
const (
	// SubnetFile is the file that flannel writes when it has a lease.
	SubnetFile = "/run/flannel/subnet.env"
	// ConfPath is the file that containerd reads; its name sorts before those of
	// packages.
	ConfPath = "/etc/cni/net.d/10-holdfast.conflist"
)

// Lease is a host's share of the pod networks.
type Lease struct {
	// Subnets holds one prefix of each family in use.
	Subnets []netip.Prefix
	// MTU is the MTU of the pods' interfaces, in bytes.
	MTU int
}

// ParseLease reads flannel's subnet file.
func ParseLease(data []byte) (Lease, error) {
	var l Lease
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		var err error
		switch key {
		case "FLANNEL_SUBNET", "FLANNEL_IPV6_SUBNET":
			err = l.addSubnet(value)
		case "FLANNEL_MTU":
			l.MTU, err = strconv.Atoi(value)
		}
		if err != nil {
			return Lease{}, fmt.Errorf("flannel lease %s: %w", key, err)
		}
	}
	if len(l.Subnets) == 0 || l.MTU <= 0 {
		return Lease{}, fmt.Errorf("flannel lease: no subnet or no MTU yet")
	}
	return l, nil
}

func (l *Lease) addSubnet(value string) error {
	if value == "" {
		return nil
	}
	prefix, err := netip.ParsePrefix(value)
	if err != nil {
		return err
	}
	l.Subnets = append(l.Subnets, prefix.Masked())
	return nil
}

type conflist struct {
	CNIVersion string `json:"cniVersion"`
	Name       string `json:"name"`
	Plugins    []any  `json:"plugins"`
}

type bridge struct {
	Type             string    `json:"type"`
	Bridge           string    `json:"bridge"`
	IsDefaultGateway bool      `json:"isDefaultGateway"`
	HairpinMode      bool      `json:"hairpinMode"`
	IPMasq           bool      `json:"ipMasq"`
	MTU              int       `json:"mtu"`
	IPAM             hostLocal `json:"ipam"`
}

type hostLocal struct {
	Type    string         `json:"type"`
	DataDir string         `json:"dataDir"`
	Ranges  [][]rangeEntry `json:"ranges"`
}

type rangeEntry struct {
	Subnet string `json:"subnet"`
}

type portmap struct {
	Type         string          `json:"type"`
	Capabilities map[string]bool `json:"capabilities"`
	SNAT         bool            `json:"snat"`
}

// File renders the CNI configuration of a lease; only the container runtime reads
// it. A power cut empties the file system of the list of used addresses together
// with the pods.
func File(l Lease) (state.File, error) {
	ipam := hostLocal{Type: "host-local", DataDir: "/run/cni-ipam"}
	for _, s := range l.Subnets {
		ipam.Ranges = append(ipam.Ranges, []rangeEntry{{Subnet: s.String()}})
	}
	out, err := json.MarshalIndent(conflist{
		CNIVersion: "1.0.0", Name: "holdfast",
		Plugins: []any{
			bridge{Type: "bridge", Bridge: "cni0", IsDefaultGateway: true, HairpinMode: true, MTU: l.MTU, IPAM: ipam},
			portmap{Type: "portmap", Capabilities: map[string]bool{"portMappings": true}, SNAT: true},
		},
	}, "", "  ")
	if err != nil {
		return state.File{}, fmt.Errorf("render CNI configuration: %w", err)
	}
	return state.File{Path: ConfPath, Data: append(out, '\n'), Mode: state.SecretFileMode}, nil
}
