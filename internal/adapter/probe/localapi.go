package probe

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/model/state"
)

// LocalAPI asks this host's own API server whether it is ready, and puts the
// answer into the view. It is unknown until the cluster's CA is on the host.
type LocalAPI struct {
	// Address is the address of the API server, "127.0.0.1:6443" if empty.
	Address string
	// CA is the file with the CA that verifies it.
	CA string
	// Dial connects to it; nil uses the host's own network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	read   []byte
	client *http.Client
}

// Name returns the name that is shown to people.
func (*LocalAPI) Name() string { return "local API server" }

// Run repeats the question until the context ends.
func (l *LocalAPI) Run(ctx context.Context, update func(func(*state.NetworkView))) error {
	var told state.Fact[bool]
	var api watched
	for ctx.Err() == nil {
		v, known := l.ask(ctx)
		if known && ctx.Err() == nil {
			api = api.next(v)
			if now := state.Known(api.well); now != told && (told.Known || !api.undecided()) {
				told = now
				update(func(v *state.NetworkView) { v.LocalAPI = now })
			}
		}
		pause(ctx, api.soon)
	}
	return nil
}

// ask asks once; known is false if there is no CA to verify an answer with.
func (l *LocalAPI) ask(ctx context.Context) (v verdict, known bool) {
	if !l.trust() {
		return bad, false
	}
	address := l.Address
	if address == "" {
		address = fmt.Sprintf("127.0.0.1:%d", apilb.ServerPort)
	}
	_, v = get(ctx, l.client, "https://"+address+apilb.ReadyPath)
	return v, true
}

// trust reads the CA again if it has changed, and reports whether there is one.
func (l *LocalAPI) trust() bool {
	pem, err := os.ReadFile(l.CA)
	if err != nil {
		return false
	}
	if l.client != nil && bytes.Equal(pem, l.read) {
		return true
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return false
	}
	transport := oneConnection()
	if l.Dial != nil {
		transport.DialContext = l.Dial
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, ServerName: apilb.VerifyName, MinVersion: tls.VersionTLS12}
	if l.client != nil {
		l.client.CloseIdleConnections()
	}
	l.read, l.client = pem, &http.Client{Transport: transport}
	return true
}
