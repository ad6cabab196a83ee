package arch

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// callers lists the source files that ask the kernel what a host is called, each with its
// reason.
var callers = map[string]string{
	"internal/adapter/host/name.go":         "what a host is called before it has joined",
	"internal/adapter/resolver/resolver.go": "the C library completes names by what the kernel says",
}

// TestL74NobodyGoesByWhatAHostIsCalledNow: docs/facts/loss.md#hard-cases-of-loss, L74. A
// program that goes by the name of the kernel takes its own host for a foreign one once
// DHCP or cloud-init has given it another name.
func TestL74NobodyGoesByWhatAHostIsCalledNow(t *testing.T) {
	found := map[string]bool{}
	for _, p := range listPackages(t) {
		for _, file := range p.GoFiles {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if names(parsed, "os", "Hostname") {
				found[strings.TrimPrefix(p.ImportPath, module)+"/"+file] = true
			}
		}
	}
	for file := range found {
		if callers[file] == "" {
			t.Errorf("%s asks the kernel for the name of its host: host.Name() is the one that its node has", file)
		}
	}
	for file := range callers {
		if !found[file] {
			t.Errorf("%s does not ask the kernel for the name of its host any more: take it out of the table", file)
		}
	}
}
