// Package conformance runs Kubernetes' own Conformance tests against a lab. The
// tests, and the programs in their images, are built from the Kubernetes module
// of exactly the version that a release has. Everything else in an image comes
// from Debian's packages, so no registry is needed.
package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	builder "github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// Kit holds everything that running the tests needs.
type Kit struct {
	// Ginkgo runs Suite, the tests, which call Kubectl.
	Ginkgo, Suite, Kubectl string
	// Registries is the file that gives images their names.
	Registries string
	// Images holds the images that hosts must have, under the names in Refs.
	Images *builder.Store
	Refs   []string

	// upstream is the directory of the tests' sources. names holds the names of
	// the images, by the identifiers in the tests.
	upstream string
	names    map[string]string
}

// Build makes the kit from the sources below root, unless it exists already.
// Everything but the programs goes into the folder output.
func Build(ctx context.Context, root, output string, progress io.Writer) (*Kit, error) {
	k := &Kit{Registries: filepath.Join(output, "registries.yaml")}
	if err := host.WriteFileAtomic(k.Registries, registries(), 0o644); err != nil {
		return nil, err
	}
	opts := builder.Options{
		Root: root, Output: filepath.Join(output, "images"), Progress: progress,
		Components: slices.Concat(Components(), []payload.Component{release("etcd"), release("pause"), release("kubernetes")}),
	}
	made := map[string]string{}
	for _, c := range opts.Components {
		if !slices.Contains([]string{suite, names, "kubernetes"}, c.Name) {
			continue // only images need it
		}
		paths, err := builder.Programs(ctx, opts, c)
		if err != nil {
			return nil, err
		}
		maps.Copy(made, paths)
	}
	k.Ginkgo, k.Suite, k.Kubectl = made["ginkgo"], made["e2e.test"], made["kubectl"]
	specs, err := k.images(ctx, root, made["imagenames"])
	if err != nil {
		return nil, err
	}
	for _, s := range specs {
		k.Refs = append(k.Refs, s.Ref())
	}
	opts.Images = specs
	res, err := builder.Build(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("images of the tests: %w", err)
	}
	k.Images, err = builder.Open(res.Output)
	return k, err
}

// images asks the tests for the names of their images, and returns the content
// of each.
func (k *Kit) images(ctx context.Context, root, program string) ([]payload.ImageSpec, error) {
	ask := host.Command(program)
	ask.Env = k.environ()
	out, err := host.Run(ctx, ask)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(out, &k.names); err != nil {
		return nil, fmt.Errorf("names of images: %w", err)
	}
	list := host.Command("go", "list", "-m", "-f", "{{.Dir}}", source)
	list.Dir = filepath.Join(root, module)
	dir, err := host.Run(ctx, list)
	if err != nil {
		return nil, fmt.Errorf("find the sources of %s: %w", source, err)
	}
	k.upstream = strings.TrimSpace(string(dir))
	return Images(k.names, func(path string) ([]byte, error) {
		return os.ReadFile(filepath.Join(k.upstream, "test/images", path))
	})
}

// conformanceFiles matches the files of the specs in upstream's list of
// Conformance specs.
var conformanceFiles = regexp.MustCompile(`(?m)^  file: (.+)$`)

// Unmade returns the images that the sources of Conformance specs use and that
// the kit does not have.
func (k *Kit) Unmade() ([]string, error) {
	list, err := os.ReadFile(filepath.Join(k.upstream, "test/conformance/testdata/conformance.yaml"))
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	for _, line := range conformanceFiles.FindAllStringSubmatch(string(list), -1) {
		for file := range strings.SplitSeq(line[1], ", ") {
			data, err := os.ReadFile(filepath.Join(k.upstream, file))
			if err != nil {
				return nil, err
			}
			text.Write(data)
		}
	}
	return slices.DeleteFunc(Asked(text.String()), func(id string) bool { return k.names[id] != "" }), nil
}

// environ returns the variables that the tests read.
func (k *Kit) environ() []string { return []string{"KUBE_TEST_REPO_LIST=" + k.Registries} }
