package ocf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/podmanetcd"
	"github.com/holdfast/holdfast/internal/keeper"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestTheProgramAsksTheDaemonOfThisHost(t *testing.T) {
	p := onThisHost()
	if p.agent.socket != state.EtcdSocketPath || p.agent.alone.See == nil || p.agent.alone.End == nil || p.agent.alone.Note == nil || p.keep == nil {
		t.Errorf("%+v", p)
	}
	want, err := os.Hostname()
	if got, err2 := p.hostname(); got != want || !errors.Is(err, err2) {
		t.Errorf("%q, %v", got, err2)
	}
}

// TestEachActionOfPacemakerIsItsRequest: its answer is the exit code and the reason.
func TestEachActionOfPacemakerIsItsRequest(t *testing.T) {
	for i, action := range []string{"start", "stop", "monitor", "notify", "reload-agent"} {
		var path string
		p := program{agent: asking(daemon(t, func(w http.ResponseWriter, r *http.Request) {
			path = r.URL.Path
			_ = json.NewEncoder(w).Encode(podmanetcd.Answer{Code: podmanetcd.Code(i), Reason: "as asked"})
		}))}
		var out, errs bytes.Buffer
		code := p.main(t.Context(), []string{"OCF_RESKEY_node_ip_map=a:10.0.0.1;b:10.0.0.2"}, command.Streams{Out: &out, Err: &errs}, []string{action})
		if code != i || path != "/"+action || errs.String() != "ocf-exit-reason:as asked\n" || out.Len() > 0 {
			t.Errorf("%s: %d of %s, %q, %q", action, code, path, out.String(), errs.String())
		}
	}
}

// TestAnActionHasTheTimeThatPacemakerGrants, less what its own answer needs.
func TestAnActionHasTheTimeThatPacemakerGrants(t *testing.T) {
	p := program{agent: asking(filepath.Join(t.TempDir(), "none"))}
	synctest.Test(t, func(t *testing.T) {
		var left time.Duration
		begin := time.Now()
		p.agent.alone.See = func() podmanetcd.Seen { left = time.Since(begin); return podmanetcd.Seen{} }
		code := p.main(t.Context(), []string{"OCF_RESKEY_CRM_meta_timeout=5000"}, command.Streams{Err: &bytes.Buffer{}}, []string{"monitor"})
		if left != 2*time.Second || code != int(podmanetcd.Generic) { // half of four seconds
			t.Errorf("it looks for itself after %s: %d", left, code)
		}
	})
}

func TestMoreThanAnActionIsACommand(t *testing.T) {
	asked := false
	p := program{agent: asking(daemon(t, func(http.ResponseWriter, *http.Request) { asked = true })), hostname: os.Hostname}
	var errs bytes.Buffer
	for _, args := range [][]string{{"monitor", "more"}, {"promote"}} {
		if code := p.main(t.Context(), nil, command.Streams{Out: &bytes.Buffer{}, Err: &errs}, args); code == 0 || asked {
			t.Errorf("%v: %d, asked %t", args, code, asked)
		}
	}
}

