package manifests

import (
	"fmt"

	"github.com/holdfast/holdfast/internal/config"
	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/render/operator"
	"github.com/holdfast/holdfast/internal/render/router"
	"github.com/holdfast/holdfast/internal/topology"
)

// operators are the operator itself, the account of the routers that it keeps,
// and the IngressController that every cluster has.
func operators(c *config.InstallConfig, t topology.Topology) []object {
	out := []object{{file: "50-ingresscontroller-default", whole: true, value: router.DefaultController(decide.Cluster{
		ControlPlane: t.ControlPlaneTopology, Infrastructure: t.InfrastructureTopology,
		Placement: t.DefaultPlacement, Domain: ingress(c, t).Spec.Domain,
	})}}
	for i, o := range router.Access(router.Traefik{}) {
		out = append(out, object{file: fmt.Sprintf("40-router-%d", i), value: o})
	}
	for _, o := range operator.Objects() {
		out = append(out, object{file: "40-operator-" + o.File, value: o.Value})
	}
	return out
}
