package staticpod

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/upgrade/hostfiles"
)

// Arguments are those that a release gives the programs of a control plane: by program, and
// there by name without dashes.
type Arguments map[string]map[string]string

// Given returns the manifest of a pod whose program has the arguments of a release. other are
// those of the release that the pod is of (decide/upgrade/hostfiles). An argument that the
// program has keeps its place, others come last. If the release says nothing of the program,
// nothing changes: it is an older one. kept names arguments that stay, with their program. A
// manifest in which nothing changes keeps its bytes.
func Given(manifest []byte, of, other Arguments) (out []byte, kept []string, err error) {
	pod, command, err := commandOf(manifest, func(program string) bool { return of[program] != nil })
	if err != nil || command == nil {
		return manifest, nil, err
	}
	program := path.Base(command[0])
	has := map[string]string{}
	for _, word := range command[1:] {
		if name, value, is := argument(word); is {
			has[name] = value
		}
	}
	set, drop, kept := hostfiles.Arguments(has, other[program], of[program])
	for i, name := range kept {
		kept[i] = program + " --" + name
	}
	out, err = withCommand(manifest, pod.Name, command, changed(command, set, drop))
	return out, kept, err
}

// argument returns the parts of a word such as --v=2.
func argument(word string) (name, value string, is bool) {
	flag, value, is := strings.Cut(word, "=")
	name, dashes := strings.CutPrefix(flag, "--")
	return name, value, is && dashes
}

// changed returns a command with some arguments set and some taken away.
func changed(command []string, set map[string]string, drop []string) []string {
	has, out := map[string]bool{}, []string{}
	for _, word := range command {
		name, _, is := argument(word)
		value, sets := set[name]
		switch {
		case is && sets:
			has[name] = true
			out = append(out, "--"+name+"="+value)
		case !is || !slices.Contains(drop, name):
			out = append(out, word)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !has[name] {
			out = append(out, "--"+name+"="+set[name])
		}
	}
	return out
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
	for at := range lines {
		words, its, end := list(lines, at, len(have))
		if !slices.Equal(words, have) {
			continue
		}
		var now []string
		for _, word := range want {
			line, err := lineOf(word, words, its)
			if err != nil {
				return nil, fmt.Errorf("static pod %s: %w", pod, err)
			}
			now = append(now, line)
		}
		out := []byte(strings.Join(slices.Concat(lines[:at], now, lines[end:]), ""))
		if _, got, err := commandOf(out, func(program string) bool { return program == path.Base(want[0]) }); err == nil && slices.Equal(got, want) {
			return out, nil
		}
		break
	}
	return nil, fmt.Errorf("static pod %s: its manifest does not have each part of its command in a line of its own", pod)
}

// list returns n words of a list that has each in a line of its own, from a line on, with these
// lines, and the line behind them. It returns fewer where the list is no such one. Comments and
// blank lines between them count for nothing.
func list(lines []string, at, n int) (words, its []string, end int) {
	for end = at; end < len(lines) && len(words) < n; end++ {
		text := strings.TrimSpace(lines[end])
		if len(words) > 0 && (text == "" || strings.HasPrefix(text, "#")) {
			continue
		}
		item, is := strings.CutPrefix(text, "- ")
		var word string
		if !is || yaml.Unmarshal([]byte(item), &word) != nil {
			break
		}
		words, its = append(words, word), append(its, lines[end])
	}
	return words, its, end
}

// lineOf returns the line of a word: that which has it already, or a new one.
func lineOf(word string, words, lines []string) (string, error) {
	if i := slices.Index(words, word); i >= 0 {
		return strings.TrimSuffix(lines[i], "\n") + "\n", nil
	}
	indent, _, _ := strings.Cut(lines[0], "- ")
	item, err := yaml.Marshal(word)
	return indent + "- " + string(item), err
}
