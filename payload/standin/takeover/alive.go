package takeover

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"
)

// probeEvery is the pause between two probes of the fenced member's address.
const probeEvery = 500 * time.Millisecond

// watchPeer probes the fenced member's peer URLs until the context ends or
// something accepts connections there, which it then sends. A refused
// connection does not count: a fenced host that boots again, with its etcd
// still down, is no living member.
func watchPeer(ctx context.Context, urls []string) <-chan string {
	alive := make(chan string, 1)
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			continue
		}
		go watchAddress(ctx, u.Host, alive)
	}
	return alive
}

func watchAddress(ctx context.Context, address string, alive chan<- string) {
	dialer := net.Dialer{Timeout: 2 * probeEvery}
	for ctx.Err() == nil {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
			select {
			case alive <- fmt.Sprintf("something accepts connections at %s, the peer URL of the fenced member: that member is alive", address):
			default:
			}
			return
		}
		pause(ctx, probeEvery)
	}
}
