package kube

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// TestALoopThatOpensItsClientEachTimeKeepsOneConnection: between two looks of a loop nothing
// but this package holds the client.
func TestALoopThatOpensItsClientEachTimeKeepsOneConnection(t *testing.T) {
	var connections atomic.Int32
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","items":[]}`))
	}))
	api.EnableHTTP2 = true
	api.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	api.StartTLS()
	defer api.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: %q, certificate-authority-data: %s}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\nusers: [{name: a, user: {token: t}}]\n",
		api.URL, base64.StdEncoding.EncodeToString(authority))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Nodes(t.Context()); err != nil {
			t.Fatal(err)
		}
		runtime.GC() // the weak pointers of client-go end here
		runtime.GC()
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestAClientIsKeptUntilItsAccountChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write := func(token string) {
		t.Helper()
		text := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\nusers: [{name: a, user: {token: " + token + "}}]\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open := func(a Access) *Client {
		t.Helper()
		a.Kubeconfig = path
		c, err := a.Client()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	write("first")
	before := open(Access{})
	if open(Access{}) != before {
		t.Error("the same access has two clients")
	}
	for name, other := range map[string]Access{"another server": {Server: "https://127.0.0.1:2"}, "another limit": {Limit: LoopLimit}, "another name": {Name: "x"}} {
		if open(other) == before {
			t.Errorf("%s: the same client", name)
		}
	}
	write("second")
	if open(Access{}) == before {
		t.Error("the client has the account of before")
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a broken kubeconfig: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a kubeconfig that is gone: %v", err)
	}
}
