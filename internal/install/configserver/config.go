package configserver

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/state"
)

// config answers with a role's configuration. It checks the token before the
// rest of the request, so that a client without one learns nothing.
func (s *server) config(w http.ResponseWriter, r *http.Request) {
	role := state.Role(r.PathValue("role"))
	if role != state.RoleMaster && role != state.RoleWorker {
		s.refuse(w, r, http.StatusNotFound, "no such role")
		return
	}
	shown, ok := s.authorized(w, r, jointoken.Config, role, "")
	if !ok {
		return
	}
	if err := s.site().Role(role); err != nil {
		s.failed(w, r, err)
		return
	}
	version, err := Negotiate(r.Header.Values("Accept"), s.Versions)
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	data, err := s.Render(r.Context(), shown, version)
	if _, waits := errors.AsType[joining.Later](err); waits {
		// HEAD asks whether a token opens the configuration, as the rotation of its key
		// does. It does.
		if r.Method != http.MethodHead {
			s.failed(w, r, err)
		}
		return
	}
	if err != nil {
		s.Logf("render %s %s: %v", role, version, err)
		http.Error(w, "the configuration cannot be rendered; see the server's log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", ignition.MediaType+";version="+version)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.Header().Set("Vary", "Accept")
	if r.Method == http.MethodHead {
		return
	}
	_, err = w.Write(data)
	s.Logf("config %s %s for %s: %d bytes%s, by token %s, which ends %s and was used %d times since this server started",
		role, version, r.RemoteAddr, len(data), unsent(err), shown.ID, shown.Expires.UTC().Format(time.RFC3339), s.used(shown))
}

func unsent(err error) string {
	if err == nil {
		return ""
	}
	return ", not all of them sent"
}

// admit gives a host its own token. It recognises a control plane whose name is
// not in the site's configuration by that host's progress reports.
func (s *server) admit(w http.ResponseWriter, r *http.Request) {
	host := r.PathValue("host")
	shown, ok := s.authorized(w, r, jointoken.Admission, "", host)
	if !ok {
		return
	}
	all, err := s.Progress.All()
	if err == nil {
		err = s.site().Name(shown.Role, host, controlPlanes(all))
	}
	var own Secret
	if err == nil {
		own, err = s.Admit(r.Context(), shown, host)
	}
	if err != nil {
		s.failed(w, r, err)
		return
	}
	s.Logf("admitted %s, a %s at %s, by token %s", host, shown.Role, r.RemoteAddr, shown.ID)
	give(w, own)
}

func controlPlanes(all []state.Progress) []string {
	var out []string
	for _, p := range all {
		if p.Role.ControlPlane() {
			out = append(out, p.Host)
		}
	}
	return out
}

// JoinRequest is what a host says of itself when it asks for its bootstrap token.
type JoinRequest struct {
	// Release is the digest of the release that it was installed from.
	Release string `json:"release,omitempty"`
	// NewEtcd is the peer URL at which kubeadm starts an etcd without data on it, empty if it starts
	// none or finds data.
	NewEtcd string `json:"newEtcd,omitempty"`
}

// maxJoin is the limit of a JoinRequest, in bytes.
const maxJoin = 4 << 10

// bootstrapToken gives a host the token with which kubeadm joins it. A host of an earlier
// release sends no JoinRequest.
func (s *server) bootstrapToken(w http.ResponseWriter, r *http.Request) {
	own, ok := s.authorized(w, r, jointoken.Host, "", r.PathValue("host"))
	if !ok {
		return
	}
	var said JoinRequest
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxJoin)).Decode(&said)
	if err != nil && !errors.Is(err, io.EOF) {
		s.refuse(w, r, http.StatusBadRequest, "the request is not JSON with the release of the host")
		return
	}
	token, err := s.Bootstrap(r.Context(), own, said)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	s.Logf("bootstrap token for %s, a %s at %s, until %s", own.Host, own.Role, r.RemoteAddr, token.Expires.UTC().Format(time.RFC3339))
	give(w, token)
}

// give answers with a secret.
func give(w http.ResponseWriter, secret Secret) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(secret)
}
