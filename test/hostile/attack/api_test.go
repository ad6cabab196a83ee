package attack

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/admission"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

var server *apitest.API

func TestMain(m *testing.M) { os.Exit(apitest.Main(m, &server)) }

func port(t *testing.T, at string) uint16 {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	to, err := netip.ParseAddrPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	return to.Port()
}

// configServer starts the configuration server of a control plane in a complete
// cluster.
func configServer(t *testing.T, api *apitest.API) (at, pointer string) {
	t.Helper()
	s := sitetest.New(t, sitetest.TwoDual)
	key := s.Identity.JoinKey
	give := &admission.Issuer{
		Site: s, Random: rand.Reader, Now: time.Now, EncryptionKeys: func() []int { return nil },
		Open:    func() (admission.TokenAPI, error) { return kube.Open(api.Kubeconfig()) },
		Prepare: func(context.Context) error { return nil },
		Present: func(i site.Identity, _ state.Role) (site.Identity, error) { return i, nil },
		First:   func(context.Context, state.Role) installer.First { return installer.First{} },
		Key: &admission.Key{
			Own: key, Path: filepath.Join(t.TempDir(), "key"), Stands: func() bool { return true }, Now: time.Now,
			Ask: func(context.Context) ([]byte, error) { return key, nil },
		},
	}
	h := httptest.NewTLSServer(configserver.New(configserver.Options{
		Site: joining.Of(s.Config), Read: give.Read, Report: give.ReadReporter, Render: give.Render, Admit: give.Admit, Bootstrap: give.Bootstrap,
	}))
	t.Cleanup(h.Close)
	pointer, err := jointoken.Mint(key, jointoken.Claims{Purpose: jointoken.Config, Role: state.RoleWorker, Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return h.URL, pointer
}

// hosts gives a cluster a control plane with its pod, and a worker with a pod
// whose token the worker's kubelet may request.
func hosts(t *testing.T, api *apitest.API) {
	t.Helper()
	set, err := kubernetes.NewForConfig(api.Config)
	if err != nil {
		t.Fatal(err)
	}
	core := set.CoreV1()
	made := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"cp-1", "worker-1"} {
		made(core.Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
	}
	made(core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "openshift-etcd"}}, metav1.CreateOptions{}))
	made(core.ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}, metav1.CreateOptions{}))
	containers := []corev1.Container{{Name: "x", Image: "x"}}
	made(core.Pods("kube-system").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-apiserver-cp-1"}, Spec: corev1.PodSpec{NodeName: "cp-1", Containers: containers},
	}, metav1.CreateOptions{}))
	made(core.Pods("default").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: corev1.PodSpec{
		ServiceAccountName: "agent", NodeName: "worker-1", Containers: containers,
		Volumes: []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
		}}}},
	}}, metav1.CreateOptions{}))
}

// worker makes the disk of a worker.
func worker(t *testing.T, api *apitest.API, pointer string) string {
	t.Helper()
	disk, kubelet := t.TempDir(), api.As(t, "system:node:worker-1", "system:nodes")
	err := errors.Join(
		os.WriteFile(filepath.Join(disk, "kubelet.pem"), slices.Concat(kubelet.CertData, kubelet.KeyData), 0o600),
		os.WriteFile(filepath.Join(disk, "ignition.json"), []byte(`{"value":"Bearer `+pointer+`"}`), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return disk
}

// TestWhoHasTheDiskOfAWorkerIsEverybodyOnItAndNobodyElse lets the attacker of
// the lab find the secrets on such a disk, with a real API server and a real
// configuration server.
func TestWhoHasTheDiskOfAWorkerIsEverybodyOnItAndNobodyElse(t *testing.T) {
	api := apitest.Need(t, server)
	at, pointer := configServer(t, api)
	hosts(t, api)
	var out bytes.Buffer
	here := Place{Address: netip.MustParseAddr("127.0.0.1")}
	a := &attacker{
		Config: Config{
			Own: Host{Name: "worker-1"}, ControlPlanes: []Host{{Name: "cp-1", Machine: here}},
			Roots: []string{worker(t, api, pointer)},
		},
		out: json.NewEncoder(&out), loot: &bytes.Buffer{}, run: "test", api: port(t, api.Config.Host), config: port(t, at), awaited: time.Second,
	}
	found := a.search(t.Context())
	found = append(found, a.joins(t.Context(), found)...)
	a.apis(t.Context(), found)
	a.configServers(t.Context(), found)
	if err := errors.Join(a.errs...); err != nil {
		t.Error(err)
	}
	var names []string
	for _, who := range found {
		names = append(names, who.name)
	}
	for _, want := range []string{"nobody", "system:node:worker-1", "system:serviceaccount:default:agent", "the admission of a worker", "the token of a host", "a host that joins"} {
		if !slices.Contains(names, want) {
			t.Errorf("%q is none of %q", want, names)
		}
	}
	lines := 0
	for decoder := json.NewDecoder(&out); ; lines++ {
		var l Line
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if !l.OK() {
			t.Errorf("%s: %d", l, l.Status)
		}
	}
	t.Logf("%d attempts", lines)
}
