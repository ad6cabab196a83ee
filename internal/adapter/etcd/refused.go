package etcd

import (
	"context"
	"errors"
	"net"
	"net/url"
	"syscall"
)

// Refused reports whether the host refuses connections where etcd serves clients: etcd
// does not run there, because it opens that port before it reads its data.
func (c *Client) Refused(ctx context.Context) bool {
	u, err := url.Parse(c.cfg.ClientURL)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, statusLimit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return errors.Is(err, syscall.ECONNREFUSED)
	}
	_ = conn.Close()
	return false
}
