package configserver

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/holdfast/holdfast/internal/model/jointoken"
)

// Entry is the answer to a control plane that asks to take the place of a lost one.
type Entry struct {
	// Needed is false if kubelet runs etcd of this host at first, as in an installation.
	Needed bool `json:"needed"`
	// Waits says what the host waits for; empty if it may enter.
	Waits string `json:"waits,omitempty"`
	// Input is the input for the set-up of both hosts, Conf the corosync.conf of both. They
	// hold secrets.
	Input json.RawMessage `json:"input,omitempty"`
	Conf  []byte          `json:"conf,omitempty"`
}

// maxEnter bounds the request of a host, in bytes.
const maxEnter = 4 << 10

// enter answers a control plane that asks to take the place of a lost one.
func (s *server) enter(w http.ResponseWriter, r *http.Request) {
	own, ok := s.authorized(w, r, jointoken.Host, "", r.PathValue("host"))
	if !ok {
		return
	}
	if !own.Role.ControlPlane() || s.Enter == nil {
		s.refuse(w, r, http.StatusForbidden, "only a control plane takes the place of another one")
		return
	}
	request, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEnter))
	if err != nil {
		s.refuse(w, r, http.StatusRequestEntityTooLarge, "the request is too long")
		return
	}
	answer, err := s.Enter(r.Context(), own, request)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	if len(answer.Input) > 0 {
		s.Logf("%s at %s may enter", own.Host, r.RemoteAddr)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}
