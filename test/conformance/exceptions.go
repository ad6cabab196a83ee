package conformance

// exceptions are the specs that are known not to pass in the lab, on any shape.
// One that passes has to leave the list.
var exceptions = []Exception{
	{
		Spec:   "[sig-node] ImageVolume should succeed with pod and pull policy of Always [LinuxOnly] [MinimumKubeletVersion:1.35] [Conformance]",
		Reason: "it needs a registry: kubelet is told to pull the image although the host has it",
	},
}
