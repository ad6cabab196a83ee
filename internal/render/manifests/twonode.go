package manifests

import (
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/render/guards"
	"github.com/holdfast/holdfast/internal/render/operator"
)

// twoNode returns the object that defines who runs etcd, the objects with which
// the operator hands etcd over to the cluster manager, and those that keep
// others from interfering. Other clusters leave etcd to kubelet.
func twoNode(c *config.InstallConfig, t topology.Topology) []object {
	if t.EtcdScaling != topology.EtcdTwoNode {
		return nil
	}
	out := []object{{file: "30-etcd", value: map[string]any{
		"apiVersion": operatorv1.GroupVersion.String(), "kind": "Etcd",
		"metadata": map[string]any{"name": clusterName},
		"spec":     map[string]any{"managementState": string(operatorv1.Managed)},
	}}}
	for _, o := range operator.TwoNodeObjects() {
		out = append(out, object{file: "40-operator-" + o.File, value: o.Value})
	}
	return append(out, guardObjects(c)...)
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
