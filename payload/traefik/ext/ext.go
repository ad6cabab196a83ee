// Package ext is the place at which a vendor that sells more than Traefik
// extends its configuration. A release adds nothing; Traefik does not compile
// without the package.
package ext

// HTTP extends the configuration of HTTP.
type HTTP struct{}

// Router extends the configuration of an HTTP router.
type Router struct{}
