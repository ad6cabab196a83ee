package main

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/render/router"
)

func TestARouterThatDeniesServesEachEntryPointOfARealOne(t *testing.T) {
	got := entryPoints(router.Arguments(&ingress.Router{Name: "default", HTTP: 80, HTTPS: 443, Stats: 1936, Address: "192.0.2.1"}))
	want := map[string]string{"http": ":80", "https": ":443", "metrics": ":1936"}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestAMuteContainerdTakesConnectionsAndSaysNothing, also where the socket of the former one lies.
func TestAMuteContainerdTakesConnectionsAndSaysNothing(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", "")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mute(ctx, socket) }()
	var conn net.Conn
	for conn == nil {
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
		conn, _ = new(net.Dialer).DialContext(t.Context(), "unix", socket) // it may not be there yet
	}
	if err := conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v", n, err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}

func TestARouterThatDeniesIsWellAndDeniesAll(t *testing.T) {
	r := &ingress.Router{Name: "default", HTTP: 80, HTTPS: 443, Stats: 1936, Address: "192.0.2.1"}
	paths := router.Traefik{}.Paths(r)
	for path, want := range map[string]int{paths.Started: http.StatusOK, paths.Alive: http.StatusOK, paths.Ready: http.StatusOK, "/": http.StatusNotFound, "/health": http.StatusNotFound} {
		w := httptest.NewRecorder()
		answer(w, httptest.NewRequest(http.MethodGet, "http://shop.example"+path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}
