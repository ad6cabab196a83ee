// Package ext is where whoever sells more than Traefik adds to its
// configuration. A release adds nothing; Traefik does not compile without it.
package ext

// HTTP adds to the configuration of HTTP.
type HTTP struct{}

// Router adds to the configuration of a router of HTTP.
type Router struct{}
