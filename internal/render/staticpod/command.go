package staticpod

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Arguments are those that a release gives the programs of a control plane: by program, and
// there by name without dashes.
type Arguments map[string]map[string]string

// Given returns the manifest of a pod whose program has the arguments of a release. One that
// it has keeps its place and gets the value of the release, others come last. Those that the
// pod has of another release, and that this one does not give, are taken away, unless this
// release says nothing of the program: it is of a time before releases did. All other
// arguments stay, and a manifest in which nothing changes keeps its bytes.
func Given(manifest []byte, of, other Arguments) ([]byte, error) {
	pod, command, err := commandOf(manifest, func(program string) bool { return of[program] != nil })
	if err != nil || command == nil {
		return manifest, err
	}
	given, before := of[path.Base(command[0])], other[path.Base(command[0])]
	has, want := map[string]bool{}, []string{}
	for _, word := range command {
		name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		value, is := given[name]
		_, was := before[name]
		switch {
		case is:
			has[name] = true
			want = append(want, "--"+name+"="+value)
		case !was:
			want = append(want, word)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !has[name] {
			want = append(want, "--"+name+"="+given[name])
		}
	}
	return withCommand(manifest, pod.Name, command, want)
}

// commandOf returns a pod with the command of the first program in it that is wanted; nil if
// there is none.
func commandOf(manifest []byte, wanted func(program string) bool) (pod corev1.Pod, command []string, err error) {
	if err := yaml.Unmarshal(manifest, &pod); err != nil {
		return pod, nil, fmt.Errorf("read a static pod: %w", err)
	}
	for _, c := range pod.Spec.Containers {
		if len(c.Command) > 0 && wanted(path.Base(c.Command[0])) {
			return pod, c.Command, nil
		}
	}
	return pod, nil, nil
}

// withCommand returns the manifest of a pod in which one command has taken the place of
// another. Lines of words that stay keep their bytes, and so does the rest.
func withCommand(manifest []byte, pod string, have, want []string) ([]byte, error) {
	if slices.Equal(have, want) {
		return manifest, nil
	}
	lines := slices.Collect(strings.Lines(string(manifest)))
	for at := range max(len(lines)-len(have)+1, 0) {
		words, indent := wordsOf(lines[at : at+len(have)])
		if !slices.Equal(words, have) {
			continue
		}
		var now []string
		for _, word := range want {
			line, err := lineOf(word, indent, words, lines[at:])
			if err != nil {
				return nil, fmt.Errorf("static pod %s: %w", pod, err)
			}
			now = append(now, line)
		}
		return []byte(strings.Join(slices.Concat(lines[:at], now, lines[at+len(have):]), "")), nil
	}
	return nil, fmt.Errorf("static pod %s: its manifest does not have each part of its command in a line of its own", pod)
}

// wordsOf returns the words of a list that has one in each line, and its indent; nil if
// these lines are no such list.
func wordsOf(lines []string) (words []string, indent string) {
	for _, line := range lines {
		before, item, is := strings.Cut(line, "- ")
		var word string
		if !is || strings.TrimSpace(before) != "" || yaml.Unmarshal([]byte(item), &word) != nil {
			return nil, ""
		}
		words, indent = append(words, word), before
	}
	return words, indent
}

// lineOf returns the line of a word: that which has it already, or a new one.
func lineOf(word, indent string, words, lines []string) (string, error) {
	if i := slices.Index(words, word); i >= 0 {
		return lines[i], nil
	}
	item, err := yaml.Marshal(word)
	return indent + "- " + string(item), err
}
