// Package builttest finds the programs that a release on this machine was built with.
package builttest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/install/release"
)

// Find returns the path of the newest build of a program.
func Find(program string) (string, error) {
	cache, err := release.CacheDir()
	if err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(cache, "steps", "go-*", program))
	if err != nil {
		return "", err
	}
	newest, when := "", time.Time{}
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(when) {
			newest, when = path, info.ModTime()
		}
	}
	if newest == "" {
		return "", fmt.Errorf("%s is not in the build cache (run `holdfast release build` once)", program)
	}
	return newest, nil
}

// Program returns the path of a program that a test runs by itself. Without a built one the
// test is skipped.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := Find(name)
	if err != nil && os.Getenv("HOLDFAST_REQUIRE_TOOLS") == "1" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	return path
}
