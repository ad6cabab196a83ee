package account

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// server is the API server of this package's tests, nil if there is none.
var server *apitest.API

func TestMain(m *testing.M) {
	os.Exit(apitest.Main(m, &server, "certificatesigningrequest-signing-controller"))
}

// TestARealClusterTakesTheKubeconfigUntilItsBindingIsDeleted plays the whole way
// with the API server and the controller manager of the release.
func TestARealClusterTakesTheKubeconfigUntilItsBindingIsDeleted(t *testing.T) {
	api := apitest.Need(t, server)
	admin, err := kube.Open(api.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	trusted, _ := api.Authority(t)
	reach := &rest.Config{Host: api.Config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: trusted}}
	made := func(name string) (*kube.Client, string) {
		a := Account{Name: name, File: filepath.Join(t.TempDir(), "kubeconfig"), Life: leastLife, Server: reach}
		told, err := a.Make(t.Context(), admin)
		if err != nil {
			t.Fatal(err)
		}
		client, err := kube.Open(a.File)
		if err != nil {
			t.Fatal(err)
		}
		_, binding, _ := strings.Cut(strings.TrimSpace(told), "clusterrolebinding ")
		return client, binding
	}
	reads := func(c *kube.Client) error {
		_, err := c.Secret(t.Context(), "kube-system", "holdfast-join-key")
		return err
	}
	alice, binding := made("alice")
	bob, _ := made("bob")
	until(t, "alice has rights", func() error { return reads(alice) })
	until(t, "bob has rights", func() error { return reads(bob) })
	if err := admin.DeleteObject(t.Context(), kube.ClusterRoleBindings+"/"+binding); err != nil {
		t.Fatal(err)
	}
	until(t, "alice has no rights any more", func() error {
		if err := reads(alice); !apierrors.IsForbidden(err) {
			return fmt.Errorf("she reads a Secret: %v", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
	if err := reads(bob); err != nil {
		t.Errorf("bob lost his, too: %v", err)
	}
	again, _ := made("alice")
	until(t, "the next one has rights", func() error { return reads(again) })
	if err := reads(alice); !apierrors.IsForbidden(err) {
		t.Errorf("another kubeconfig of that name gives the first one its rights back: %v", err)
	}
}

// until waits until the API server's authorizer knows of a change.
func until(t *testing.T, what string, do func() error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	for {
		err := do()
		if err == nil {
			return
		}
		if host.Sleep(ctx, 50*time.Millisecond) != nil {
			t.Fatalf("%s: not within 30 s: %v", what, err)
		}
	}
}
