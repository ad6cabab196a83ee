package leafcert

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/model/state"
)

// run runs the task of a host for some time.
func run(ctx context.Context, h *controlPlane) func() {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		loop.New(time.Now, h.Log).Run(ctx, h.Task())
		close(done)
	}()
	return func() { stop(); <-done }
}

func TestThreeControlPlanesLiveThroughFiveRenewalsOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const life = time.Hour
		id, api := identity(t), newAPI("cp-1", "cp-2", "cp-3")
		var hosts []*controlPlane
		keyOf, files := map[string]string{}, 0
		atWork := map[string]time.Time{} // the turn in which a host worked last
		for _, n := range api.nodes {
			h := newControlPlane(t, id, api, n.Name, 3, life)
			h.ending = func(pod string) {
				// Another host may have taken a turn that it gives back without work: it had not read yet
				// that this one has its own.
				api.workAlone(h.Node, atWork, func(who string) { t.Errorf("%s restarts %s while %s renews", h.Node, pod, who) })
			}
			for _, l := range h.leaves() {
				_, keyOf[h.Node+l.Path] = h.present(l)
				files++
			}
			hosts = append(hosts, h)
			defer run(t.Context(), h)()
		}
		for range 5 * 6 {
			time.Sleep(10 * time.Minute)
			for _, h := range hosts {
				h.valid()
			}
		}
		if len(keyOf) != files || len(api.renewing()) != 0 {
			t.Errorf("%d keys of %d files; still renewing: %q", len(keyOf), files, api.renewing())
		}
		for _, h := range hosts {
			for _, l := range h.leaves() {
				if _, key := h.present(l); key != keyOf[h.Node+l.Path] {
					t.Errorf("%s: %s has another key", h.Node, l.Path)
				}
				if n := h.renewed.all()[l.Path]; n < 5 {
					t.Errorf("%s: %s was renewed %d times", h.Node, l.Path, n)
				}
				if n := h.restarts[l.Restart]; l.Restart != "" && n != h.renewed.all()[l.Path] {
					t.Errorf("%s: %s was restarted %d times for %d renewals", h.Node, l.Restart, n, h.renewed.all()[l.Path])
				}
			}
		}
	})
}

func TestNothingButTheCertificateChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newControlPlane(t, identity(t), nil, "cp-1", 1, time.Hour)
		before, modes := map[string]string{}, map[string]os.FileMode{}
		walk(t, h, func(path string, info os.FileInfo) { before[path], modes[path] = h.read(path), info.Mode() })
		time.Sleep(40*time.Minute + time.Second)
		old := map[string]string{}
		for _, l := range h.leaves() {
			old[l.Path] = kept(h, l)
		}
		if _, err := h.step(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, l := range h.leaves() {
			c, _ := h.present(l)
			if got := kept(h, l); got != old[l.Path] {
				t.Errorf("%s: %s became %s", l.Path, old[l.Path], got)
			}
			if want := time.Now().Add(-2 * restartTakes).Add(time.Hour); c.NotAfter.Before(want.Add(-10 * time.Second)) {
				t.Errorf("%s ends at %s", l.Path, c.NotAfter)
			}
		}
		changed := 0
		walk(t, h, func(path string, info os.FileInfo) {
			if info.Mode() != modes[path] {
				t.Errorf("%s has mode %s, had %s", path, info.Mode(), modes[path])
			}
			switch text := h.read(path); {
			case text == before[path]:
			case strings.HasSuffix(path, ".crt"):
				changed++
			case strings.HasSuffix(path, ".conf"):
				if changed++; !slices.Equal(without(text), without(before[path])) {
					t.Errorf("%s: more than the certificate changed", path)
				}
			default:
				t.Errorf("%s changed", path)
			}
		})
		if changed != len(h.leaves()) {
			t.Errorf("%d files changed, want %d", changed, len(h.leaves()))
		}
	})
}

// kept is what a renewal keeps of a certificate.
func kept(h *controlPlane, l leafcert.Leaf) string {
	c, _ := h.present(l)
	return fmt.Sprint(c.Subject, c.DNSNames, c.IPAddresses, c.KeyUsage, c.ExtKeyUsage, c.IsCA)
}

