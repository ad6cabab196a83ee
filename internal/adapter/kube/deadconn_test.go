package kube

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// cable passes connections to a server until it is cut: then they stay open but
// nothing comes through, as when a VIP has moved to another host. Later
// connections are passed again.
type cable struct {
	mu  sync.Mutex
	cut chan struct{}
}

func (c *cable) lead(t *testing.T, server string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", server)
			if err != nil {
				_ = in.Close()
				continue
			}
			c.mu.Lock()
			cut := c.cut
			c.mu.Unlock()
			go pass(in, out, cut)
			go pass(out, in, cut)
		}
	}()
	return listener.Addr().String()
}

// pass copies until the cable is cut, and swallows everything after that.
func pass(to io.Writer, from io.Reader, cut <-chan struct{}) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-cut:
		default:
			_, _ = to.Write(buf[:n])
		}
	}
}

// A control plane had given the API's VIP away. Its configuration server
// answered nobody for 30 s, because its connection to the API was dead.
func TestADeadConnectionIsNoticed(t *testing.T) {
	noticeDeadConnections()
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("HTTP/2 is what it is about, this is %s", r.Proto)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(corev1.Node{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "cp-1"},
		})
	}))
	api.EnableHTTP2 = true
	api.StartTLS()
	t.Cleanup(api.Close)
	c := &cable{cut: make(chan struct{})}
	at := c.lead(t, api.Listener.Addr().String())
	// The connections use their own CA: client-go shares connections among
	// clients.
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	set, err := kubernetes.NewForConfig(&rest.Config{Host: "https://" + at, TLSClientConfig: rest.TLSClientConfig{CAData: authority}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(within time.Duration) error {
		ctx, stop := context.WithTimeout(t.Context(), within)
		defer stop()
		_, err := set.CoreV1().Nodes().Get(ctx, "cp-1", metav1.GetOptions{})
		return err
	}
	if err := ask(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	close(c.cut)
	c.cut = make(chan struct{})
	c.mu.Unlock()
	// client-go itself repeats the request when it gives the connection up.
	if err := ask(silentFor + answerWithin + 4*time.Second); err != nil {
		t.Errorf("the dead connection is used still: %v", err)
	}
}
