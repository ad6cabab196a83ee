package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const docsDir = "../../../docs"

func TestTheExamplesAreValidAndGiveNoWarning(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(docsDir, "examples", "*.yaml"))
	if err != nil || len(paths) < 4 {
		t.Fatalf("examples: %q, %v", paths, err)
	}
	reference, err := os.ReadFile(filepath.Join(docsDir, "install-config.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if w := Warnings(mustParse(t, data)); len(w) > 0 {
			t.Errorf("%s: %q", p, w)
		}
		if !strings.Contains(string(reference), "examples/"+filepath.Base(p)) {
			t.Errorf("%s is not in docs/install-config.md", p)
		}
	}
}

func TestTheReferenceNamesEveryField(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(docsDir, "install-config.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range fieldNames(reflect.TypeFor[InstallConfig]()) {
		if name == "hostName" {
			name = "hostname"
		}
		if !strings.Contains(string(data), name) {
			t.Errorf("docs/install-config.md does not name %s", name)
		}
	}
}

func fieldNames(t reflect.Type) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var out []string
	for f := range t.Fields() {
		out = append(out, jsonName(f))
		out = append(out, fieldNames(f.Type)...)
	}
	return out
}
