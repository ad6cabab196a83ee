package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// Ports of a cluster that users reach through the lab's doors.
const (
	apiPort    = 6443
	configPort = 22623
)

// doorsFile stores the chosen loopback ports, so that a kubeconfig stays valid
// when the daemon is restarted.
const doorsFile = "doors.json"

// dialTimeout bounds the attempt of a door to reach one address of the cluster.
const dialTimeout = 3 * time.Second

// doors are listeners on the machine's loopback address that lead into the
// lab's machine network.
type doors struct {
	API    int `json:"api"`
	Config int `json:"config"`
}

func (d doors) api() string    { return loopback(d.API) }
func (d doors) config() string { return loopback(d.Config) }

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func (d *daemon) openDoors(ctx context.Context) error {
	_ = readJSON(d.lab.file(doorsFile), &d.doors) // none yet: the kernel chooses
	for _, door := range []struct {
		local  *int
		remote uint16
	}{{&d.doors.API, apiPort}, {&d.doors.Config, configPort}} {
		l, err := listenLoopback(ctx, *door.local)
		if err != nil {
			return err
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		*door.local, _ = strconv.Atoi(port)
		f := forwarder{in: namespace(d.lab.Layout.Switch()), to: d.lab.Layout.APIAddresses(), port: door.remote, log: d.log}
		go f.serve(ctx, l)
	}
	return writeJSON(d.lab.file(doorsFile), d.doors)
}

// listenLoopback listens on a port of the loopback address, or on another one
// if somebody has taken it meanwhile.
func listenLoopback(ctx context.Context, port int) (net.Listener, error) {
	lc := &net.ListenConfig{}
	l, err := lc.Listen(ctx, "tcp", loopback(port))
	if err != nil && port != 0 {
		return lc.Listen(ctx, "tcp", loopback(0))
	}
	return l, err
}

// forwarder passes TCP connections on to a port inside a namespace.
type forwarder struct {
	in   namespace
	to   []netip.Addr
	port uint16
	log  *slog.Logger
}

func (f forwarder) serve(ctx context.Context, l net.Listener) {
	go func() {
		<-ctx.Done()
		_ = l.Close()
	}()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go f.pass(ctx, conn)
	}
}

func (f forwarder) pass(ctx context.Context, client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := f.dial(ctx)
	if err != nil {
		f.log.Debug("forward", "port", f.port, "error", err)
		return
	}
	defer func() { _ = server.Close() }()
	var both sync.WaitGroup
	both.Go(func() { copyHalf(server, client) })
	both.Go(func() { copyHalf(client, server) })
	both.Wait()
}

// dial tries the addresses in order.
func (f forwarder) dial(ctx context.Context) (net.Conn, error) {
	var errs []error
	for _, a := range f.to {
		dctx, cancel := context.WithTimeout(ctx, dialTimeout)
		conn, err := f.in.dial(dctx, "tcp", netip.AddrPortFrom(a, f.port).String())
		cancel()
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no address of the cluster answers: %w", errors.Join(errs...))
}

// copyHalf copies one direction and passes on its end: a half-closed connection
// stays half-closed on the other side.
func copyHalf(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(*net.TCPConn); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	_ = to.Close()
	_ = from.Close()
}
