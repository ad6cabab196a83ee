package release

import (
	"slices"

	"github.com/holdfast/holdfast/internal/model/payload"
)

// File names in a release, beside the blobs of the image layout.
const (
	manifestFile = "release.json"
	indexFile    = "index.json"
	layoutFile   = "oci-layout"
)

// Annotations of the index and its images.
const (
	// annotationRef holds an image's full name; containerd reads it too.
	annotationRef       = "io.containerd.image.name"
	annotationOCIRef    = "org.opencontainers.image.ref.name"
	annotationManifest  = "internal.holdfast.release.json"
	annotationImageName = "internal.holdfast.image"
)

// Manifest is the content of release.json: the contents of a release and their
// origin.
type Manifest struct {
	// Version is the version of Holdfast.
	Version string `json:"version"`
	// Digest is the digest of the index: it changes if and only if a byte of the
	// release changes.
	Digest string `json:"digest,omitempty"`
	// Platform is the platform of the binaries, for example linux/amd64.
	Platform string `json:"platform"`
	// GoVersion is the version of the compiler.
	GoVersion  string      `json:"goVersion"`
	Components []Component `json:"components"`
	Images     []Image     `json:"images"`
	// About is what the release says of itself; nil for one of a time before releases
	// did. Release reads it.
	About *payload.About `json:"about,omitempty"`
}

// Component is something built from source, or a package of the distribution.
type Component struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Source is module@version, or package=version for the distribution's.
	Source string `json:"source"`
	// Digest is a hash over the component's files.
	Digest string `json:"digest"`
	// Size is the size of all files together, in bytes.
	Size  int64  `json:"size"`
	Files []File `json:"files,omitempty"`
}

// File is one file of a component or of an image.
type File struct {
	// Path is relative for a component and absolute for an image.
	Path   string `json:"path"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// Image is one image of the layout.
type Image struct {
	Name string `json:"name"`
	// Ref is the full name that manifests use.
	Ref    string `json:"ref"`
	Digest string `json:"digest"`
	// Size is the size of config and layers together, in bytes.
	Size int64 `json:"size"`
	// Files lists the binaries in it that are built from source.
	Files []File `json:"files,omitempty"`
	// Packages lists the distribution's packages in it, as name=version.
	Packages []string `json:"packages,omitempty"`
}

// Image returns the image with a name, and whether it exists.
func (m Manifest) Image(name string) (Image, bool) {
	i := slices.IndexFunc(m.Images, func(i Image) bool { return i.Name == name })
	if i < 0 {
		return Image{}, false
	}
	return m.Images[i], true
}
