package machineconfig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/loop"
)

// departPath is where a shutdown asks, and maxAnswer bounds what it reads, in bytes.
const (
	departPath = "/depart"
	maxAnswer  = 4 << 10
)

// Requests returns the loop that answers shutdowns at a socket, which root alone may
// open.
func (a *Agent) Requests(socket string) loop.Watch {
	return loop.Watch{Name: "shutdown requests", Pause: retry, Run: func(ctx context.Context, works func()) error {
		return a.serve(ctx, socket, works)
	}}
}

func (a *Agent) serve(ctx context.Context, socket string, works func()) error {
	listener, err := listen(ctx, socket)
	if err != nil {
		return fmt.Errorf("listen for shutdowns: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+departPath, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, a.Depart(r.Context())) // whoever asked may have gone
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: retry}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	works()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("listen for shutdowns: %w", err)
	}
	return nil
}

// listen opens the socket in the place of one that an earlier process left.
func listen(ctx context.Context, socket string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, err
	}
	if err := host.RemoveFile(socket); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// askLonger is the time for an answer beside departLimit and haltLimit.
const askLonger = time.Second

// AskToDepart asks the agent of this host to give the virtual IPs away, because the host
// shuts down, and waits for that. It says what became of it: the shutdown goes on
// without an answer too.
func AskToDepart(ctx context.Context, socket string) string {
	ctx, cancel := context.WithTimeout(ctx, departLimit+haltLimit+askLonger)
	defer cancel()
	answer, err := askToDepart(ctx, socket)
	if err != nil {
		return "its virtual IPs and its API server stay until systemd stops them: the agent does not answer: " + err.Error()
	}
	return answer
}

func askToDepart(ctx context.Context, socket string) (string, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent"+departPath, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return string(answer), err
}
