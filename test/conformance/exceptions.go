package conformance

// exceptions lists the specs that are known to fail in the lab, on any shape. A
// spec that passes must leave the list.
var exceptions = []Exception{
	{
		Spec:   "[sig-node] ImageVolume should succeed with pod and pull policy of Always [LinuxOnly] [MinimumKubeletVersion:1.35] [Conformance]",
		Reason: "it needs a registry: kubelet is told to pull the image although the host has it",
	},
}
