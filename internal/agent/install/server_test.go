package install

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// here is what a worker says of itself.
var here = configserver.JoinRequest{Release: "sha256:here"}

// configured is a configuration server and the site of a host that trusts it.
type configured struct {
	site    *site.Site
	base    string
	key     []byte
	refusal error
	asked   []string
	release string
	store   *configserver.Memory
	// authority is what the server says of the API's.
	authority string
}

func serveSite(t *testing.T, role state.Role) *configured {
	t.Helper()
	full := sitetest.New(t, sitetest.TwoDual)
	c := &configured{key: full.Identity.JoinKey, store: configserver.NewMemory()}
	admission, err := jointoken.Mint(c.key, jointoken.Claims{Purpose: jointoken.Admission, Role: role, Expires: time.Now().Add(time.Hour), ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	read := func(_ context.Context, token string, purpose jointoken.Purpose) (jointoken.Claims, error) {
		c.asked = append(c.asked, string(purpose))
		return jointoken.Read(c.key, token, purpose, time.Now())
	}
	n := 0
	server := httptest.NewUnstartedServer(configserver.New(configserver.Options{
		Site: joining.Of(full.Config), Read: read, Progress: c.store,
		Report: func(ctx context.Context, token string) (jointoken.Claims, error) {
			return read(ctx, token, jointoken.Host)
		},
		Admit: func(_ context.Context, shown jointoken.Claims, host string) (configserver.Secret, error) {
			n++
			token, err := jointoken.Mint(c.key, jointoken.Claims{
				Purpose: jointoken.Host, Role: shown.Role, Host: host, Expires: time.Now().Add(time.Hour), ID: fmt.Sprint(n),
			})
			return configserver.Secret{Token: token}, err
		},
		Bootstrap: func(_ context.Context, own jointoken.Claims, said configserver.JoinRequest) (configserver.Secret, error) {
			c.release = said.Release
			return configserver.Secret{Token: "bootstrap-of-" + own.Host + "-asked-by-" + own.ID, Authority: c.authority}, c.refusal
		},
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it would report refused handshakes
	server.StartTLS()
	t.Cleanup(server.Close)
	full.Identity.AdmissionToken = admission
	c.site, c.base = full.For(role), server.URL
	c.site.Identity.ConfigCA.Cert = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return c
}

// host returns a host's side by its name, with a token file in dir.
func (c *configured) host(t *testing.T, name, dir string) *server {
	t.Helper()
	s, err := newServer(c.site, name, filepath.Join(dir, "host-token"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s.base = c.base
	return s
}

func TestAWorkerIsAdmittedOnceAndKnownAgain(t *testing.T) {
	c, dir := serveSite(t, state.RoleWorker), t.TempDir()
	s := c.host(t, "worker-1", dir)
	if err := s.report(t.Context(), []byte(`{"host":"worker-1","role":"worker"}`)); err != nil {
		t.Fatal(err)
	}
	want := "bootstrap-of-worker-1-asked-by-1"
	for range 2 {
		if got, err := s.bootstrapToken(t.Context(), here); err != nil || got.Token != want || got.Authority != "" || c.release != "sha256:here" {
			t.Errorf("%+v, %v, from the release %q", got, err, c.release)
		}
		s = c.host(t, "worker-1", dir) // after a power cut
	}
	if info, err := os.Stat(s.path); err != nil || info.Mode().Perm() != state.SecretFileMode {
		t.Errorf("%v, %v", info, err)
	}
	if all, err := c.store.All(); err != nil || len(all) != 1 || all[0].Host != "worker-1" {
		t.Errorf("%v, %v", all, err)
	}
	// The host got this name since.
	if got, err := c.host(t, "worker-2", dir).bootstrapToken(t.Context(), here); err != nil || got.Token != "bootstrap-of-worker-2-asked-by-2" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.WriteFile(s.path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := c.host(t, "worker-2", dir).bootstrapToken(t.Context(), here); err != nil || got.Token != "bootstrap-of-worker-2-asked-by-3" {
		t.Errorf("with a damaged file: %+v, %v", got, err)
	}
}

// TestAWorkerIsToldTheAuthorityOfNow: its configuration may be from before a rotation.
func TestAWorkerIsToldTheAuthorityOfNow(t *testing.T) {
	c := serveSite(t, state.RoleWorker)
	c.authority = "-----BEGIN CERTIFICATE-----\n"
	if got, err := c.host(t, "worker-1", t.TempDir()).bootstrapToken(t.Context(), here); err != nil || got.Authority != c.authority {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAControlPlaneMintsItsOwnToken(t *testing.T) {
	for _, role := range []state.Role{state.RoleMaster, state.RoleBootstrap} {
		c := serveSite(t, role)
		if err := c.host(t, "cp-2", t.TempDir()).report(t.Context(), []byte(`{"host":"cp-2","role":"`+string(role)+`"}`)); err != nil {
			t.Errorf("%s: %v", role, err)
		}
		if want := string(jointoken.Host); len(c.asked) != 1 || c.asked[0] != want {
			t.Errorf("%s: asked with %v", role, c.asked)
		}
	}
}

func TestAHostIsToldWhyItIsNotTaken(t *testing.T) {
	c, dir := serveSite(t, state.RoleWorker), t.TempDir()
	c.refusal = joining.Refusal("worker-1 is already a node of this cluster")
	_, err := c.host(t, "worker-1", dir).bootstrapToken(t.Context(), here)
	if err == nil || err.Error() != "worker-1 is already a node of this cluster" {
		t.Errorf("by a node's name: %v", err)
	}
	c.refusal = errors.New("details")
	if _, err := c.host(t, "worker-1", dir).bootstrapToken(t.Context(), here); err == nil || err.Error() != "the control plane does not answer yet: try again" {
		t.Errorf("before the API is there: %v", err)
	}
	_, err = c.host(t, "cp-1", t.TempDir()).bootstrapToken(t.Context(), here)
	if err == nil || err.Error() != "be admitted as cp-1: cp-1 is the name of a control plane: give the worker another name" {
		t.Errorf("by a control plane's name: %v", err)
	}
	// holdfast join-secret rotate
	s := c.host(t, "worker-1", dir)
	if _, err := s.token(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.key = []byte(strings.Repeat("n", jointoken.MinKeyBytes))
	if _, err = s.bootstrapToken(t.Context(), here); err == nil || !strings.Contains(err.Error(), "holdfast create join-config") {
		t.Errorf("with a token that ended: %v", err)
	}
	if _, err := os.Stat(s.path); err == nil || s.own.Token != "" {
		t.Error("the token is kept")
	}
	c.site.Identity.AdmissionToken = ""
	if _, err = s.bootstrapToken(t.Context(), here); err == nil || !strings.Contains(err.Error(), "holds no secret for joining: make its configuration again") {
		t.Errorf("without an admission: %v", err)
	}
}

func TestSecretsGoToTheSitesOwnServerOnly(t *testing.T) {
	c := serveSite(t, state.RoleWorker)
	s := sitetest.New(t, sitetest.TwoDual)
	s.Identity.AdmissionToken = "hush"
	s = s.For(state.RoleWorker)
	to, err := newServer(s, "worker-1", filepath.Join(t.TempDir(), "x"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if to.base != "https://10.98.0.5:22623" {
		t.Errorf("asks %s", to.base)
	}
	to.base = c.base
	if _, err := to.bootstrapToken(t.Context(), here); err == nil || !strings.Contains(err.Error(), "certificate") || strings.Contains(err.Error(), "hush") {
		t.Errorf("a server of another authority: %v", err)
	}
	if len(c.asked) > 0 {
		t.Errorf("it was told %v", c.asked)
	}
	old := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(old.Close)
	to.base = old.URL
	to.client = old.Client()
	if _, err := to.bootstrapToken(t.Context(), here); err == nil || !strings.Contains(err.Error(), "an older build, which") {
		t.Errorf("a control plane of an older build: %v", err)
	}
	s.Identity.ConfigCA.Cert = "hush"
	if _, err := newServer(s, "worker-1", "", time.Now); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("an authority that is none: %v", err)
	}
}

// A worker's secret ends after a day. The server's answer to it once made the worker wait for itself.
func TestAWorkerWhoseSecretHasEndedIsToldSo(t *testing.T) {
	c := serveSite(t, state.RoleWorker)
	s := c.host(t, "worker-1", t.TempDir())
	c.key = []byte(strings.Repeat("n", jointoken.MinKeyBytes))
	told := make(chan error, 1)
	go func() { _, err := s.bootstrapToken(context.Background(), here); told <- err }()
	select {
	case err := <-told:
		if err == nil || !strings.Contains(err.Error(), "be admitted as worker-1: ") || !strings.HasSuffix(err.Error(), anew) {
			t.Errorf("told %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it waits for itself")
	}
}

// It makes its own token, by its own clock: no other configuration would make that a valid one.
func TestAControlPlaneWhoseClockIsBehindIsToldToSetIt(t *testing.T) {
	for role, c := range map[state.Role]struct {
		behind time.Duration
		clock  bool
	}{state.RoleMaster: {48 * time.Hour, true}, state.RoleBootstrap: {2 * time.Hour, false}, state.RoleWorker: {48 * time.Hour, false}} {
		site := serveSite(t, role)
		s := site.host(t, "host-1", t.TempDir())
		s.now = func() time.Time { return time.Now().Add(-c.behind) }
		if !c.clock {
			site.key = []byte(strings.Repeat("n", jointoken.MinKeyBytes))
		}
		_, err := s.bootstrapToken(t.Context(), here)
		if err == nil || strings.Contains(err.Error(), "the clock is behind. Set it (chronyc makestep") != c.clock || strings.HasSuffix(err.Error(), anew) == c.clock {
			t.Errorf("%s: %v", role, err)
		}
		if _, err := os.Stat(s.path); err == nil {
			t.Errorf("%s: the token is kept", role)
		}
	}
}
