package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc/credentials"
)

// Config reads the identity's files for one connection.
func (id Identity) Config() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(id.Cert, id.Key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate %s of etcd's client: %w", id.Cert, err)
	}
	bundle, err := os.ReadFile(id.CA)
	if err != nil {
		return nil, fmt.Errorf("read etcd's authorities: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("read etcd's authorities: %s holds no certificate", id.CA)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, RootCAs: roots}, nil
}

// files are credentials that are read for each connection, so that renewed
// certificates, and even a renewed CA, need no restart.
type files struct{ id Identity }

// ClientHandshake reads the files and makes the connection with them.
func (f files) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	cfg, err := f.id.Config()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(cfg).ClientHandshake(ctx, authority, raw)
}

// ServerHandshake is never called: these credentials are a client's.
func (f files) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, fmt.Errorf("etcd's client serves nothing")
}

// Info returns the protocol: the connection is encrypted.
func (f files) Info() credentials.ProtocolInfo { return credentials.NewTLS(nil).Info() }

// Clone returns the same value: nothing in it can change.
func (f files) Clone() credentials.TransportCredentials { return f }

// OverrideServerName does nothing: the server name is the dialled address.
func (f files) OverrideServerName(string) error { return nil }
