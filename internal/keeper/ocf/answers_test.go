package ocf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/podmanetcd"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestEachActionOfTheMetaDataIsOne(t *testing.T) {
	for _, a := range podmanetcd.Actions() {
		if !isAction(a.Name) {
			t.Errorf("%s is none", a.Name)
		}
	}
	for _, other := range []string{"", "promote", "serve", "help"} {
		if isAction(other) {
			t.Errorf("%q is one", other)
		}
	}
}

// broken is a pipe whose reader has gone.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestMetaDataThatCannotBeWrittenIsAFailure(t *testing.T) {
	var errs bytes.Buffer
	if code := metaData(command.Streams{Out: broken{}, Err: &errs}); code != int(podmanetcd.Generic) || errs.String() != "ocf-exit-reason:io: read/write on closed pipe\n" {
		t.Errorf("%d %q", code, errs.String())
	}
}

func TestEveryMistakeOfTheParametersIsOnOneLine(t *testing.T) {
	a := misconfigured(errors.Join(errors.New("one"), errors.New("two")))
	if a.Code != podmanetcd.Misconfigured || a.Reason != "one; two" {
		t.Errorf("%+v", a)
	}
	if a := misconfigured(nil); a != (podmanetcd.Answer{}) {
		t.Errorf("%+v", a)
	}
}

func TestOnlyWhatPacemakerPassesOfOursIsRead(t *testing.T) {
	e := variables([]string{"OCF_RESKEY_oom=-5", "OCF_RESKEY_CRM_meta_timeout=7000", "OCF_RESKEY_text=a=b", "PATH=/bin", "oom=9", "node_ip_map=x"})
	if len(e) != 3 || e["oom"] != "-5" || e["text"] != "a=b" || e.budget() != 6*time.Second {
		t.Errorf("%v", e)
	}
	if p := e.parameters(); len(p) != 1 || p["oom"] != "-5" {
		t.Errorf("%v", p)
	}
}

func TestATimeThatIsNoneIsPacemakersOwn(t *testing.T) {
	for value, want := range map[string]time.Duration{"0": 19 * time.Second, "-1": 19 * time.Second, "1": reserve, "3000": 2 * time.Second} {
		if got := (env{"CRM_meta_timeout": value}).budget(); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

// TestWhatIsAnsweredWithoutTheDaemon has each action's answer where the daemon
// hangs, and where nobody listens.
func TestWhatIsAnsweredWithoutTheDaemon(t *testing.T) {
	hangs := errors.New("no answer")
	runs := podmanetcd.Seen{Held: state.Known(true), Lives: state.Known(true), StandsIn: state.Known(false)}
	for name, c := range map[string]struct {
		action string
		err    error
		ends   bool
		code   podmanetcd.Code
	}{
		"a start":                       {"start", hangs, false, podmanetcd.Generic},
		"a start, nobody listens":       {"start", keeperclient.ErrNotRunning, false, podmanetcd.Generic},
		"new parameters":                {"reload-agent", hangs, false, podmanetcd.Generic},
		"a notice":                      {"notify", keeperclient.ErrNotRunning, false, podmanetcd.Success},
		"a stop of what runs":           {"stop", hangs, false, podmanetcd.Generic},
		"a stop, and nobody listens":    {"stop", keeperclient.ErrNotRunning, true, podmanetcd.Generic},
		"a monitor beside what runs":    {"monitor", hangs, false, podmanetcd.Success},
		"a monitor, and nobody listens": {"monitor", keeperclient.ErrNotRunning, false, podmanetcd.Success},
	} {
		a, ended := asking(filepath.Join(t.TempDir(), "none")), false
		a.alone.See = func() podmanetcd.Seen { return runs }
		a.alone.End = func(context.Context) error { ended = true; return nil }
		got := a.unanswered(t.Context(), c.action, c.err)
		if got.Code != c.code || ended != c.ends || !c.ends && !strings.HasPrefix(got.Reason, "podman-etcd.service does not answer: "+c.err.Error()) {
			t.Errorf("%s: %+v, ended %t", name, got, ended)
		}
	}
}

func TestADaemonThatRefusesIsNotAskedAgain(t *testing.T) {
	asked := 0
	a := asking(daemon(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		http.Error(w, "no", http.StatusInternalServerError)
	}))
	if _, err := a.patient(t.Context(), "stop", nil); err == nil || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

func TestADaemonThatIsRestartingIsWaitedForAWhile(t *testing.T) {
	a := asking(filepath.Join(t.TempDir(), "none"))
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, err := a.patient(t.Context(), "monitor", nil)
		if took := time.Since(begin); !errors.Is(err, keeperclient.ErrNotRunning) || took <= settle || took > settle+time.Second {
			t.Errorf("%v after %s", err, took)
		}
	})
}

