package machineconfig

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/state"
)

// PolicyPath is the file of a configuration with what the site declares about
// changes. The rows are a part of the configuration, because a host reads no other
// object: so it does what `config diff` says of the same object.
const PolicyPath = "/etc/holdfast/node-disruption-policy.json"

// ownFiles are the files of a merged configuration that come from no MachineConfig,
// each with what checks its contents.
var ownFiles = map[string]func(d *decoder, field string, data []byte){
	PolicyPath: func(d *decoder, field string, data []byte) {
		if _, err := parsePolicy(data); err != nil {
			d.fault(field, "%v", err)
		}
	},
	KubeletPath: func(d *decoder, field string, data []byte) {
		fields, err := parseKubelet(data)
		if err != nil {
			d.fault(field, "%v", err)
		}
		checkKubelet(fields, func(key, why string) { d.fault(field+": "+key, "%s", why) })
	},
	state.ProxyPath: checkProxyFile,
	state.TrustPath: checkTrustFile,
}

// ownFile returns a file of Holdfast that belongs to a configuration.
func ownFile(path string, data []byte) types.File {
	f := types.File{Node: types.Node{Path: path}}
	f.Contents.Source = new(ignition.DataURL(data))
	return f
}

// policyFiles returns the file with what a site declares, or none. Its bytes do not
// depend on the order in which the site declares it.
func policyFiles(p operatorv1.NodeDisruptionPolicyConfig) ([]types.File, error) {
	if len(p.Files)+len(p.Units)+len(p.SSHKey.Actions) == 0 {
		return nil, nil
	}
	p.Files, p.Units = append([]operatorv1.NodeDisruptionPolicySpecFile{}, p.Files...), append([]operatorv1.NodeDisruptionPolicySpecUnit{}, p.Units...)
	slices.SortStableFunc(p.Files, func(a, b operatorv1.NodeDisruptionPolicySpecFile) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortStableFunc(p.Units, func(a, b operatorv1.NodeDisruptionPolicySpecUnit) int { return cmp.Compare(a.Name, b.Name) })
	if p.SSHKey.Actions == nil {
		p.SSHKey.Actions = []operatorv1.NodeDisruptionPolicySpecAction{}
	}
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write what the site declares about changes: %w", err)
	}
	return []types.File{ownFile(PolicyPath, append(data, '\n'))}, nil
}

func parsePolicy(data []byte) (operatorv1.NodeDisruptionPolicyConfig, error) {
	var p operatorv1.NodeDisruptionPolicyConfig
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(&p)
	return p, err
}

// Policy returns what the site declared about changes when the configuration was
// made.
func (c Config) Policy() (operatorv1.NodeDisruptionPolicyConfig, error) {
	for _, f := range c.Ignition.Storage.Files {
		if f.Path != PolicyPath {
			continue
		}
		data, err := ignition.Contents(f.Contents)
		if err != nil {
			return operatorv1.NodeDisruptionPolicyConfig{}, err
		}
		return parsePolicy(data)
	}
	return operatorv1.NodeDisruptionPolicyConfig{}, nil
}
