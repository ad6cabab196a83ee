package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func contextThatEnded(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}

func request(target string) StandInRequest {
	r := StandInRequest{Evidence: "fence-1", Cluster: 0xc, Survivor: 0xa, PeerURL: "https://192.0.2.1:2380", ClientURL: "https://192.0.2.1:2379"}
	if err := r.Target.UnmarshalText([]byte(target)); err != nil {
		panic(err)
	}
	return r
}

func (f standInFiles) ends(t *testing.T) StandIn {
	t.Helper()
	var s StandIn
	eventually(t, "it ends", func(context.Context) (err error) {
		if s, err = f.state(); err == nil && s.Member != 0 {
			err = fmt.Errorf("it runs: %+v", s)
		}
		return err
	})
	return s
}

// waits is a stand-in that copies its request and waits until it is killed.
const waits = `cat > "$0.asked"; exec sleep 60`

func TestAStandInIsKnownWhileItRuns(t *testing.T) {
	script(t, waits)
	f := standInFiles{filepath.Join(t.TempDir(), "etcd")}
	if s, err := f.state(); err != nil || s != (StandIn{}) {
		t.Errorf("before the first one: %+v, %v", s, err)
	}
	pid, err := f.start(request("b"))
	must(t, err)
	s, err := f.state()
	if err != nil || s.Member != 0xb || s.PID != pid {
		t.Errorf("got %+v, %v; want member b, process %d", s, err, pid)
	}
	if _, err := f.start(request("d")); err == nil || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("a second one: %v", err)
	}
	if s, err := f.state(); err != nil || s.Member != 0xb {
		t.Errorf("after a second one was refused: %+v, %v", s, err)
	}
	must(t, f.stop(t.Context()))
	if s := f.ends(t); s.Last != nil {
		t.Errorf("one that was ended has said %+v", s.Last)
	}
	must(t, f.stop(t.Context())) // a second stop has nothing to do
	if info, err := os.Stat(f.request()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the request: %v (%v)", info, err)
	}
}

func TestAStandInGetsItsRequestAndItsResultIsKept(t *testing.T) {
	script(t, `cat > "$0.asked"; echo why >&2; echo '{"evidence":"fence-1","outcome":"refused","reason":"target-alive","tail":3,"version":"3.6.14","ms":{"ended":2.5}}'; exit 3`)
	f := standInFiles{t.TempDir()}
	_, err := f.start(request("b"))
	must(t, err)
	s := f.ends(t)
	want := &StandInResult{Evidence: "fence-1", Outcome: "refused", Reason: "target-alive", Tail: 3, MS: map[string]float64{"ended": 2.5}}
	if diff := cmp.Diff(want, s.Last); diff != "" || s.Log != "why\n" {
		t.Errorf("%s, it said %q", diff, s.Log)
	}
	asked, err := os.ReadFile(program + ".asked")
	must(t, err)
	var got StandInRequest
	must(t, json.Unmarshal(asked, &got))
	if diff := cmp.Diff(request("b"), got); diff != "" {
		t.Error(diff)
	}
	script(t, waits)
	_, err = f.start(request("d"))
	must(t, err)
	if s, err := f.state(); err != nil || s.Member != 0xd || s.Last != nil {
		t.Errorf("the next one begins with %+v, %v", s, err)
	}
	must(t, f.stop(t.Context()))
}

func TestAStandInThatDoesNotListenIsKilled(t *testing.T) {
	script(t, `trap '' TERM; cat >/dev/null; while :; do read x < "$0.never" || :; done`)
	f := standInFiles{t.TempDir()}
	must(t, syscall.Mkfifo(program+".never", 0o600))
	_, err := f.start(request("b"))
	must(t, err)
	ctx, cancel := contextThatEnded(t)
	defer cancel()
	if err := f.stop(ctx); err == nil {
		t.Error("it was stopped in no time")
	}
	must(t, f.stop(t.Context()))
	f.ends(t)
}
