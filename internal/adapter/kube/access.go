package kube

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"net/url"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// HomeKubeconfig is the path at which kubectl looks for a kubeconfig by default.
var HomeKubeconfig = clientcmd.RecommendedHomeFile

// Access describes how to reach the API of a cluster: with which account, at which
// server, and how fast. No other code opens a kubeconfig.
type Access struct {
	// Kubeconfig is the file with the account. If it is empty, the account is that
	// of the pod in which this process runs.
	Kubeconfig string
	// Server is the base URL to use in place of the kubeconfig's; empty means the
	// kubeconfig's.
	Server string
	// Name is the name that the server's certificate must have, whichever server is
	// asked. If it is empty, the kubeconfig decides, usually by the server's
	// address.
	Name string
	// Limit bounds the requests per second.
	Limit Limit
}

// Limit bounds one client's requests per second.
type Limit int

const (
	// NoLimit is for people and agents, who wait for each answer. The API server
	// itself distributes its capacity (API priority and fairness). With client-go's
	// 5 requests per second, a status waited 3 s for the events of the status
	// before.
	NoLimit Limit = iota
	// LoopLimit is client-go's 5 requests per second, in bursts of 10. It slows down
	// a controller that changes the same object again and again.
	LoopLimit
)

// Config returns the access in the form of client-go. It does not connect yet.
func (a Access) Config() (*rest.Config, error) {
	noticeDeadConnections()
	cfg, err := a.account()
	if err != nil {
		return nil, err
	}
	if a.Server != "" {
		if _, err := url.Parse(a.Server); err != nil {
			return nil, fmt.Errorf("address of the API: %w", err)
		}
		cfg.Host = a.Server
	}
	if a.Name != "" && !cfg.Insecure {
		cfg.ServerName = a.Name
	}
	if a.Limit == NoLimit {
		cfg.QPS = -1
	}
	return cfg, nil
}

// account reads the account, with the server that it names.
func (a Access) account() (*rest.Config, error) {
	if a.Kubeconfig == "" {
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("find the cluster of this pod (elsewhere give --kubeconfig): %w", err)
		}
		return cfg, nil
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", a.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", a.Kubeconfig, err)
	}
	return cfg, nil
}

// Trusts reports whether the account's cluster is that of an authority, given as
// PEM: hosts of two clusters have no authority in common.
func (a Access) Trusts(authority []byte) bool {
	cfg, err := a.Config()
	if err != nil || rest.LoadTLSFiles(cfg) != nil {
		return false
	}
	for _, one := range blocks(authority) {
		if slices.ContainsFunc(blocks(cfg.CAData), func(other []byte) bool { return bytes.Equal(one, other) }) {
			return true
		}
	}
	return false
}

// blocks returns the contents of PEM.
func blocks(text []byte) (out [][]byte) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		out = append(out, block.Bytes)
	}
	return out
}

// Client returns a client. It does not connect yet. The same access gets the same client
// until its kubeconfig changes.
func (a Access) Client() (*Client, error) {
	return lastClients.get(a, func() (*Client, error) {
		cfg, err := a.Config()
		if err != nil {
			return nil, err
		}
		return newClient(cfg)
	})
}

func newClient(cfg *rest.Config) (*Client, error) {
	set, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &Client{set: set}, nil
}

// Serves reports whether the API says within a limit, by this way, that it is ready.
func (a Access) Serves(ctx context.Context, limit time.Duration) bool {
	c, err := a.Client()
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return c.set.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil
}

// Open returns a client for a kubeconfig file. It does not connect yet.
func Open(kubeconfig string) (*Client, error) { return Access{Kubeconfig: kubeconfig}.Client() }

// OpenAt is like Open, but for another server than the kubeconfig's: a URL, or
// empty. The name that the server's certificate must have is still that of the
// kubeconfig.
func OpenAt(kubeconfig, server string) (*Client, error) {
	return Access{Kubeconfig: kubeconfig, Server: server}.Client()
}

// ClientCertificates returns the certificates that a kubeconfig itself contains, as
// PEM. A kubeconfig that names files contains none. The error does not quote the
// kubeconfig, which may hold keys.
func ClientCertificates(kubeconfig []byte) ([]byte, error) {
	cfg, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, errKubeconfig
	}
	return certificatesIn(cfg), nil
}

func certificatesIn(cfg *clientcmdapi.Config) []byte {
	var out []byte
	for _, user := range cfg.AuthInfos {
		out = append(out, user.ClientCertificateData...)
	}
	return out
}
