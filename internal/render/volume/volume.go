// Package volume makes the volumes of pods that Holdfast renders.
package volume

import corev1 "k8s.io/api/core/v1"

// HostPath is a file or folder of the host.
func HostPath(name, path string, kind corev1.HostPathType) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind},
	}}
}
