package kubeadm

import (
	"fmt"
	"path"

	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
)

// PatchesDir is the folder with kubeadm's patches while a control plane joins.
const PatchesDir = "/etc/holdfast/kubeadm-patches"

// patched are the pods that kubeadm makes of a control plane. Each has one container, of the
// same name.
var patched = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"}

// Patches renders the files by which the pods of a control plane that joins get the images of
// this release. kubeadm would name them by the versions in the cluster, which may be those of
// another release: hosts of an upgrade run two, and this host has the images of one.
func Patches() []state.File {
	var out []state.File
	for _, name := range patched {
		text := fmt.Appendf(nil, "spec:\n  containers:\n  - name: %s\n    image: %s\n", name, payload.Image(name))
		out = append(out, state.File{Path: path.Join(PatchesDir, name+"0+strategic.yaml"), Data: text, Mode: state.DefaultFileMode})
	}
	return out
}
