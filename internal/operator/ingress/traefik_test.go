package ingress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/probe"
	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/router"
	"github.com/holdfast/holdfast/internal/testkit/porttest"
)

// findTraefik returns the release's router as it was built last.
func findTraefik(t *testing.T) string {
	t.Helper()
	cache, err := release.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(cache, "steps", "go-*", "traefik"))
	if len(found) == 0 {
		t.Skip("NOT TESTED: this needs the release's router (run `holdfast release build` once)")
	}
	newest, when := "", time.Time{}
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(when) {
			newest, when = path, info.ModTime()
		}
	}
	return newest
}

// router runs a Traefik with what was rendered for it, on this machine's loopback
// address, with its own account's rights.
type router struct {
	t      *testing.T
	c      *cluster
	name   string
	folder string
	// endpoint is the API server from which it reads the cluster. args replaces
	// the rendered arguments.
	endpoint string
	args     []string
	stop     context.CancelFunc
	ended    chan error
	mu       sync.Mutex
	words    bytes.Buffer
}

func (r *router) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.words.Write(p)
}

func (r *router) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.words.String()
}

// files puts what the pod mounts into a folder, as kubelet does: a new folder
// each time, and links to it that change at once.
func (r *router) files() {
	t := r.t
	t.Helper()
	config, secret := &corev1.ConfigMap{}, &corev1.Secret{}
	r.c.get(decide.OperandNamespace, decide.ConfigName(r.name), config)
	r.c.get(decide.OperandNamespace, decide.CertificateName(r.name), secret)
	stamp := fmt.Sprintf("..%d", time.Now().UnixNano())
	for path, data := range map[string][]byte{
		"dynamic/router.yaml": []byte(strings.ReplaceAll(config.Data["router.yaml"], render.Folder+"/", r.folder+"/")),
		"tls/tls.crt":         secret.Data[corev1.TLSCertKey], "tls/tls.key": secret.Data[corev1.TLSPrivateKeyKey],
	} {
		full := filepath.Join(r.folder, stamp, path)
		r.c.must(os.MkdirAll(filepath.Dir(full), 0o755))
		r.c.must(os.WriteFile(full, data, 0o600))
	}
	old, _ := os.Readlink(filepath.Join(r.folder, "..data"))
	r.c.must(os.Symlink(stamp, filepath.Join(r.folder, "..tmp")))
	r.c.must(os.Rename(filepath.Join(r.folder, "..tmp"), filepath.Join(r.folder, "..data")))
	for _, name := range []string{"dynamic", "tls"} {
		_ = os.Symlink("..data/"+name, filepath.Join(r.folder, name)) // it exists after the first time
	}
	if old != "" {
		r.c.must(os.RemoveAll(filepath.Join(r.folder, old)))
	}
}

func (r *router) start() {
	r.t.Helper()
	r.folder = r.t.TempDir()
	r.files()
	token := strings.TrimSpace(r.c.api.Kubectl(r.t, "-n", decide.OperandNamespace, "create", "token", render.Account))
	tokenFile := filepath.Join(r.t.TempDir(), "token")
	writeFile(r.t, tokenFile, token)
	authority := r.authority()
	if r.endpoint == "" {
		r.endpoint = r.c.api.Config.Host
	}
	container := r.c.deployment(r.name).Spec.Template.Spec.Containers[0]
	if r.args == nil {
		r.args = container.Args
	}
	var env []string
	for _, v := range container.Env {
		env = append(env, v.Name+"="+v.Value)
	}
	var args []string
	for _, a := range r.args {
		a = strings.Replace(a, "address=:", "address=127.0.0.1:", 1)
		args = append(args, strings.ReplaceAll(a, render.Folder, r.folder))
	}
	for _, provider := range []string{"kubernetesingress", "kubernetesgateway"} {
		args = append(args, "--providers."+provider+".endpoint="+r.endpoint, "--providers."+provider+".token="+tokenFile,
			"--providers."+provider+".certauthfilepath="+authority)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(r.t.Context()))
	r.stop, r.ended = stop, make(chan error, 1)
	program := findTraefik(r.t)
	go func() {
		_, err := host.Run(ctx, host.Cmd{Name: program, Args: args, Env: env, Stdout: r, Stderr: r, Grace: 30 * time.Second})
		r.ended <- err
	}()
	r.t.Cleanup(func() {
		stop()
		if err := <-r.ended; r.t.Failed() {
			r.t.Log(err)
		}
		if r.t.Failed() {
			r.t.Log(r.said())
		}
	})
}

