package staticpod

import (
	"slices"
	"strings"
	"testing"
)

func given(t *testing.T, manifest []byte, of, other Arguments) []byte {
	t.Helper()
	out, kept, err := Given(manifest, of, other)
	if err != nil || len(kept) > 0 {
		t.Fatalf("%q %v", kept, err)
	}
	return out
}

func TestAPodOfKubeadmGetsTheArgumentsOfAReleaseAndLosesThoseOfAnother(t *testing.T) {
	was := read(t, "kube-apiserver")
	other := Arguments{"kube-apiserver": {"profiling": "false", "shutdown-delay-duration": "2s", "never-there": "1"}}
	of := Arguments{"kube-apiserver": {"shutdown-delay-duration": "9s", "a-new-one": "x: y"}, "kube-scheduler": {"profiling": "true"}}
	now := given(t, was, of, other)
	if again := given(t, now, of, of); string(again) != string(now) {
		t.Errorf("once more it differs:\n%s", again)
	}
	var differ []string
	before, after := strings.Split(string(was), "\n"), strings.Split(string(now), "\n")
	for _, line := range before {
		if !slices.Contains(after, line) {
			differ = append(differ, "without "+strings.TrimSpace(line))
		}
	}
	for i, line := range after {
		if !slices.Contains(before, line) {
			differ = append(differ, "after "+strings.TrimSpace(after[i-1])+": "+strings.TrimSpace(line))
		}
	}
	want := []string{
		"without - --shutdown-delay-duration=2s", "without - --profiling=false",
		"after - --etcd-readycheck-timeout=500ms: - --shutdown-delay-duration=9s",
		"after - --encryption-provider-config-automatic-reload=true: - '--a-new-one=x: y'",
	}
	if !slices.Equal(differ, want) {
		t.Errorf("%q", differ)
	}
}

func TestAReleaseThatSaysNothingOfAProgramTakesNothingAway(t *testing.T) {
	was := read(t, "kube-scheduler")
	other := Arguments{"kube-scheduler": {"profiling": "false"}}
	for _, of := range []Arguments{nil, {"kube-apiserver": {"profiling": "false"}}, other} {
		if got := given(t, was, of, other); string(got) != string(was) {
			t.Errorf("%v:\n%s", of, got)
		}
	}
	if _, _, err := Given([]byte("\t"), other, nil); err == nil {
		t.Error("what is no manifest is read")
	}
}

func TestAnArgumentOfAPersonStaysAndIsNamed(t *testing.T) {
	was := []byte("kind: Pod\nspec:\n  containers:\n  - command:\n    - kube-scheduler\n    - --v=9\n    - --profiling\n    - \"false\"")
	of, other := Arguments{"kube-scheduler": {"v": "3", "added": "1"}}, Arguments{"kube-scheduler": {"v": "2"}}
	got, kept, err := Given(was, of, other)
	want := string(was) + "\n    - --added=1\n"
	if err != nil || string(got) != want || !slices.Equal(kept, []string{"kube-scheduler --v"}) {
		t.Errorf("%s %q %v", got, kept, err)
	}
}
