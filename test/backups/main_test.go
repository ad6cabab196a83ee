// Package backups looks into backups of a real etcd, whose objects a real API server wrote and
// encrypted, and gives what it takes out of them to that API again.
package backups

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/backup/archive"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/render/apiserver"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/builttest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

var server *apitest.API

func TestMain(m *testing.M) {
	os.Exit(apitest.MainWith(m, &server, apitest.Setup{
		Controllers: []string{"deployment-controller", "replicaset-controller", "serviceaccount-controller", "endpoints-controller", "endpointslice-controller", "persistentvolumeclaim-protection-controller"},
		Arguments: func(folder string) ([]string, error) {
			return apitest.AsRendered(folder, "../../internal/render/kubeadm/testdata/init-two-dual.yaml")
		},
	}))
}

// run runs one command line of holdfast about a backup, with the authority that lies beside the file.
func run(t *testing.T, line ...string) (code int, out, errs string) {
	t.Helper()
	line = append(slices.Clone(line), "--authority", filepath.Join(filepath.Dir(line[2]), "ca.crt"))
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, line)
	return code, stdout.String(), stderr.String()
}

// must runs one command line that must end with a code, and returns its output.
func must(t *testing.T, want int, line ...string) string {
	t.Helper()
	code, out, errs := run(t, line...)
	if code != want {
		t.Fatalf("holdfast %s: exit code %d, want %d\n%s%s", strings.Join(line, " "), code, want, out, errs)
	}
	return out + errs
}

// take takes a backup of the tested cluster, with files of a host, and returns its file. keys are
// the numbers of the keys in the file of the API server; without them the backup has only the
// root.
func take(t *testing.T, api *apitest.API, at time.Time, keys ...int) string {
	t.Helper()
	dir := t.TempDir()
	snapshot := filepath.Join(dir, "snapshot.db")
	if _, err := host.Run(t.Context(), host.Command(builttest.Program(t, "etcdctl"), "--endpoints", api.Etcd, "snapshot", "save", snapshot)); err != nil {
		t.Fatal(err)
	}
	site, err := yaml.Marshal(map[string]any{"encryptionRoot": apitest.Root})
	if err != nil {
		t.Fatal(err)
	}
	if site, err = yaml.YAMLToJSON(site); err != nil {
		t.Fatal(err)
	}
	ca := sitetest.New(t, sitetest.TwoDual).Identity.KubernetesCA
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), []byte(ca.Cert), 0o600); err != nil {
		t.Fatal(err)
	}
	files := []archive.File{
		{Path: "/etc/holdfast/site.json", Mode: 0o600, Data: site},
		{Path: "/etc/kubernetes/pki/ca.crt", Mode: 0o644, Data: []byte(ca.Cert)},
		{Path: "/etc/kubernetes/pki/ca.key", Mode: 0o600, Data: []byte(ca.Key)},
	}
	if len(keys) > 0 {
		f, err := apiserver.Encryption(apitest.Root, keys)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, archive.File{Path: apiserver.EncryptionPath, Mode: 0o600, Data: f.Data})
	}
	e := model.Entry{
		Format: model.Format, ID: model.NewID("cp-1", at), Site: "shop.example.com", Host: "cp-1", Taken: at, Reason: model.BySchedule, Good: true,
		Release: model.Release{Version: "v0.1.0", Kubernetes: "v1.36.3", Etcd: "v3.6.14"},
	}
	path := filepath.Join(dir, e.ID+model.ArchiveSuffix)
	var tar bytes.Buffer
	if err := archive.Write(t.Context(), &tar, e, snapshot, files); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, tar.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// until waits until something is so.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !is() {
		if host.Sleep(ctx, 100*time.Millisecond) != nil {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// apply gives a text to kubectl.
func apply(t *testing.T, api *apitest.API, verb, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	api.Kubectl(t, verb, "-f", file)
}