// walk calls do for each file of Kubernetes.
func walk(t *testing.T, h *controlPlane, do func(path string, info os.FileInfo)) {
	t.Helper()
	err := filepath.Walk(h.root+"/etc/kubernetes", func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			do(strings.TrimPrefix(path, h.root), info)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// without returns the lines of a kubeconfig but that of the certificate.
func without(kubeconfig string) []string {
	return slices.DeleteFunc(strings.Split(kubeconfig, "\n"), func(l string) bool { return strings.Contains(l, "client-certificate-data:") })
}

func TestAHostThatWasOffForFourteenMonthsRenewsBeforeTheAPIAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id, api := identity(t), newAPI("cp-1", "cp-2")
		time.Sleep(3 * leafcert.Life)
		h := newControlPlane(t, id, api, "cp-1", 2, leafcert.Life)
		api.err = errors.New("connection refused")
		h.age(leafcert.Life, 60*24*time.Hour)
		if err := os.RemoveAll(h.root + "/proc"); err != nil { // kubelet does not run
			t.Fatal(err)
		}
		if err := os.Mkdir(h.root+"/proc", 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := h.step(t.Context()); err != nil {
			t.Error(err)
		}
		h.valid()
		if len(h.restarts) != 0 {
			t.Errorf("restarted: %v", h.restarts)
		}
	})
}

// TestAPowerCutBetweenAnyTwoFilesIsMadeUpFor cuts the work off after each file, and
// once more after the last one, when only the restarts are left.
func TestAPowerCutBetweenAnyTwoFilesIsMadeUpFor(t *testing.T) {
	for cut := range len(leafcert.Leaves()) {
		synctest.Test(t, func(t *testing.T) {
			api := newAPI("cp-1", "cp-2", "cp-3")
			h := newControlPlane(t, identity(t), api, "cp-1", 3, time.Hour)
			time.Sleep(41 * time.Minute)
			if err := h.publish(t.Context(), state.CertificateRenewal{Since: time.Now()}); err != nil {
				t.Fatal(err)
			}
			for _, l := range h.leaves()[:cut] {
				if _, err := h.renew(l); err != nil {
					t.Fatal(err)
				}
			}
			fresh := New(h.Options) // the agent starts anew
			fresh.end = h.endPod
			if _, err := fresh.step(t.Context()); err != nil {
				t.Errorf("after %d: %v", cut, err)
			}
			for _, l := range h.leaves() {
				if c, _ := h.present(l); time.Until(c.NotAfter) < 50*time.Minute {
					t.Errorf("after %d: %s ends at %s", cut, l.Path, c.NotAfter)
				}
			}
			if h.restarts[leafcert.ControllerManager] != 1 || h.restarts[leafcert.Scheduler] != 1 || len(api.renewing()) != 0 {
				t.Errorf("after %d: restarted %v, renewing %q", cut, h.restarts, api.renewing())
			}
		})
	}
}

func TestAHostWaitsForTheOthersAndSaysForWhom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAPI("cp-1", "cp-2", "cp-3")
		h := newControlPlane(t, identity(t), api, "cp-1", 3, time.Hour)
		api.nodes[1].Ready = false
		defer run(t.Context(), h)()
		time.Sleep(49 * time.Minute)
		if got := h.renewed.all(); len(got) != 0 {
			t.Errorf("renewed while cp-2 was away: %v", got)
		}
		if n := strings.Count(h.log.String(), `msg="the renewal of leaf certificates waits" for="not ready: cp-2"`); n != 1 {
			t.Errorf("told %d times:\n%s", n, h.log)
		}
		said := api.said("cp-1")
		if said.Waits != "not ready: cp-2" || said.WaitsSince.IsZero() || !said.Since.IsZero() {
			t.Errorf("the node says %+v", said)
		}
		time.Sleep(3 * time.Minute) // a sixth is left
		if said := api.said("cp-1"); said.Waits != "" || !said.WaitsSince.IsZero() {
			t.Errorf("it has renewed, and the node says %+v", said)
		}
		if got := h.renewed.all(); len(got) != len(h.leaves()) {
			t.Errorf("a sixth is left, and renewed was %v", got)
		}
	})
}

