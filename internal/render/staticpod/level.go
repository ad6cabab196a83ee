package staticpod

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
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
	if slices.Equal(command, want) {
		return manifest, nil
	}
	var out strings.Builder
	for line := range strings.Lines(string(manifest)) {
		indent, item, isItem := strings.Cut(line, "- ")
		item = strings.TrimSpace(item)
		if isItem && emulates(item) {
			continue
		}
		out.WriteString(line)
		if isItem && level != "" && item == command[0] && strings.TrimSpace(indent) == "" {
			out.WriteString(indent + "- " + want[1] + "\n")
		}
	}
	changed := []byte(out.String())
	if _, got, err := emulator(changed); err != nil || !slices.Equal(got, want) {
		return nil, fmt.Errorf("static pod %s: its manifest does not have each part of its command in a line of its own", pod.Name)
	}
	return changed, nil
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
	if err := yaml.Unmarshal(manifest, &pod); err != nil {
		return pod, nil, fmt.Errorf("read a static pod: %w", err)
	}
	for _, c := range pod.Spec.Containers {
		if len(c.Command) > 0 && slices.Contains(emulators, path.Base(c.Command[0])) {
			return pod, c.Command, nil
		}
	}
	return pod, nil, nil
}
