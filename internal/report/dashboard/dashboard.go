// Package dashboard serves the state of a cluster as a live page: the same view
// that `holdfast status` prints. It only reads, works without scripts, and loads
// nothing from elsewhere. It does not control access: the page contains no
// secrets and no controls.
package dashboard

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/standing"
)

//go:embed style.css live.js icon.svg
var files embed.FS

// policy lets the page load its own style and script and nothing else, and
// forbids frames around it.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Server serves the page.
type Server struct {
	// View reads the state of the cluster. It is never called twice at the same
	// time, nor again within Every, however many clients ask.
	View func(context.Context) (standing.View, error)
	// Hosts lists the host names that a request may use; empty means any. A page on
	// loopback must refuse others, because a foreign name can resolve to this
	// machine in a browser.
	Hosts []string

	views views
}

// New returns a server of a page.
func New(look func(context.Context) (standing.View, error), hosts ...string) *Server {
	return &Server{View: look, Hosts: hosts, views: views{look: look, now: time.Now, every: Every}}
}

// Handler returns the page's handler, which answers GET and HEAD only.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.whole)
	mux.HandleFunc("GET /part", s.part)
	mux.HandleFunc("GET /view.json", s.data)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	for _, name := range []string{"style.css", "live.js", "icon.svg"} {
		mux.HandleFunc("GET /"+name, asset(name))
	}
	return s.guarded(mux)
}

// guarded sets the headers that each answer has, and refuses foreign host
// names.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !s.own(r.Host) {
			http.Error(w, "this page is not served under the name "+nameOf(r.Host), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) own(asked string) bool {
	return len(s.Hosts) == 0 || slices.Contains(s.Hosts, strings.ToLower(nameOf(asked)))
}

func nameOf(hostPort string) string {
	if h, _, err := net.SplitHostPort(hostPort); err == nil {
		return h
	}
	return strings.Trim(hostPort, "[]")
}

// shown is the content of the page.
type shown struct {
	standing.View

	// Mark is equal for pages that look the same.
	Mark string
	// Failed says why there is no view.
	Failed string
}

func (s *Server) whole(w http.ResponseWriter, r *http.Request) { s.write(w, r, whole) }

// part serves the part of the page that changes. It does not send a part again
// that the browser has already.
func (s *Server) part(w http.ResponseWriter, r *http.Request) { s.write(w, r, nil) }

// write answers with the part of the page that changes, inside of around if
// that is not nil.
func (s *Server) write(w http.ResponseWriter, r *http.Request, around func(shown) part) {
	view, err := s.views.get(r.Context())
	if r.Context().Err() != nil {
		return // the client has gone
	}
	p := shown{View: view}
	status := http.StatusOK
	if err != nil {
		p.Failed, status = err.Error(), http.StatusBadGateway
	}
	body, err := rendered(changing(p))
	p.Mark = mark(body)
	if err == nil && around != nil {
		body, err = rendered(around(p))
	}
	if err != nil {
		http.Error(w, "the page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("ETag", `"`+p.Mark+`"`)
	if around == nil && r.Header.Get("If-None-Match") == `"`+p.Mark+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func mark(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// data serves the view for programs.
func (s *Server) data(w http.ResponseWriter, r *http.Request) {
	view, err := s.views.get(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(view) // an error means that the client has gone
}

var types = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

func asset(name string) http.HandlerFunc {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		panic(err) // the file is embedded
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", types[path.Ext(name)])
		_, _ = w.Write(data)
	}
}

// Limits of a server that every program in the cluster may reach.
const (
	headerTime = 5 * time.Second
	answerTime = 10 * time.Second
	idleTime   = time.Minute
	maxHeader  = 8 << 10
	leaveTime  = 2 * time.Second
)

// Serve serves on a listener until the context ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: headerTime, ReadTimeout: headerTime, WriteTimeout: answerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer stop()
	if err := server.Shutdown(last); err != nil {
		_ = server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
