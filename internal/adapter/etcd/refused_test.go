package etcd

import (
	"net"
	"testing"
)

// TestWhoRefusesConnectionsDoesNotRun: one that takes them and says nothing may run.
func TestWhoRefusesConnectionsDoesNotRun(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(Config{ClientURL: "https://" + listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if c.Refused(t.Context()) {
		t.Error("somebody listens")
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if !c.Refused(t.Context()) {
		t.Error("nobody listens")
	}
}
