package attack

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/decide/ports"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/access"
)

// bmcPort is the port of BMCs.
const bmcPort = 443

// knock bounds the attempt to connect.
const knock = 2 * time.Second

// ports tries each port that the table of ports closes to a worker, and sends
// to those that never answer.
func (a *attacker) ports(ctx context.Context, found []identity) {
	var all sync.WaitGroup
	for _, h := range a.ControlPlanes {
		for _, p := range ports.Table() {
			if p.From != ports.Planes && p.From != ports.Itself {
				continue
			}
			for n := p.First; n <= p.Last; n++ {
				to := netip.AddrPortFrom(h.Machine.Address, n)
				if slices.Contains(p.Protocols, ports.TCP) {
					all.Go(func() { a.knock(ctx, h.Name, p.Who, to) })
				} else {
					all.Go(func() { a.shout(ctx, h.Name, p.Who, to) })
				}
			}
		}
		all.Go(func() { a.race(ctx, h, found) })
	}
	all.Wait()
}

func (a *attacker) knock(ctx context.Context, host, who string, to netip.AddrPort) {
	l := Line{Name: fmt.Sprintf("port %d, %s", to.Port(), who), Who: "nobody", To: host, Expected: Closed, Got: string(Closed), Began: time.Now()}
	defer func() { a.note(ctx, l) }()
	conn, err := (&net.Dialer{Timeout: knock}).DialContext(ctx, "tcp", to.String())
	if err != nil {
		l.Detail = err.Error()
		return
	}
	l.Got = answered
	_ = conn.Close() // a connection is enough
}

// shout sends data of no protocol, as much as one packet holds.
func (a *attacker) shout(ctx context.Context, host, who string, to netip.AddrPort) {
	l := Line{Name: fmt.Sprintf("packets to port %d, %s", to.Port(), who), Who: "nobody", To: host, Expected: Nothing, Got: failed, Began: time.Now()}
	defer func() { a.note(ctx, l) }()
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", to.String())
	if err != nil {
		l.Detail = err.Error()
		return
	}
	defer func() { _ = conn.Close() }()
	for range 20 {
		_, _ = conn.Write(make([]byte, 1400)) // an ICMP error is an answer too
	}
	l.Got = sent
}

// race asks the etcd keeper which host yields, with every certificate that the
// attacker has.
func (a *attacker) race(ctx context.Context, h Host, found []identity) {
	at := netip.AddrPortFrom(h.Machine.Address, state.RacePort).String()
	for _, who := range found {
		if who.cert == nil && who.name != "nobody" {
			continue
		}
		l := Line{Name: "who gives way", Who: who.name, To: h.Name, Expected: Refused, Got: answered, Began: time.Now()}
		if err := shake(ctx, at, who.cert); err != nil {
			l.Got, l.Detail = string(Refused), err.Error()
		}
		a.note(ctx, l)
	}
}

// shake returns nil if a server accepts a certificate. With TLS 1.3 only the
// first data from the server shows that.
func shake(ctx context.Context, at string, cert *tls.Certificate) error {
	config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
	if cert != nil {
		config.Certificates = []tls.Certificate{*cert}
	}
	conn, err := (&tls.Dialer{Config: config, NetDialer: &net.Dialer{Timeout: knock}}).DialContext(ctx, "tcp", at)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(knock)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "GET /race HTTP/1.1\r\nHost: race\r\n\r\n"); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// bmcs tries each BMC on the fencing network, with common default accounts.
func (a *attacker) bmcs(ctx context.Context) {
	for _, h := range a.ControlPlanes {
		for _, account := range []string{"", "root:calvin@", "admin:admin@"} {
			who := newIdentity("the account "+account, "", nil)
			for _, attempt := range []access.Attempt{
				{Name: "the systems of a BMC", Method: http.MethodGet, Path: "/redfish/v1/Systems"},
				{Name: "the accounts of a BMC", Method: http.MethodGet, Path: "/redfish/v1/AccountService/Accounts"},
				{
					Name: "a control plane off", Method: http.MethodPost, Body: `{"ResetType":"ForceOff"}`,
					Path: "/redfish/v1/Systems/" + h.Name + "/Actions/ComputerSystem.Reset",
				},
			} {
				a.request(ctx, who, "BMC of "+h.Name, "https://"+account+netip.AddrPortFrom(h.BMC, bmcPort).String(), attempt)
			}
		}
	}
}
