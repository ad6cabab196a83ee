package manifests

import (
	"fmt"

	configv1 "github.com/openshift/api/config/v1"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/render/operator"
	"github.com/holdfast/holdfast/internal/render/router"
)

// defaultRouter returns the IngressController that every cluster has.
func defaultRouter(c *config.InstallConfig, t topology.Topology) object {
	return object{file: "50-ingresscontroller-default", whole: true, wished: true, value: router.DefaultController(decide.Cluster{
		ControlPlane: t.ControlPlaneTopology, Infrastructure: t.InfrastructureTopology,
		Placement: t.DefaultPlacement, Domain: ingress(c, t).Spec.Domain,
	}, routerHosts(t))}
}

// routers returns the account of the routers that the operator keeps, and the rules
// for requests to those.
func routers() []object {
	var out []object
	for i, o := range router.Access(router.Traefik{}) {
		out = append(out, object{file: fmt.Sprintf("40-router-%d", i), value: o})
	}
	for i, o := range router.Policies() {
		out = append(out, object{file: fmt.Sprintf("41-router-policy-%d", i), value: o})
	}
	return out
}

// operatorObjects returns objects of the operator.
func operatorObjects(list []operator.Object) []object {
	var out []object
	for _, o := range list {
		out = append(out, object{file: "40-operator-" + o.File, value: o.Value})
	}
	return out
}

// routerHosts returns the number of hosts on which routers may run by default.
func routerHosts(t topology.Topology) int {
	if t.DefaultPlacement == configv1.DefaultPlacementControlPlane || t.MastersSchedulable {
		return t.ControlPlanes
	}
	return t.Workers
}
