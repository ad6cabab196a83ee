package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// DaemonStatus is the state of a lab as its daemon sees it.
type DaemonStatus struct {
	PID   int          `json:"pid"`
	Hosts []HostStatus `json:"hosts"`
	// API and ConfigServer are loopback addresses that lead to the cluster.
	API          string `json:"api"`
	ConfigServer string `json:"configServer"`
	// Registries are the addresses in the lab's network from which hosts pull
	// their release; empty if they bring it along.
	Registries []string `json:"registries,omitempty"`
	Faults     []Fault  `json:"faults"`
}

// HostStatus is one host as the daemon sees it.
type HostStatus struct {
	Name  string `json:"name"`
	Role  string `json:"role"`
	Power Power  `json:"power"`
	// BMC is the power state that the host's BMC reports, or the reason why it
	// reports none.
	BMC string `json:"bmc"`
	// PID is the host's init as seen from the machine, 0 while it is off.
	PID   int       `json:"pid,omitempty"`
	Since time.Time `json:"since"`
	// MachineLink and FencingLink report whether the cables are connected.
	MachineLink bool `json:"machineLink"`
	FencingLink bool `json:"fencingLink"`
}

// PowerAction is an action on a host's power that does not go through its BMC.
type PowerAction string

// The power actions. On, Reset and Shutdown are buttons. Cut pulls the plug of
// the running host only, ACLoss that of host and BMC together.
const (
	ActionOn       PowerAction = "on"
	ActionCut      PowerAction = "cut"
	ActionReset    PowerAction = "reset"
	ActionShutdown PowerAction = "shutdown"
	ActionACLoss   PowerAction = "ac-loss"
	ActionACBack   PowerAction = "ac-back"
)

// PowerRequest asks the daemon to act on a host's power.
type PowerRequest struct {
	Host   string      `json:"host"`
	Action PowerAction `json:"action"`
}

// ClearRequest asks the daemon to undo faults: all of them, those of a host,
// or one kind of a host.
type ClearRequest struct {
	Host string    `json:"host,omitempty"`
	Kind FaultKind `json:"kind,omitempty"`
}

// Client talks to the daemon of a lab.
type Client struct {
	http *http.Client
	// patience bounds a request that only reads.
	patience time.Duration
}

// NewClient returns a client for the lab's daemon, which may not be running.
func NewClient(b *Lab) *Client {
	socket := b.file(socketFile)
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}
	return &Client{http: &http.Client{Transport: transport}, patience: daemonPatience}
}

// Status returns what the daemon knows. It gives up after c.patience, because a
// daemon may hang at a host.
func (c *Client) Status(ctx context.Context) (DaemonStatus, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.patience, fmt.Errorf("no answer within %s", c.patience))
	defer cancel()
	var st DaemonStatus
	return st, c.call(ctx, http.MethodGet, "/status", nil, &st)
}

// Power acts on a host's power, and returns when the action is done.
func (c *Client) Power(ctx context.Context, r PowerRequest) error {
	return c.call(ctx, http.MethodPost, "/power", r, nil)
}

// Inject puts a fault in force.
func (c *Client) Inject(ctx context.Context, f Fault) error {
	return c.call(ctx, http.MethodPost, "/fault", f, nil)
}

// Clear undoes faults and returns those that it undid.
func (c *Client) Clear(ctx context.Context, r ClearRequest) ([]Fault, error) {
	var out []Fault
	return out, c.call(ctx, http.MethodPost, "/fault/clear", r, &out)
}

// Stop ends the daemon; the hosts keep the power they have.
func (c *Client) Stop(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/stop", nil, nil)
}

// maxAnswer bounds a request to the daemon and its answer, in bytes.
const maxAnswer = 1 << 20

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://lab"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("ask the lab daemon: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("answer of the lab daemon: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(string(bytes.TrimSpace(data)))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}