func TestTheCommandsOfTheProgram(t *testing.T) {
	var out, errs bytes.Buffer
	s := command.Streams{Out: &out, Err: &errs}
	if code := Main(t.Context(), nil, s, []string{"--version"}); code != 0 || !strings.Contains(out.String(), payload.Version) {
		t.Errorf("%d %q %q", code, out.String(), errs.String())
	}
	out.Reset()
	if code := Main(t.Context(), nil, s, []string{"--help"}); code != 0 || !strings.Contains(out.String(), "Keep etcd on this host until stopped; etcd itself goes on") ||
		!strings.Contains(out.String(), "systemctl status podman-etcd") {
		t.Errorf("%d %q", code, out.String())
	}
	out.Reset()
	if code := Main(t.Context(), nil, s, []string{"serve", "--help"}); code != 0 || !strings.Contains(out.String(), "systemctl restart podman-etcd") {
		t.Errorf("%d %q", code, out.String())
	}
	if code := Main(t.Context(), nil, s, []string{"serve", "more"}); code == 0 {
		t.Error("serve takes an argument")
	}
	out.Reset()
	if code := Main(t.Context(), nil, s, []string{"meta-data"}); code != 0 || !strings.Contains(out.String(), "<resource-agent") {
		t.Errorf("%d %q", code, out.String())
	}
}

func TestANodesNameIsInSmallLetters(t *testing.T) {
	want, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	if got, err := onThisHost().nodeName(); err != nil || got != strings.ToLower(want) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestASocketThatNobodyListensOnIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if exists(path) {
		t.Error("nothing is there")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !exists(path) {
		t.Error("the file is there")
	}
}

func TestTheBodyOfAStartHoldsTheParametersAndThatOfAStopNothing(t *testing.T) {
	bodies := map[string]int{}
	a := asking(daemon(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		bodies[r.URL.Path] = len(text)
		_ = json.NewEncoder(w).Encode(podmanetcd.Answer{})
	}))
	for _, action := range []string{"start", "reload-agent", "stop", "monitor", "notify"} {
		if got := a.request(t.Context(), action, env{"node_ip_map": "a:10.0.0.1;b:10.0.0.2"}); got != (podmanetcd.Answer{}) {
			t.Errorf("%s: %+v", action, got)
		}
	}
	for path, length := range bodies {
		if (length > 0) != (path == "/start" || path == "/reload-agent") {
			t.Errorf("%s: %d bytes", path, length)
		}
	}
}

// TestAnActionKeepsTimeForALookOfItsOwn: a daemon that does not answer must not use up
// the time that Pacemaker grants.
func TestAnActionKeepsTimeForALookOfItsOwn(t *testing.T) {
	a := asking(filepath.Join(t.TempDir(), "none"))
	for granted, kept := range map[time.Duration]time.Duration{4 * time.Second: 2 * time.Second, 7 * time.Second: ownLook} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), granted)
			defer cancel()
			begin, left, see := time.Now(), time.Duration(0), a.alone.See
			a := a
			a.alone.See = func() podmanetcd.Seen { left = granted - time.Since(begin); return see() }
			a.request(ctx, "monitor", nil)
			if left != kept {
				t.Errorf("of %s are left %s", granted, left)
			}
		})
	}
}

// TestAMistakeOfTheParametersIsTheActionsAnswer: the exit code is that of a wrong
// configuration, and nobody is asked.
func TestAMistakeOfTheParametersIsTheActionsAnswer(t *testing.T) {
	for _, action := range []string{"start", "reload-agent"} {
		if code, _, errs := run(t, nil, action); code != int(podmanetcd.Misconfigured) || !strings.HasPrefix(errs, "ocf-exit-reason:node_ip_map") {
			t.Errorf("%s: %d %q", action, code, errs)
		}
	}
	if code, _, errs := run(t, nil, "promote"); code != int(podmanetcd.Unimplemented) || errs != "ocf-exit-reason:action promote is unknown\n" {
		t.Errorf("%d %q", code, errs)
	}
}

func TestTheProgramsHelpNamesIt(t *testing.T) {
	cmd := onThisHost().root(command.Streams{})
	if cmd.Name() != "podman-etcd" || cmd.Short == "" || cmd.Long == "" {
		t.Errorf("%q: %q", cmd.Name(), cmd.Short)
	}
}