// TestServeKeepsEtcdUnderTheHostsName: one that cannot be read is asked for again later.
func TestServeKeepsEtcdUnderTheHostsName(t *testing.T) {
	unnamed := errors.New("no name")
	for rule, c := range map[string]struct {
		name string
		err  error
		want string
		logs bool
	}{
		"a name":            {"CP-1", nil, "cp-1", false},
		"it cannot be read": {"CP-1", unnamed, "", true},
	} {
		var got keeper.Options
		failed := errors.New("it ended")
		p := program{hostname: func() (string, error) { return c.name, c.err }, keep: func(_ context.Context, o keeper.Options) error { got = o; return failed }}
		var errs bytes.Buffer
		if err := p.serve(t.Context(), command.Streams{Err: &errs}); !errors.Is(err, failed) {
			t.Errorf("%s: %v", rule, err)
		}
		name, err := got.Rename()
		if got.Host != c.want || name != c.want || !errors.Is(err, c.err) || time.Since(got.Now()) > time.Hour || got.Log == nil {
			t.Errorf("%s: %q, renamed %q, %v", rule, got.Host, name, err)
		}
		if err != nil && err.Error() != "name of this host: no name" {
			t.Errorf("%s: %v", rule, err)
		}
		if logs := strings.Contains(errs.String(), "cannot read this host's name, will retry"); logs != c.logs {
			t.Errorf("%s: %q", rule, errs.String())
		}
		got.Log.Info("hello")
		if !strings.Contains(errs.String(), "hello") {
			t.Errorf("%s: the daemon logs elsewhere", rule)
		}
		if code := p.main(t.Context(), nil, command.Streams{Out: &bytes.Buffer{}, Err: &errs}, []string{"serve"}); code == 0 || !strings.Contains(errs.String(), "it ended") {
			t.Errorf("%s: %d, %q", rule, code, errs.String())
		}
	}
}

// TestADaemonThatRestartsTwiceGetsItsTimeTwice: each time that nobody listens begins
// anew once somebody did.
func TestADaemonThatRestartsTwiceGetsItsTimeTwice(t *testing.T) {
	var socket string
	other := daemon(t, func(http.ResponseWriter, *http.Request) {
		_ = os.Remove(socket)
		panic(http.ErrAbortHandler)
	})
	socket = filepath.Join(t.TempDir(), "s")
	const up = 3 * time.Second
	synctest.Test(t, func(t *testing.T) {
		time.AfterFunc(up, func() {
			if err := os.Rename(other, socket); err != nil {
				t.Error(err)
			}
		})
		begin := time.Now()
		_, err := asking(socket).patient(t.Context(), "monitor", nil)
		if took := time.Since(begin); !errors.Is(err, keeperclient.ErrNotRunning) || took <= up+settle || took > up+settle+time.Second {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// TestWhoAsksGivesUpWithItsTime: the reason is the last one.
func TestWhoAsksGivesUpWithItsTime(t *testing.T) {
	a := asking(filepath.Join(t.TempDir(), "none"))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 950*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if _, err := a.patient(ctx, "monitor", nil); !errors.Is(err, keeperclient.ErrNotRunning) || time.Since(begin) != 950*time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}

// TestAnActionWithoutALimitAsksForAsLongAsADaemonRestarts.
func TestAnActionWithoutALimitAsksForAsLongAsADaemonRestarts(t *testing.T) {
	a := asking(filepath.Join(t.TempDir(), "none"))
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		got := a.request(t.Context(), "monitor", nil)
		if took := time.Since(begin); got.Code != podmanetcd.NotRunning || took <= settle || took > settle+time.Second {
			t.Errorf("%+v after %s", got, took)
		}
	})
}

// TestADaemonThatEndsInTheMiddleOfItsAnswerIsAskedAgain.
func TestADaemonThatEndsInTheMiddleOfItsAnswerIsAskedAgain(t *testing.T) {
	asked := 0
	a := asking(daemon(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			_, _ = w.Write([]byte(`{"code":1,"reas`))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_ = json.NewEncoder(w).Encode(podmanetcd.Answer{Reason: "as asked"})
	}))
	if got := a.request(t.Context(), "stop", env{}); got.Reason != "as asked" || asked != 2 {
		t.Errorf("asked %d times: %+v", asked, got)
	}
}

// TestMetaDataThatNobodyReadsFailTheAction.
func TestMetaDataThatNobodyReadsFailTheAction(t *testing.T) {
	var errs bytes.Buffer
	if code := (program{}).main(t.Context(), nil, command.Streams{Out: broken{}, Err: &errs}, []string{"meta-data"}); code != int(podmanetcd.Generic) {
		t.Errorf("%d, %q", code, errs.String())
	}
}
