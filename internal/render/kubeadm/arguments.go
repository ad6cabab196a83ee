package kubeadm

import "slices"

// The programs of a control plane, by the names of their pods and containers.
const (
	apiServerProgram  = "kube-apiserver"
	controllerProgram = "kube-controller-manager"
	schedulerProgram  = "kube-scheduler"
)

// Arguments returns the arguments that this release gives the programs of a control plane on
// every site: by program, and there by name without dashes. An upgrade gives them to sites
// that an earlier release installed (render/staticpod).
//
// It leaves out what is of a site or of a host, and what needs more of a host than the
// program itself: a file of ours, or a setting of kubelet's that an upgrade leaves as it is.
func Arguments() map[string]map[string]string {
	return map[string]map[string]string{
		apiServerProgram:  byName(slices.Concat([]arg{readyCheck, leavesFirst, endsWatches, plugins}, lostAfter(), servers())),
		controllerProgram: byName(slices.Concat([]arg{podsKept}, servers())),
		schedulerProgram:  byName(servers()),
	}
}

func byName(args []arg) map[string]string {
	out := map[string]string{}
	for _, a := range args {
		out[a.Name] = a.Value
	}
	return out
}
