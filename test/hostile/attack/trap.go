package attack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/lab/bmc"
)

// trap leads packets for other hosts' addresses to this host, where a server
// with its own certificate answers.
type trap struct {
	name      string
	nic       string
	addresses []netip.Addr
	// victims are the hosts that are deceived.
	victims []Place
	// ports are the ports of the addresses, at the port of this host that
	// answers.
	ports []uint16
	at    uint16
}

// lead holds a trap until the time is up. A client that verifies the server
// sends no request there.
func (a *attacker) lead(ctx context.Context, t trap) {
	l := Line{Name: t.name, Who: "whoever has the addresses", To: fmt.Sprint(t.addresses), Expected: Untold, Got: string(Untold), Began: time.Now()}
	// The line is written even if the time is up.
	defer func() { a.note(context.WithoutCancel(ctx), l) }()
	connections, words, err := a.hold(ctx, t)
	l.Detail = fmt.Sprintf("%d connections, %d requests", connections, words)
	switch {
	case err != nil:
		l.Got, l.Detail = failed, err.Error()
	case words > 0:
		l.Got = told
	}
}

// hold returns the number of connections, and of requests on them.
func (a *attacker) hold(ctx context.Context, t trap) (connections, words int64, err error) {
	wire, err := open(t.nic)
	if err != nil {
		return 0, 0, err
	}
	defer wire.close()
	var came, said atomic.Int64
	server, listener, err := a.answering(ctx, t, &came, &said)
	if err != nil {
		return 0, 0, err
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) }) // it ends with Close
	defer serving.Wait()
	defer func() { _ = server.Close() }()
	if err := redirect(ctx, t); err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, direct(context.WithoutCancel(ctx), t)) }()
	err = repeatedly(ctx, time.Hour, func() error {
		for _, victim := range t.victims {
			for _, address := range t.addresses {
				if err := wire.send(claim(address, wire.nic.HardwareAddr, victim)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return came.Load(), said.Load(), err
}

// answering returns a server with a certificate that nobody vouches for. It
// stores every request, and answers that a machine is off.
func (a *attacker) answering(ctx context.Context, t trap, came, said *atomic.Int64) (*http.Server, net.Listener, error) {
	var names []string
	for _, address := range t.addresses {
		names = append(names, address.String())
	}
	cert, err := bmc.NewCertificate("hostile", names, time.Now())
	if err != nil {
		return nil, nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf(":%d", t.at))
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{
		ReadHeaderTimeout: within, ErrorLog: log.New(quietly{}, "", 0),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				came.Add(1)
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			said.Add(1)
			if text, err := httputil.DumpRequest(r, true); err == nil {
				a.keep(text)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"@odata.id":"` + r.URL.Path + `","PowerState":"Off"}`))
		}),
	}
	return server, tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}), nil
}

// quietly drops log lines: the server writes one for each broken handshake.
type quietly struct{}

func (quietly) Write(p []byte) (int, error) { return len(p), nil }

func (t trap) table() string { return fmt.Sprintf("hostile%d", t.at) }

// redirect leads packets for the addresses to the port of this host, before the
// rules of Services.
func redirect(ctx context.Context, t trap) error {
	lines := [][]string{
		{"add", "table", "ip", t.table()},
		{"add", "chain", "ip", t.table(), "led", "{ type nat hook prerouting priority -150 ; }"},
	}
	for _, address := range t.addresses {
		for _, port := range t.ports {
			lines = append(lines, []string{
				"add", "rule", "ip", t.table(), "led", "ip", "daddr", address.String(), "tcp", "dport", fmt.Sprint(port), "redirect", "to", fmt.Sprintf(":%d", t.at),
			})
		}
	}
	for _, line := range lines {
		if _, err := host.Run(ctx, host.Command("nft", slices.Clone(line)...)); err != nil {
			return err
		}
	}
	return nil
}

func direct(ctx context.Context, t trap) error {
	_, err := host.Run(ctx, host.Command("nft", "delete", "table", "ip", t.table()))
	return err
}
