package keeperclient

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// daemon serves answer on a socket and returns the socket's path.
func daemon(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: answer, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return socket
}

func TestTheDaemonIsAskedAndOrdered(t *testing.T) {
	socket := daemon(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.Method + " " + r.URL.Path + " " + string(body) {
		case "GET /report ":
			_, _ = io.WriteString(w, `{"wish":"started"}`)
		case `POST /stop {"x":1}`:
			_, _ = io.WriteString(w, `{"done":true}`)
		default:
			http.NotFound(w, r)
		}
	})
	if r, err := Report(t.Context(), socket); err != nil || r.Wish != state.EtcdStarted {
		t.Errorf("report %+v, %v", r, err)
	}
	var out struct{ Done bool }
	if err := Send(t.Context(), socket, "stop", []byte(`{"x":1}`), &out); err != nil || !out.Done {
		t.Errorf("order %+v, %v", out, err)
	}
	if err := Send(t.Context(), socket, "fly", nil, &out); err == nil || errors.Is(err, ErrNotRunning) {
		t.Errorf("an order that it does not know: %v", err)
	}
}

func TestTheNextReportIsAskedForByTheMarkThatIsKnown(t *testing.T) {
	socket := daemon(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/report" || r.URL.Query().Get(MarkParameter) != "true {Known:true & more}" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"wish":"started"}`)
	})
	if r, err := NextReport(t.Context(), socket, "true {Known:true & more}"); err != nil || r.Wish != state.EtcdStarted {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestWhyThereIsNoAnswerIsToldApart(t *testing.T) {
	if _, err := Report(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, ErrNotRunning) {
		t.Errorf("nobody listens: %v", err)
	}
	socket := daemon(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "nonsense") })
	if _, err := Report(t.Context(), socket); errors.Is(err, ErrNotRunning) || !unreadable(err) {
		t.Errorf("nonsense: %v", err)
	}
	socket = daemon(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Report(ctx, socket); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrNotRunning) {
		t.Errorf("it hangs: %v", err)
	}
}

func unreadable(err error) bool {
	_, ok := errors.AsType[*UnreadableError](err)
	return ok
}
