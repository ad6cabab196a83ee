// Package staticpod gives the static pods of a host the images and the arguments of a
// release, and the minor release of Kubernetes as which they behave.
//
// It changes nothing else of a pod: what the host's pod says beside that, other parts
// of Holdfast have written since the installation.
package staticpod

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/payload"
)

// With returns the manifest of a pod with the images of a release, which refs maps from
// their names in a release. Containers of other images stay as they are, and a manifest
// in which nothing changes keeps its bytes.
func With(manifest []byte, refs map[string]string) ([]byte, error) {
	var pod corev1.Pod
	if err := yaml.Unmarshal(manifest, &pod); err != nil {
		return nil, fmt.Errorf("read a static pod: %w", err)
	}
	if pod.Kind != "Pod" || len(pod.Spec.Containers) == 0 {
		return nil, fmt.Errorf("read a static pod: it is a %q with %d containers", pod.Kind, len(pod.Spec.Containers))
	}
	out := string(manifest)
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		ref, err := other(c.Image, refs)
		if err != nil {
			return nil, fmt.Errorf("static pod %s: %w", pod.Name, err)
		}
		if ref == c.Image {
			continue
		}
		line := "image: " + c.Image + "\n"
		if !strings.Contains(out, line) {
			return nil, fmt.Errorf("static pod %s: its manifest does not name image %s in a line of its own", pod.Name, c.Image)
		}
		out = strings.ReplaceAll(out, line, "image: "+ref+"\n")
	}
	return []byte(out), nil
}

// other returns the image of a release that takes the place of one of ours.
func other(image string, refs map[string]string) (string, error) {
	name, ours := strings.CutPrefix(image, payload.Registry+"/")
	if !ours {
		return image, nil
	}
	name, _, _ = strings.Cut(name, "@")
	if i := strings.LastIndexByte(name, ':'); i > 0 {
		name = name[:i]
	}
	ref, ok := refs[name]
	if !ok {
		return "", fmt.Errorf("the release has no image %q", name)
	}
	return ref, nil
}
