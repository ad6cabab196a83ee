package manifests

import (
	"embed"
	"io/fs"
	"path"

	"github.com/holdfast/holdfast/internal/model/state"
)

//go:generate sh -c "go run ./gen $(go list -m -f {{.Dir}} github.com/openshift/api) $(cd ../../../payload/traefik && go mod download sigs.k8s.io/gateway-api && go list -m -f {{.Dir}} sigs.k8s.io/gateway-api) crds"

// definitions contains the kinds: in crds those that the modules of their APIs
// ship, which go generate updates, in own those of Holdfast itself.
//
//go:embed crds/*.yaml own/*.yaml
var definitions embed.FS

// kinds returns the definitions of the kinds of all objects.
func kinds() []state.File {
	var out []state.File
	for _, name := range kindFiles() {
		data, err := definitions.ReadFile(name)
		if err != nil {
			panic(err) // embedded: found by the same name above
		}
		out = append(out, state.File{Path: path.Join(Kinds, path.Base(name)), Data: data})
	}
	return out
}

func kindFiles() []string {
	out, err := fs.Glob(definitions, "*/*.yaml")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	return out
}
