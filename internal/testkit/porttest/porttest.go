// Package porttest gives tests ports on the loopback addresses that nobody else
// takes.
//
// A test that listens on port 0, closes, and names the port to a program loses
// it now and then: the kernel gives the same port to the next connection or
// listener that asks for any. Ports from here are outside of the range that the
// kernel chooses from (net.ipv4.ip_local_port_range, 32768 to 60999), and each
// belongs to one test process of the machine until that process ends.
package porttest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// first and count are the ports to choose from. Holdfast's own fixed ports
// (docs/ports.md) and Kubernetes' node ports are elsewhere.
const first, count = 24000, 5000

// held stores each reservation for the life of the process, because a listener
// that is garbage-collected would close.
var held = make(chan net.Listener, count)

// Take returns a port that nobody listens on and that no other test process
// gets. The port stays with this process until it ends, even while nobody
// listens on it.
func Take() (uint16, error) {
	start := rand.IntN(count) //nolint:gosec // no secret
	for i := range count {
		port := first + (start+i)%count
		// An abstract socket is a lock that the kernel releases with its
		// process. Like ports it belongs to a network namespace.
		lock, err := net.Listen("unix", "@holdfast-test-port-"+strconv.Itoa(port)) //nolint:noctx // it does not wait
		if err != nil {
			continue // another test has it
		}
		if !unused(port) {
			_ = lock.Close()
			continue
		}
		held <- lock
		return uint16(port), nil
	}
	return 0, errors.New("no port is free for a test: all are taken")
}

// unused reports whether nobody listens on the port, neither with TCP nor with
// UDP.
func unused(port int) bool {
	address := ":" + strconv.Itoa(port)
	stream, err := net.Listen("tcp", address) //nolint:noctx // closed at once
	if err != nil {
		return false
	}
	packets, err := net.ListenPacket("udp", address) //nolint:noctx // closed at once
	if err != nil {
		_ = stream.Close()
		return false
	}
	return errors.Join(stream.Close(), packets.Close()) == nil
}

// Free is Take for a test, which fails if there is no port.
func Free(t testing.TB) uint16 {
	t.Helper()
	port, err := Take()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Address returns a free port on 127.0.0.1, as HOST:PORT.
func Address(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Free(t))
}
