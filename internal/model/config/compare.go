package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Difference is a field that two configurations have differently.
type Difference struct {
	// Path is the field, as compute[0].replicas.
	Path string `json:"path"`
	// Now and File are the values, or empty where a configuration lacks the field.
	Now  string `json:"now,omitempty"`
	File string `json:"file,omitempty"`
	// How says what carries the file's value to a living cluster.
	How string `json:"how"`
}

// Compare returns what is different between the configuration of a living cluster
// and that of a file, sorted by path. The cluster's has <redacted> in place of each
// secret, and so secrets are compared by whether they are there.
func Compare(now, file *InstallConfig) ([]Difference, error) {
	was, err := fieldsOf(now)
	if err != nil {
		return nil, err
	}
	is, err := fieldsOf(file)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(was)
	maps.Copy(all, is)
	var out []Difference
	for _, path := range slices.SortedFunc(maps.Keys(all), comparePaths) {
		if was[path] != is[path] {
			out = append(out, Difference{Path: path, Now: was[path], File: is[path], How: how(path)})
		}
	}
	return out, nil
}

// ways says for the fields that a living cluster can follow what carries them, and of
// some others why it cannot. The first row whose path begins like the field's counts.
var ways = []struct{ path, how string }{
	{"sshKey", "holdfast config apply --install-config"},
	{"proxy", "holdfast config apply --install-config"},
	{"additionalTrustBundle", "holdfast config apply --install-config"},
	{"platform.baremetal.apiVIPs", "holdfast vip add, holdfast vip remove"},
	{"platform.baremetal.ingressVIPs", "holdfast vip add, holdfast vip remove"},
	{"controlPlane.fencing", "holdfast fencing rotate"},
	{"etcdQuotaGiB", "is fixed at the installation: all members of etcd have it in their manifests, and nothing changes it on hosts that live; a site that is restored from a backup may have another one"},
	{"compute", "holdfast create join-config makes the pointer for each further worker"},
}

func how(path string) string {
	for _, w := range ways {
		if strings.HasPrefix(path, w.path) {
			return w.how
		}
	}
	return "was decided at the installation; hosts keep what they have"
}

// fieldsOf returns the fields of a configuration by their paths, as JSON shows them:
// without secrets.
func fieldsOf(c *InstallConfig) (map[string]string, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("compare install configurations: %w", err)
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, fmt.Errorf("compare install configurations: %w", err)
	}
	out := map[string]string{}
	flatten(out, "", tree)
	return out, nil
}

func flatten(out map[string]string, path string, tree any) {
	switch t := tree.(type) {
	case map[string]any:
		for key, value := range t {
			flatten(out, strings.TrimPrefix(path+"."+key, "."), value)
		}
	case []any:
		for i, value := range t {
			flatten(out, fmt.Sprintf("%s[%d]", path, i), value)
		}
	default:
		out[path] = fmt.Sprint(t)
	}
}
