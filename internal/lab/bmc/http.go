package bmc

import (
	"bytes"
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"
)

// maxBody bounds the body of a request, in bytes.
const maxBody = 64 << 10

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		s.write(w, r, fault(http.StatusRequestEntityTooLarge, "PayloadTooLarge", "The request body is too large.", "Send less."))
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !s.stall(r.Context()) {
		panic(http.ErrAbortHandler) // closes the connection without an answer
	}
	s.write(w, r, s.answer(r))
}

// stall waits as the quirks delay and mute demand, and reports whether to
// answer at all.
func (s *Server) stall(ctx context.Context) bool {
	q, changed := s.quirksAndChange()
	if !pause(ctx.Done(), time.Duration(q.Delay)) {
		return false
	}
	if !q.Mute {
		return true
	}
	for q.Mute {
		select {
		case <-ctx.Done():
			return false
		case <-changed:
			q, changed = s.quirksAndChange()
		}
	}
	return false
}

// pause waits for a duration, and reports whether it passed before done.
func pause(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return false
	case <-timer.C:
		return true
	}
}

// answer finds the resource and applies the method to it.
func (s *Server) answer(r *http.Request) reply {
	if v := r.Header.Get("OData-Version"); v != "" && v != "4.0" {
		return fault(http.StatusPreconditionFailed, "PreconditionFailed", "The OData version is not supported.", "Send OData-Version 4.0.")
	}
	res, ok := s.find(r.URL.Path)
	if ok && res.public {
		return res.call(r)
	}
	if no, refusal := s.authenticate(r); no && !res.open(r.Method) {
		return refusal
	}
	if !ok {
		return missing(r.URL.Path)
	}
	return res.call(r)
}

// authenticate reports whether to refuse a request, and returns the answer for
// that case.
func (s *Server) authenticate(r *http.Request) (bool, reply) {
	q := s.Quirks()
	if q.AuthStatus != 0 && s.refuses(q) {
		return true, refused(q.AuthStatus)
	}
	if token := r.Header.Get("X-Auth-Token"); token != "" {
		if s.sessions.use(token, time.Now(), q.sessionTimeout()) {
			return false, reply{}
		}
		return true, refused(http.StatusUnauthorized)
	}
	user, password, ok := r.BasicAuth()
	if ok && q.Basic != BasicOff && s.credentials(user, password) {
		return false, reply{}
	}
	refusal := refused(http.StatusUnauthorized)
	if q.Basic != "" {
		refusal.header = nil
	}
	return true, refusal
}

// refuses reports whether the quirk auth-status is still in force, and counts
// the refusals.
func (s *Server) refuses(q Quirks) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused++
	return q.Refusals == 0 || s.refused <= q.Refusals
}

func (s *Server) credentials(user, password string) bool {
	u := subtle.ConstantTimeCompare([]byte(user), []byte(s.cfg.Username))
	p := subtle.ConstantTimeCompare([]byte(password), []byte(cmp.Or(s.Quirks().Password, s.cfg.Password)))
	return u&p == 1
}

// write sends a reply with the headers that Redfish demands (DSP0266, 7.4).
func (s *Server) write(w http.ResponseWriter, r *http.Request, out reply) {
	body, kind := encode(out.body)
	h := w.Header()
	h.Set("OData-Version", "4.0")
	h.Set("Cache-Control", "no-cache")
	h.Set("Server", manufacturer+" BMC simulator")
	for name, value := range out.header {
		h.Set(name, value)
	}
	if body != nil {
		h.Set("Content-Type", kind)
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	if out.status == http.StatusOK {
		tag := etag(body)
		h.Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			h.Del("Content-Length")
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	if s.Quirks().CutAnswer {
		cutAnswer(w, out.status, body)
	}
	w.WriteHeader(out.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client is gone
	}
}

func encode(body any) (data []byte, kind string) {
	switch body := body.(type) {
	case nil:
		return nil, ""
	case string:
		return []byte(body), "application/xml"
	default:
		data, err := json.Marshal(body)
		if err != nil {
			panic(fmt.Sprintf("bmc: encode an answer: %v", err)) // only maps, strings and numbers
		}
		return append(data, '\n'), "application/json"
	}
}

// etag returns a weak tag, because it promises nothing about white space.
func etag(body []byte) string {
	hash := fnv.New64a()
	_, _ = hash.Write(body) // never fails
	return fmt.Sprintf(`W/"%016x"`, hash.Sum64())
}

// cutAnswer sends the head and the first half of an answer, and closes the
// connection.
func cutAnswer(w http.ResponseWriter, status int, body []byte) {
	if len(body) > 0 {
		w.WriteHeader(status)
		_, _ = w.Write(body[:len(body)/2])        // the client is gone
		_ = http.NewResponseController(w).Flush() // likewise
	}
	panic(http.ErrAbortHandler)
}

// decode reads a JSON body. If that fails, it returns the answer that explains
// why.
func decode(r *http.Request, into any) (reply, bool) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return fault(http.StatusUnsupportedMediaType, "UnsupportedMediaType", "The body must be application/json.", "Set Content-Type."), false
	}
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		return badJSON(), false
	}
	return reply{}, true
}
