package staticpod

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/payload"
)

// made are manifests as kubeadm makes them of our configuration.
const made = "../kubeadm/testdata/made/"

func TestAPodGetsTheImagesOfAReleaseAndKeepsTheRest(t *testing.T) {
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} {
		was, err := os.ReadFile(made + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		ref := payload.Registry + "/" + name + ":v9.9.9"
		got, err := With(was, map[string]string{name: ref})
		if err != nil {
			t.Fatal(err)
		}
		var differ []string
		now := strings.Split(string(got), "\n")
		for i, line := range strings.Split(string(was), "\n") {
			if line != now[i] {
				differ = append(differ, strings.TrimSpace(now[i]))
			}
		}
		if len(differ) != 1 || differ[0] != "image: "+ref {
			t.Errorf("%s: %q", name, differ)
		}
		again, err := With(got, map[string]string{name: ref})
		if err != nil || string(again) != string(got) {
			t.Errorf("%s: once more it differs: %v", name, err)
		}
	}
}

func TestAPodThatCannotGetTheImagesIsRefused(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: a\n    image: "
	for what, c := range map[string]struct{ manifest, want string }{
		"an image that the release lacks": {pod + payload.Registry + "/a:v1\n", `has no image "a"`},
		"an image in quotes":              {pod + `"` + payload.Registry + `/b:v1"` + "\n", "in a line of its own"},
		"no pod":                          {"kind: List\n", "it is a"},
		"no manifest":                     {"\t", "read a static pod"},
	} {
		if _, err := With([]byte(c.manifest), map[string]string{"b": payload.Registry + "/b:v2"}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	foreign := pod + "docker.io/x:1\n"
	if got, err := With([]byte(foreign), nil); err != nil || string(got) != foreign {
		t.Errorf("an image of somebody else: %s %v", got, err)
	}
}
