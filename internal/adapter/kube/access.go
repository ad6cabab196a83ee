package kube

import (
	"errors"
	"fmt"
	"net/url"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// HomeKubeconfig is where kubectl looks for a kubeconfig without being told.
var HomeKubeconfig = clientcmd.RecommendedHomeFile

// Access says how the API of a cluster is reached: with whose account, at which
// server, how fast. Nothing else opens a kubeconfig.
type Access struct {
	// Kubeconfig is the file with the account. Empty stands for the account of the
	// pod that this process runs in.
	Kubeconfig string
	// Server is the base URL to ask in place of the kubeconfig's, if not empty.
	Server string
	// Name is the name that the server's certificate must say, whichever server is
	// asked. Empty stands for the kubeconfig's choice, which is mostly the server.
	Name string
	// Limit bounds the requests a second.
	Limit Limit
}

// Limit bounds the requests a second of one client.
type Limit int

const (
	// NoLimit is for a person and for an agent, who wait for each answer. The API
	// server shares itself out (API priority and fairness). With client-go's 5
	// requests a second a status waited 3 s for the events of the status before.
	NoLimit Limit = iota
	// LoopLimit is client-go's 5 requests a second, in bursts of 10. It holds back a
	// controller that changes the same object again and again.
	LoopLimit
)

// Config returns the access in the form of client-go. It reaches nothing yet.
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

// Client returns a client. It reaches nothing yet.
func (a Access) Client() (*Client, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	return newClient(cfg)
}

func newClient(cfg *rest.Config) (*Client, error) {
	set, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &Client{set: set}, nil
}

// Open returns a client of the kubeconfig file. It reaches nothing yet.
func Open(kubeconfig string) (*Client, error) { return Access{Kubeconfig: kubeconfig}.Client() }

// OpenAt is Open for another server than the kubeconfig's: a URL, or empty.
// What the server's certificate must say stays as the kubeconfig has it.
func OpenAt(kubeconfig, server string) (*Client, error) {
	return Access{Kubeconfig: kubeconfig, Server: server}.Client()
}

// ClientCertificates returns the certificates that a kubeconfig holds itself, as
// PEM. One that names files holds none. The error does not quote the kubeconfig,
// which may hold keys.
func ClientCertificates(kubeconfig []byte) ([]byte, error) {
	cfg, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, errors.New("it is no kubeconfig")
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
