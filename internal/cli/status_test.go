package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/cli/place"
	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/standing"
)

func statusLine(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(t.Context(), Streams{In: strings.NewReader(""), Out: &o, Err: &e}, append([]string{"status"}, args...))
	return code, o.String(), e.String()
}

func noAPI(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	const text = `{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],` +
		`"clusters":[{"name":"x","cluster":{"server":"https://127.0.0.1:1"}}],"users":[{"name":"x","user":{}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAnAPIThatDoesNotAnswerIsSaidWithWhatToTypeAndEndsWithSix(t *testing.T) {
	code, out, errs := statusLine(t, "--kubeconfig", noAPI(t))
	if code != 6 || errs != "" {
		t.Errorf("exit code %d, %q", code, errs)
	}
	for _, want := range []string{"this cluster: unknown", "does not answer: dial tcp 127.0.0.1:1: connect: connection refused", "Type on a control plane: sudo holdfast status"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}

// docs/facts/findings.md#lab, L4: "transport.go: Warning: ..." appeared on the
// terminal.
func TestAClientsLogIsNotWrittenOntoTheTerminal(t *testing.T) {
	terminal, err := os.CreateTemp(t.TempDir(), "stderr")
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = terminal
	t.Cleanup(func() { os.Stderr = before; _ = terminal.Close() })
	statusLine(t, "--kubeconfig", noAPI(t))
	klog.Warning("Unable to cancel request")
	klog.ErrorS(errors.New("context deadline exceeded"), "Unhandled Error")
	klog.Flush()
	if said, err := os.ReadFile(terminal.Name()); err != nil || len(said) > 0 {
		t.Errorf("%q, %v", said, err)
	}
}

func TestTheAPIIsTakenFromTheEnvironment(t *testing.T) {
	t.Setenv("KUBECONFIG", noAPI(t))
	code, out, _ := statusLine(t, "-o", "json")
	var v standing.View
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 6 || v.Sources[0].Answered {
		t.Errorf("%d %v %+v", code, err, v.Sources)
	}
}

func TestAllMistakesOfTheCommandLineAreSaidAtOnce(t *testing.T) {
	code, out, errs := statusLine(t, "--kubeconfig", "/nowhere", "--lab", "x", "--interval", "1ms")
	if code != ExitUsage || out != "" {
		t.Errorf("exit code %d, %q", code, out)
	}
	for _, want := range []string{"--interval 1ms", "cannot be combined", "--kubeconfig: stat /nowhere"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is missing in %q", want, errs)
		}
	}
	if code, _, errs := statusLine(t, "-o", "xml"); code != ExitUsage || !strings.Contains(errs, "text, wide, json or yaml") {
		t.Errorf("%d %q", code, errs)
	}
}

func TestOnAHostItsDaemonsAndBothWaysToTheAPIAreAsked(t *testing.T) {
	path := noAPI(t)
	p := place.Place{
		Here:  &place.Host{Name: "cp-1", Root: t.TempDir()},
		Hosts: []place.Host{{Name: "cp-2", Root: "/nowhere"}, {Name: "w-1", Worker: true}},
		API:   []kube.Access{{Kubeconfig: path}, {Kubeconfig: path, Server: "https://127.0.0.1:2"}},
	}
	api, err := apiSources(p)
	must(t, err)
	var names []string
	for _, s := range gathererOf(p, api).Sources {
		names = append(names, s.TimedOut(0).Name)
	}
	if want := []string{"cp-2", "cp-1", "API at https://127.0.0.1:1", "API at https://127.0.0.1:2"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	p.API[0].Kubeconfig = "/nowhere"
	if _, err := apiSources(p); command.ExitCode(err) != ExitUsage {
		t.Errorf("%v", err)
	}
}

// views shows some views in sequence and then ends the watch.
func views(t *testing.T, w *watching, list ...standing.View) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	i := 0
	err := w.run(ctx, func(context.Context) (standing.View, error) {
		if i == len(list) {
			stop()
			return standing.View{}, errors.New("interrupted")
		}
		i++
		return list[i-1], nil
	}, time.Microsecond)
	if err != nil {
		t.Errorf("an interruption is no failure: %v", err)
	}
}

func seenAt(status explain.Status, kubelet string) standing.View {
	state, _, _ := strings.Cut(kubelet, " for ")
	return standing.View{
		Cluster: "x", At: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), Status: status,
		Hosts: []standing.HostLine{{Name: "cp-1", Kubelet: standing.Cell{Text: kubelet, State: state}}},
	}
}

func TestAWatchThatIsNoTerminalAppendsWhatChanged(t *testing.T) {
	var out bytes.Buffer
	views(t, newWatching(&out, "text"), seenAt(explain.Healthy, "ready for 3s"), seenAt(explain.Healthy, "ready for 5s"), seenAt(explain.Degraded, "not ready for 1s"))
	_, appended, _ := strings.Cut(out.String(), "Seen by\n")
	if want := "12:00:00Z status: degraded\n12:00:00Z cp-1: kubelet not ready for 1s\n"; appended != want {
		t.Errorf("%q, want %q", appended, want)
	}
}

func TestAWatchGivesAProgramOneDocumentAChange(t *testing.T) {
	var out bytes.Buffer
	views(t, newWatching(&out, "json"), seenAt(explain.Healthy, "ready for 3s"), seenAt(explain.Healthy, "ready for 5s"), seenAt(explain.Degraded, "gone"))
	if n := strings.Count(out.String(), "\n"); n != 2 {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}

func TestATerminalIsRedrawnAndLeftAsItWas(t *testing.T) {
	var out bytes.Buffer
	w := newWatching(&out, "text")
	w.size = func() (int, int, error) { return 80, 6, nil }
	views(t, w, seenAt(explain.Healthy, "ready for 3s"), seenAt(explain.Degraded, "gone"))
	text := out.String()
	if !strings.HasPrefix(text, enterScreen+toTop) || strings.Count(text, toTop) != 2 || !strings.Contains(text, "more lines: holdfast status)") {
		t.Errorf("%q", text)
	}
	_, after, left := strings.Cut(text, leaveScreen)
	if !left || !strings.HasPrefix(after, "x: degraded") {
		t.Errorf("what stays is %q", after)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
