package manifests

import (
	"embed"
	"io/fs"
	"path"

	"github.com/holdfast/holdfast/internal/state"
)

//go:generate sh -c "go run ./gen $(go list -m -f {{.Dir}} github.com/openshift/api) $(cd ../../../payload/traefik && go mod download sigs.k8s.io/gateway-api && go list -m -f {{.Dir}} sigs.k8s.io/gateway-api) crds"

// definitions are the kinds as the modules of their APIs ship them.
//
//go:embed crds/*.yaml
var definitions embed.FS

// kinds returns the definitions of the kinds that the objects have.
func kinds() []state.File {
	var out []state.File
	for _, name := range kindFiles() {
		data, err := definitions.ReadFile(path.Join("crds", name))
		if err != nil {
			panic(err) // embedded: found by the same name above
		}
		out = append(out, state.File{Path: path.Join(Kinds, name), Data: data})
	}
	return out
}

func kindFiles() []string {
	entries, err := fs.ReadDir(definitions, "crds")
	if err != nil {
		panic(err) // embedded
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
