package release

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// debFixture makes a package in dir with the distribution's own tool.
func debFixture(t *testing.T, dir string) []debPackage {
	t.Helper()
	tree := filepath.Join(t.TempDir(), "tree")
	write(t, filepath.Join(tree, "DEBIAN", "control"), "Package: tool\nVersion: 1.0\nArchitecture: all\nMaintainer: Test <t@example.test>\nDescription: test\n")
	write(t, filepath.Join(tree, "bin", "tool"), "#!/bin/sh\n")
	path := filepath.Join(dir, "tool_1.0_all.deb")
	out, err := exec.Command("dpkg-deb", "--root-owner-group", "--build", tree, path).CombinedOutput()
	if err != nil {
		t.Skipf("no dpkg-deb on this machine: %v: %s", err, out)
	}
	p, err := describeDeb(path)
	if err != nil {
		t.Fatal(err)
	}
	return []debPackage{p}
}
