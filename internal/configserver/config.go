package configserver

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/holdfast/holdfast/internal/ignition"
	"github.com/holdfast/holdfast/internal/state"
)

// config answers with a role's configuration. The token is looked at before
// anything else of the request, so that who has none learns nothing.
func (s *server) config(w http.ResponseWriter, r *http.Request) {
	role := state.Role(r.PathValue("role"))
	if !slices.Contains(s.Roles, role) {
		s.refuse(w, r, http.StatusNotFound, "no such role")
		return
	}
	if !s.authorized(w, r, role) {
		return
	}
	version, err := Negotiate(r.Header.Values("Accept"), s.Versions)
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	data, err := s.Render(role, version)
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
	s.Logf("config %s %s for %s: %d bytes%s", role, version, r.RemoteAddr, len(data), failed(err))
}

func failed(err error) string {
	if err == nil {
		return ""
	}
	return ", not all of them sent"
}
