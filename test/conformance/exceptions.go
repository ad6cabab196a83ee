package conformance

// exceptions lists the specs that are known to fail in the lab. A spec that passes
// where it is listed must leave the list.
var exceptions = []Exception{
	{
		Spec:   "[sig-node] ImageVolume should succeed with pod and pull policy of Always [LinuxOnly] [MinimumKubeletVersion:1.35] [Conformance]",
		Reason: "it needs a registry: kubelet is told to pull the image although the host has it",
	},
	{
		Spec:   "[sig-node] Kubelet when scheduling a read only busybox container should not write to root filesystem [LinuxOnly] [NodeConformance] [Conformance]",
		Reason: "it compares the words of BusyBox' own shell, and the image has bash; bash says too that the file system is read-only",
	},
	{
		Spec:   "[sig-architecture] Conformance Tests should have at least two untainted nodes [Conformance]",
		Reason: "it counts the nodes that take any pod, and where there are workers control planes do not: one worker is one node",
		Shapes: []string{"2+1", "1+1"},
	},
	{
		Spec:   "[sig-apps] Daemon set [Serial] should rollback without unnecessary restarts [Conformance]",
		Reason: "it asks for two nodes that take any pod, as the one above",
		Shapes: []string{"2+1", "1+1"},
	},
}
