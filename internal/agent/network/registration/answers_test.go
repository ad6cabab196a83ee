package registration

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A kubelet whose Node is missing gets no certificate to serve by. It lives all the
// same, and its Node is made again.
func TestAKubeletWithoutACertificateAnswers(t *testing.T) {
	serves := httptest.NewTLSServer(http.NotFoundHandler())
	defer serves.Close()
	without := httptest.NewUnstartedServer(http.NotFoundHandler())
	without.Config.ErrorLog = log.New(t.Output(), "", 0)
	without.Listener = tls.NewListener(without.Listener, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return nil, errors.New("no serving certificate available for the kubelet")
	}})
	without.Start()
	for name, s := range map[string]*httptest.Server{"one with a certificate": serves, "one without": without} {
		if !greets(t.Context(), s.Listener.Addr().String()) {
			t.Errorf("%s does not answer", name)
		}
	}
	without.Close()
	if greets(t.Context(), without.Listener.Addr().String()) {
		t.Error("nobody answers")
	}
	hangs, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // the kernel takes connections for it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hangs.Close() }()
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if greets(ctx, hangs.Addr().String()) {
		t.Error("one that hangs answers")
	}
}
