package pacemakerstatus

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// realServer is the API server of this package's tests, or nil if there is none.
var realServer *apitest.API

func TestMain(m *testing.M) { os.Exit(apitest.Main(m, &realServer)) }

// client returns the agent's client of the test's API server, which has the kind
// and an object.
func client(t *testing.T) *kube.Client {
	t.Helper()
	server := apitest.Need(t, realServer)
	dir := t.TempDir()
	access := clientapi.NewConfig()
	access.Clusters["test"] = &clientapi.Cluster{Server: server.Config.Host, InsecureSkipTLSVerify: true}
	access.AuthInfos["test"] = &clientapi.AuthInfo{Token: server.Config.BearerToken}
	access.Contexts["test"] = &clientapi.Context{Cluster: "test", AuthInfo: "test"}
	access.CurrentContext = "test"
	object := filepath.Join(dir, "object.json")
	must(t, clientcmd.WriteToFile(*access, filepath.Join(dir, "kubeconfig")))
	must(t, os.WriteFile(object, []byte(`{"apiVersion":"etcd.openshift.io/v1","kind":"PacemakerCluster","metadata":{"name":"cluster"}}`), 0o600))
	const crd = "../../render/manifests/crds/pacemakerclusters.yaml"
	server.Kubectl(t, "apply", "--server-side", "--filename", crd)
	server.Kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "--filename", crd)
	server.Kubectl(t, "create", "--filename", object)
	c, err := kube.Open(filepath.Join(dir, "kubeconfig"))
	must(t, err)
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestARealAPIHasAChangeWithinTwoSeconds measures from an event to the object in
// the API. A query of Pacemaker itself (50 ms) comes on top.
func TestARealAPIHasAChangeWithinTwoSeconds(t *testing.T) {
	server := client(t)
	c := newCluster(t)
	c.through = throughKube(server)
	c.start("cp-1", t.TempDir())
	defer func() { c.stop["cp-1"]() }()
	var took []time.Duration
	states := []string{"lost-fenced", "healthy", "etcd-failed", "standby", "device-cannot-start"}
	for i := range 20 {
		name := states[i%len(states)]
		began := time.Now()
		c.see(name, "cp-1", "cp-2")
		want := decide.Status(c.look(t.Context(), "cp-1"))
		for {
			o, err := server.PacemakerCluster(t.Context())
			if err == nil && o != nil && o.Status.Nodes != nil && decide.Same(o.Status, want) {
				break
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("%s is not there after a minute: %v", name, err)
			}
			<-time.NewTimer(5 * time.Millisecond).C
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("event to API over %d changes: median %s, worst %s", len(took), took[len(took)/2], took[len(took)-1])
	if took[len(took)/2] > 2*time.Second {
		t.Errorf("the median is %s", took[len(took)/2])
	}
}

func throughKube(c *kube.Client) access {
	return func(ctx context.Context, do func(context.Context, api) error) error { return do(ctx, c) }
}
