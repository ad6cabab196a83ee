package machineconfig

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

var server *apitest.API

func TestMain(m *testing.M) { os.Exit(apitest.Main(m, &server)) }

// accounts asks a real API: for objects by the account of a kubelet, and for its own
// node as an administrator, because the server of the tests knows RBAC alone.
type accounts struct{ kubelet, admin *kube.Client }

func (a accounts) MachineConfig(ctx context.Context, name string) (*mcfgv1.MachineConfig, error) {
	return a.kubelet.MachineConfig(ctx, name)
}

func (a accounts) NodeReady(ctx context.Context, name string) (bool, error) {
	n, err := a.admin.Node(ctx, name)
	return n != nil, err
}

func (accounts) NodePressures(context.Context, string) ([]corev1.NodeConditionType, error) {
	return nil, nil
}

func (a accounts) SetAnnotations(ctx context.Context, name string, values map[string]*string) error {
	return a.admin.SetAnnotations(ctx, name, values)
}

// TestARealAPIGivesAHostItsConfigurationAndTakesItsReport: what the API keeps of an
// object is what the host reads, by the rights that a kubelet has.
func TestARealAPIGivesAHostItsConfigurationAndTakesItsReport(t *testing.T) {
	real := apitest.Need(t, server)
	install(t, real)
	admin, err := kube.Open(real.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	who := accounts{kubelet: client(t, real.As(t, "system:node:"+node, "system:nodes")), admin: admin}
	w := withConfigs(t)
	for _, name := range []string{one, bad} {
		apply(t, real, w.objects[name])
	}
	if err := admin.CreateNode(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Annotations: map[string]string{"of": "another"}}}); err != nil {
		t.Fatal(err)
	}
	w.agent.Join(Cluster{
		API: who, View: func() state.NetworkView { return state.NetworkView{Host: state.HostFacts{NodeName: node}} },
		MayBoot: func(context.Context) (state.Fact[bool], string) { return state.Known(true), "" },
		Idle:    func(context.Context) bool { return false },
		Leave:   func(context.Context) func() { return func() {} },
		EndAPI:  func(context.Context) {},
		EndAnew: func() {},
	})
	for _, step := range []struct{ wish, want string }{{one, "Done " + one + ": "}, {bad, "Degraded " + one + ": run systemctl restart site.service"}, {one, "Done " + one + ": "}} {
		if err := admin.Annotate(t.Context(), node, rollout.DesiredConfig, step.wish); err != nil {
			t.Fatal(err)
		}
		listed, err := admin.Nodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.agent.Nodes(listed)
		w.settle(5 * time.Minute)
		n, err := admin.Node(t.Context(), node)
		if err != nil {
			t.Fatal(err)
		}
		if w.annotations = n.Annotations; !strings.HasPrefix(w.says(), step.want) || n.Annotations["of"] != "another" {
			t.Errorf("given %s it says %s, want %s", step.wish, w.says(), step.want)
		}
	}
	const all = "/apis/machineconfiguration.openshift.io/v1/machineconfigs"
	if _, err := who.kubelet.Names(t.Context(), all); !apierrors.IsForbidden(err) {
		t.Errorf("a host may list all configurations: %v", err)
	}
}

// install gives the API the kind, and the rights of hosts.
func install(t *testing.T, real *apitest.API) {
	t.Helper()
	dir, err := host.Run(t.Context(), host.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/openshift/api"))
	if err != nil {
		t.Fatal(err)
	}
	crd := filepath.Join(strings.TrimSpace(string(dir)), "machineconfiguration/v1/zz_generated.crd-manifests/0000_80_machine-config_01_machineconfigs.crd.yaml")
	real.Kubectl(t, "apply", "--server-side", "--filename", crd)
	real.Kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "--filename", crd)
	s := sitetest.New(t, sitetest.TwoDual)
	files, err := manifests.Render(s.Config, s.Topology())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.Contains(f.Path, "host-access") {
			path := filepath.Join(t.TempDir(), filepath.Base(f.Path))
			if err := os.WriteFile(path, f.Data, 0o600); err != nil {
				t.Fatal(err)
			}
			real.Kubectl(t, "apply", "--server-side", "--filename", path)
		}
	}
}

func apply(t *testing.T, real *apitest.API, mc *mcfgv1.MachineConfig) {
	t.Helper()
	object := mc.DeepCopy()
	object.TypeMeta = metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"}
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "object.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	real.Kubectl(t, "apply", "--server-side", "--filename", path)
}

func client(t *testing.T, cfg *rest.Config) *kube.Client {
	t.Helper()
	c := api.NewConfig()
	c.Clusters["x"] = &api.Cluster{Server: cfg.Host, CertificateAuthority: cfg.CAFile, CertificateAuthorityData: cfg.CAData, InsecureSkipTLSVerify: cfg.Insecure}
	c.AuthInfos["x"] = &api.AuthInfo{ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData}
	c.Contexts["x"] = &api.Context{Cluster: "x", AuthInfo: "x"}
	c.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
	out, err := kube.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
