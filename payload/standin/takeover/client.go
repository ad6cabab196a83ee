package takeover

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// tryTimeout bounds one attempt at a removal. etcd silently drops a change of
// the membership that comes while another is pending.
const tryTimeout = 500 * time.Millisecond

// confirmKey is the only key that a take-over writes. It lies outside of the
// keys of Kubernetes.
const confirmKey = "holdfast/taken-over"

// api is the survivor's ordinary client API.
type api struct{ conn *grpc.ClientConn }

// dialAPI connects in the background, with quick retries: etcd serves this API
// only once it has a leader, and each further 100 ms would be a gap in writes.
func dialAPI(req Request) (*api, error) {
	u, err := url.Parse(req.ClientURL)
	if err != nil {
		return nil, fmt.Errorf("read clientURL: %w", err)
	}
	creds := insecure.NewCredentials()
	if u.Scheme == "https" {
		cfg, err := req.ClientTLS.config()
		if err != nil {
			return nil, err
		}
		creds = credentials.NewTLS(cfg)
	}
	quick := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: retryEvery, Multiplier: 1.3, MaxDelay: 5 * retryEvery},
		MinConnectTimeout: tryTimeout,
	}
	conn, err := grpc.NewClient("passthrough:///"+u.Host, grpc.WithTransportCredentials(creds),
		grpc.WithConnectParams(quick), grpc.WithNoProxy())
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", req.ClientURL, err)
	}
	conn.Connect()
	return &api{conn: conn}, nil
}

func (a *api) close() { _ = a.conn.Close() }

// status returns etcd's own status; it needs no quorum.
func (a *api) status(ctx context.Context) (*pb.StatusResponse, error) {
	return pb.NewMaintenanceClient(a.conn).Status(ctx, &pb.StatusRequest{})
}

// corrupt returns a stop if etcd has found its data corrupt.
func corrupt(st *pb.StatusResponse) error {
	for _, e := range st.Errors {
		if strings.Contains(e, pb.AlarmType_CORRUPT.String()) {
			return refuse(Corrupt, "etcd reports that its data is corrupt ("+e+"): restore from a backup")
		}
	}
	return nil
}

// remove tries to remove the fenced member until that succeeds, because etcd
// may for some time consider too few members healthy.
func (a *api) remove(ctx context.Context, target ID) error {
	var last error
	for {
		gone, err := a.removeOnce(ctx, target)
		if gone {
			return nil
		}
		if s, ok := errors.AsType[*stop](err); ok {
			return s
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if !pause(ctx, retryEvery) {
			return &stop{Unfinished, NotRemoved, fmt.Sprintf("remove member %s: %v", target, last)}
		}
	}
}

// confirm writes one key and waits for the answer. The survivor's disk then has
// the removal as committed: etcd keeps a commit index in memory until the next
// entry, and a survivor that lost it could not start alone.
func (a *api) confirm(ctx context.Context, evidence string) error {
	for {
		err := a.put(ctx, evidence)
		if err == nil {
			return nil
		}
		if !pause(ctx, retryEvery) {
			return &stop{Unfinished, NotConfirmed, fmt.Sprintf("write %s as the only voter: %v; if this lasts, stop etcd, run etcd-standin settle, and start it", confirmKey, err)}
		}
	}
}

func (a *api) put(ctx context.Context, evidence string) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	_, err := pb.NewKVClient(a.conn).Put(ctx, &pb.PutRequest{Key: []byte(confirmKey), Value: []byte(evidence)})
	return err
}

func (a *api) removeOnce(ctx context.Context, target ID) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	st, err := a.status(ctx)
	if err != nil {
		return false, err
	}
	if err := corrupt(st); err != nil {
		return false, err
	}
	_, err = pb.NewClusterClient(a.conn).MemberRemove(ctx, &pb.MemberRemoveRequest{ID: uint64(target)})
	return err == nil || errors.Is(rpctypes.Error(err), rpctypes.ErrMemberNotFound), err
}
