// Package payload lists the parts of a Holdfast release: versions, binaries with
// their sources, images with their content, and the packages that a host needs
// from its distribution. It is data; package release builds and serves it.
package payload

// Version is the version of Holdfast itself.
const Version = "v0.1.0"

// Versions of third-party software. They are the same as in payload/*/go.mod; a
// test compares them.
const (
	KubernetesVersion = "v1.36.3"
	EtcdVersion       = "v3.6.14"
	ContainerdVersion = "v2.4.2"
	CNIPluginsVersion = "v1.9.1"
	FlannelVersion    = "v0.28.4"
	CoreDNSVersion    = "v1.15.0"
	TraefikVersion    = "v3.7.13"
)

// Registry is the first part of every image's name. It is no host: images come
// with the release and are never pulled under this name.
const Registry = "release.holdfast.internal"

// HostDir is the folder in which a host finds the release: mounted read-only or
// pulled.
const HostDir = "/usr/share/holdfast/release"

// LayoutsDir is the folder in which a host keeps the releases that it fetched, each
// below the digits of its digest (docs/adr/0078-releases.md).
const LayoutsDir = "/var/lib/holdfast/releases"

// Where a host keeps the programs of its releases, and the link there that chooses
// one of them (docs/adr/0077-releases-side-by-side.md).
const (
	ReleasesDir    = "/opt/holdfast/releases"
	CurrentRelease = ReleasesDir + "/current"
)

// Kubelet is where a host has its kubelet. On the way to another minor release of
// Kubernetes it stays that of the old release until the commit.
const Kubelet = "/usr/local/bin/kubelet"
