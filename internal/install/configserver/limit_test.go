package configserver

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// dialFrom connects from a loopback address; open reports whether the server
// keeps the connection.
func dialFrom(t *testing.T, own, server string) (conn net.Conn, open bool) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(own)}, Timeout: 5 * time.Second}
	conn, err := d.DialContext(t.Context(), "tcp", server)
	if err != nil {
		return nil, false
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return conn, false
	}
	_, err = conn.Read(make([]byte, 1))
	return conn, err == nil
}

func TestOneMachineHoldsNoPlaceThatAnotherOneNeeds(t *testing.T) {
	t.Parallel()
	const each = 3
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(Limit(l, each)) }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	server := l.Addr().String()
	var held []net.Conn
	for i := range each {
		conn, open := dialFrom(t, "127.0.0.2", server)
		if !open {
			t.Fatalf("connection %d of %d is refused", i+1, each)
		}
		held = append(held, conn)
	}
	if _, open := dialFrom(t, "127.0.0.2", server); open {
		t.Errorf("%d of one machine are served, want %d", each+1, each)
	}
	if _, open := dialFrom(t, "127.0.0.3", server); !open {
		t.Error("another machine is not served")
	}
	_ = held[0].Close()
	again := false
	for began := time.Now(); !again && time.Since(began) < 5*time.Second; _ = host.Sleep(t.Context(), 10*time.Millisecond) {
		_, again = dialFrom(t, "127.0.0.2", server)
	}
	if !again {
		t.Error("a place that was given up is not given again")
	}
}
