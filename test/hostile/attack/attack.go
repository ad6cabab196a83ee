// Package attack plays root on a worker who wants more rights. He shows each
// secret on his host to the API servers, the configuration servers and the
// kubelets of control planes, tries their ports, and claims their addresses on
// the wire. Each attempt is one line of JSON. It is for a lab.
package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/model/site"
)

// Part names a part of the attack.
type Part string

// The parts.
const (
	// Secrets is all attempts that must be refused.
	Secrets Part = "secrets"
	// Wire is the attacks from the segment that VRRP and ARP cannot prevent, as
	// SECURITY.md says. They must bring the attacker no secret.
	Wire Part = "wire"
)

// Config is the knowledge of root on a worker about his site.
type Config struct {
	Part Part
	// Seconds is the duration of the attack.
	Seconds       int
	Own           Host
	ControlPlanes []Host
	// APIVIPs are IPv4 addresses, like all addresses here.
	APIVIPs []netip.Addr
	// Cluster is the name from which router IDs follow.
	Cluster string
	// MachineNIC and FencingNIC are the NICs of the own host.
	MachineNIC, FencingNIC string
	// Roots are the directories to search for secrets. Loot is the file for all
	// answers.
	Roots []string
	Loot  string
}

// Host is a host of the site.
type Host struct {
	Name string
	// Machine and Fencing are its addresses in these networks.
	Machine, Fencing Place
	BMC              netip.Addr
	// Pods is the network of its pods.
	Pods netip.Prefix
}

// Place is an address and the hardware address of its NIC.
type Place struct {
	Address netip.Addr
	MAC     string
}

// Expectation tells how an attempt must end.
type Expectation string

// The expectations.
const (
	// Refused: the answer is a refusal.
	Refused Expectation = "refused"
	// Closed: there is no connection.
	Closed Expectation = "closed"
	// Nothing: there is no answer, and nothing happens.
	Nothing Expectation = "nothing"
	// Untold: nobody who was led here sent a request.
	Untold Expectation = "untold"
	// Open: a worker may do this, or SECURITY.md says that it cannot be
	// prevented.
	Open Expectation = "open"
)

// Other results of an attempt.
const (
	answered = "answered"
	sent     = "sent"
	told     = "told"
	failed   = "failed"
)

// Line is one attempt.
type Line struct {
	// The attacker shows the identity Who to the receiver To.
	Name, Who, To string
	Expected      Expectation
	Got           string
	Detail        string `json:",omitempty"`
	// Agent identifies the attempt in the audit log of an API server, and
	// Status is the status of the answer. Recorded is set if the log must have
	// a line.
	Agent        string `json:",omitempty"`
	Status       int    `json:",omitempty"`
	Recorded     bool   `json:",omitempty"`
	Began, Ended time.Time
}

// OK reports whether the attempt ended as expected.
func (l Line) OK() bool {
	switch l.Expected {
	case Open:
		return l.Got != failed
	case Nothing:
		return l.Got == sent
	case Refused, Closed, Untold:
	}
	return l.Got == string(l.Expected)
}

func (l Line) String() string {
	return fmt.Sprintf("%s, as %s, at %s: %s (want %s) %s", l.Name, l.Who, l.To, l.Got, l.Expected, l.Detail)
}

// attacker is one run of the attack.
type attacker struct {
	Config
	run string
	// api and config are the ports of API servers and configuration servers.
	api, config uint16
	// awaited bounds the wait for a certificate.
	awaited time.Duration

	mu    sync.Mutex
	out   *json.Encoder
	loot  io.Writer
	count int
	errs  []error
}

// Run makes every attempt once, then again and again until the time is up, and
// writes a line for each attempt. The error lists what prevented attempts.
func Run(ctx context.Context, c Config, out io.Writer) (err error) {
	loot, err := os.OpenFile(c.Loot, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, loot.Close()) }()
	lasts := time.Duration(c.Seconds) * time.Second
	a := &attacker{
		Config: c, run: fmt.Sprint(time.Now().UnixMilli()), out: json.NewEncoder(out), loot: loot,
		api: site.APIPort, config: site.ConfigServerPort, awaited: 15 * time.Second,
	}
	switch c.Part {
	case Secrets:
		a.secrets(ctx, lasts)
	case Wire:
		a.wire(ctx, lasts)
	default:
		return fmt.Errorf("part %q: must be %s or %s", c.Part, Secrets, Wire)
	}
	return errors.Join(a.errs...)
}

// secrets makes each attempt at least once, however long that takes. The
// attempts without a single receiver run beside it.
func (a *attacker) secrets(ctx context.Context, lasts time.Duration) {
	timed, stop := context.WithTimeout(ctx, lasts)
	defer stop()
	found := a.search(ctx)
	a.bmcs(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { a.betweenHostsAndBMCs(timed) })
	beside.Go(func() { a.adverts(timed) })
	beside.Go(func() { a.packets(timed) })
	found = append(found, a.joins(ctx, found)...)
	for first := true; first || timed.Err() == nil; first = false {
		a.apis(ctx, found)
		a.kubelets(ctx, found)
		a.configServers(ctx, found)
		a.ports(ctx, found)
	}
	beside.Wait()
}

// note writes a line. It drops attempts that the end of the time cut off.
func (a *attacker) note(ctx context.Context, l Line) {
	if ctx.Err() != nil && l.Got == failed {
		return
	}
	l.Ended = time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.out.Encode(l); err != nil {
		a.errs = append(a.errs, err)
	}
}

// keep stores an answer, whatever it is.
func (a *attacker) keep(text []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.loot.Write(append(text, '\n')); err != nil {
		a.errs = append(a.errs, err)
	}
}

// at returns the URL of a host's port.
func (a *attacker) at(h Host, port uint16) string {
	return "https://" + netip.AddrPortFrom(h.Machine.Address, port).String()
}

// agent returns a new name for one request.
func (a *attacker) agent() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count++
	return fmt.Sprintf("hostile/%s-%d", a.run, a.count)
}

// trouble records an error that prevented an attempt.
func (a *attacker) trouble(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.errs = append(a.errs, err)
}
