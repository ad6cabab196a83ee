// Package configserver gives joining hosts their configuration and tokens over
// HTTPS, and receives the progress of their installation. A request needs:
//
//	GET, HEAD /config/<role>                  join token of that role, of a pointer
//	POST      /hosts/<host>                   admission, of that configuration
//	POST      /hosts/<host>/bootstrap-token   the host's own token, of its admission
//	POST      /hosts/<host>/enter             the host's own token
//	GET, HEAD /hosts/<host>/place             nothing
//	GET, HEAD /life                           nothing
//	POST      /certificate                    the key of a worker's expired certificate
//	POST      /progress/<host>                the host's own token
//	GET, HEAD /progress                       read token
//	GET, HEAD /healthz                        nothing
//
// Reaching the port is not enough to get a secret: that takes a token that was
// minted for the purpose, and plain HTTP is refused whatever it carries. No
// token gives another of its own kind, so that none can be renewed with itself.
// /certificate takes no token and gives no secret: its answer is of use only with
// a key that the worker made itself.
// Answers never repeat content of a request, and no token, header or body is
// logged.
package configserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Options holds the data and functions of a server.
type Options struct {
	// Site says which hosts may join at all.
	Site joining.Site
	// Third returns the name of the third control plane that a plan brings to two, empty without
	// one; nil for never.
	Third func() string
	// Read checks a token, like jointoken.Read with a key. An error that is not
	// one of that package's means that the token could not be checked.
	Read func(ctx context.Context, token string, purpose jointoken.Purpose) (jointoken.Claims, error)
	// Report checks the own token of a host that reports progress. Such a token
	// opens nothing, so Report may know less than Read.
	Report func(ctx context.Context, token string) (jointoken.Claims, error)
	// Render returns the configuration that a token opens, in one of the spec
	// versions in Versions. The error is joining.Later if the host has to wait for it.
	Render func(ctx context.Context, shown jointoken.Claims, specVersion string) ([]byte, error)
	// Admit returns a host's own token in exchange for its admission token.
	Admit func(ctx context.Context, shown jointoken.Claims, host string) (Secret, error)
	// Bootstrap returns a host's bootstrap token in exchange for its own token. said is what the
	// host says of itself; empty if it says nothing.
	Bootstrap func(ctx context.Context, own jointoken.Claims, said JoinRequest) (Secret, error)
	// Enter answers a control plane that asks to take the place of a lost one. If it is nil,
	// nobody answers.
	Enter func(ctx context.Context, own jointoken.Claims, request []byte) (Entry, error)
	// Place says that another machine has the place of this machine of a host; empty if it has
	// not. nil means that nobody is told.
	Place func(host string, machine state.Machine) (string, error)
	// Life is the one that the site of this control plane is of.
	Life state.Life
	// Renew returns the certificate that a worker requests with an expired one. The
	// host has proved that it has the key of the shown certificate, and nothing else
	// about that is checked before. nil means that nobody gets one.
	Renew func(ctx context.Context, shown *x509.Certificate, request []byte) ([]byte, error)
	// Versions lists the spec versions that Render supports, oldest first; empty
	// means ignition.Versions.
	Versions []string
	// Progress stores the reports of hosts; nil means a new Memory.
	Progress Store
	// ReadToken opens GET /progress; if it is empty, nobody may read that.
	ReadToken string
	// Logf logs each request that was refused or failed, and each secret that was
	// given out, with its token's id and receiver. It may be nil.
	Logf func(format string, args ...any)
}

// Secret is a token that a host gets in addition to its configuration.
type Secret struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
	// Authority is what verifies the API now, PEM; empty means that of the configuration.
	Authority string `json:"authority,omitempty"`
}

type server struct {
	Options
	readToken [sha256.Size]byte

	mu   sync.Mutex
	uses map[string]int // uses of valid tokens, by token id
}

// New returns the handler. It serves nothing over plain HTTP.
func New(o Options) http.Handler {
	s := &server{Options: o, readToken: sha256.Sum256([]byte(o.ReadToken)), uses: map[string]int{}}
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
	mux.Handle("/hosts/{host}", allowing(http.HandlerFunc(s.admit), http.MethodPost))
	mux.Handle("/hosts/{host}/bootstrap-token", allowing(http.HandlerFunc(s.bootstrapToken), http.MethodPost))
	mux.Handle("/hosts/{host}/enter", allowing(http.HandlerFunc(s.enter), http.MethodPost))
	mux.Handle("/hosts/{host}/place", reading(http.HandlerFunc(s.place)))
	mux.Handle(lifePath, reading(http.HandlerFunc(s.life)))
	mux.Handle(certificatePath, allowing(http.HandlerFunc(s.certificate), http.MethodPost))
	mux.Handle("/progress", reading(http.HandlerFunc(s.readProgress)))
	mux.Handle("/progress/{host}", allowing(http.HandlerFunc(s.postProgress), http.MethodPost))
	return s.private(mux)
}

// lifePath is asked by hosts that boot.
const lifePath = "/life"

