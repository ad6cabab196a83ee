package host

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"path"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netns"
)

// api is an API server with nodes and one Infrastructure, at the VIP, on the
// machine beside a host.
type api struct {
	t        *testing.T
	mu       sync.Mutex
	nodes    map[string]string // by name, as JSON
	watchers map[chan string]bool
	infra    string
	others   map[chan string]bool // watchers of the Infrastructure
	requests []string
	version  int
	ca       []byte
	cert     tls.Certificate
}

const infrastructure = `{"metadata":{"name":"cluster","resourceVersion":"%d"},"status":{"platformStatus":{"type":"BareMetal","baremetal":{` +
	`"apiServerInternalIPs":[%s],"ingressIPs":[%s],"machineNetworks":["10.98.0.0/16","fd98::/64"]}}}}`

// newAPI returns an API server that does not serve yet, and gives the host
// access to it.
func newAPI(t *testing.T, h *host) *api {
	t.Helper()
	a := &api{
		t: t, nodes: map[string]string{}, watchers: map[chan string]bool{}, version: 1,
		infra: fmt.Sprintf(infrastructure, 1, `"10.98.0.5"`, `"10.98.0.6"`), others: map[chan string]bool{},
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP("10.98.0.5")}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	a.cert = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	a.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	h.write("/etc/kubernetes/kubelet.conf", fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"x",
"clusters":[{"name":"x","cluster":{"server":"https://10.98.0.99:6443","certificate-authority-data":%q}}],
"users":[{"name":"x","user":{"token":"t"}}],"contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}]}`, base64.StdEncoding.EncodeToString(a.ca)))
	return a
}

// serve serves on the machine beside the host until the test ends or stop is
// called.
func (a *api) serve(h *host) (stop func()) {
	a.t.Helper()
	listener := make(chan net.Listener)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, which is in another namespace, ends with this goroutine
		defer close(listener)
		ns, err := netns.GetFromName(h.near)
		if err == nil {
			err = netns.Set(ns)
		}
		if err != nil {
			a.t.Error(err)
			return
		}
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "10.98.0.5:6443")
		if err != nil {
			a.t.Error(err)
			return
		}
		listener <- l
	}()
	l, ok := <-listener
	if !ok {
		a.t.FailNow()
	}
	server := &http.Server{Handler: a, ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{a.cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
	}}
	go func() { _ = server.ServeTLS(l, "", "") }()
	var once sync.Once
	stop = func() { once.Do(func() { _ = server.Close() }) }
	a.t.Cleanup(stop)
	return stop
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.requests = append(a.requests, r.Method+" "+r.URL.Path+" watch="+r.FormValue("watch")+" from="+r.FormValue("resourceVersion"))
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == http.MethodPatch:
		a.annotate(w, r)
	case r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/nodes/"):
		a.one(w, path.Base(r.URL.Path))
	case r.FormValue("watch") != "1":
		w.WriteHeader(http.StatusForbidden)
	case strings.HasSuffix(r.URL.Path, "/nodes"):
		a.watch(w, r)
	default:
		a.watchOther(w, r)
	}
}

const end = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}`

func (a *api) watch(w http.ResponseWriter, r *http.Request) {
	events := make(chan string, 10000)
	a.mu.Lock()
	for _, n := range a.nodes {
		events <- `{"type":"ADDED","object":` + n + `}`
	}
	a.follow(w, r, events, a.watchers)
}

// one answers with a single node.
func (a *api) one(w http.ResponseWriter, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, ok := a.nodes[name]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = io.WriteString(w, n)
}

func (a *api) watchOther(w http.ResponseWriter, r *http.Request) {
	events := make(chan string, 100)
	a.mu.Lock()
	events <- `{"type":"ADDED","object":` + a.infra + `}`
	a.follow(w, r, events, a.others)
}

// follow ends the list in events and sends the later events. The caller holds
// the lock, which follow releases.
func (a *api) follow(w http.ResponseWriter, r *http.Request, events chan string, watchers map[chan string]bool) {
	events <- fmt.Sprintf(end, a.version)
	watchers[events] = true
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(watchers, events)
		a.mu.Unlock()
	}()
	for {
		select {
		case <-r.Context().Done():
			return
		case e := <-events:
			_, _ = fmt.Fprintln(w, e)
			if len(events) == 0 {
				w.(http.Flusher).Flush()
			}
		}
	}
}

// node sets a node as large as real ones, which consist mostly of images.
func (a *api) node(name, address string, labels ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	set := map[string]string{"kubernetes.io/hostname": name}
	for _, l := range labels {
		set[l] = ""
	}
	var images []map[string]any
	for i := range 50 {
		images = append(images, map[string]any{"names": []string{fmt.Sprintf("registry.example.test/some/team/image-%d@sha256:%064d", i, i)}, "sizeBytes": 123456789})
	}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"name": name, "resourceVersion": fmt.Sprint(a.version), "labels": set, "creationTimestamp": "2026-11-20T08:00:00Z"},
		"status": map[string]any{
			"images": images, "addresses": []map[string]string{{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}},
			"conditions": []map[string]string{{"type": "Ready", "status": "True"}},
		},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	kind := "MODIFIED"
	if a.nodes[name] == "" {
		kind = "ADDED"
	}
	a.nodes[name] = string(data)
	a.tell(kind, string(data))
}

// remove deletes a node.
func (a *api) remove(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	data := fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"%d"}}`, name, a.version)
	delete(a.nodes, name)
	a.tell("DELETED", data)
}

// vips sets the VIPs in the Infrastructure's status.
func (a *api) vips(api, ingress string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.infra = fmt.Sprintf(infrastructure, a.version, api, ingress)
	for w := range a.others {
		w <- `{"type":"MODIFIED","object":` + a.infra + `}`
	}
}

// annotate applies the annotations of a merge patch to a node.
func (a *api) annotate(w http.ResponseWriter, r *http.Request) {
	var patch, node struct {
		Metadata struct {
			Annotations map[string]*string `json:"annotations"`
		} `json:"metadata"`
	}
	var whole map[string]any
	a.mu.Lock()
	defer a.mu.Unlock()
	name := path.Base(r.URL.Path)
	for _, err := range []error{
		json.NewDecoder(r.Body).Decode(&patch), json.Unmarshal([]byte(a.nodes[name]), &node), json.Unmarshal([]byte(a.nodes[name]), &whole),
	} {
		if err != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
	}
	a.version++
	annotations := map[string]string{}
	for _, from := range []map[string]*string{node.Metadata.Annotations, patch.Metadata.Annotations} {
		for key, value := range from {
			if delete(annotations, key); value != nil {
				annotations[key] = *value
			}
		}
	}
	metadata, _ := whole["metadata"].(map[string]any)
	metadata["annotations"], metadata["resourceVersion"] = annotations, fmt.Sprint(a.version)
	data, err := json.Marshal(whole)
	if err != nil {
		a.t.Error(err)
	}
	a.nodes[name] = string(data)
	a.tell("MODIFIED", a.nodes[name])
	_, _ = fmt.Fprintf(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":%q}}`, name)
}

// tell sends an event to all watchers of nodes. The caller holds the lock.
func (a *api) tell(kind, object string) {
	for w := range a.watchers {
		w <- `{"type":"` + kind + `","object":` + object + `}`
	}
}

// asked returns the requests so far.
func (a *api) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.requests...)
}
