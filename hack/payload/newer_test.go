package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func of(path, used string, versions ...string) module {
	return module{Path: path, Version: used, Versions: versions}
}

func TestWhatIsNewerIsNamedByItsLine(t *testing.T) {
	for _, tt := range []struct {
		name        string
		m           module
		patch, line string
	}{
		{"nothing", of("a", "v1.2.3", "v1.0.0", "v1.2.2", "v1.2.3"), "", ""},
		{"a patch", of("a", "v1.2.3", "v1.2.10", "v1.2.9"), "v1.2.10", "v1.2.10"},
		{"a line", of("a", "v1.2.3", "v1.3.0", "v1.3.1"), "", "v1.3.1"},
		{"both", of("a", "v1.2.3", "v1.2.4", "v1.3.0"), "v1.2.4", "v1.3.0"},
		{"a candidate is none", of("a", "v1.2.3", "v1.2.4-rc.1"), "", ""},
		{"a commit is compared with nothing", of("a", "v0.0.0-20200324110947-a37a7636d23e", "v1.0.0"), "", ""},
		{"what nobody can ask", of("a", "v1.2.3"), "", ""},
	} {
		f, found := compare(tt.m)
		if f.Patch != tt.patch || f.Line != tt.line || found != (tt.line != "") {
			t.Errorf("%s: %+v %v", tt.name, f, found)
		}
	}
	replaced := of("a", "v1.2.4", "v1.2.4")
	replaced.Replace = &struct{ Path, Version string }{"a", "v1.2.3"}
	if f, _ := compare(replaced); f.Used != "v1.2.3" || f.Patch != "v1.2.4" {
		t.Errorf("what is compiled is an older one: %+v", f)
	}
}

func TestOnlyAPatchReleaseWithoutAReasonFails(t *testing.T) {
	found := map[string]finding{
		"a": {Module: "example.test/a", Used: "v1.2.3", Patch: "v1.2.4", Line: "v1.3.0"},
		"b": {Module: "example.test/b", Used: "v1.2.3", Line: "v2.0.0"},
	}
	var out strings.Builder
	if code := tell(&out, found, nil); code != 1 || !strings.Contains(out.String(), "NEWER PATCH: example.test/a v1.2.3: v1.2.4") {
		t.Errorf("%d\n%s", code, out.String())
	}
	out.Reset()
	why := excused("| module | used | why |\n|---|---|---|\n| `example.test/a` | `v1.2.3` | it does not build |\n")
	if code := tell(&out, found, why); code != 0 || !strings.Contains(out.String(), "it does not build") {
		t.Errorf("%d\n%s", code, out.String())
	}
}

func TestEveryComponentsSourceIsAsked(t *testing.T) {
	if err := os.Chdir("../.."); err != nil { //nolint:usetesting // the whole program runs in the repository's root
		t.Fatal(err)
	}
	asked := map[string][]string{}
	for _, dir := range folders() {
		own, err := direct(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		asked[dir] = own
	}
	for dir, want := range map[string]string{
		"payload/etcd": "go.etcd.io/etcd/etcdctl/v3", "payload/kubernetes": "k8s.io/kubernetes", "payload/traefik": "github.com/traefik/traefik/v3",
		"payload/standin": "go.etcd.io/raft/v3", "payload/containerd": "github.com/containerd/containerd/v2", "payload/coredns": "github.com/coredns/coredns",
		"payload/flannel": "github.com/flannel-io/flannel", "payload/cni-plugins": "github.com/containernetworking/plugins",
	} {
		if !slices.Contains(asked[dir], want) {
			t.Errorf("%s: asks for %q only", dir, asked[dir])
		}
	}
	if !slices.Contains(asked["payload/traefik"], "github.com/go-acme/lego/v5") || slices.Contains(asked["payload/kubernetes"], "k8s.io/api") {
		t.Errorf("what is replaced: %q, %q", asked["payload/traefik"], asked["payload/kubernetes"])
	}
}
