package manifests

import (
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/render/guards"
)

// etcd returns the object that defines who runs etcd of two control planes. Other
// clusters leave etcd to kubelet.
func etcd() object {
	return object{file: "30-etcd", value: map[string]any{
		"apiVersion": operatorv1.GroupVersion.String(), "kind": "Etcd",
		"metadata": map[string]any{"name": clusterName},
		"spec":     map[string]any{"managementState": string(operatorv1.Managed)},
	}}
}

// guardObjects returns the guards for the first minutes. From then on the
// operator keeps them.
func guardObjects(c *config.InstallConfig) []object {
	var hosts []guards.ControlPlane
	if c.ControlPlane.Fencing != nil {
		for _, cred := range c.ControlPlane.Fencing.Credentials {
			hosts = append(hosts, guards.NewControlPlane(cred.HostName, cred.Address))
		}
	}
	var out []object
	for _, g := range guards.All(hosts) {
		out = append(out,
			object{file: "50-" + g.Name(), value: g.Policy},
			object{file: "50-" + g.Name() + "-binding", value: g.Binding})
	}
	return out
}