// Limits of a connection: a client that is slow or large must not hold one.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = time.Minute
	idleTimeout       = 30 * time.Second
	maxHeaderBytes    = 16 << 10
	// answerTime bounds the time that an answer may wait for the API.
	answerTime = 10 * time.Second
)

// NewServer returns an HTTP server for the handler, with limits of time and
// size, for use with ServeTLS. The TLS configuration contains the certificate. A
// client may show a certificate; TLS verifies that it has the key.
func NewServer(handler http.Handler, config *tls.Config) *http.Server {
	config = config.Clone()
	config.MinVersion, config.ClientAuth = tls.VersionTLS12, tls.RequestClientCert
	return &http.Server{
		Handler:           handler,
		TLSConfig:         config,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// It would log every port scan.
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
		ctx, stop := context.WithTimeout(r.Context(), answerTime)
		defer stop()
		next.ServeHTTP(w, r.WithContext(ctx))
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

// site says which hosts may join now.
func (s *server) site() joining.Site {
	out := s.Site
	if s.Third != nil {
		out.Third = s.Third()
	}
	return out
}

func healthz(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "ok\n")
}

// refuse answers with an error that repeats nothing from the request.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	s.Logf("%s %q from %s: %d %s", method(r), path(r), r.RemoteAddr, status, why)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="holdfast"`)
	}
	http.Error(w, why, status)
}

// maxLogged bounds the logged text from a request, in bytes.
const maxLogged = 120

// path returns a request's path for the log, without the query.
func path(r *http.Request) string { return cut(r.URL.Path) }

func method(r *http.Request) string { return cut(r.Method) }

func cut(s string) string {
	if len(s) > maxLogged {
		return s[:maxLogged] + "..."
	}
	return s
}

// bearer returns the token of a request. It returns nothing if there is none,
// or more than one.
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

// authorized returns the claims of a request's token if that is valid for the
// purpose, and for the given role and host. Otherwise it answers the request
// with an error.
func (s *server) authorized(w http.ResponseWriter, r *http.Request, purpose jointoken.Purpose, role state.Role, host string) (jointoken.Claims, bool) {
	return s.checked(w, r, role, host, func(ctx context.Context, token string) (jointoken.Claims, error) { return s.Read(ctx, token, purpose) })
}

// reader checks a token.
type reader func(ctx context.Context, token string) (jointoken.Claims, error)

func (s *server) checked(w http.ResponseWriter, r *http.Request, role state.Role, host string, read reader) (jointoken.Claims, bool) {
	token := bearer(r)
	if token == "" {
		s.refuse(w, r, http.StatusUnauthorized, "a join token is needed")
		return jointoken.Claims{}, false
	}
	claims, err := read(r.Context(), token)
	if err == nil {
		if role == "" {
			role = claims.Role
		}
		err = claims.Opens(role, host)
	}
	if err == nil {
		return claims, true
	}
	for _, known := range []error{jointoken.ErrInvalid, jointoken.ErrExpired, jointoken.ErrRole, jointoken.ErrHost} {
		if errors.Is(err, known) {
			s.refuse(w, r, statusOf[known], known.Error())
			return jointoken.Claims{}, false
		}
	}
	s.later(w, r, err)
	return jointoken.Claims{}, false
}

// statusOf maps an error about a token to a status: 401 if the token is invalid
// for everybody, 403 if it is valid for another role or host.
var statusOf = map[error]int{
	jointoken.ErrInvalid: http.StatusUnauthorized, jointoken.ErrExpired: http.StatusUnauthorized,
	jointoken.ErrRole: http.StatusForbidden, jointoken.ErrHost: http.StatusForbidden,
}

// later answers that the host should try again, and logs the reason.
func (s *server) later(w http.ResponseWriter, r *http.Request, err error) {
	s.Logf("%s %q from %s: %d %v", method(r), path(r), r.RemoteAddr, http.StatusServiceUnavailable, err)
	http.Error(w, "the control plane does not answer yet: try again", http.StatusServiceUnavailable)
}

// failed answers with the error of a function that gives something out. The
// text of a Refusal, and of a Later, is for the person who installs the host.
func (s *server) failed(w http.ResponseWriter, r *http.Request, err error) {
	if why, waits := errors.AsType[joining.Later](err); waits {
		s.refuse(w, r, http.StatusServiceUnavailable, why.Error())
		return
	}
	if why, refused := errors.AsType[joining.Refusal](err); refused {
		s.refuse(w, r, http.StatusConflict, why.Error())
		return
	}
	s.later(w, r, err)
}

// used counts the uses of a valid token.
func (s *server) used(c jointoken.Claims) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses[c.ID]++
	return s.uses[c.ID]
}

// mayRead checks the read token in constant time, whatever its length.
func (s *server) mayRead(r *http.Request) bool {
	sum := sha256.Sum256([]byte(bearer(r)))
	return subtle.ConstantTimeCompare(sum[:], s.readToken[:]) == 1 && s.ReadToken != ""
}
