package manifests

import (
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/holdfast/holdfast/internal/render/operator"
	"github.com/holdfast/holdfast/internal/topology"
)

// twoNode are the object that says who runs etcd, and what the operator needs
// to hand it over to the cluster manager. Other clusters leave etcd to kubelet.
func twoNode(t topology.Topology) []object {
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
	return out
}
