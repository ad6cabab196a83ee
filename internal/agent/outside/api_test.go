package outside

import (
	"crypto/tls"
	"log/slog"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

var server *apitest.API

func TestMain(m *testing.M) { os.Exit(apitest.Main(m, &server)) }

// TestEachWriteReachesEtcd puts a real API server behind a VIP of the loopback
// network. It does not cover the authorization of kubelet's account: the server
// knows RBAC alone.
func TestEachWriteReachesEtcd(t *testing.T) {
	real := apitest.Need(t, server)
	set, err := kubernetes.NewForConfig(real.Config)
	if err != nil {
		t.Fatal(err)
	}
	leases := set.CoordinationV1().Leases(kube.NodeLeases)
	holder, renewed := "worker-1", metav1.NewMicroTime(time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC))
	if _, err := leases.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: holder, Annotations: map[string]string{"of": "another"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	vip, trust := forward(t, real.Config)
	p := New(Options{
		View: func() state.NetworkView {
			return state.NetworkView{
				Settings: state.NetworkSettings{ManagedVIPs: true, Fencing: true, APIVIPs: []netip.Addr{vip.Addr()}},
				Stage:    state.StageInstalled, Host: state.HostFacts{NodeName: holder},
			}
		},
		TLS: trust, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	p.port = vip.Port()
	p.Step(t.Context())
	versions := map[string]bool{}
	// As after a failed attempt: a write ends that outage, and others follow.
	p.known = p.known.Next(decide.Attempt{Began: time.Now().Add(-time.Minute), Outside: true})
	for range 3 {
		p.Step(t.Context())
		l, err := leases.Get(t.Context(), holder, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		versions[l.ResourceVersion] = true
		if l.Annotations["of"] != "another" || l.Annotations[decide.OutsideAnnotation] == "" || !l.Spec.RenewTime.Equal(&renewed) || *l.Spec.HolderIdentity != holder {
			t.Errorf("%v, %v", l.Annotations, l.Spec)
		}
	}
	if len(versions) != 3 || len(p.known.Gaps) != 1 {
		t.Errorf("%d versions of 3 writes, %d gaps", len(versions), len(p.known.Gaps))
	}
}

// forward opens a VIP that leads to a server with its administrator's rights: the
// server of the tests knows no client certificates.
func forward(t *testing.T, to *rest.Config) (vip netip.AddrPort, trust func() (*tls.Config, error)) {
	t.Helper()
	u, err := url.Parse(to.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(u)
	if proxy.Transport, err = rest.TransportFor(to); err != nil {
		t.Fatal(err)
	}
	s := tlsServer(t, "127.0.0.5", proxy)
	return netip.MustParseAddrPort(s.Listener.Addr().String()), trusting(s)
}
