// Command coredns is CoreDNS with the plugins that a cluster needs and no
// others. The main package of CoreDNS itself brings the SDKs of several clouds,
// which a site of one to three machines does not need.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/acl"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/bufsize"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
	_ "github.com/coredns/coredns/plugin/rewrite"
	_ "github.com/coredns/coredns/plugin/template"

	_ "github.com/holdfast/holdfast/payload/coredns/plugin/cluster"
	_ "github.com/holdfast/holdfast/payload/coredns/plugin/mdns"
)

// order is the order in which plugins see a query, whatever the order in a
// Corefile. It is CoreDNS's own: plugins that observe come first, loadbalance
// comes before cache so that cached answers rotate too, and plugins that answer
// come last. Our own plugins stand before cache, because their answers may
// change within a second.
var order = []string{
	"reload", "bufsize", "bind", "ready", "health", "prometheus", "errors", "log", "acl",
	"loadbalance", "rewrite", "cluster", "mdns", "cache", "template", "hosts", "kubernetes",
	"loop", "forward",
}

func main() {
	dnsserver.Directives = order
	coremain.Run()
}