// authority returns a file with the certificate that the test's API server shows.
func (r *router) authority() string {
	r.t.Helper()
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(r.t.Context(), "tcp", strings.TrimPrefix(r.c.api.Config.Host, "https://"))
	r.c.must(err)
	defer func() { _ = conn.Close() }()
	secure, _ := conn.(*tls.Conn)
	path := filepath.Join(r.t.TempDir(), "ca.crt")
	var all []byte
	for _, cert := range secure.ConnectionState().PeerCertificates {
		all = append(all, pemOf(cert)...)
	}
	r.c.must(os.WriteFile(path, all, 0o600))
	return path
}

// answer returns a status code, or 0 for none.
func (r *router) answer(scheme string, port int32, name, path string, roots *x509.CertPool) int {
	code, _ := r.ask(scheme, port, name, path, roots)
	return code
}

// ask returns a status code, or 0 for none, and the answer's headers.
func (r *router) ask(scheme string, port int32, name, path string, roots *x509.CertPool) (int, http.Header) {
	dialer := &net.Dialer{}
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: roots, ServerName: name},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", port))
		},
	}
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, scheme+"://"+name+path, nil)
	r.c.must(err)
	resp, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		return 0, nil
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header
}

func (r *router) until(what string, is func() bool) {
	r.t.Helper()
	r.untilLooked(what, 50*time.Millisecond, is)
}

// untilLooked is until with another pause between two looks.
func (r *router) untilLooked(what string, pause time.Duration, is func() bool) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(end) {
			r.t.Fatalf("%s: not in a minute\n%s", what, r.said())
		}
		_ = host.Sleep(r.t.Context(), pause)
	}
}

// route makes an Ingress for NAME.x.example, which leads to the API.
func (c *cluster) route(name, class string) {
	c.t.Helper()
	o := &networkingv1.Ingress{ObjectMeta: objectMeta("default", name), Spec: networkingv1.IngressSpec{
		IngressClassName: &class, Rules: []networkingv1.IngressRule{{Host: name + ".x.example", IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: backend(),
			}}},
		}}},
	}}
	c.create(o)
}

// backend returns the one Service that every cluster has.
func backend() networkingv1.IngressBackend {
	return networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "kubernetes", Port: networkingv1.ServiceBackendPort{Number: 443}}}
}

// create makes an object until the end of the test.
func (c *cluster) create(o client.Object) {
	c.t.Helper()
	c.must(c.admin.Create(c.t.Context(), o))
	c.t.Cleanup(func() { c.must(client.IgnoreNotFound(c.admin.Delete(context.WithoutCancel(c.t.Context()), o))) })
}

