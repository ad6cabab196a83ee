// Package bmctest runs simulated controllers for the tests of their clients.
package bmctest

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/holdfast/holdfast/internal/lab/bmc"
)

// Machine obeys its controller at once.
type Machine struct{ On atomic.Bool }

// Power implements bmc.Machine.
func (m *Machine) Power(context.Context) (bool, error) { return m.On.Load(), nil }

// PowerOn implements bmc.Machine.
func (m *Machine) PowerOn(context.Context) error { m.On.Store(true); return nil }

// PowerOff implements bmc.Machine.
func (m *Machine) PowerOff(context.Context) error { m.On.Store(false); return nil }

// Shutdown implements bmc.Machine.
func (m *Machine) Shutdown(context.Context) error { return nil }

// Serve runs a controller until the test ends, and returns its address. Port 0
// stands for any. The port is bound by its number, so that the controller gets
// it back after the quirk unreachable.
func Serve(t testing.TB, s *bmc.Server, address string) string {
	t.Helper()
	free := listen(t, address)
	address = free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	ln := listen(t, address)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return address
}

func listen(t testing.TB, address string) net.Listener {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}
