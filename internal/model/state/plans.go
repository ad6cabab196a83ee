package state

// Annotations by which hosts hear of a plan. Those of nodes stand at the host that carries the plan, and
// have its id; that of the Infrastructure object has the plan itself (docs/adr/0104).
const (
	AnnotationThirdPlane = AnnotationDomain + "third-control-plane"
	AnnotationTwoPlanes  = AnnotationDomain + "two-control-planes"
	AnnotationDualStack  = AnnotationDomain + "dual-stack"
)
