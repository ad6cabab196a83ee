package main

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

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
