package host

import (
	"path"
	"strings"
	"testing"
)

// A registry that asks for an account gives a release to nobody else: an installation got it, and
// each upgrade from there was refused.
func TestEachUnitThatPullsAReleaseHasTheAccountOfItsRegistry(t *testing.T) {
	want := "\nEnvironment=DOCKER_CONFIG=" + path.Dir(RegistryAuthPath) + "\n"
	units := map[string]string{FetchUnit: string(Fetch().Data)}
	for _, u := range everyUnit(t) {
		if u.Name == InstallUnit {
			units[u.Name] = u.Contents
		}
	}
	if len(units) != 2 {
		t.Fatal("a unit that pulls a release is missing")
	}
	for name, text := range units {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %q", name, want)
		}
	}
}
