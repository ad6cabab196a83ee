package bundle

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// realServer is the API server of this package's tests, nil if there is none.
var realServer *apitest.API

func TestMain(m *testing.M) { os.Exit(apitest.Main(m, &realServer)) }

func printed(t *testing.T, line []string) string {
	t.Helper()
	out, err := host.Run(t.Context(), host.Command(line[0], line[1:]...))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// objectsWithSecrets holds objects of users and of the cluster with secrets in
// them.
const objectsWithSecrets = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Secret
metadata: {name: db, namespace: shop, annotations: {note: planted-in-annotation}}
stringData: {password: planted-in-secret, plain: planted-too}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {dsn: planted-in-configmap-of-people}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: ours, namespace: kube-system}
data: {settings: "password: planted-in-our-configmap", hosts: "cp-1 and cp-2"}
---
apiVersion: v1
kind: Pod
metadata: {name: app, namespace: shop, annotations: {x: planted-in-pods-annotation}}
spec:
  serviceAccountName: default
  automountServiceAccountToken: false
  containers:
  - name: app
    image: example.com/app:1
    args: ["--key", planted-in-args]
    env: [{name: PLAIN, value: planted-in-env}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {y: planted-in-template}}
    spec:
      containers:
      - name: web
        image: example.com/web:1
        command: [sh, -c, planted-in-command]
        livenessProbe: {exec: {command: [planted-in-probe]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: router, namespace: kube-system}
spec:
  selector: {matchLabels: {app: r}}
  template:
    metadata: {labels: {app: r}}
    spec:
      containers:
      - name: r
        image: example.com/r:1
        args: ["--entrypoints.web.address=:80"]
        env: [{name: STATS_PASSWORD, value: planted-in-our-env}]
`

// configurations hold what people put into the configuration of hosts: credentials of a
// registry, the hash of a password, a header of kubelet. planted replaces PLANTED in
// base64.
const configurations = `
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: 50-secrets, labels: {machineconfiguration.openshift.io/role: worker}}
spec:
  kernelArguments: [nosmt]
  config:
    ignition: {version: 3.5.0}
    storage:
      files:
      - {path: /etc/containerd/certs.d/registry.example/hosts.toml, mode: 384, contents: {source: "data:;base64,PLANTED"}}
      - {path: /etc/holdfast/proxy.env, mode: 384, contents: {source: "data:;base64,PLANTED"}}
      - {path: /etc/plain.conf, contents: {source: "data:,planted-in-plain-text"}}
      - {path: /etc/fetched, contents: {source: "https://me:planted-in-url@example.com/f", httpHeaders: [{name: Authorization, value: planted-in-header}]}}
    systemd:
      units:
      - {name: probe.service, enabled: true, contents: "[Service]\nEnvironment=X=planted-in-unit", dropins: [{name: 10-a.conf, contents: "planted-in-dropin"}]}
    passwd:
      users: [{name: core, passwordHash: "$6$planted-hash", sshAuthorizedKeys: [ssh-ed25519 planted-key]}]
---
apiVersion: machineconfiguration.openshift.io/v1
kind: KubeletConfig
metadata: {name: pods}
spec:
  machineConfigPoolSelector: {matchLabels: {size: small}}
  kubeletConfig: {maxPods: 150, staticPodURLHeader: {Authorization: [planted-in-kubelet]}}
`

// installedKinds are those of OpenShift that the server of the tests has.
var installedKinds = []string{"machineconfig", "kubeletconfig"}

func realCluster(t *testing.T) *Cluster {
	t.Helper()
	server := apitest.Need(t, realServer)
	dir := t.TempDir()
	access := clientapi.NewConfig()
	access.Clusters["test"] = &clientapi.Cluster{Server: server.Config.Host, InsecureSkipTLSVerify: true}
	access.AuthInfos["test"] = &clientapi.AuthInfo{Token: server.Config.BearerToken}
	access.Contexts["test"] = &clientapi.Context{Cluster: "test", AuthInfo: "test"}
	access.CurrentContext = "test"
	kubeconfig, objects := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "objects.yaml")
	if err := clientcmd.WriteToFile(*access, kubeconfig); err != nil {
		t.Fatal(err)
	}
	for _, kind := range installedKinds {
		file := "../../render/manifests/crds/" + kind + "s.yaml"
		server.Kubectl(t, "apply", "--server-side", "--filename", file)
		server.Kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "--filename", file)
	}
	planted := base64.StdEncoding.EncodeToString([]byte("planted-for-a-registry = 1\n"))
	all := objectsWithSecrets + "---" + strings.ReplaceAll(configurations, "PLANTED", planted)
	if err := os.WriteFile(objects, []byte(all), 0o600); err != nil {
		t.Fatal(err)
	}
	server.Kubectl(t, "apply", "--filename", objects) // adds annotations that repeat everything
	c, err := client.New(server.Config, client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	k, err := kube.Open(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return &Cluster{Client: c, Logs: k.PodLogs}
}

func TestOfARealAPIEverythingIsCollectedAndNothingSecret(t *testing.T) {
	c := realCluster(t)
	index, files := made(t, Maker{}, c.Items()...)
	for path, text := range files {
		for _, secret := range []string{"planted", base64.StdEncoding.EncodeToString([]byte("planted-for"))[:12]} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s: ... %q", path, text[max(0, i-60):min(len(text), i+40)])
			}
		}
	}
	for path, want := range map[string]string{
		"cluster/secret.json": `"name": "db"`, "cluster/configmap.json": "cp-1 and cp-2", "cluster/pod.json": "example.com/app:1",
		"cluster/deployment.apps.json": "--entrypoints.web.address=:80", "cluster/namespace.json": `"name": "shop"`,
		"cluster/machineconfig.machineconfiguration.openshift.io.json": "certs.d/registry.example/hosts.toml", "cluster/kubeletconfig.machineconfiguration.openshift.io.json": `"maxPods": 150`,
	} {
		if !strings.Contains(files[path], want) {
			t.Errorf("%s lacks %s: %.300s", path, want, files[path])
		}
	}
	for _, e := range index.Entries {
		if e.Failed != "" && !e.Absent && e.Path != "cluster/pods.log" {
			t.Errorf("%s: %s", e.Path, e.Failed)
		}
		there := slices.ContainsFunc(installedKinds, func(kind string) bool { return strings.HasPrefix(e.Path, "cluster/"+kind+".") })
		if strings.Contains(e.Path, "openshift.io") && !there && !e.Absent {
			t.Errorf("%s is of a kind that is not there: %q", e.Path, e.Failed)
		}
	}
}

func TestAnAPIThatIsDownIsAskedOnce(t *testing.T) {
	asked := 0
	c := &Cluster{Logs: func(context.Context, []string, int64) ([]kube.PodLog, error) { return nil, nil }}
	for range 5 {
		_, err := c.ask(t.Context(), func(context.Context) ([]byte, error) {
			asked++
			return nil, os.ErrDeadlineExceeded
		})
		if err == nil {
			t.Fatal("no error")
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}
