package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// leads is an etcd whose leadership does not move. It tells how long its caller waits.
type leads struct {
	pb.UnimplementedMaintenanceServer
	waits chan time.Duration
}

func (l *leads) MoveLeader(ctx context.Context, _ *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	until, ends := ctx.Deadline()
	if !ends {
		until = time.Now().Add(time.Hour)
	}
	l.waits <- time.Until(until)
	return nil, errors.New("the other member was not elected")
}

// In the lab a host that was to leave for an upgrade waited for good: the other member had been
// too busy for its election, raft had given the transfer up, and etcd waited for its caller.
func TestATransferOfTheLeadershipEnds(t *testing.T) {
	n := newNode(t, "alpha", newAuthority(t, t.TempDir()))
	certificate, err := tls.LoadX509KeyPair(n.serves.Cert, n.serves.Key)
	must(t, err)
	listener, err := net.Listen("tcp", n.client)
	must(t, err)
	l := &leads{waits: make(chan time.Duration, 1)}
	server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&certificate)))
	pb.RegisterMaintenanceServer(server, l)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	if err := n.etcd.MoveLeader(t.Context(), 7); err == nil || !strings.Contains(err.Error(), "was not elected") {
		t.Errorf("%v", err)
	}
	if waits := <-l.waits; waits > leadLimit {
		t.Errorf("etcd may take %s, and %s are enough", waits, leadLimit)
	}
}