// TestTheOnlyControlPlaneTakesBackWhatItSaidOfTheOthers: the site had several when the agent before this one said
// it, and the agent that knows of one alone has nothing to wait for.
func TestTheOnlyControlPlaneTakesBackWhatItSaidOfTheOthers(t *testing.T) {
	since := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for what, said := range map[string]state.CertificateRenewal{
		"it waits":  {Waits: "not ready: cp-2", WaitsSince: since},
		"it renews": {Since: since},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := newAPI("cp-1")
			api.nodes[0].Annotations[state.AnnotationRenewal] = state.FormatAnnotation(said)
			h := newControlPlane(t, identity(t), api, "cp-1", 1, leafcert.Life)
			api.err = errors.New("the API starts")
			defer run(t.Context(), h)()
			time.Sleep(time.Hour)
			api.mu.Lock()
			api.err = nil
			api.mu.Unlock()
			time.Sleep(time.Hour)
			if got := api.said("cp-1"); got != (state.CertificateRenewal{}) {
				t.Errorf("%s: the node says %+v", what, got)
			}
		})
	}
}

func TestAHostWithoutAnythingToDoAsksTheAPIOnce(t *testing.T) {
	for _, of := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			api := newAPI([]string{"cp-1", "cp-2", "cp-3"}[:of]...)
			h := newControlPlane(t, identity(t), api, "cp-1", of, leafcert.Life)
			defer run(t.Context(), h)()
			time.Sleep(6 * time.Hour)
			if api.asked != 1 {
				t.Errorf("one of %d asked %d times", of, api.asked)
			}
		})
	}
}

func TestWhatCannotBeReadKeepsNothingElseFromBeingRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newControlPlane(t, identity(t), nil, "cp-1", 1, time.Hour)
		h.put("/etc/kubernetes/scheduler.conf", "users: [{user: {client-key-data: aHVzaA==}}]\nclusters: 7\n", 0o600)
		h.put("/etc/kubernetes/pki/apiserver.crt", "", 0o644)
		if err := os.Remove(h.root + "/etc/kubernetes/pki/etcd/peer.key"); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(h.root + "/etc/kubernetes/pki/front-proxy-ca.key"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(45 * time.Minute)
		_, err := h.step(t.Context())
		if err == nil {
			t.Fatal("nobody is told")
		}
		for _, want := range []string{
			"/etc/kubernetes/scheduler.conf: it is not a valid kubeconfig", "/etc/kubernetes/pki/apiserver.crt: certificate: is not PEM",
			"/etc/kubernetes/pki/etcd/peer.crt: its key /etc/kubernetes/pki/etcd/peer.key is not there",
			"/etc/kubernetes/pki/front-proxy-client.crt expires on ", "front-proxy-ca.key: no such file",
		} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q lacks %q", err, want)
			}
		}
		if strings.Contains(err.Error()+h.log.String(), "aHVzaA") {
			t.Errorf("a key is told: %v", err)
		}
		if got, want := len(h.renewed.all()), len(h.leaves())-4; got != want {
			t.Errorf("renewed %d, want %d", got, want)
		}
	})
}

func TestACertificateBesideAnothersKeyIsMadeForThatKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newControlPlane(t, identity(t), nil, "cp-1", 1, time.Hour)
		h.put(state.EtcdPKIDir+"/server.key", h.read(state.EtcdPKIDir+"/peer.key"), 0o600)
		if _, err := h.step(t.Context()); err != nil {
			t.Error(err)
		}
		h.valid()
		if got := h.renewed.all(); len(got) != 1 {
			t.Errorf("renewed: %v", got)
		}
	})
}

// docs/facts/life.md#certificates, L-C12: kubeadm init leaves kubelet such a kubeconfig,
// until somebody changes it for kubelet's own file.
func TestACertificateInsideOfKubeletsKubeconfigIsRenewedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newControlPlane(t, identity(t), nil, "cp-1", 1, time.Hour)
		l := leafcert.Leaf{Path: state.KubeletKubeconfig, Authority: leafcert.KubernetesCA}
		h.issue(l, time.Now(), time.Hour)
		time.Sleep(45 * time.Minute)
		if _, err := h.step(t.Context()); err != nil {
			t.Error(err)
		}
		if c, _ := h.present(l); time.Until(c.NotAfter) < 50*time.Minute || h.renewed.all()[l.Path] != 1 {
			t.Errorf("it ends at %s, renewed %v", c.NotAfter, h.renewed.all())
		}
	})
}

