package controlplane

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/agent/install"
	"github.com/holdfast/holdfast/internal/configserver"
	"github.com/holdfast/holdfast/internal/jointoken"
	"github.com/holdfast/holdfast/internal/keys"
	"github.com/holdfast/holdfast/internal/kube"
	"github.com/holdfast/holdfast/internal/site"
	"github.com/holdfast/holdfast/internal/state"
)

// renderTime bounds how long a host waits for a token from the API.
const renderTime = 10 * time.Second

// openCluster is the API as this host reaches it.
func openCluster() (tokenAPI, error) {
	if _, err := os.Stat(adminKubeconfig); err != nil {
		return nil, err
	}
	return kube.Open(adminKubeconfig)
}

// drainTime is how long requests under way may take when the server stops.
const drainTime = 5 * time.Second

// progressPath keeps what hosts reported across restarts of the agent. It need
// not outlive a boot: hosts that are not installed report again.
const progressPath = "/run/holdfast/progress.json"

// serveConfig serves the configuration of joining hosts on every address, so
// also on a VIP that this host holds now or later.
func (r *Agent) serveConfig(ctx context.Context) error {
	progress, err := configserver.OpenFile(progressPath)
	if err != nil {
		return err
	}
	join := &joiner{
		site: r.Site, cluster: openCluster, founded: install.ControlPlaneStands, now: r.Now, random: rand.Reader,
		keys: func() []int { return presentKeys("/", r.Site.Identity) },
	}
	handler := configserver.New(configserver.Options{
		Render: func(role state.Role, version string) ([]byte, error) {
			ctx, cancel := context.WithTimeout(ctx, renderTime)
			defer cancel()
			return join.render(ctx, role, version)
		},
		Verify: func(token string, role state.Role, now time.Time) error {
			return jointoken.Verify(r.Site.Identity.JoinKey, token, role, now)
		},
		Progress:  progress,
		ReadToken: r.Site.Identity.ProgressToken,
		Now:       r.Now,
		Logf:      r.logf,
	})
	certificate := &serving{Agent: r}
	server := configserver.NewServer(handler, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate.get() },
	})
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+strconv.Itoa(site.ConfigServerPort))
	if err != nil {
		return fmt.Errorf("configuration server: %w", err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- server.ServeTLS(listener, "", "") }()
	select {
	case err := <-stopped:
		return fmt.Errorf("configuration server: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if err := server.Shutdown(drain); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("stop configuration server: %w", err)
	}
	return nil
}

// serving keeps the server's certificate, which it makes itself, and makes a
// new one when two thirds of its life are over.
type serving struct {
	*Agent
	mu    sync.Mutex
	made  time.Time
	ready *tls.Certificate
}

func (s *serving) get() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	if s.ready != nil && now.Sub(s.made) < keys.ServingLifetime*2/3 && !now.Before(s.made) {
		return s.ready, nil
	}
	made, err := keys.Serving(s.Site, s.facts.Addresses, now)
	if err != nil {
		return nil, err
	}
	s.made, s.ready = now, &made
	return s.ready, nil
}
