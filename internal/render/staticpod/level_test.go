package staticpod

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(made + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func at(t *testing.T, manifest []byte, level string) []byte {
	t.Helper()
	out, err := At(manifest, level)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Level(out); err != nil || got != level {
		t.Errorf("it is told to behave as %q, not %q: %v", got, level, err)
	}
	return out
}

// TestAPodOfKubeadmBehavesAsALevelAndAgainAsItself: the golden has the lines that differ.
func TestAPodOfKubeadmBehavesAsALevelAndAgainAsItself(t *testing.T) {
	var differ strings.Builder
	for _, name := range emulators {
		was := read(t, name)
		if got := at(t, was, ""); string(got) != string(was) {
			t.Errorf("%s behaves as itself, and differs", name)
		}
		low := at(t, was, "1.35")
		lines := strings.Split(string(was), "\n")
		for i, line := range strings.Split(string(low), "\n") {
			if !slices.Contains(lines, line) {
				differ.WriteString(name + ", after " + strings.TrimSpace(lines[i-1]) + ":\n" + line + "\n")
			}
		}
		if got := at(t, low, "1.35"); string(got) != string(low) {
			t.Errorf("%s: once more it differs", name)
		}
		if got, want := at(t, at(t, low, "1.34"), ""), was; string(got) != string(want) {
			t.Errorf("%s: raised it is %s", name, got)
		}
	}
	golden.Check(t, "level.txt", []byte(differ.String()))
}

func TestAPodOfAnotherProgramKeepsItsBytes(t *testing.T) {
	for _, name := range []string{"etcd"} {
		if got := at(t, at(t, read(t, name), ""), ""); string(got) != string(read(t, name)) {
			t.Errorf("%s: %s", name, got)
		}
		if got, err := At(read(t, name), "1.35"); err != nil || string(got) != string(read(t, name)) {
			t.Errorf("%s: %s %v", name, got, err)
		}
	}
}

func TestACommandThatIsNotInLinesOfItsOwnIsRefused(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: a\n    command: "
	for what, command := range map[string]string{
		"a list in one line":  "[kube-apiserver, --v=1]\n",
		"a word in two lines": "\n    - kube-apiserver\n    - --v=\n      1\n",
	} {
		if _, err := At([]byte(pod+command), "1.35"); err == nil || !strings.Contains(err.Error(), "in a line of its own") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := At([]byte("\t"), "1.35"); err == nil {
		t.Error("what is no manifest is read")
	}
}
