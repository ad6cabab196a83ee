// Package zootest plays BMCs as vendors ship them, for the tests of their
// clients. Each has a file of answers, because vendors differ mostly in fields.
// Other differences in behaviour are quirks of the simulator.
package zootest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BMC holds the answers of one kind of BMC, as read from its file.
type BMC struct {
	// Name is the name of the file.
	Name   string `json:"-"`
	Kind   string `json:"bmc"`
	Source string `json:"source"`
	// Host is the identity that the host's SMBIOS shows.
	Host struct{ UUID, Serial string } `json:"host"`
	// SystemID is the ID that an administrator gives, where one is needed.
	SystemID string `json:"systemID"`
	// System is the path of the host's system.
	System    string                     `json:"system"`
	Resources map[string]json.RawMessage `json:"resources"`
	// Reset is the answer to a reset, WhenOff that to a power-off of a machine
	// that is off. A reset whose answer is an error is not carried out.
	Reset   Answer `json:"reset"`
	WhenOff Answer `json:"whenOff"`
	IfMatch string `json:"ifMatch"` // needed, refused, or either way
	TLS     string `json:"tls"`     // rsa-key-exchange, or new
	Want    struct {
		Identity string `json:"identity"` // same, or differs
		Fences   bool   `json:"fences"`
	} `json:"want"`

	off atomic.Bool
	// asked holds the requested resets, odd the requests that no client should
	// make.
	mu    sync.Mutex
	asked []string
	odd   []string
}

// Answer is the answer to a reset.
type Answer struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
}

// Load reads all files of a directory. After each call all machines run.
func Load(t testing.TB, dir string) []*BMC {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	var all []*BMC
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b := &BMC{Name: strings.TrimSuffix(filepath.Base(file), ".json")}
		if err := json.Unmarshal(data, b); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, b)
	}
	return all
}

// Legacy reports whether the BMC speaks only older TLS.
func (b *BMC) Legacy() bool { return b.TLS != "" }

// Off reports whether the machine has no power.
func (b *BMC) Off() bool { return b.off.Load() }

// Asked returns the requested resets, and the requests that no client should
// make.
func (b *BMC) Asked() (resets, odd []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked, b.odd
}

// Serve plays the BMC until the test ends and returns its URL.
func (b *BMC) Serve(t testing.TB) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(b)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	if b.Legacy() {
		srv.TLS = &tls.Config{
			Certificates: []tls.Certificate{certificate(t)}, MaxVersion: tls.VersionTLS12,
			CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_256_GCM_SHA384},
		}
	}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.URL
}

// certificate returns a certificate with an RSA key, which RSA key exchange
// needs.
func certificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "BMC"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// ServeHTTP implements http.Handler.
func (b *BMC) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, _, ok := r.BasicAuth(); !ok {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.Method == http.MethodPost {
		b.reset(w, r)
		return
	}
	body, ok := b.Resources[r.URL.Path]
	if !ok {
		body, ok = b.Resources[strings.TrimSuffix(r.URL.Path, "/")]
	}
	if !ok {
		b.note(&b.odd, r.Method+" "+r.URL.Path)
		http.NotFound(w, r)
		return
	}
	text := string(body)
	if b.Off() {
		text = strings.Replace(text, `"PowerState": "On"`, `"PowerState": "Off"`, 1)
	}
	w.Header().Set("ETag", `W/"1"`)
	_, _ = io.WriteString(w, text)
}

func (b *BMC) reset(w http.ResponseWriter, r *http.Request) {
	var asked struct{ ResetType string }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || !strings.Contains(string(b.Resources[strings.TrimSuffix(b.System, "/")]), `"target": "`+r.URL.Path+`"`) {
		b.note(&b.odd, r.Method+" "+r.URL.Path)
		http.NotFound(w, r)
		return
	}
	match := r.Header.Get("If-Match")
	switch {
	case b.IfMatch == "needed" && match == "":
		w.WriteHeader(http.StatusPreconditionRequired)
		return
	case b.IfMatch == "refused" && match != "":
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	b.note(&b.asked, asked.ResetType)
	answer := b.Reset
	if asked.ResetType == "ForceOff" && b.Off() {
		answer = b.WhenOff
	} else if answer.Status < http.StatusBadRequest {
		b.off.Store(asked.ResetType == "ForceOff")
	}
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body)
}

func (b *BMC) note(to *[]string, what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*to = append(*to, what)
}
