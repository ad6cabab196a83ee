package staticpod

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// emulated is the one flag that says as which minor release a program behaves. What it
// is compatible with follows from it: one minor release less, as the old program has it
// by itself (docs/facts/upgrades.md).
const emulated = "--emulated-version="

// emulators are the programs that know the flag.
var emulators = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// At returns the manifest of a pod whose program behaves as a minor release of
// Kubernetes, such as 1.35. With an empty level it behaves as what it is. Pods of other
// programs stay as they are, and a manifest in which nothing changes keeps its bytes.
func At(manifest []byte, level string) ([]byte, error) {
	pod, command, err := emulator(manifest)
	if err != nil || command == nil {
		return manifest, err
	}
	want := slices.DeleteFunc(slices.Clone(command), emulates)
	if level != "" {
		want = slices.Insert(want, 1, emulated+level)
	}
	return withCommand(manifest, pod.Name, command, want)
}

// Level returns the minor release of Kubernetes as which the program of a pod is told to
// behave; empty if it behaves as what it is.
func Level(manifest []byte) (string, error) {
	_, command, err := emulator(manifest)
	if i := slices.IndexFunc(command, emulates); i >= 0 {
		return strings.TrimPrefix(command[i], emulated), err
	}
	return "", err
}

func emulates(arg string) bool { return strings.HasPrefix(arg, emulated) }

// emulator returns a pod with the command of the program in it that knows the flag; nil
// if there is none.
func emulator(manifest []byte) (pod corev1.Pod, command []string, err error) {
	return commandOf(manifest, func(program string) bool { return slices.Contains(emulators, program) })
}
