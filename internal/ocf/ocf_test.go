package ocf

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/command"
	"github.com/holdfast/holdfast/internal/decide/podmanetcd"
)

func run(t *testing.T, environ []string, action string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(t.Context(), environ, command.Streams{Out: &o, Err: &e}, action)
	return code, o.String(), e.String()
}

func TestActionsThatAskNobody(t *testing.T) {
	if code, out, _ := run(t, nil, "meta-data"); code != 0 || !strings.Contains(out, `<resource-agent name="podman-etcd"`) {
		t.Errorf("meta-data: %d %s", code, out)
	}
	if code, _, errs := run(t, nil, "validate-all"); code != 6 || !strings.HasPrefix(errs, "ocf-exit-reason:node_ip_map") {
		t.Errorf("validate-all without parameters: %d %q", code, errs)
	}
	if code, _, errs := run(t, []string{"OCF_RESKEY_node_ip_map=a:10.0.0.1;b:10.0.0.2"}, "validate-all"); code != 0 || errs != "" {
		t.Errorf("validate-all: %d %q", code, errs)
	}
	if code, _, _ := run(t, nil, "promote"); code != 3 {
		t.Errorf("promote: %d", code)
	}
}

// daemon answers on a socket as the real one does.
func daemon(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return socket
}

func TestAnActionIsOneRequest(t *testing.T) {
	var got []string
	var parameters podmanetcd.Parameters
	socket := daemon(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.Path)
		if r.URL.Path == "/start" {
			_ = json.NewDecoder(r.Body).Decode(&parameters)
		}
		_ = json.NewEncoder(w).Encode(podmanetcd.Answer{Code: podmanetcd.Generic, Reason: "as asked"})
	})
	e := env{"node_ip_map": "a:10.0.0.1;b:10.0.0.2"}
	for _, action := range []string{"start", "monitor", "stop", "notify"} {
		if a := request(t.Context(), socket, action, e); a.Code != podmanetcd.Generic || a.Reason != "as asked" {
			t.Errorf("%s: %+v", action, a)
		}
	}
	if want := "POST /start POST /monitor POST /stop POST /notify"; strings.Join(got, " ") != want || len(parameters.Nodes) != 2 {
		t.Errorf("%q, %+v", got, parameters)
	}
	if a := request(t.Context(), socket, "start", env{}); a.Code != podmanetcd.Misconfigured || len(got) != 4 {
		t.Errorf("a start without parameters: %+v", a)
	}
}

func TestADaemonThatHangsEndsNoHealthyEtcd(t *testing.T) {
	hang := daemon(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if a := request(ctx, hang, "notify", env{}); a.Code != podmanetcd.Success {
		t.Errorf("notify: %+v", a)
	}
	if a := request(ctx, hang, "stop", env{}); a.Code != podmanetcd.Generic || !strings.Contains(a.Reason, "systemctl status podman-etcd") {
		t.Errorf("a stop that cannot be confirmed has failed: %+v", a)
	}
	if a := request(ctx, filepath.Join(t.TempDir(), "none"), "monitor", env{}); a.Code != podmanetcd.NotRunning {
		t.Errorf("a daemon that never ran: %+v", a)
	}
}

func TestAnActionEndsBeforePacemakerEndsIt(t *testing.T) {
	for value, want := range map[string]time.Duration{"10000": 9 * time.Second, "": 19 * time.Second, "500": time.Second, "x": 19 * time.Second} {
		if got := (env{"CRM_meta_timeout": value}).budget(); got != want {
			t.Errorf("%q: %s", value, got)
		}
	}
}
