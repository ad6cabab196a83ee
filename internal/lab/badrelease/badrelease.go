// Package badrelease makes out of a release one that is bad on purpose: one program of it is
// another one. The result has a digest of its own, and all digests in it are right, so hosts
// take it as they take any release. Nothing is compiled, and nothing is fetched.
//
// The upgrades of the lab are played with them (test/life).
package badrelease

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/payload"
)

// Kind is one way of being bad.
type Kind struct {
	Name string
	// What tells a person the fault.
	What string
	// Quiet: the bad program runs on, where another kind has one at the same place that ends.
	Quiet bool
	// image has the program that is another one, at path.
	image, path string
	// mark ends the tags of its images, so that no two kinds have one name for two contents.
	mark string
	// named lists the images of which our own programs have the name built in. A host refuses
	// one name with two contents, so those programs get another name, too.
	named []string
	// renames are the images whose programs are changed for that.
	renames []string
}

// The kinds.
const (
	Etcd       = "etcd"
	APIServer  = "api-server"
	Agent      = "agent"
	Containerd = "containerd"
	Network    = "network"
	Crashing   = "network-crash"
	Routers    = "routers"
)

// Good is the name of a copy that is as good as its original.
const Good = "good"

// Kinds lists all kinds.
func Kinds() []Kind {
	const bin = "/usr/local/bin/"
	return []Kind{
		{Name: Etcd, What: "etcd does not start", mark: "x", image: "etcd", path: bin + "etcd"},
		{Name: APIServer, What: "the API server crashes a few seconds after each start", mark: "x", image: "kube-apiserver", path: bin + "kube-apiserver"},
		{Name: Agent, What: "the agent hangs, and hears no signal", image: payload.HostImage, path: bin + "holdfast-agent"},
		{Name: Containerd, What: "containerd starts, takes connections, and answers nobody", image: payload.HostImage, path: bin + "containerd"},
		{Name: Network, What: "the pod network's daemon runs, and takes the network away", Quiet: true, mark: "x", image: payload.ImageFlannel, path: bin + "flanneld", named: []string{payload.ImageFlannel}, renames: []string{payload.HostImage}},
		{Name: Crashing, What: "the pod network's daemon ends at once, and leaves the network of before", mark: "y", image: payload.ImageFlannel, path: bin + "flanneld", named: []string{payload.ImageFlannel}, renames: []string{payload.HostImage}},
		{
			Name: Routers, What: "routers are well, and answer 404 for every host", mark: "x", image: payload.ImageRouter, path: bin + "traefik",
			// The operator makes the routers. It is another program then, and its own name, which
			// is that of the release, is built into the agent.
			named: []string{payload.ImageRouter, operatorImage}, renames: []string{payload.HostImage, operatorImage},
		},
	}
}

const operatorImage = "holdfast-operator"

// Named returns the kind of a name.
func Named(name string) (Kind, error) {
	var known []string
	for _, k := range Kinds() {
		if k.Name == name {
			return k, nil
		}
		known = append(known, k.Name)
	}
	return Kind{}, fmt.Errorf("kind %q: must be one of %s", name, strings.Join(known, ", "))
}

// change is what becomes of one file of an image.
type change func(data []byte) ([]byte, error)

// plan says which files of which image change, and which images get which tag.
type plan struct {
	files map[string]map[string]change
	tags  map[string]string
	// version is that of Holdfast.
	version string
}

// planOf plans a kind for a release of a version, with the tags of its images by their names.
func planOf(k Kind, version string, tags map[string]string, program []byte) (plan, error) {
	p := plan{files: map[string]map[string]change{}, tags: map[string]string{}, version: version}
	if tags[k.image] == "" {
		return p, fmt.Errorf("the release has no image %s", k.image)
	}
	if k.image != payload.HostImage && strings.HasSuffix(tags[k.image], k.mark) {
		return p, fmt.Errorf("image %s has the tag %s already: of a bad release none is made", k.image, tags[k.image])
	}
	if k.image != payload.HostImage { // nothing names that one
		p.tags[k.image] = k.other(tags[k.image])
	}
	var texts [][2]string
	for _, name := range k.named {
		old, now := tags[name], k.other(tags[name])
		if name == operatorImage {
			if old != version {
				return p, fmt.Errorf("image %s has the tag %s, want that of the release, %s", name, old, version)
			}
			now = next(version)
			p.version = now
			for image, tag := range tags { // they go by the version, too
				if tag == version {
					p.tags[image] = now
				}
			}
		}
		texts = append(texts, [2]string{old, now})
	}
	for _, image := range k.renames {
		p.files[image] = map[string]change{}
		for _, path := range ownPrograms(image) {
			p.files[image][path] = renamed(path, texts)
		}
	}
	if p.files[k.image] == nil {
		p.files[k.image] = map[string]change{}
	}
	p.files[k.image][k.path] = func([]byte) ([]byte, error) { return program, nil }
	return p, nil
}

// ownPrograms lists the paths of our own programs in an image.
func ownPrograms(image string) []string {
	var out []string
	for _, spec := range payload.Images() {
		for _, f := range spec.Files {
			if spec.Name == image && f.Component == "holdfast" {
				out = append(out, f.Path)
			}
		}
	}
	return out
}

// other returns another tag of the same length, that of this kind alone.
func (k Kind) other(tag string) string {
	if tag == "" {
		return ""
	}
	return tag[:len(tag)-1] + k.mark
}

// next returns another version of the same length, a later one if there is one.
func next(version string) string {
	last := "9"
	if strings.HasSuffix(version, last) {
		last = "8"
	}
	return version[:len(version)-1] + last
}

// builds are the programs that make objects of a cluster: names that are nowhere in them are
// built into nothing.
var builds = []string{"/usr/local/bin/holdfast-agent", "/usr/local/bin/holdfast-operator"}

// renamed returns what changes texts that are built into a program. A program has its texts
// one after the other, so each keeps its length.
func renamed(path string, texts [][2]string) change {
	return func(data []byte) ([]byte, error) {
		var errs []error
		for _, t := range texts {
			old, now := []byte(t[0]), []byte(t[1])
			switch {
			case len(old) == 0 || len(old) != len(now):
				errs = append(errs, fmt.Errorf("%s: %q cannot become %q: another length", path, old, now))
			case bytes.Contains(data, old):
				data = bytes.ReplaceAll(data, old, now)
			case slices.Contains(builds, path):
				errs = append(errs, fmt.Errorf("%s: it has no %q built in, so it would ask for the good image: look how it names images now", path, old))
			}
		}
		return data, errors.Join(errs...)
	}
}
