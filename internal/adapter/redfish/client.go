package redfish

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/secret"
)

// DefaultTimeout bounds a request when the endpoint names no other limit.
const DefaultTimeout = 10 * time.Second

// systemsPath is the path at which each Redfish service lists its systems (DSP0266,
// "Resource URI patterns").
const systemsPath = "/redfish/v1/Systems"

// maxConcurrent allows a read of the power state while a controller still answers
// the request to cut the power.
const maxConcurrent = 4

// maxPages bounds the number of pages of systems that are read.
const maxPages = 8

// PowerState is the state that a controller reports. A value that is none of the
// constants is the controller's own text; empty means that it reported none.
type PowerState string

// The power states of Redfish. Only Off means that the machine has no power.
const (
	On          PowerState = "On"
	Off         PowerState = "Off"
	PoweringOn  PowerState = "PoweringOn"
	PoweringOff PowerState = "PoweringOff"
	Paused      PowerState = "Paused"
)

// String returns the state as text for people.
func (s PowerState) String() string {
	if s == "" {
		return "unknown"
	}
	return string(s)
}

// ResetType is a requested change of power.
type ResetType string

// The reset types of Redfish that are used here.
const (
	ResetOn               ResetType = "On"
	ResetForceOff         ResetType = "ForceOff"
	ResetGracefulShutdown ResetType = "GracefulShutdown"
	ResetForceRestart     ResetType = "ForceRestart"
	ResetGracefulRestart  ResetType = "GracefulRestart"
	ResetPowerCycle       ResetType = "PowerCycle"
)

// Endpoint tells the address of a controller and how to talk to it.
type Endpoint struct {
	// Address is parsed by bmc.Parse. If it has no path of a system, the system is
	// found by UUID or Serial, or is the only one.
	Address  bmc.Address
	Username string
	Password secret.Text
	// Name is the machine's name in the commands that errors suggest; empty means
	// NODE.
	Name string
	// Fingerprint pins the certificate: its SHA-256 in hex. Without a pin, the
	// certificate is verified in the usual way; unverified connections are never
	// used.
	Fingerprint string
	// LegacyTLS allows what older controllers need: TLS below 1.2, RSA key exchange.
	LegacyTLS bool
	// RootCAs verify the certificate; nil means the host's CAs.
	RootCAs *x509.CertPool
	// Timeout bounds each request, including its connection; zero means
	// DefaultTimeout. A call of several requests is bounded by its context: a slow
	// controller gets the timeout for each request.
	Timeout time.Duration
	// DialContext opens connections; nil means from this host's own network
	// namespace.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// Login is the way in which the account is sent.
	Login Login
	// UUID and Serial, if set, are those of the intended machine. Each answer of a
	// system that contradicts them is an error.
	UUID, Serial string
	// SystemID, if set, is the UUID or serial number that the controller reports for
	// that machine, as an administrator stated. It replaces both UUID and Serial.
	SystemID string
	// Hint is the path at which the system was found before. It is tried first if
	// Address has no path, and UUID or Serial would reveal a mistake.
	Hint string
}

// Client talks to one system. Each request carries the account. Only if a controller
// does not accept that, the client opens a session and keeps it until Close. It may
// be used by several goroutines.
type Client struct {
	endpoint Endpoint
	http     *http.Client
	base     context.Context // for the end of a session, which comes after the calls
	api      atomic.Pointer[api]
	renewing sync.Mutex
	system   string
	opened   PowerState
	last     atomic.Pointer[system]
	slowest  slowest
	// logIns counts how often the account was sent to a controller that may count
	// too; silent is true once an account was refused without an offer of Basic.
	logIns atomic.Int32
	silent atomic.Bool
}

// Open finds the system of an endpoint and reads it once. So an open client has
// working credentials, and talks to the right machine.
func Open(ctx context.Context, e Endpoint) (*Client, error) {
	if e.Timeout <= 0 {
		e.Timeout = DefaultTimeout
	}
	c := &Client{endpoint: e, base: context.WithoutCancel(ctx)}
	c.http = httpClient(e, c)
	err := c.call(ctx, "open", func(ctx context.Context) error {
		system, err := c.first(ctx)
		if err == nil {
			c.opened = system.power
		}
		return err
	})
	if err != nil {
		c.http.CloseIdleConnections() // nobody can close a client that was never open
		return nil, err
	}
	return c, nil
}

// Close ends the session, if there is one, and closes idle connections.
func (c *Client) Close() {
	c.logOut(c.base, c.api.Load())
	c.http.CloseIdleConnections()
}

// Session reports whether the account is sent by a session.
func (c *Client) Session() bool { return c.api.Load().session.token != "" }

// Opened returns the power state that Open read, so that a first look needs no
// request of its own.
func (c *Client) Opened() PowerState { return c.opened }

// Slowest returns the longest time that the controller has taken to answer a read,
// including the connection.
func (c *Client) Slowest() time.Duration { return c.slowest.value() }

// SystemPath returns the path of the system to which the client talks.
func (c *Client) SystemPath() string { return c.system }

// Power returns the power state that the controller reports.
func (c *Client) Power(ctx context.Context) (state PowerState, err error) {
	err = c.call(ctx, "read the power state", func(ctx context.Context) error {
		s, err := c.read(ctx, c.system)
		if err == nil {
			state = s.power
		}
		return err
	})
	return state, err
}

