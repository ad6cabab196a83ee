// Package builttest finds the programs that a release on this machine was built with.
package builttest

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// versions are those of modules of third parties that the present release is built from.
var versions = map[string]string{
	"k8s.io/kubernetes":                      payload.KubernetesVersion,
	"go.etcd.io/etcd/server/v3":              payload.EtcdVersion,
	"go.etcd.io/etcd/etcdctl/v3":             payload.EtcdVersion,
	"github.com/containerd/containerd/v2":    payload.ContainerdVersion,
	"github.com/containernetworking/plugins": payload.CNIPluginsVersion,
	"github.com/flannel-io/flannel":          payload.FlannelVersion,
	"github.com/coredns/coredns":             payload.CoreDNSVersion,
	"github.com/traefik/traefik/v3":          payload.TraefikVersion,
}

// ours reports whether a program was built for the present release. hack/older-release builds others
// with the same cache.
func ours(path string) bool {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return false
	}
	for _, m := range append(info.Deps, &info.Main) {
		if want := versions[m.Path]; want != "" && m.Version != want {
			return false
		}
	}
	return true
}

// Find returns the path of the newest build of a program of the present release.
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
		if info, err := os.Stat(path); err == nil && info.ModTime().After(when) && ours(path) {
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
