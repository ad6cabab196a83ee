package configserver

import (
	"errors"
	"io"
	"net/http"

	"github.com/holdfast/holdfast/internal/decide/joining"
)

// certificatePath is where a worker requests another kubelet certificate.
const certificatePath = "/certificate"

// MaxRequestBytes bounds a request for a certificate, in bytes. One with an RSA
// key of 4096 bits has 1.7 KiB.
const MaxRequestBytes = 8 << 10

// certificate gives a worker whose kubelet certificate has expired another one.
// Its proof is the TLS handshake: the host signs what both sides sent in it with
// the key of the expired certificate, so a recorded handshake opens nothing.
func (s *server) certificate(w http.ResponseWriter, r *http.Request) {
	if s.Renew == nil {
		s.refuse(w, r, http.StatusNotFound, "this control plane renews no certificates")
		return
	}
	if len(r.TLS.PeerCertificates) == 0 {
		s.refuse(w, r, http.StatusForbidden, "a client certificate is needed")
		return
	}
	request, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxRequestBytes))
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, "the body cannot be read, or is larger than 8 KiB")
		return
	}
	fresh, err := s.Renew(r.Context(), r.TLS.PeerCertificates[0], request)
	switch {
	case errors.Is(err, joining.ErrNoWorker):
		s.refuse(w, r, http.StatusForbidden, joining.ErrNoWorker.Error())
	case err != nil:
		s.failed(w, r, err)
	default:
		w.Header().Set("Content-Type", "application/x-pem-file")
		_, _ = w.Write(fresh)
	}
}
