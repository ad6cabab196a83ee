// Package configserver gives joining hosts their configuration over HTTPS and
// takes the progress of their installation.
//
//	GET, HEAD /config/<role>     join token of that role
//	POST      /progress/<host>   join token of the host's role
//	GET, HEAD /progress          read token
//	GET, HEAD /healthz           nothing
//
// Nobody who merely reaches the port gets a secret: without a token that was
// minted for the role there is no configuration, and plain HTTP is refused
// whatever it carries. Answers never repeat what a request brought, and no
// token, header or body is logged.
package configserver

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/ignition"
	"github.com/holdfast/holdfast/internal/jointoken"
	"github.com/holdfast/holdfast/internal/state"
)

// Options is what a server serves.
type Options struct {
	// Render returns a role's configuration in a spec version, one of
	// Versions.
	Render func(role state.Role, specVersion string) ([]byte, error)
	// Verify checks a join token, as jointoken.Verify does with a key.
	Verify func(token string, role state.Role, now time.Time) error
	// Roles are those that Render knows; empty means master and worker.
	Roles []state.Role
	// Versions are the spec versions that Render knows, oldest first; empty
	// means ignition.Versions.
	Versions []string
	// Progress keeps what hosts report; nil means a new Memory.
	Progress Store
	// ReadToken opens GET /progress; empty means that nobody may.
	ReadToken string
	// Now is the clock that tokens are checked by.
	Now func() time.Time
	// Logf is told of each request that was refused or failed, and of each
	// configuration that was given. Nil tells nobody.
	Logf func(format string, args ...any)
}

type server struct {
	Options
	readToken [sha256.Size]byte
}

// New returns the handler. It serves nothing over plain HTTP.
func New(o Options) http.Handler {
	s := &server{Options: o, readToken: sha256.Sum256([]byte(o.ReadToken))}
	if len(s.Roles) == 0 {
		s.Roles = []state.Role{state.RoleMaster, state.RoleWorker}
	}
	if len(s.Versions) == 0 {
		s.Versions = ignition.Versions()
	}
	if s.Progress == nil {
		s.Progress = NewMemory()
	}
	if s.Logf == nil {
		s.Logf = func(string, ...any) {}
	}
	mux := http.NewServeMux()
	mux.Handle("/healthz", reading(http.HandlerFunc(healthz)))
	mux.Handle("/config/{role}", reading(http.HandlerFunc(s.config)))
	mux.Handle("/progress", reading(http.HandlerFunc(s.readProgress)))
	mux.Handle("/progress/{host}", allowing(http.HandlerFunc(s.postProgress), http.MethodPost))
	return s.private(mux)
}

// Limits of a connection: a client that is slow or large must not hold one.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = time.Minute
	idleTimeout       = 30 * time.Second
	maxHeaderBytes    = 16 << 10
)

// NewServer returns an HTTP server for the handler, with limits of time and
// size, to be used with ServeTLS. The TLS configuration brings the
// certificate.
func NewServer(handler http.Handler, config *tls.Config) *http.Server {
	config = config.Clone()
	config.MinVersion = tls.VersionTLS12
	return &http.Server{
		Handler:           handler,
		TLSConfig:         config,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// It would tell of every port scan.
		ErrorLog: log.New(io.Discard, "", 0),
	}
}

// private refuses plain HTTP and keeps every answer out of caches.
func (s *server) private(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.TLS == nil {
			s.refuse(w, r, http.StatusBadRequest, "only https is served")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func reading(next http.Handler) http.Handler {
	return allowing(next, http.MethodGet, http.MethodHead)
}

func allowing(next http.Handler, methods ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(methods, r.Method) {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func healthz(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "ok\n")
}

// refuse answers with an error that says nothing of the request.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	s.Logf("%s %q from %s: %d %s", method(r), path(r), r.RemoteAddr, status, why)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="holdfast"`)
	}
	http.Error(w, why, status)
}

// maxLogged bounds what is logged of a request's words, in bytes.
const maxLogged = 120

// path returns a request's path for the log: never its query.
func path(r *http.Request) string { return cut(r.URL.Path) }

func method(r *http.Request) string { return cut(r.Method) }

func cut(s string) string {
	if len(s) > maxLogged {
		return s[:maxLogged] + "..."
	}
	return s
}

// bearer returns the token of a request, or nothing if it brings none or
// more than one.
func bearer(r *http.Request) string {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// authorized checks the join token of a request and answers if it does not
// open the role.
func (s *server) authorized(w http.ResponseWriter, r *http.Request, role state.Role) bool {
	token := bearer(r)
	if token == "" {
		s.refuse(w, r, http.StatusUnauthorized, "a join token is needed")
		return false
	}
	switch err := s.Verify(token, role, s.Now()); {
	case err == nil:
		return true
	case errors.Is(err, jointoken.ErrRole):
		s.refuse(w, r, http.StatusForbidden, jointoken.ErrRole.Error())
	case errors.Is(err, jointoken.ErrExpired):
		s.refuse(w, r, http.StatusUnauthorized, jointoken.ErrExpired.Error())
	default:
		s.refuse(w, r, http.StatusUnauthorized, jointoken.ErrInvalid.Error())
	}
	return false
}

// mayRead compares the read token in constant time, whatever its length.
func (s *server) mayRead(r *http.Request) bool {
	sum := sha256.Sum256([]byte(bearer(r)))
	return subtle.ConstantTimeCompare(sum[:], s.readToken[:]) == 1 && s.ReadToken != ""
}
