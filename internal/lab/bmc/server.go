package bmc

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"
)

// DefaultPOSTDelay is the least time that the firmware of a real machine takes
// before its system boots.
const DefaultPOSTDelay = 40 * time.Second

// DefaultSystemID is the last element of our system's path.
const DefaultSystemID = "1"

// resetsKept bounds the history of resets.
const resetsKept = 100

// Config describes one machine and its controller.
type Config struct {
	// Name is the host's name, reported as HostName.
	Name     string
	Username string
	Password string
	// UUID and Serial are shown by the machine's own SMBIOS.
	UUID, Serial string
	// SystemID is the last element of the system's path; empty means
	// DefaultSystemID.
	SystemID string
	// POSTDelay is the time from power-on to boot. Zero boots at once; most
	// callers want DefaultPOSTDelay.
	POSTDelay time.Duration
	// Hosts are names and addresses for the certificate, besides Name and the
	// loopback addresses.
	Hosts []string
	// Certificate is shown to clients; nil makes a self-signed one.
	Certificate *tls.Certificate
	// Log receives resets and failures; nil drops them.
	Log *slog.Logger
}

// Reset is one request to change the power that a client made.
type Reset struct {
	At   time.Time
	Type ResetType
	// From is the address of the client.
	From string
	// Status is the HTTP status of the answer. It does not tell whether
	// anything happened.
	Status int
}

// Server is the controller of one machine. Its methods may be called by
// several goroutines.
type Server struct {
	cfg      Config
	log      *slog.Logger
	power    *power
	sessions sessions
	good     tls.Certificate

	mu         sync.Mutex
	quirks     Quirks
	changed    chan struct{} // closed when the quirks change
	resets     []Reset
	refused    int             // requests that were answered with auth-status
	dropped    int             // resets since the quirks were set
	glance     glance          // last reading of the power
	neighbours map[string]bool // power of other machines' systems, by id
	faulty     map[string]tls.Certificate
}

// New returns the controller of a machine. If Serve is not called, Close it
// after use.
func New(cfg Config, machine Machine) (*Server, error) {
	if cfg.SystemID == "" {
		cfg.SystemID = DefaultSystemID
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Hosts = withLocal(cfg.Name, cfg.Hosts)
	s := &Server{
		cfg:        cfg,
		log:        cfg.Log,
		power:      newPower(machine, cfg.Log),
		changed:    make(chan struct{}),
		neighbours: map[string]bool{},
		faulty:     map[string]tls.Certificate{},
	}
	s.SetPOSTDelay(cfg.POSTDelay)
	return s, s.setCertificate(cfg.Certificate)
}

func (s *Server) setCertificate(given *tls.Certificate) error {
	if given != nil {
		s.good = *given
		return nil
	}
	made, err := NewCertificate(s.cfg.Name, s.cfg.Hosts, time.Now())
	if err != nil {
		return fmt.Errorf("controller of %s: %w", s.cfg.Name, err)
	}
	s.good = made
	return nil
}

// Close drops everything that is pending, such as a boot after POST. The
// machine keeps the power it has.
func (s *Server) Close() { s.power.close() }

// Quirks returns the quirks in force.
func (s *Server) Quirks() Quirks {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quirks
}

// SetQuirks replaces all quirks. Requests that hang because of a removed quirk
// end with their connection closed.
func (s *Server) SetQuirks(q Quirks) {
	s.mu.Lock()
	s.quirks, s.refused, s.dropped = q, 0, 0
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	s.power.behave(q.behave)
}

// quirksAndChange returns the quirks, and a channel that is closed when they
// change.
func (s *Server) quirksAndChange() (Quirks, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quirks, s.changed
}

// SetPOSTDelay changes the time from power-on to boot, from the next power-on
// on.
func (s *Server) SetPOSTDelay(d time.Duration) {
	s.power.behave(func(b *Behaviour) { b.POST = d })
}

// Cut takes the machine's power away at once, as if its plug was drawn. It does
// not ask the quirks, and drops a pending boot. It returns when the machine is
// dead.
func (s *Server) Cut(ctx context.Context) error { return s.power.cut(ctx) }

// State returns the real state of the machine's power.
func (s *Server) State(ctx context.Context) (State, error) { return s.power.observe(ctx) }

// Resets returns the last requests to change the power, oldest first.
func (s *Server) Resets() []Reset {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.resets)
}

func (s *Server) record(r Reset) {
	s.log.Info("reset", "type", r.Type, "from", r.From, "status", r.Status)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resets = append(s.resets, r)
	if over := len(s.resets) - resetsKept; over > 0 {
		s.resets = slices.Delete(s.resets, 0, over)
	}
}

// Sessions returns the number of open sessions.
func (s *Server) Sessions() int {
	return len(s.sessions.ids(time.Now(), s.Quirks().sessionTimeout()))
}

// SystemPath returns the path of our system, below the address of the
// controller.
func (s *Server) SystemPath() string { return systemsPath + "/" + s.cfg.SystemID }

// CertificatePEM returns the certificate that a client must trust to verify
// this controller while no quirk is in force.
func (s *Server) CertificatePEM() []byte { return certificatePEM(s.good) }

// TLSConfig returns the controller's TLS settings; the certificate follows the
// quirks.
func (s *Server) TLSConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.certificate(time.Now())
		},
	}
}

func (s *Server) certificate(now time.Time) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fault := s.quirks.Certificate
	if made, ok := s.faulty[fault]; ok {
		return &made, nil
	}
	made, err := faultyCertificate(fault, s.cfg.Name, s.cfg.Hosts, s.good, now)
	if err != nil {
		return nil, err
	}
	s.faulty[fault] = made
	return &made, nil
}

// Handler answers Redfish requests. The quirks half-open, unreachable and
// certificate take effect only with Serve.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serveHTTP) }
