package operator

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
)

// The pod of this release has a folder with the operator's own pair; one of an
// earlier release has kubeadm's.
func TestEtcdIsAskedWithTheOperatorsOwnKeyWhereThereIsOne(t *testing.T) {
	dir := t.TempDir()
	own, former, given := filepath.Join(dir, "holdfast"), filepath.Join(dir, "etcd"), filepath.Join(dir, "given")
	put := func(paths ...string) {
		t.Helper()
		for _, path := range paths {
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	pairOf := func(folder string) etcd.Identity {
		pair := filepath.Join(folder, "operator.pem")
		return etcd.Identity{CA: filepath.Join(folder, "ca.crt"), Cert: pair, Key: pair}
	}
	kubeadms := func(folder string) etcd.Identity {
		return etcd.Identity{
			CA:   filepath.Join(folder, "ca.crt"),
			Cert: filepath.Join(folder, "healthcheck-client.crt"), Key: filepath.Join(folder, "healthcheck-client.key"),
		}
	}
	is := func(what, flag string, want etcd.Identity) {
		t.Helper()
		if diff := cmp.Diff(want, identity(flag, own, former)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	put(filepath.Join(former, "healthcheck-client.crt"), filepath.Join(given, "healthcheck-client.crt"))
	is("the pod of an earlier release", "", kubeadms(former))
	if err := os.Mkdir(own, 0o755); err != nil {
		t.Fatal(err)
	}
	is("before the agent has made the pair", "", pairOf(own))
	put(filepath.Join(own, "operator.pem"))
	is("with it", "", pairOf(own))
	is("a person who gives kubeadm's", given, kubeadms(given))
	is("a person who gives the operator's", own, pairOf(own))
}