// docs/facts/life.md#certificates, L-C22: kubeadm makes an RSA key where it cannot read
// what the cluster wants.
func TestWhatSomebodyMadeWithAnRSAKeyIsRenewedForThatKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newControlPlane(t, identity(t), nil, "cp-1", 1, time.Hour)
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		text := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
		for _, l := range h.leaves() {
			ca := h.read(l.Authority + ".crt")
			p, err := h.pair(l)
			if err != nil {
				t.Fatal(err)
			}
			made, err := keys.Renew(p.cert, text, ca, h.read(l.Authority+".key"), time.Hour, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			h.keep(l, made, text)
		}
		if _, err := h.step(t.Context()); err != nil || len(h.renewed.all()) != 0 {
			t.Fatalf("good ones are replaced: %v, %v", h.renewed.all(), err)
		}
		time.Sleep(45 * time.Minute)
		if _, err := h.step(t.Context()); err != nil {
			t.Error(err)
		}
		for _, l := range h.leaves() {
			if c, now := h.present(l); now != text || time.Until(c.NotAfter) < 50*time.Minute {
				t.Errorf("%s has another key, or ends at %s", l.Path, c.NotAfter)
			}
		}
	})
}

func TestAStaticPodThatDoesNotComeBackIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newControlPlane(t, identity(t), nil, "cp-1", 1, time.Hour)
		h.end = func(_ context.Context, pid int, _ func() bool) error {
			return os.RemoveAll(fmt.Sprintf("%s/proc/%d", h.root, pid))
		}
		time.Sleep(45 * time.Minute)
		_, err := h.step(t.Context())
		if want := "restart kube-controller-manager, which reads its certificate only when it starts: kubelet has not started it anew within 1m0s"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	})
}

func TestWhetherTheAPIServerShowsItsFile(t *testing.T) {
	h := newControlPlane(t, identity(t), nil, "cp-1", 2, time.Hour)
	if got := h.shows(t.Context()); got.Known {
		t.Errorf("nobody answers: %+v", got)
	}
	pair, err := tls.X509KeyPair([]byte(h.read(leafcert.APIServer)), []byte(h.read("/etc/kubernetes/pki/apiserver.key")))
	if err != nil {
		t.Fatal(err)
	}
	server, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func(c net.Conn) {
				_, _ = c.Read(make([]byte, 1))
				_ = c.Close()
			}(conn)
		}
	}()
	h.Endpoint = server.Addr().String()
	if got := h.shows(t.Context()); !state.Is(got, true) {
		t.Errorf("it shows its file: %+v", got)
	}
	if _, err := h.renew(h.leaves()[slices.IndexFunc(h.leaves(), func(l leafcert.Leaf) bool { return l.Path == leafcert.APIServer })]); err != nil {
		t.Fatal(err)
	}
	if got := h.shows(t.Context()); !state.Is(got, false) {
		t.Errorf("it shows the former one: %+v", got)
	}
}

func TestAProcessIsEndedAndWaitedFor(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	pid := cmd.Process.Pid
	if err := host.EndProcess(t.Context(), pid, func() bool { return false }); err != nil {
		t.Errorf("another process: %v", err)
	}
	select {
	case err := <-ended:
		t.Fatalf("another process of that pid was ended: %v", err)
	default:
	}
	if err := host.EndProcess(t.Context(), pid, func() bool { return true }); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("it ended by itself")
	}
	if err := host.EndProcess(t.Context(), pid, func() bool { return true }); err != nil {
		t.Errorf("one that has ended: %v", err)
	}
}

func TestRenewalsAreCounted(t *testing.T) {
	k := New(Options{})
	k.renewed.add("/a")
	k.renewed.add("/a")
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(k); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "holdfast_certificate_renewals_total" {
		t.Fatalf("%v, %v", families, err)
	}
	if m := families[0].GetMetric()[0]; m.GetCounter().GetValue() != 2 || m.GetLabel()[0].GetValue() != "/a" {
		t.Errorf("%v", m)
	}
	k.late.set(map[string]time.Time{"/a": time.Unix(1700000000, 0)})
	families, err = registry.Gather()
	if err != nil || len(families) != 2 || families[0].GetName() != "holdfast_certificate_renewal_late_timestamp_seconds" || families[0].GetMetric()[0].GetGauge().GetValue() != 1700000000 {
		t.Errorf("%v, %v", families, err)
	}
}
