package state

import (
	"encoding/json"
	"fmt"
	"net/netip"
)

// EtcdParameters holds Pacemaker's configuration of etcd. It is the same on both
// hosts.
type EtcdParameters struct {
	// Nodes are the two hosts, by node name.
	Nodes map[string]netip.Addr `json:"nodes"`
	// PodManifest is the file that describes how etcd runs.
	PodManifest string `json:"podManifest"`
	// BackupDir holds the backups of data directories that were given up; Backups
	// is the number of backups that are kept, none for zero.
	BackupDir string `json:"backupDir"`
	Backups   int    `json:"backups"`
	// OOM is etcd's oom-score-adj.
	OOM int `json:"oom"`
}

// UsualEtcdParameters returns the values of the parameters that Pacemaker's
// configuration need not name.
func UsualEtcdParameters() EtcdParameters {
	return EtcdParameters{
		PodManifest: EtcdPodManifest,
		BackupDir:   "/var/lib/holdfast/etcd-backup", Backups: 3, OOM: -997,
	}
}

// DecodeEtcdParameters reads parameters that were kept as JSON. A parameter that
// the version which kept them lacked gets its usual value, so that it counts as
// no change.
func DecodeEtcdParameters(data []byte) (EtcdParameters, error) {
	p := UsualEtcdParameters()
	if err := json.Unmarshal(data, &p); err != nil {
		return EtcdParameters{}, fmt.Errorf("parameters of etcd: %w", err)
	}
	return p, nil
}

// Peer returns the name of the other host, or an error if host is none of the
// two.
func (p EtcdParameters) Peer(host string) (string, error) {
	if _, ok := p.Nodes[host]; !ok {
		return "", fmt.Errorf("node_ip_map does not name this host, %s", host)
	}
	for name := range p.Nodes {
		if name != host {
			return name, nil
		}
	}
	return "", fmt.Errorf("node_ip_map names no host but %s", host)
}
