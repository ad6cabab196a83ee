// Package apitest runs the API server and the controllers of a release against
// its etcd, for tests that would prove little without them. There is no kubelet
// to run pods: a test acts as the kubelet if it needs one.
package apitest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/guards"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/testkit/builttest"
)

// programs lists the programs, in the order in which they are started.
var programs = []string{"etcd", "kube-apiserver", "kube-controller-manager"}

// tool is the program with which an installation applies its manifests.
const tool = "kubectl"

// API is a running API server.
type API struct {
	// Config is an administrator's access.
	Config *rest.Config
	// Certificates is the folder with the API server's certificate and key,
	// apiserver.crt and apiserver.key.
	Certificates string
	// Folder is the folder that Setup.Arguments was given. Etcd is the address
	// at which the server's etcd answers anybody.
	Folder, Etcd string
	// kubeconfig is a file with that access, kubectl the path of the program.
	kubeconfig, kubectl string
	authority           authority
}

// Kubeconfig returns the path of a file with an administrator's access.
func (a *API) Kubeconfig() string { return a.kubeconfig }

// Setup holds what a package's tests need besides the common parts.
type Setup struct {
	// Controllers are run besides those that every test has.
	Controllers []string
	// Arguments returns further arguments of the API server. It may write files
	// for them below the folder.
	Arguments func(folder string) ([]string, error)
}

// Main runs a package's tests with one API server for all of them, stores its
// access in api, and returns the exit code. With -short api stays nil. It also
// stays nil if no release was built yet; with HOLDFAST_REQUIRE_TOOLS=1 that is
// a failure. The controllers run besides those that every test has.
func Main(m *testing.M, api **API, controllers ...string) int {
	return MainWith(m, api, Setup{Controllers: controllers})
}

// MainWith is Main for a server that is set up in another way.
func MainWith(m *testing.M, api **API, setup Setup) int {
	flag.Parse()                  // before m.Run nobody else parses the flags
	log.SetLogger(logr.Discard()) // what has no logger of its own is only small talk of libraries
	if testing.Short() {
		return m.Run()
	}
	paths, err := findAll()
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "NOT TESTED against a real API: %v\n", err)
		if os.Getenv("HOLDFAST_REQUIRE_TOOLS") == "1" {
			return 1
		}
		return m.Run()
	}
	made, stop, err := launch(paths, setup)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stop()
	*api = made
	return m.Run()
}

// Own returns an API server of a test's own, for one that makes the cluster another one: no
// object and no guard of another test is there. Where Need skips, it does too.
func Own(t *testing.T) *API {
	t.Helper()
	if testing.Short() {
		return Need(t, nil)
	}
	log.SetLogger(logr.Discard()) // as in MainWith
	paths, err := findAll()
	if err != nil && os.Getenv("HOLDFAST_REQUIRE_TOOLS") == "1" {
		t.Fatal(err)
	}
	if err != nil {
		return Need(t, nil)
	}
	api, stop, err := launch(paths, Setup{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return api
}

// launch starts an API server. stop ends it, and removes what it wrote.
func launch(paths map[string]string, setup Setup) (api *API, stop func(), err error) {
	dir, err := os.MkdirTemp("", "apitest-")
	if err != nil {
		return nil, nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	s := &server{dir: dir, paths: paths, setup: setup, ended: make(chan exit, len(programs))}
	stop = func() {
		end()
		s.wait()
		_ = os.RemoveAll(dir) // it lies below the folder for temporary files
	}
	if err := s.start(ctx); err != nil {
		err = fmt.Errorf("start an API server: %w\n%s", err, s.words())
		stop()
		return nil, nil, err
	}
	return &API{
		Config: s.config, Certificates: s.file("certs"), Folder: dir, Etcd: s.etcd,
		kubeconfig: s.file("kubeconfig"), kubectl: paths[tool], authority: s.authority,
	}, stop, nil
}

// Authority returns the authority of the cluster's clients, as a control plane
// has it: the trusted bundle, which includes the API server's own certificate,
// and the key.
func (a *API) Authority(t *testing.T) (bundle, key []byte) {
	t.Helper()
	server, err := os.ReadFile(filepath.Join(a.Certificates, "apiserver.crt"))
	if err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(a.authority.cert), server...), a.authority.key
}

// Need skips a test where there is no API server.
func Need(t *testing.T, api *API) *API {
	t.Helper()
	if api == nil {
		t.Skip("NOT TESTED: this needs the release's API server (run `holdfast release build` once)")
	}
	return api
}

// Install applies manifests as an installation does: kinds, objects, statuses.
func (a *API) Install(t *testing.T, files []state.File) {
	t.Helper()
	dir := t.TempDir()
	if _, err := host.WriteFiles(dir, files); err != nil {
		t.Fatal(err)
	}
	apply := []string{"apply", "--server-side", "--force-conflicts", "--field-manager=holdfast-install", "--filename"}
	a.Kubectl(t, append(apply, filepath.Join(dir, manifests.Kinds))...)
	a.Kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "--filename", filepath.Join(dir, manifests.Kinds))
	a.Kubectl(t, append(apply, filepath.Join(dir, manifests.Objects))...)
	a.Kubectl(t, append(apply, filepath.Join(dir, manifests.Statuses), "--subresource=status")...)
}

// Unguarded returns the files without the guards, which refuse to make a
// cluster another one, for tests that do so.
func Unguarded(files []state.File) []state.File {
	return slices.DeleteFunc(slices.Clone(files), func(f state.File) bool { return strings.Contains(string(f.Data), guards.Label+":") })
}

// Kubectl runs one command as an administrator.
func (a *API) Kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := a.TryKubectl(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TryKubectl runs kubectl, which may fail.
func (a *API) TryKubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := host.Run(t.Context(), host.Command(a.kubectl, append([]string{"--kubeconfig", a.kubeconfig}, args...)...))
	return string(out), err
}

func findAll() (map[string]string, error) {
	paths := map[string]string{}
	var errs []error
	for _, p := range append(programs, tool) {
		path, err := builttest.Find(p)
		if err != nil {
			errs = append(errs, err)
		}
		paths[p] = path
	}
	return paths, errors.Join(errs...)
}
