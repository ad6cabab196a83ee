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
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/podmanetcd"
	"github.com/holdfast/holdfast/internal/keeper"
	"github.com/holdfast/holdfast/internal/model/state"
)

func run(t *testing.T, environ []string, action string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = onThisHost().action(t.Context(), environ, command.Streams{Out: &o, Err: &e}, action)
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

// daemon serves handler on a socket as the real daemon does.
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
	var parameters state.EtcdParameters
	socket := daemon(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.Path)
		if r.URL.Path == "/start" {
			_ = json.NewDecoder(r.Body).Decode(&parameters)
		}
		_ = json.NewEncoder(w).Encode(podmanetcd.Answer{Code: podmanetcd.Generic, Reason: "as asked"})
	})
	e := env{"node_ip_map": "a:10.0.0.1;b:10.0.0.2"}
	for _, action := range []string{"start", "monitor", "stop", "notify", "reload-agent"} {
		if a := asking(socket).request(t.Context(), action, e); a.Code != podmanetcd.Generic || a.Reason != "as asked" {
			t.Errorf("%s: %+v", action, a)
		}
	}
	if want := "POST /start POST /monitor POST /stop POST /notify POST /reload-agent"; strings.Join(got, " ") != want || len(parameters.Nodes) != 2 {
		t.Errorf("%q, %+v", got, parameters)
	}
	if a := asking(socket).request(t.Context(), "start", env{}); a.Code != podmanetcd.Misconfigured || len(got) != 5 {
		t.Errorf("a start without parameters: %+v", a)
	}
}

// asking returns an agent on a host without anything of etcd.
func asking(socket string) agent {
	no := state.Known(false)
	return agent{socket: socket, alone: keeper.WithoutKeeper{
		See:  func() podmanetcd.Seen { return podmanetcd.Seen{Held: no, Lives: no, StandsIn: no} },
		End:  func(context.Context) error { return nil },
		Note: func() error { return nil },
	}}
}

func TestADaemonThatHangsEndsNoHealthyEtcd(t *testing.T) {
	hang := asking(daemon(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	hang.alone.See = func() podmanetcd.Seen {
		return podmanetcd.Seen{Held: state.Known(true), Lives: state.Known(true), StandsIn: state.Known(false)}
	}
	hang.alone.End = func(context.Context) error { t.Error("etcd was ended beside its keeper"); return nil }
	for action, want := range map[string]podmanetcd.Code{"notify": podmanetcd.Success, "monitor": podmanetcd.Success, "stop": podmanetcd.Generic} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if a := hang.request(ctx, action, env{}); a.Code != want || !strings.Contains(a.Reason, "systemctl status podman-etcd") {
			t.Errorf("%s: %+v", action, a)
		}
		cancel()
	}
}

func TestAStopSucceedsWhereNothingRunsWhateverTheDaemonDoes(t *testing.T) {
	noted := 0
	note := func() error { noted++; return nil }
	hang := asking(daemon(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	gone := asking(filepath.Join(t.TempDir(), "none"))
	for _, a := range []agent{hang, gone} {
		a.alone.Note = note
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if got := a.request(ctx, "stop", env{}); got.Code != podmanetcd.Success {
			t.Errorf("stop: %+v", got)
		}
		cancel()
	}
	if noted != 2 {
		t.Errorf("a keeper that comes is to know of it: noted %d times", noted)
	}
}

func TestAStopEndsEtcdItselfWhereNobodyListens(t *testing.T) {
	a, runs := asking(filepath.Join(t.TempDir(), "none")), true
	a.alone.See = func() podmanetcd.Seen {
		return podmanetcd.Seen{Held: state.Known(runs), Lives: state.Known(runs), StandsIn: state.Known(false)}
	}
	a.alone.End = func(context.Context) error { runs = false; return nil }
	synctest.Test(t, func(t *testing.T) {
		if got := a.request(t.Context(), "stop", env{}); got.Code != podmanetcd.Success || runs {
			t.Errorf("stop: %+v, runs %t", got, runs)
		}
	})
}

func TestADaemonThatEndsWhileItIsAskedIsAskedAgain(t *testing.T) {
	asked := 0
	a := asking(daemon(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			panic(http.ErrAbortHandler) // the connection is cut
		}
		_ = json.NewEncoder(w).Encode(podmanetcd.Answer{Reason: "as asked"})
	}))
	if got := a.request(t.Context(), "stop", env{}); got.Reason != "as asked" || asked != 2 {
		t.Errorf("asked %d times: %+v", asked, got)
	}
}

func TestTheFirstMonitorOfABootFindsNothing(t *testing.T) {
	asking := asking(filepath.Join(t.TempDir(), "none"))
	synctest.Test(t, func(t *testing.T) {
		if a := asking.request(t.Context(), "monitor", env{}); a.Code != podmanetcd.NotRunning {
			t.Errorf("a daemon that never ran: %+v", a)
		}
	})
}

func TestAnActionEndsBeforePacemakerEndsIt(t *testing.T) {
	for value, want := range map[string]time.Duration{"10000": 9 * time.Second, "": 19 * time.Second, "500": time.Second, "x": 19 * time.Second} {
		if got := (env{"CRM_meta_timeout": value}).budget(); got != want {
			t.Errorf("%q: %s", value, got)
		}
	}
}
