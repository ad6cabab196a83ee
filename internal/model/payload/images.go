package payload

import (
	"fmt"
	"slices"
)

// ImageSpec lists the parts of an image.
type ImageSpec struct {
	Name string
	Tag  string
	// Files are binaries of components.
	Files []ImageFile
	// Packages are Debian packages; their dependencies come with them.
	Packages []string
	// Keep lists the files that the image takes from the packages, as patterns of
	// path.Match; the libraries that they load come along.
	Keep []string
	// Links are symbolic links, path to target, beside the packages' files. The
	// packages' installation scripts would have made them.
	Links map[string]string
	// Extra holds files and links of no component and no package. They replace
	// others at the same path.
	Extra []ExtraFile
	// Entrypoint may be empty if manifests always give a command. Cmd follows it if
	// a manifest gives no arguments.
	Entrypoint, Cmd []string
	// User is the user that runs in the container, root if empty.
	User string
	// StopSignal ends the container in order, SIGTERM if empty.
	StopSignal string
}

// ImageFile is one binary with its place in an image.
type ImageFile struct {
	Component string
	Binary    string
	// Path is absolute.
	Path string
	// Setuid makes the binary run as the owner of the file, root.
	Setuid bool
}

// ExtraFile is a small file, or a link, that an image has beside its programs.
type ExtraFile struct {
	// Path is absolute.
	Path    string
	Content []byte `json:",omitempty"`
	// Link is the target of a symbolic link; empty for a file.
	Link string `json:",omitempty"`
}

// The paths at which Pacemaker looks for agents, and so the places of ours on a
// host.
const (
	ResourceAgent = "/usr/lib/ocf/resource.d/holdfast/podman-etcd"
	FenceAgent    = "/usr/sbin/fence_holdfast"
)

// HostImage is the name of the image that holds the host's own files.
const HostImage = "host"

// nodeImages run on every node, controlPlaneImages on control planes alone.
var (
	nodeImages         = []string{"pause", "kube-proxy", "coredns", "flannel", "keepalived", "traefik"}
	controlPlaneImages = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "haproxy", operatorBinary}
)

// RoleImages names the images of this release that a host needs.
func RoleImages(controlPlane bool) []string {
	list := slices.Clone(nodeImages)
	if controlPlane {
		list = append(list, controlPlaneImages...)
	}
	return list
}

// The images of a release whose pods an upgrade awaits, by their names.
const (
	ImageFlannel   = "flannel"
	ImageCoreDNS   = "coredns"
	ImageKubeProxy = "kube-proxy"
	ImageRouter    = "traefik"
)

// ClusterImages names them all.
func ClusterImages() []string {
	return []string{ImageFlannel, ImageCoreDNS, ImageKubeProxy, ImageRouter}
}

// Needed reports whether a host needs an image of any release. One that this release
// does not know may be needed anywhere.
func Needed(image string, controlPlane bool) bool {
	return image != HostImage && (controlPlane || !slices.Contains(controlPlaneImages, image))
}

// SearchPath is the PATH of every image: manifests name programs without a
// folder.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// kubeadm asks for these two images by its own form of tags.
const (
	etcdTag  = "3.6.14-0"
	pauseTag = "3.10.2"
)

// Image returns the full name of an image, registry and tag included. It
// panics if the release has no image of this name, which is a mistake in the
// program, never in its input.
func Image(name string) string { return Registry + "/" + name + ":" + ImageTag(name) }

// ImageTag returns the tag of an image; it panics like Image.
func ImageTag(name string) string {
	for _, i := range Images() {
		if i.Name == name {
			return i.Tag
		}
	}
	panic(fmt.Sprintf("payload: no image %q in the release", name))
}

// Ref returns the image's full name, registry and tag included.
func (i ImageSpec) Ref() string { return Registry + "/" + i.Name + ":" + i.Tag }

