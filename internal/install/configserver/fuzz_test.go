package configserver

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzReport parses an arbitrary report of a host.
func FuzzReport(f *testing.F) {
	for _, seed := range []string{
		`{"host":"cp-1","role":"master","steps":[{"name":"x","state":"done"}]}`, `{"host":"../cp-1"}`, `null`, `[]`, ``,
		`{"host":"cp-1","role":"worker","steps":[{"name":"\u001b[2J","state":"failed","problem":"\u202e"}]}`,
	} {
		f.Add([]byte(seed), "cp-1")
	}
	f.Fuzz(func(t *testing.T, body []byte, host string) {
		r := httptest.NewRequest(http.MethodPost, "/progress/x", bytes.NewReader(body))
		r.SetPathValue("host", host)
		p, status, err := readReport(httptest.NewRecorder(), r)
		switch {
		case err != nil && status < http.StatusBadRequest:
			t.Errorf("%q: %d, %v", body, status, err)
		case err != nil:
			return
		case p.Host != host: // host has its own token, and therefore a name that joining allows
			t.Errorf("%q is the report of %q", body, p.Host)
		}
		for _, s := range p.Steps {
			if strings.ContainsRune(s.Name, 0x1b) || !utf8.ValidString(s.Name) {
				t.Errorf("a terminal would obey %q", s.Name)
			}
		}
	})
}
