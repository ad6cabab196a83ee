package payload

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the repository, seen from this package.
const root = "../../.."

func goMod(t *testing.T, c Component) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, c.Dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestVersionsAreThoseOfTheToolsModules(t *testing.T) {
	for _, c := range Components() {
		if strings.HasPrefix(c.Source, OwnModule) {
			if c.Version != Version {
				t.Errorf("%s: version %s, but it is our own and holdfast is %s", c.Name, c.Version, Version)
			}
			continue
		}
		if !regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(c.Source+" "+c.Version) + `( // indirect)?$`).MatchString(goMod(t, c)) {
			t.Errorf("%s/go.mod does not require %s %s", c.Dir, c.Source, c.Version)
		}
	}
}

func TestTheStandInSpeaksTheProtocolOfThisEtcd(t *testing.T) {
	text := goMod(t, Component{Dir: "payload/standin"})
	for _, module := range []string{"go.etcd.io/etcd/api/v3", "go.etcd.io/etcd/server/v3"} {
		if !strings.Contains(text, module+" "+EtcdVersion+"\n") {
			t.Errorf("payload/standin/go.mod does not require %s %s", module, EtcdVersion)
		}
	}
}

func TestToolsModulesNameExactlyTheBinaries(t *testing.T) {
	tool := regexp.MustCompile(`(?m)^(?:\t|tool )([a-z0-9.]+\.[a-z]+/\S+)$`)
	for _, c := range Components() {
		var want, have []string
		for _, b := range c.Binaries {
			if !strings.HasPrefix(b.Package, ".") {
				want = append(want, b.Package)
			}
		}
		if len(want) == 0 {
			continue
		}
		for _, m := range tool.FindAllStringSubmatch(goMod(t, c), -1) {
			have = append(have, m[1])
		}
		slices.Sort(want)
		slices.Sort(have)
		if !slices.Equal(want, have) {
			t.Errorf("%s/go.mod has tools\n %q, the component has\n %q", c.Dir, have, want)
		}
	}
}

func TestKubernetesStagingModulesFollowKubernetes(t *testing.T) {
	staging := "v0" + strings.TrimPrefix(KubernetesVersion, "v1")
	text := goMod(t, kubernetes())
	_, block, ok := strings.Cut(text, "replace (")
	if !ok {
		t.Fatal("payload/kubernetes/go.mod replaces nothing")
	}
	for line := range strings.Lines(strings.TrimSuffix(strings.TrimSpace(block), ")")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasSuffix(line, " "+staging) {
			t.Errorf("%q does not lead to %s", line, staging)
		}
	}
}

func TestEveryImageFileIsBuiltBySomeComponent(t *testing.T) {
	built := map[string]bool{}
	for _, c := range Components() {
		for _, b := range c.Binaries {
			built[c.Name+" "+b.Name] = true
		}
	}
	for _, i := range Images() {
		paths := map[string]bool{}
		for _, f := range i.Files {
			if !built[f.Component+" "+f.Binary] {
				t.Errorf("image %s: component %q builds no %q", i.Name, f.Component, f.Binary)
			}
			if paths[f.Path] || !filepath.IsAbs(f.Path) {
				t.Errorf("image %s: path %q is there twice or not absolute", i.Name, f.Path)
			}
			paths[f.Path] = true
		}
	}
}

func TestEveryOwnBinaryIsThere(t *testing.T) {
	for _, name := range append(ownBinaries(), operatorBinary) {
		if _, err := os.Stat(filepath.Join(root, "cmd", name, "main.go")); err != nil {
			t.Error(err)
		}
	}
}

func TestImageNames(t *testing.T) {
	for _, name := range []string{
		"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "etcd",
		"coredns", "pause", "flannel", "keepalived", "haproxy", "traefik", "host", "holdfast-operator",
	} {
		if ref := Image(name); !strings.HasPrefix(ref, Registry+"/"+name+":") {
			t.Errorf("Image(%q) = %q", name, ref)
		}
	}
	if got, want := Image("kube-apiserver"), "release.holdfast.internal/kube-apiserver:"+KubernetesVersion; got != want {
		t.Errorf("Image = %q, want %q", got, want)
	}
}

func TestEveryImageIsForEachNodeOrForControlPlanesAlone(t *testing.T) {
	all := RoleImages(true)
	for _, i := range Images() {
		if i.Name != HostImage && !slices.Contains(all, i.Name) {
			t.Errorf("no host gets image %s", i.Name)
		}
		for _, controlPlane := range []bool{true, false} {
			if got, want := Needed(i.Name, controlPlane), slices.Contains(RoleImages(controlPlane), i.Name); got != want {
				t.Errorf("%s is needed on a control plane (%v): %v, want %v", i.Name, controlPlane, got, want)
			}
		}
	}
	if !Needed("of a later release", false) || len(all) != len(Images())-1 {
		t.Errorf("%q", all)
	}
}

func TestAnUnknownImageIsAMistakeOfTheProgram(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	Image("nginx")
}

func TestHostPackagesAreNamedPerFamily(t *testing.T) {
	tests := []struct {
		family Family
		ext    []Extension
		has    []string
		hasNot []string
	}{
		{APT, nil, []string{"conntrack", "nftables", "runc", "systemd"}, []string{"pacemaker", "podman"}},
		{APT, []Extension{ExtensionTwoNodeHA}, []string{"corosync", "fence-agents", "pacemaker-cli-utils", "pcs", "podman"}, nil},
		{DNF, []Extension{ExtensionTwoNodeHA}, []string{"conntrack-tools", "iproute", "pacemaker-cli"}, []string{"conntrack", "pacemaker-cli-utils"}},
	}
	for _, test := range tests {
		got := HostPackagesFor(test.family, test.ext...)
		if !slices.IsSorted(got) {
			t.Errorf("%s %v: not sorted: %q", test.family, test.ext, got)
		}
		for _, name := range test.has {
			if !slices.Contains(got, name) {
				t.Errorf("%s %v: lacks %s", test.family, test.ext, name)
			}
		}
		for _, name := range test.hasNot {
			if slices.Contains(got, name) {
				t.Errorf("%s %v: has %s", test.family, test.ext, name)
			}
		}
	}
}

// The pages by which a person mends a control plane have only commands of programs that hosts have.
// The lab's image has jq, which no list of packages has.
func TestPagesForADamagedControlPlaneNeedNoJQ(t *testing.T) {
	for _, f := range []Family{APT, DNF} {
		if slices.Contains(HostPackagesFor(f, ExtensionTwoNodeHA), "jq") {
			return
		}
	}
	jq := regexp.MustCompile(`\bjq\b`)
	for _, page := range []string{"etcd-restore.md", "leaf-certificates.md"} {
		text, err := os.ReadFile(filepath.Join(root, "docs/runbook", page))
		if err != nil {
			t.Fatal(err)
		}
		for i, part := range strings.Split(string(text), "```") {
			if i%2 == 1 && jq.MatchString(part) {
				t.Errorf("%s: %s", page, part)
			}
		}
	}
}
