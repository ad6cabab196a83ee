package mdns

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
)

var log = clog.NewWithPlugin("mdns")

// serving is the browser of the configuration that serves. The next
// configuration begins with its neighbours, so that a reload forgets none.
var serving atomic.Pointer[browser]

func init() { plugin.Register("mdns", setup) }

func setup(c *caddy.Controller) error {
	conf, err := parse(c)
	if err != nil {
		return plugin.Error("mdns", err)
	}
	m := &MDNS{conf: conf, browser: newBrowser(conf), now: time.Now}
	stop := make(chan struct{})
	c.OnStartup(func() error {
		m.browser.follow(serving.Swap(m.browser))
		go m.browser.run(stop)
		return nil
	})
	c.OnShutdown(func() error {
		close(stop)
		return nil
	})
	dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
		m.Next = next
		return m
	})
	return nil
}

// parse reads the configuration.
func parse(c *caddy.Controller) (config, error) {
	conf := config{services: map[string]int{}}
	for i := 0; c.Next(); i++ {
		if i > 0 {
			return conf, plugin.ErrOnce
		}
		args := c.RemainingArgs()
		if len(args) != 1 {
			return conf, c.ArgErr()
		}
		zones := plugin.Host(args[0]).NormalizeExact()
		if len(zones) != 1 {
			return conf, c.Errf("%q is not a domain", args[0])
		}
		conf.zone = zones[0]
		for c.NextBlock() {
			if err := property(c, &conf); err != nil {
				return conf, err
			}
		}
	}
	if len(conf.bind) == 0 {
		return conf, c.Err("needs an address to bind to")
	}
	return conf, nil
}

func property(c *caddy.Controller, conf *config) error {
	name, args := c.Val(), c.RemainingArgs()
	if len(args) == 0 {
		return c.ArgErr()
	}
	switch name {
	case "bind":
		addrs, err := parseAddrs(args)
		if err != nil {
			return c.Err(err.Error())
		}
		conf.bind = append(conf.bind, addrs...)
	case "filter":
		if len(args) > 1 || args[0] == "" {
			return c.ArgErr()
		}
		conf.filter = strings.ToLower(args[0])
	case "except":
		for _, a := range args {
			conf.except = append(conf.except, strings.ToLower(a))
		}
	case "srv":
		return serviceProperty(c, conf, args)
	default:
		return c.Errf("unknown property '%s'", name)
	}
	return nil
}

// leastServers is the number of hosts below which a service is not answered: a
// client that got fewer at first would go on with those.
const leastServers = 3

func serviceProperty(c *caddy.Controller, conf *config, args []string) error {
	least := leastServers
	if len(args) == 2 {
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 1 {
			return c.Errf("%q is not a number of servers", args[1])
		}
		least = n
	}
	kind := strings.ToLower(args[0])
	labels := strings.Split(kind, ".")
	if len(args) > 2 || len(labels) != 2 || len(labels[0]) < 2 || labels[0][0] != '_' || labels[1] != "_tcp" && labels[1] != "_udp" {
		return c.Errf("%q is not a service such as _http._tcp", strings.Join(args, " "))
	}
	conf.services[kind] = least
	return nil
}