// Identity returns the UUID and serial number of the system; either is empty if the
// controller does not report it.
func (c *Client) Identity(ctx context.Context) (uuid, serial string, err error) {
	err = c.call(ctx, "read the identity", func(ctx context.Context) error {
		s, err := c.read(ctx, c.system)
		if err == nil {
			uuid, serial = s.uuid, s.serial
		}
		return err
	})
	return uuid, serial, err
}

// On asks for power, unless the machine is On. Nil means that the request was
// accepted.
func (c *Client) On(ctx context.Context) error {
	return c.call(ctx, "switch on", func(ctx context.Context) error {
		return c.switchTo(ctx, On, ResetOn)
	})
}

// Off asks to cut the power, unless the machine is Off. Neither nil nor an error
// tells whether the power was cut: see ConfirmOff.
func (c *Client) Off(ctx context.Context) error {
	return c.call(ctx, "switch off", func(ctx context.Context) error {
		return c.switchTo(ctx, Off, ResetForceOff)
	})
}

// AskOff asks to cut the power, and AskOn asks for power, for the system as it was
// last read: only one request, if a controller is slow with each. Neither nil nor an
// error tells what happened.
func (c *Client) AskOff(ctx context.Context) error { return c.ask(ctx, "switch off", ResetForceOff) }

// AskOn is described at AskOff.
func (c *Client) AskOn(ctx context.Context) error { return c.ask(ctx, "switch on", ResetOn) }

func (c *Client) ask(ctx context.Context, op string, t ResetType) error {
	return c.call(ctx, op, func(ctx context.Context) error {
		return c.post(ctx, *c.last.Load(), t) // Open has read it
	})
}

// Reset asks for any change of power. Nil means that the request was accepted.
func (c *Client) Reset(ctx context.Context, t ResetType) error {
	return c.call(ctx, "reset ("+string(t)+")", func(ctx context.Context) error {
		s, err := c.read(ctx, c.system)
		if err != nil {
			return err
		}
		return c.reset(ctx, s, t)
	})
}

// ConfirmOff reads the power state once and returns nil only if it is exactly Off.
// Otherwise the reason of the error is NotOff, or tells why the state could not be
// read.
func (c *Client) ConfirmOff(ctx context.Context) error {
	return c.call(ctx, "confirm that it is off", func(ctx context.Context) error {
		s, err := c.read(ctx, c.system)
		if err != nil {
			return err
		}
		if s.power != Off {
			return problem{NotOff, "its power state is " + oneLine(s.power.String())}
		}
		return nil
	})
}

// switchTo asks for a state. A refusal is no error if the state is reached:
// controllers answer 409, and iLO 400, when there is nothing to do.
func (c *Client) switchTo(ctx context.Context, want PowerState, t ResetType) error {
	s, err := c.read(ctx, c.system)
	if err != nil || s.power == want {
		return err
	}
	err = c.post(ctx, s, t)
	if err == nil || status(err) != statusConflict && status(err) != http.StatusBadRequest {
		return err
	}
	if again, errAgain := c.read(ctx, c.system); errAgain == nil && again.power == want {
		return nil
	}
	return err
}

// reset asks for a reset type, if the system offers it or does not list its types.
func (c *Client) reset(ctx context.Context, s system, t ResetType) error {
	offered, err := c.types(ctx, s)
	if err == nil && len(offered) > 0 && !slices.Contains(offered, t) {
		return problem{Unsupported, fmt.Sprintf("it does not offer the reset type %s, only %v", t, offered)}
	}
	return c.post(ctx, s, t)
}

// find reads the intended system and stores its path.
func (c *Client) find(ctx context.Context) (system, error) {
	if path := c.endpoint.Address.System; path != "" {
		return c.take(ctx, path)
	}
	if e := c.endpoint; e.Hint != "" && e.known() {
		s, err := c.take(ctx, e.Hint)
		if err == nil || reasonOf(err) != WrongServer && status(err) != http.StatusNotFound {
			return s, err
		}
	}
	paths, err := c.list(ctx)
	switch {
	case err != nil:
		return system{}, err
	case len(paths) == 1:
		return c.take(ctx, paths[0])
	case len(paths) == 0 || !c.endpoint.known():
		return system{}, manySystems(paths)
	}
	return c.search(ctx, paths)
}

// take reads a system and makes it the client's.
func (c *Client) take(ctx context.Context, path string) (system, error) {
	c.system = path
	return c.read(ctx, path)
}

// search reads systems until one is the intended one. It skips a system that cannot
// be switched: a baseboard is listed beside its host, and may come first. It also
// skips a system that cannot be read, and returns that error only if none matches.
func (c *Client) search(ctx context.Context, paths []string) (system, error) {
	var failed error
	for _, path := range paths {
		s, err := c.take(ctx, path)
		if err == nil && s.reset != "" {
			return s, nil
		}
		if err != nil && reasonOf(err) != WrongServer {
			failed = err
		}
	}
	if failed != nil {
		return system{}, failed
	}
	return system{}, problem{WrongServer, fmt.Sprintf("none of its %d systems has %s", len(paths), c.endpoint.identity())}
}

func manySystems(paths []string) error {
	if len(paths) == 0 {
		return problem{NotFound, "it lists no system"} // for example while it boots
	}
	return problem{NoSystem, fmt.Sprintf("it lists %d systems: %s", len(paths), strings.Join(paths, ", "))}
}