// TestTheReleasesRouterDoesWhatIsRenderedForIt: the router starts with only its
// account's rights, is ready once it has read the cluster and not before, serves
// Ingresses of its class with the default certificate, takes a new one without a
// restart, and says for a while that it leaves.
func TestTheReleasesRouterDoesWhatIsRenderedForIt(t *testing.T) {
	c := newCluster(t)
	findTraefik(t)
	ports := freePorts(t, 3)
	c.make("x", fmt.Sprintf(`{"domain":"x.example","replicas":2,"endpointPublishingStrategy":{"type":"HostNetwork","hostNetwork":{"httpPort":%d,"httpsPort":%d,"statsPort":%d}}}`,
		ports[0], ports[1], ports[2]))
	c.settle()
	c.route("mine", "openshift-x")
	c.route("other", "openshift-default")

	marker := &networkingv1.Ingress{}
	c.get(decide.OperandNamespace, "router-x", marker)
	c.must(c.admin.Delete(t.Context(), marker))
	r := &router{t: t, c: c, name: "x"}
	r.start()
	paths := render.Traefik{}.Paths(decide.RouterOf(decide.Snapshot{Controller: c.controller("x")}, decide.Admission{
		Domain: "x.example", Strategy: c.controller("x").Status.EndpointPublishingStrategy,
	}))
	stats := func(path string) int { return r.answer("http", ports[2], "localhost", path, nil) }
	r.until("it lives", func() bool { return stats(paths.Alive) == http.StatusOK })
	if got := stats(paths.Started); got != http.StatusNotFound {
		t.Errorf("it says %d before it has read the marker", got)
	}
	c.settle()
	r.until("it has read the cluster", func() bool { return stats(paths.Started) == http.StatusOK })
	if got := []int{stats(paths.Ready), stats("/metrics"), stats("/api/rawdata"), stats("/api/http/routers")}; fmt.Sprint(got) != "[200 200 404 404]" {
		t.Errorf("ready, metrics, and what it does not tell: %v", got)
	}

	t.Log("the host finds it, and whose it is")
	views := make(chan state.Router, 100)
	asking, stopAsking := context.WithCancel(t.Context())
	defer stopAsking()
	go func() {
		_ = probe.Router{Address: fmt.Sprintf("127.0.0.1:%d", ports[2])}.Run(asking, func(change func(*state.NetworkView)) {
			var v state.NetworkView
			change(&v)
			views <- v.Router.Value
		}) // it ends with the context
	}()
	if got := <-views; !got.Ready || !got.Healthy || got.Default {
		t.Errorf("the host's view: %+v", got)
	}
	if got := r.header(ports[2], paths.Ready); got != "x" {
		t.Errorf("it says that it is of %q", got)
	}

	roots := r.roots()
	r.until("it serves its own Ingress", func() bool { return r.answer("https", ports[1], "mine.x.example", "/", roots) > 0 })
	got := []int{
		r.answer("https", ports[1], "other.x.example", "/", roots), r.answer("http", ports[0], "other.x.example", "/", nil),
		r.answer("http", ports[0], "localhost", "/holdfast-has-read-the-cluster", nil), r.answer("https", ports[1], "nobody.x.example", "/", nil),
	}
	if fmt.Sprint(got) != "[503 503 503 0]" {
		t.Errorf("another class, the marker, and a client that does not know the authority: %v", got)
	}
	if got := r.answer("http", ports[0], "mine.x.example", "/", nil); got == http.StatusNotFound || got == 0 {
		t.Errorf("its own Ingress: %d", got)
	}

	t.Log("a new certificate, without a restart")
	before := c.certificate("x")
	c.now = c.now.Add(330 * 24 * time.Hour)
	c.settle()
	if c.certificate("x").Equal(before) {
		t.Fatal("no new certificate was made")
	}
	r.files()
	r.until("the new certificate is served", func() bool { return r.serves(ports[1]).Equal(c.certificate("x")) })
	again := c.certificate("x")
	c.now = c.now.Add(330 * 24 * time.Hour)
	c.settle()
	if r.files(); c.certificate("x").Equal(again) {
		t.Fatal("no third certificate was made")
	}
	r.until("and the one after it", func() bool { return r.serves(ports[1]).Equal(c.certificate("x")) })

	t.Log("it leaves: not ready, and serving")
	r.stop()
	r.until("it says that it leaves", func() bool { return stats(paths.Ready) == http.StatusServiceUnavailable })
	if got := stats(paths.Alive); got != http.StatusOK {
		t.Errorf("it lives: %d", got)
	}
	if got := <-views; got.Ready || !got.Healthy {
		t.Errorf("the host's view while it leaves: %+v", got)
	}
	if got := r.answer("http", ports[0], "mine.x.example", "/", nil); got == 0 || got == http.StatusNotFound {
		t.Errorf("while it leaves: %d", got)
	}
	r.until("it is gone", func() bool { return stats(paths.Alive) == 0 })
	for line := range strings.Lines(r.said()) {
		if overtaken(line, r.folder) {
			continue
		}
		for _, word := range []string{"forbidden", "ERR", "panic"} {
			if strings.Contains(line, word) {
				t.Errorf("it said %s: %s", word, line)
			}
		}
	}
}

// header returns whose a router says it is.
func (r *router) header(port int32, path string) string {
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	r.c.must(err)
	resp, err := http.DefaultClient.Do(req)
	r.c.must(err)
	_ = resp.Body.Close()
	return resp.Header.Get(probe.ControllerHeader)
}

// serves returns the certificate that a client is shown.
func (r *router) serves(port int32) *x509.Certificate {
	r.t.Helper()
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(r.t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return &x509.Certificate{}
	}
	defer func() { _ = conn.Close() }()
	secure, _ := conn.(*tls.Conn)
	return secure.ConnectionState().PeerCertificates[0]
}

func (r *router) roots() *x509.CertPool {
	r.t.Helper()
	s := &corev1.Secret{}
	r.c.get(decide.Namespace, decide.AuthoritySecret, s)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.Data[corev1.TLSCertKey])
	return pool
}

func freePorts(t *testing.T, n int) []int32 {
	t.Helper()
	var out []int32
	for range n {
		out = append(out, int32(porttest.Free(t)))
	}
	return out
}

// overtaken reports whether a line says that the router read the mounted folder
// while the next one took its place, as kubelet does it: the old file was removed
// then, or the certificate was of the old folder and its key of the new one. The
// removal of the old folder has it read again, which tests of what it serves prove.
func overtaken(line, folder string) bool {
	return strings.Contains(line, "no such file or directory") && strings.Contains(line, folder+"/..") ||
		strings.Contains(line, "creating certificate store") && strings.Contains(line, "private key does not match public key")
}
