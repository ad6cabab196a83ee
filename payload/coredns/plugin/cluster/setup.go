package cluster

import (
	"path/filepath"
	"sync/atomic"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
)

var log = clog.NewWithPlugin("cluster")

// serving is the file of the configuration that serves. The next configuration
// begins with its names, so that a reload does not lose them to a broken file.
var serving atomic.Pointer[file]

func init() { plugin.Register("cluster", setup) }

func setup(c *caddy.Controller) error {
	path, err := parse(c)
	if err != nil {
		return plugin.Error("cluster", err)
	}
	handler := &Cluster{file: newFile(path)}
	stop := make(chan struct{})
	c.OnStartup(func() error {
		handler.file.follows(serving.Swap(handler.file))
		if err := handler.file.look(); err != nil {
			log.Error(err)
		}
		if handler.file.zone.Load() == empty {
			log.Warningf("no names yet: waiting for %s", path)
		}
		go handler.file.follow(stop)
		return nil
	})
	c.OnShutdown(func() error {
		close(stop)
		return nil
	})
	dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
		handler.Next = next
		return handler
	})
	return nil
}

// parse returns the path of the zone file.
func parse(c *caddy.Controller) (path string, err error) {
	for i := 0; c.Next(); i++ {
		if i > 0 {
			return "", plugin.ErrOnce
		}
		args := c.RemainingArgs()
		if len(args) != 1 {
			return "", c.ArgErr()
		}
		path = args[0]
		if c.NextBlock() {
			return "", c.Errf("unknown property '%s'", c.Val())
		}
	}
	if root := dnsserver.GetConfig(c).Root; !filepath.IsAbs(path) && root != "" {
		path = filepath.Join(root, path)
	}
	return path, nil
}