// Images lists the images of a release.
func Images() []ImageSpec {
	return []ImageSpec{
		single("kube-apiserver", KubernetesVersion, "kubernetes"),
		single("kube-controller-manager", KubernetesVersion, "kubernetes"),
		single("kube-scheduler", KubernetesVersion, "kubernetes"),
		withFilters(single("kube-proxy", KubernetesVersion, "kubernetes")),
		{Name: "etcd", Tag: etcdTag, Files: inBin("etcd", "etcd", "etcdctl", "etcdutl")},
		entered(single("coredns", CoreDNSVersion, "coredns")),
		entered(single("pause", pauseTag, "pause")),
		withFilters(ImageSpec{
			Name: "flannel", Tag: FlannelVersion,
			Files: inBin("flannel", "flanneld"), Entrypoint: []string{"/usr/local/bin/flanneld"},
		}),
		{
			// dash and curl serve the checks that decide who holds a VIP.
			Name: "keepalived", Tag: Version,
			Packages:   []string{"keepalived", "dash", "curl"},
			Keep:       []string{"/usr/sbin/keepalived", "/usr/bin/dash", "/usr/bin/curl"},
			Links:      map[string]string{"/usr/bin/sh": "dash"},
			Entrypoint: []string{"/usr/sbin/keepalived"},
		},
		{
			Name: "haproxy", Tag: Version,
			Packages: []string{"haproxy"}, Keep: []string{"/usr/sbin/haproxy"},
			Entrypoint: []string{"/usr/sbin/haproxy"},
			// SIGTERM would cut every connection at once.
			StopSignal: "SIGUSR1",
		},
		entered(single("traefik", TraefikVersion, "traefik")),
		entered(single(operatorBinary, Version, "holdfast")),
		host(),
	}
}

// host returns the programs that a host itself runs, outside of any container.
func host() ImageSpec {
	files := inBin("kubernetes", "kubeadm", "kubectl", "kubelet")
	files = append(files, inBin("containerd", "containerd", "containerd-shim-runc-v2", "ctr")...)
	// a host runs etcd to check a backup, and to change its data in a restore
	files = append(files, inBin("etcd", "etcd", "etcdctl", "etcdutl")...)
	files = append(files, inBin("standin", "etcd-standin")...)
	for _, path := range cniPluginPaths {
		files = append(files, ImageFile{Component: "cni-plugins", Binary: base(path), Path: "/opt/cni/bin/" + base(path)})
	}
	files = append(files, inBin("holdfast", "holdfast", "holdfast-agent")...)
	files = append(files,
		ImageFile{Component: "holdfast", Binary: "podman-etcd", Path: ResourceAgent},
		ImageFile{Component: "holdfast", Binary: "fence-holdfast", Path: FenceAgent})
	return ImageSpec{Name: HostImage, Tag: Version, Files: files}
}

func single(name, tag, component string) ImageSpec {
	return ImageSpec{Name: name, Tag: tag, Files: inBin(component, name)}
}

// entered makes the image's one binary its entrypoint.
func entered(i ImageSpec) ImageSpec {
	i.Entrypoint = []string{i.Files[0].Path}
	return i
}

// withFilters adds nft and iptables. The distribution installs several flavours
// of iptables, of which a script chooses one; this image has nftables' flavour.
func withFilters(i ImageSpec) ImageSpec {
	i.Packages = []string{"iptables", "netbase", "nftables"}
	i.Keep = []string{"/usr/sbin/nft", "/usr/sbin/xtables-nft-multi", "/usr/lib/*/xtables/*.so", "/etc/protocols"}
	i.Links = map[string]string{}
	for _, name := range []string{"iptables", "ip6tables"} {
		for _, suffix := range []string{"", "-save", "-restore"} {
			i.Links["/usr/sbin/"+name+suffix] = "xtables-nft-multi"
		}
	}
	return i
}

func inBin(component string, names ...string) []ImageFile {
	var out []ImageFile
	for _, n := range names {
		out = append(out, ImageFile{Component: component, Binary: n, Path: "/usr/local/bin/" + n})
	}
	return out
}
