package payload

import "strings"

// Component is a set of binaries that are built together from one source.
type Component struct {
	Name    string
	Version string
	// Source is the Go module of the code.
	Source string
	// Dir is the module to build in, relative to the repository.
	Dir string
	// Tags are Go build tags.
	Tags []string
	// Stamp holds the -X values that give the binaries their version.
	Stamp    []string
	Binaries []Binary
	// Patches hold the differences from the source of that Version.
	Patches []Patch `json:",omitempty"`
}

// Patch removes from the module of a component's Source a mistake that every
// version has, or code that needs something nobody can get and that no release
// needs. If a patch does not fit any more the build fails.
type Patch struct {
	// File is in that module, with slashes.
	File string
	// Old occurs in the file once; New replaces it.
	Old, New string
}

// Binary is one program of a component.
type Binary struct {
	Name string
	// Package is the main package: an import path, or relative to the
	// component's Dir if it starts with a dot.
	Package string
	// Test is true for the test program of a package of another module.
	Test bool `json:",omitempty"`
}

// OwnModule is the module of Holdfast itself.
const OwnModule = "github.com/holdfast/holdfast"

// Components lists everything that a release builds from source.
func Components() []Component {
	return []Component{
		kubernetes(),
		{
			Name: "etcd", Version: EtcdVersion, Source: "go.etcd.io/etcd/server/v3", Dir: "payload/etcd",
			Binaries: []Binary{
				{Name: "etcd", Package: "go.etcd.io/etcd/server/v3"},
				{Name: "etcdctl", Package: "go.etcd.io/etcd/etcdctl/v3"},
				{Name: "etcdutl", Package: "go.etcd.io/etcd/etcdutl/v3"},
			},
		},
		{
			Name: "containerd", Version: ContainerdVersion, Source: "github.com/containerd/containerd/v2", Dir: "payload/containerd",
			Tags:     []string{"no_aufs", "no_btrfs", "no_devmapper", "no_zfs"},
			Stamp:    []string{"github.com/containerd/containerd/v2/version.Version=" + ContainerdVersion},
			Binaries: inFolder("github.com/containerd/containerd/v2/cmd", "containerd", "containerd-shim-runc-v2", "ctr"),
		},
		cniPlugins(),
		{
			Name: "flannel", Version: FlannelVersion, Source: "github.com/flannel-io/flannel", Dir: "payload/flannel",
			Stamp:    []string{"github.com/flannel-io/flannel/pkg/version.Version=" + FlannelVersion},
			Binaries: []Binary{{Name: "flanneld", Package: "."}},
		},
		{
			Name: "coredns", Version: CoreDNSVersion, Source: "github.com/coredns/coredns", Dir: "payload/coredns",
			Binaries: []Binary{{Name: "coredns", Package: "."}},
		},
		{
			Name: "pause", Version: Version, Source: OwnModule + "/payload/pause", Dir: "payload/pause",
			Binaries: []Binary{{Name: "pause", Package: "."}},
		},
		{
			Name: "standin", Version: Version, Source: OwnModule + "/payload/standin", Dir: "payload/standin",
			Binaries: []Binary{{Name: "etcd-standin", Package: "."}},
		},
		{
			Name: "traefik", Version: TraefikVersion, Source: "github.com/traefik/traefik/v3", Dir: "payload/traefik",
			Stamp:    []string{"github.com/traefik/traefik/v3/pkg/version.Version=" + strings.TrimPrefix(TraefikVersion, "v")},
			Binaries: inFolder("github.com/traefik/traefik/v3/cmd", "traefik"),
			Patches:  traefikPatches(),
		},
		{
			Name: "holdfast", Version: Version, Source: OwnModule, Dir: ".",
			Tags:     []string{OwnTag},
			Binaries: inFolder("./cmd", append(ownBinaries(), operatorBinary)...),
		},
	}
}

// OwnTag is the build tag of our own binaries. It leaves out gRPC's pages of
// traces, which nobody serves: they execute templates, and a program that can do
// so keeps every method of every type (docs/adr/0041).
const OwnTag = "grpcnotrace"

// operatorBinary is the folder of cmd/ that belongs in a cluster.
const operatorBinary = "holdfast-operator"

// ownBinaries names the folders of cmd/ that belong on a host.
func ownBinaries() []string {
	return []string{"holdfast", "holdfast-agent", "podman-etcd", "fence-holdfast"}
}

func kubernetes() Component {
	numbers := strings.SplitN(strings.TrimPrefix(KubernetesVersion, "v"), ".", 3)
	values := []string{
		"gitVersion=" + KubernetesVersion, "gitMajor=" + numbers[0], "gitMinor=" + numbers[1],
		"gitTreeState=clean", "gitCommit=unknown", "buildDate=1970-01-01T00:00:00Z",
	}
	var stamp []string
	// client-go has a version of its own, apart from the binaries'.
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, v := range values {
			stamp = append(stamp, pkg+"."+v)
		}
	}
	return Component{
		Name: "kubernetes", Version: KubernetesVersion, Source: "k8s.io/kubernetes", Dir: "payload/kubernetes",
		Stamp: stamp,
		Binaries: inFolder("k8s.io/kubernetes/cmd", "kube-apiserver", "kube-controller-manager",
			"kube-proxy", "kube-scheduler", "kubeadm", "kubectl", "kubelet"),
	}
}

// cniPluginPaths lists the plugins that a host gets, by their folder.
var cniPluginPaths = []string{
	"ipam/host-local", "main/bridge", "main/loopback", "main/ptp",
	"meta/bandwidth", "meta/firewall", "meta/portmap", "meta/tuning",
}

func cniPlugins() Component {
	const module = "github.com/containernetworking/plugins"
	c := Component{
		Name: "cni-plugins", Version: CNIPluginsVersion, Source: module, Dir: "payload/cni-plugins",
		Stamp: []string{module + "/pkg/utils/buildversion.BuildVersion=" + CNIPluginsVersion},
	}
	for _, path := range cniPluginPaths {
		c.Binaries = append(c.Binaries, Binary{Name: base(path), Package: module + "/plugins/" + path})
	}
	return c
}

func inFolder(folder string, names ...string) []Binary {
	var out []Binary
	for _, n := range names {
		out = append(out, Binary{Name: n, Package: folder + "/" + n})
	}
	return out
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
