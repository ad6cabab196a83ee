// Package attack is root on a worker who wants to be more: he shows the API
// servers, the configuration servers and the kubelets of control planes each
// secret that lies on his host, knocks at their ports, and says on the wire that
// their addresses are his. Each attempt is one line of JSON. It is for a lab.
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

// Part is what is attempted.
type Part string

// The parts.
const (
	// Secrets is all that must be refused.
	Secrets Part = "secrets"
	// Wire is what VRRP and ARP cannot keep from who is on the segment: SECURITY.md
	// says so. Nobody may tell him anything for it.
	Wire Part = "wire"
)

// Config is what root on a worker knows of his site.
type Config struct {
	Part Part
	// Seconds is for how long.
	Seconds       int
	Own           Host
	ControlPlanes []Host
	// APIVIPs are of IPv4, as all addresses here.
	APIVIPs []netip.Addr
	// Cluster is the name that router ids follow from.
	Cluster string
	// MachineNIC and FencingNIC are the own host's.
	MachineNIC, FencingNIC string
	// Roots are where secrets are looked for, Loot is the file of all that was told.
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

// Place is an address and its NIC's.
type Place struct {
	Address netip.Addr
	MAC     string
}

// Expectation is what has to become of an attempt.
type Expectation string

// The expectations.
const (
	// Refused is an answer that says no.
	Refused Expectation = "refused"
	// Closed is no connection.
	Closed Expectation = "closed"
	// Nothing is that nobody minds: what was sent has no answer.
	Nothing Expectation = "nothing"
	// Untold is that nobody who was led here said a word.
	Untold Expectation = "untold"
	// Open is what a worker may, or what SECURITY.md says is not kept.
	Open Expectation = "open"
)

// What became of an attempt, beside the words above.
const (
	answered = "answered"
	sent     = "sent"
	told     = "told"
	failed   = "failed"
)

// Line is an attempt.
type Line struct {
	// Who is the identity that was shown, To whom.
	Name, Who, To string
	Expected      Expectation
	Got           string
	Detail        string `json:",omitempty"`
	// Agent is how the audit log of an API server knows it, Status what was
	// answered; Recorded is whether a line must be there.
	Agent        string `json:",omitempty"`
	Status       int    `json:",omitempty"`
	Recorded     bool   `json:",omitempty"`
	Began, Ended time.Time
}

// OK reports whether what had to happen did.
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

// attacker is one run.
type attacker struct {
	Config
	run string
	// api and config are where API servers and configuration servers answer.
	api, config uint16
	// awaited is how long a certificate is waited for.
	awaited time.Duration

	mu    sync.Mutex
	out   *json.Encoder
	loot  io.Writer
	count int
	errs  []error
}

// Run attempts everything once, and again and again until the time is up, and writes
// a line for each attempt. The error says what kept it from attempting something.
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

// secrets makes each attempt at least once, however long that takes; what is sent to
// nobody in particular goes on beside it.
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

// note writes a line. What the end of the time cut off is none.
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

// keep keeps what was told, whatever it is.
func (a *attacker) keep(text []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.loot.Write(append(text, '\n')); err != nil {
		a.errs = append(a.errs, err)
	}
}

// at is where a host answers.
func (a *attacker) at(h Host, port uint16) string {
	return "https://" + netip.AddrPortFrom(h.Machine.Address, port).String()
}

// agent is a name for one request.
func (a *attacker) agent() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count++
	return fmt.Sprintf("hostile/%s-%d", a.run, a.count)
}

// trouble notes what could not be attempted at all.
func (a *attacker) trouble(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.errs = append(a.errs, err)
}
