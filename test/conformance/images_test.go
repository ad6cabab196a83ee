package conformance

import (
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/payload"
)

// known returns an answer like that of imagenames: every image, with a name.
func known(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("programs/imagenames/main.go")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\t"([A-Za-z]+)": +image\.([A-Za-z]+),$`).FindAllStringSubmatch(string(text), -1) {
		if m[1] != m[2] {
			t.Errorf("imagenames calls image %s %s", m[2], m[1])
		}
		out[m[1]] = ownRegistry + "/" + strings.ToLower(m[1]) + ":1.2"
	}
	if len(out) < 10 {
		t.Fatalf("imagenames has %d images", len(out))
	}
	return out
}

func content(p string) ([]byte, error) { return []byte(p), nil }

func TestEveryImageThatTheTestsAskForIsMade(t *testing.T) {
	names := known(t)
	specs, err := Images(names, content)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, s := range specs {
		have = append(have, s.Ref())
	}
	if want := slices.Sorted(maps.Values(names)); !slices.Equal(slices.Sorted(slices.Values(have)), want) {
		t.Errorf("images are %q, want %q", have, want)
	}
	made := map[string]bool{}
	for _, c := range append(Components(), release("etcd"), release("pause")) {
		for _, b := range c.Binaries {
			made[c.Name+"/"+b.Name] = true
		}
	}
	for _, s := range specs {
		last := s.Extra[len(s.Extra)-1]
		if last.Path != "/etc/os-release" || !strings.Contains(string(last.Content), s.Ref()) {
			t.Errorf("%s is not told from others of the same content", s.Ref())
		}
		if len(s.Entrypoint)+len(s.Cmd) == 0 && !strings.Contains(s.Name, "etcd") {
			t.Errorf("%s runs nothing", s.Ref())
		}
		for _, f := range s.Files {
			if !made[f.Component+"/"+f.Binary] {
				t.Errorf("%s has %s of %s, which nobody makes", s.Ref(), f.Binary, f.Component)
			}
		}
	}
}

func TestImagesThatSpecsAskForAreFoundInTheirText(t *testing.T) {
	const text = `image := imageutils.GetE2EImage(imageutils.BusyBox)
	dnsQuerier{image: imageutils.GlibcDnsTesting, cmd: "x"}, imageutils.BusyBox, imageutils.AgnhostPrivate)`
	if got, want := Asked(text), []string{"BusyBox", "GlibcDnsTesting"}; !slices.Equal(got, want) {
		t.Errorf("images are %q, want %q", got, want)
	}
}

func TestImagesThatNobodyKnowsHowToMakeAreErrors(t *testing.T) {
	for name, test := range map[string]struct {
		known map[string]string
		read  func(string) ([]byte, error)
		want  string
	}{
		"a new image": {map[string]string{"Windmill": ownRegistry + "/windmill:1"}, content, "nothing here says how it is made"},
		"of a real registry": {
			map[string]string{"Pause": "registry.example/pause:1"},
			content,
			"image Pause: its name is registry.example/pause:1, want one of the registry " + payload.Registry,
		},
		"without a tag": {map[string]string{"Pause": ownRegistry + "/pause"}, content, "has no tag"},
		"a file is gone": {
			map[string]string{"Kitten": ownRegistry + "/kitten:1"},
			func(string) ([]byte, error) { return nil, errors.New("no kitten") }, "image Kitten: no kitten",
		},
	} {
		if _, err := Images(test.known, test.read); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestLinksOfTheUserlandHideNoTool(t *testing.T) {
	spec := userland()
	for link, target := range spec.Links {
		if slices.Contains(spec.Keep, link) {
			t.Errorf("%s is a tool and a link", link)
		}
		if !slices.Contains(spec.Keep, path.Join(path.Dir(link), target)) {
			t.Errorf("%s leads to %s, which the image does not have", link, target)
		}
	}
}

func TestUsersOfAgnhostAreThoseThatATestAsksFor(t *testing.T) {
	specs, err := Images(map[string]string{"Agnhost": ownRegistry + "/agnhost:1"}, content)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range specs[0].Extra { // later ones replace earlier ones
		files[f.Path] = string(f.Content)
	}
	if !strings.Contains(files["/etc/passwd"], "user-defined-in-image:x:1000:") ||
		!strings.Contains(files["/etc/group"], "group-defined-in-image:x:50000:user-defined-in-image") {
		t.Errorf("users:\n%sgroups:\n%s", files["/etc/passwd"], files["/etc/group"])
	}
	if files["/localhost.crt"] != "agnhost/porter/localhost.crt" {
		t.Errorf("the certificate of porter is %q", files["/localhost.crt"])
	}
}

func TestEveryRegistryIsReplaced(t *testing.T) {
	for line := range strings.Lines(string(registries())) {
		if !strings.HasSuffix(line, ": "+ownRegistry+"\n") {
			t.Errorf("%q", line)
		}
	}
}

// TestTheModuleIsOfTheReleasesKubernetes compares the module with that of the
// release. They must have the same version and the same replaced modules, apart
// from one more that only the tests need.
func TestTheModuleIsOfTheReleasesKubernetes(t *testing.T) {
	read := func(dir string) string {
		data, err := os.ReadFile(filepath.Join("../..", dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	ours, theirs := read(module), read("payload/kubernetes")
	if !strings.Contains(ours, source+" "+payload.KubernetesVersion+"\n") {
		t.Errorf("%s does not require %s %s", module, source, payload.KubernetesVersion)
	}
	replaced := regexp.MustCompile(`(?m)^\t\S+ => (\S+ \S+)$`)
	var want []string
	for _, m := range replaced.FindAllStringSubmatch(theirs, -1) {
		want = append(want, m[1])
	}
	want = append(want, "k8s.io/sample-apiserver v0"+strings.TrimPrefix(payload.KubernetesVersion, "v1"))
	slices.Sort(want)
	var have []string
	for _, m := range replaced.FindAllStringSubmatch(ours, -1) {
		have = append(have, m[1])
	}
	if !slices.Equal(have, want) {
		t.Errorf("%s replaces\n%q, want\n%q", module, have, want)
	}
	for _, c := range Components() {
		for _, b := range c.Binaries {
			if !strings.HasPrefix(b.Package, ".") && !strings.Contains(ours, "\t"+b.Package+"\n") {
				t.Errorf("%s has no tool %s", module, b.Package)
			}
		}
	}
}
