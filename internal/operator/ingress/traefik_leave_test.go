package ingress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	render "github.com/holdfast/holdfast/internal/render/router"
)

// TestWhoSpeaksLateToARouterThatLeavesIsNotKeptWaiting: clients dial ahead, and
// may send their first bytes after the router has closed its ports. They must
// then hear that nobody is there, and not wait for the end of its grace time.
func TestWhoSpeaksLateToARouterThatLeavesIsNotKeptWaiting(t *testing.T) {
	r, ports := onPorts(t)
	pair := r.rendered(configv1.HighlyAvailableTopologyMode)
	pair.Drain.Accept = time.Second // a short time is enough here
	r.args = render.Arguments(pair)
	r.start()
	dial := func(port int32) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	}
	r.until("it answers", func() bool {
		return r.answer("http", ports[0], "nobody.x.example", "/", nil) > 0 && r.answer("https", ports[1], "nobody.x.example", "/", r.roots()) > 0
	})
	silent := map[string]net.Conn{}
	for scheme, port := range map[string]int32{"http": ports[0], "https": ports[1]} {
		conn, err := dial(port)
		r.c.must(err)
		t.Cleanup(func() { _ = conn.Close() })
		silent[scheme] = conn
	}
	// It has accepted them once it has accepted one that came later.
	if r.answer("http", ports[0], "nobody.x.example", "/", nil) == 0 || r.answer("https", ports[1], "nobody.x.example", "/", r.roots()) == 0 {
		t.Fatal("it does not answer")
	}
	r.stop()
	for _, port := range ports[:2] {
		r.until("it takes no new connections", func() bool {
			conn, err := dial(port)
			if err == nil {
				_ = conn.Close()
			}
			return err != nil
		})
	}
	first := map[string]string{
		"http": "GET / HTTP/1.1\r\nHost: nobody.x.example\r\n\r\n",
		// The head of a handshake's record, and an invalid hello.
		"https": "\x16\x03\x01\x00\x05\x01\x00\x00\x01" + strings.Repeat("\x00", 200),
	}
	for scheme, conn := range silent {
		r.c.must(conn.SetDeadline(time.Now().Add(3 * time.Second)))
		_, _ = io.WriteString(conn, first[scheme]) // refused or taken: the answer tells
		if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: nobody answers, and the connection stays", scheme)
		}
	}
}
