package apitest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/testkit/porttest"
)

// startLimit bounds the start of one program, on a machine with other work.
const startLimit = 2 * time.Minute

// token is the administrator's token, of a server that lives only as long as
// the tests.
const token = "holdfast-apitest"

// exit is the end of a program.
type exit struct {
	program string
	err     error
}

type server struct {
	dir   string
	paths map[string]string
	setup Setup
	// etcd is the address at which etcd answers clients.
	etcd      string
	config    *rest.Config
	authority authority
	running   int
	ended     chan exit
}

func (s *server) file(name string) string { return filepath.Join(s.dir, name) }

// start starts everything and waits until the API is ready. All processes end
// with the context.
func (s *server) start(ctx context.Context) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	client, peer := "http://"+ports[0], "http://"+ports[1]
	s.etcd = client
	s.config = &rest.Config{
		Host: "https://" + ports[2], BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		QPS: 200, Burst: 400,
	}
	if err := s.writeFiles(); err != nil {
		return err
	}
	var more []string
	if s.setup.Arguments != nil {
		if more, err = s.setup.Arguments(s.dir); err != nil {
			return err
		}
	}
	s.run(ctx, "etcd", "--data-dir="+s.file("etcd"), "--unsafe-no-fsync", "--name=test", "--initial-cluster=test="+peer,
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer)
	if err := s.ready(ctx, http.DefaultClient, client+"/readyz"); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(ports[2])
	s.run(ctx, "kube-apiserver", append([]string{
		"--etcd-servers=" + client, "--bind-address=127.0.0.1", "--secure-port=" + port,
		"--cert-dir=" + s.file("certs"), "--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=Node,RBAC", "--allow-privileged=true",
		"--enable-admission-plugins=NodeRestriction", "--disable-admission-plugins=ServiceAccount",
		"--token-auth-file=" + s.file("tokens"), "--client-ca-file=" + s.file("ca.crt"), "--enable-bootstrap-token-auth",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + s.file("key"), "--service-account-signing-key-file=" + s.file("key"),
	}, more...)...)
	asAdmin, err := rest.HTTPClientFor(s.config)
	if err != nil {
		return err
	}
	if err := s.ready(ctx, asAdmin, s.config.Host+"/readyz"); err != nil {
		return err
	}
	s.run(ctx, "kube-controller-manager", "--kubeconfig="+s.file("kubeconfig"), "--leader-elect=false", "--secure-port=0",
		"--cluster-signing-cert-file="+s.file("ca.crt"), "--cluster-signing-key-file="+s.file("ca.key"),
		"--controllers="+strings.Join(append(slices.Clone(s.setup.Controllers),
			"job-controller", "garbage-collector-controller", "namespace-controller", "validatingadmissionpolicy-status-controller"), ","))
	return nil
}

// writeFiles writes the files that the programs read.
func (s *server) writeFiles() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	access := api.NewConfig()
	access.Clusters["test"] = &api.Cluster{Server: s.config.Host, InsecureSkipTLSVerify: true}
	access.AuthInfos["test"] = &api.AuthInfo{Token: token}
	access.Contexts["test"] = &api.Context{Cluster: "test", AuthInfo: "test"}
	access.CurrentContext = "test"
	s.authority, err = newAuthority()
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(s.file("ca.crt"), s.authority.cert, 0o600), os.WriteFile(s.file("ca.key"), s.authority.key, 0o600),
		os.WriteFile(s.file("key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600),
		os.WriteFile(s.file("tokens"), []byte(token+`,admin,admin,"system:masters"`+"\n"), 0o600),
		clientcmd.WriteToFile(*access, s.file("kubeconfig")),
	)
}

// run starts a program and writes its output to a file. The program ends with
// this process, however that ends.
func (s *server) run(ctx context.Context, program string, args ...string) {
	s.running++
	go func() {
		log, err := os.Create(s.file(program + ".log"))
		if err == nil {
			args = append([]string{"--pdeathsig", "KILL", "--", s.paths[program]}, args...)
			_, err = host.Run(ctx, host.Cmd{Name: "setpriv", Args: args, Stdout: log, Stderr: log, Grace: 10 * time.Second})
			_ = log.Close() // only people read it
		}
		s.ended <- exit{program, err}
	}()
}

// wait waits until all programs have ended.
func (s *server) wait() {
	for ; s.running > 0; s.running-- {
		<-s.ended
	}
}

// ready waits until a URL reports success, or a program ends.
func (s *server) ready(ctx context.Context, client *http.Client, url string) error {
	ctx, stop := context.WithTimeoutCause(ctx, startLimit, errors.New("it took too long"))
	defer stop()
	for {
		err := answers(ctx, client, url)
		if err == nil {
			return nil
		}
		select {
		case ended := <-s.ended:
			s.running--
			return fmt.Errorf("%s ended: %w", ended.program, ended.err)
		default:
		}
		if host.Sleep(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("wait for %s: %w (%w)", url, context.Cause(ctx), err)
		}
	}
}

func answers(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// freePorts returns addresses that belong to this process until it ends.
func freePorts(n int) ([]string, error) {
	var out []string
	for range n {
		port, err := porttest.Take()
		if err != nil {
			return nil, err
		}
		out = append(out, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return out, nil
}

// words returns the end of each program's output.
func (s *server) words() string {
	var out bytes.Buffer
	for _, p := range programs {
		data, err := os.ReadFile(s.file(p + ".log"))
		if err != nil {
			continue
		}
		_, _ = io.WriteString(&out, "--- "+p+"\n")
		out.Write(data[max(0, len(data)-2000):])
	}
	return out.String()
}
