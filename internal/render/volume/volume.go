// Package volume contains helpers for the volumes of rendered pods.
package volume

import corev1 "k8s.io/api/core/v1"

// HostPath returns a volume with a file or folder of the host.
func HostPath(name, path string, kind corev1.HostPathType) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind},
	}}
}
