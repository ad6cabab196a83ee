package carry

import (
	"context"
	"io"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
)

// EtcdTime bounds one question to etcd, APITime all questions to the API in one look.
const (
	EtcdTime = 3 * time.Second
	APITime  = 10 * time.Second
)

// OpenEtcd opens the etcd of this host, at the loopback address of its family.
func OpenEtcd(files records.Files, host string) (*etcd.Client, error) {
	c := etcd.Config{}
	if p, err := files.Parameters(); err == nil && p.Known && p.Value.Nodes[host].IsValid() {
		own := p.Value.Nodes[host]
		c.ClientURL, c.PeerURL = etcdpod.LocalURL(own), etcdpod.PeerURL(own)
	}
	return etcd.Open(c)
}

// asked is an etcd that can be asked how it is.
type asked interface {
	Status(ctx context.Context) (etcd.MemberStatus, error)
	io.Closer
}

// EtcdStatus opens an etcd and asks it how it is.
func EtcdStatus[E asked](ctx context.Context, open func() (E, error)) (etcd.MemberStatus, error) {
	ctx, stop := context.WithTimeout(ctx, EtcdTime)
	defer stop()
	c, err := open()
	if err != nil {
		return etcd.MemberStatus{}, err
	}
	defer c.Close() //nolint:errcheck // nothing was written
	return c.Status(ctx)
}
