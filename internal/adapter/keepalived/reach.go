package keepalived

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// reachPorts are the ports that are tried: API server, kubelet and haproxy. A
// host that is overloaded may drop connections on one port, hardly on all; a
// refused connection is an answer of the host itself.
var reachPorts = []uint16{6443, 10250, 9445}

// Answers reports whether a host answers on any port before the context ends.
func Answers(ctx context.Context, a netip.Addr) bool {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	answered := make(chan bool, len(reachPorts))
	var all sync.WaitGroup
	for _, port := range reachPorts {
		all.Go(func() { answered <- answers(ctx, netip.AddrPortFrom(a, port)) })
	}
	go func() { all.Wait(); close(answered) }()
	for yes := range answered {
		if yes {
			return true
		}
	}
	return false
}

func answers(ctx context.Context, to netip.AddrPort) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
	if err == nil {
		_ = conn.Close()
		return true
	}
	return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ECONNRESET)
}
