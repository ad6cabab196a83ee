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

// trap leads what is sent to addresses of others to this host, where somebody with
// a certificate of his own answers.
type trap struct {
	name      string
	nic       string
	addresses []netip.Addr
	// victims are who believe it.
	victims []Place
	// ports are those of the addresses, at the own one that answers.
	ports []uint16
	at    uint16
}

// lead holds a trap until the time is up. Whoever verifies who answers says
// nothing there.
func (a *attacker) lead(ctx context.Context, t trap) {
	l := Line{Name: t.name, Who: "whoever has the addresses", To: fmt.Sprint(t.addresses), Expected: Untold, Got: string(Untold), Began: time.Now()}
	// The line is written also where the time is up.
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

// hold returns how many came, and how many said something.
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

// answering is a server with a certificate that nobody vouches for. It keeps all
// that it is told, and says that a machine is off.
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

// quietly hears nothing: each handshake that somebody breaks off is a line.
type quietly struct{}

func (quietly) Write(p []byte) (int, error) { return len(p), nil }

func (t trap) table() string { return fmt.Sprintf("hostile%d", t.at) }

// redirect leads packets for the addresses to the own port, before the rules of
// Services.
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
