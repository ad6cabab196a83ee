package upgrade

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/version"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	unit "github.com/holdfast/holdfast/internal/render/host"
)

// raise has the cluster close the way back and raise the servers of the host, and then its
// kubelet.
func (w *world) raise(kubelet bool) {
	w.t.Helper()
	text, err := annotation.Encode(annotation.Turn{Wish: parachute.Stay, Upgrade: "u1", From: oldOne, To: newOne, Closed: true, Raise: true, Kubelet: kubelet})
	if err != nil {
		w.t.Fatal(err)
	}
	w.annotations[annotation.TurnOf] = text
}

// minorWorld is a host between two minor releases of Kubernetes.
func minorWorld(t *testing.T, kind parachute.Kind) *world {
	t.Helper()
	w := newWorld(t)
	w.minor, w.kind = true, kind
	w.process()
	w.turn(parachute.Go)
	return w
}

// ticks plays until something holds. Kubelet is never newer than the API server behaves.
func (w *world) ticks(power bool, until func() bool) {
	w.t.Helper()
	for range 600 {
		w.tick(power)
		if w.daemons["kubelet"] == newOne && (w.emulates || slices.Contains(w.low, apiServerPod)) {
			w.t.Fatalf("kubelet is newer than what the API server emulates, after %v", w.acts)
		}
		if until() {
			return
		}
	}
	w.t.Fatalf("it does not come: %+v, held %q, low %v: %s, after %v", w.journal(), w.held, w.low, w.over(), w.acts)
}

// commits plays the whole of an upgrade.
func (w *world) commits(power bool) {
	w.t.Helper()
	w.ticks(power, func() bool { return w.journal().Step == parachute.Accepted && w.over() == "" })
	w.raise(false)
	w.ticks(power, func() bool { return len(w.low) == 0 && !w.emulates && w.over() == "" })
	w.raise(true)
	w.ticks(power, func() bool { return w.held == "" && w.over() == "" && w.serves() })
}

func TestAHostKeepsItsLevelUntilItIsRaised(t *testing.T) {
	ends := []string{"stop", "let kubelet rise", "start kubelet"}
	for _, c := range []struct {
		kind parachute.Kind
		ends []string
	}{{parachute.OfTwo, ends}, {parachute.OfMore, ends[1:]}, {parachute.Alone, ends[1:]}} {
		kind := c.kind
		w := minorWorld(t, kind)
		w.rests(false)
		if w.held != oldOne || len(w.low) != 3 || w.daemons["kubelet"] != oldOne || w.current != newOne {
			t.Fatalf("kind %d: accepted, it holds %q, low %v, daemons %v", kind, w.held, w.low, w.daemons)
		}
		acts := len(w.acts)
		for range 20 {
			w.tick(false)
		}
		if len(w.acts) != acts {
			t.Errorf("kind %d: before its turn it did %v", kind, w.acts[acts:])
		}
		w.commits(false)
		want := append([]string{"rise kube-apiserver.yaml", "rise kube-controller-manager.yaml", "rise kube-scheduler.yaml"}, c.ends...)
		if got := w.acts[acts:]; !slices.Equal(got, want) {
			t.Errorf("kind %d: it did %v, and not %v", kind, got, want)
		}
	}
}

func TestAHostThatIsRaisedGivesItsVIPsAwayUntilItServes(t *testing.T) {
	w := minorWorld(t, parachute.OfTwo)
	w.rests(false)
	w.raise(false)
	w.ticks(false, func() bool { return !slices.Contains(w.low, apiServerPod) })
	if !w.left {
		t.Fatal("its API server restarts while its VIPs are here")
	}
	delete(w.daemons, "kubelet") // nothing serves
	for range 5 {
		if w.tick(false); !w.left {
			t.Fatal("VIPs are here before the API server serves")
		}
	}
	w.daemons["kubelet"] = oldOne
	w.ticks(false, func() bool { return !w.left && len(w.low) == 0 })
}

func TestAHostRaisesNothingWhileNoOtherOneIsKnownToServe(t *testing.T) {
	w := minorWorld(t, parachute.OfTwo)
	w.rests(false)
	w.peer = state.Fact[bool]{}
	w.raise(true)
	acts := len(w.acts)
	for range 20 {
		w.tick(false)
	}
	if len(w.acts) != acts || w.left || !strings.Contains(w.agent.held, "once another control plane is known to serve") {
		t.Fatalf("it did %v, held %q, left %v", w.acts[acts:], w.agent.held, w.left)
	}
	w.peer = state.Known(true)
	w.ticks(false, func() bool { return w.held == "" && w.over() == "" })
}

// TestARaiseCutAtAnyEffectIsFinished has the whole of an upgrade cut off at each of its
// effects: the process, or the power.
func TestARaiseCutAtAnyEffectIsFinished(t *testing.T) {
	for _, kind := range []parachute.Kind{parachute.OfTwo, parachute.OfMore} {
		clean := minorWorld(t, kind)
		clean.commits(false)
		for at := 1; at <= clean.cut.Effects; at++ {
			for _, after := range []bool{false, true} {
				for _, power := range []bool{false, true} {
					w := minorWorld(t, kind)
					w.cut.At, w.cut.After = at, after
					w.commits(power)
					if w.current != newOne || w.daemons["kubelet"] != newOne || w.emulates {
						t.Fatalf("kind %d, cut at %d (after %v, power %v): %v", kind, at, after, power, w.daemons)
					}
				}
			}
		}
		t.Logf("kind %d: %d effects", kind, clean.cut.Effects)
	}
}

func TestAReturnLeadsTheLevelBack(t *testing.T) {
	w := minorWorld(t, parachute.OfTwo)
	w.rests(false)
	w.turn(parachute.GoBack)
	w.ticks(false, func() bool { return w.journal().Step == parachute.Returned && w.over() == "" })
	if w.current != oldOne || w.held != "" || len(w.low) > 0 || w.daemons["kubelet"] != oldOne {
		t.Errorf("it has %s, holds %q, low %v", w.current, w.held, w.low)
	}
}

func TestAPatchReleaseIsRaisedByItself(t *testing.T) {
	w := newWorld(t)
	w.turn(parachute.Go)
	w.rests(false)
	acts := len(w.acts)
	w.raise(true)
	w.ticks(false, func() bool { return w.journal().Closed && w.over() == "" })
	for range 20 {
		w.tick(false)
	}
	if len(w.acts) != acts {
		t.Errorf("it did %v", w.acts[acts:])
	}
}

func TestAHostIsRaisedOnceItsAPIServerAndItsKubeletAre(t *testing.T) {
	v := func(minor int) state.Fact[gate.Version] { return state.Known(gate.Version{Major: 1, Minor: minor}) }
	of := gate.Release{Digest: newOne, Kubernetes: gate.Version{Major: 1, Minor: 36, Patch: 3}}
	for what, c := range map[string]struct {
		host gate.Host
		of   gate.Release
		down bool
		want state.Fact[bool]
	}{
		"all of it":             {gate.Host{APIServer: v(36), Emulates: v(36), Kubelet: v(36)}, of, false, state.Known(true)},
		"it emulates":           {gate.Host{APIServer: v(36), Emulates: v(35), Kubelet: v(36)}, of, false, state.Known(false)},
		"an older kubelet":      {gate.Host{APIServer: v(36), Emulates: v(36), Kubelet: v(35)}, of, false, state.Known(false)},
		"kubelet was ended":     {gate.Host{APIServer: v(36), Emulates: v(36), Kubelet: v(36)}, of, true, state.Known(false)},
		"no API server answers": {gate.Host{Kubelet: v(36)}, of, false, state.Fact[bool]{}},
		"a worker":              {gate.Host{Worker: true, Kubelet: v(36)}, of, false, state.Known(true)},
		"a worker, held":        {gate.Host{Worker: true, Kubelet: v(35)}, of, false, state.Known(false)},
		"an unknown release":    {gate.Host{APIServer: v(36), Emulates: v(36), Kubelet: v(36)}, gate.Release{}, false, state.Fact[bool]{}},
		"kubelet is not known":  {gate.Host{APIServer: v(36), Emulates: v(36)}, of, false, state.Fact[bool]{}},
	} {
		if got := raised(c.host, c.of, c.down); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
	for emulated, want := range map[string]state.Fact[bool]{"35": state.Known(true), "36": state.Known(false)} {
		g := Gatherer{Version: func(context.Context) (version.Info, error) {
			return version.Info{GitVersion: "v1.36.3", EmulationMajor: "1", EmulationMinor: emulated}, nil
		}}
		if got := g.Emulates(t.Context()); got != want {
			t.Errorf("1.36 as 1.%s emulates: %v", emulated, got)
		}
	}
	silent := Gatherer{Version: func(context.Context) (version.Info, error) { return version.Info{}, errors.New("none") }}
	if got := silent.Emulates(t.Context()); got.Known {
		t.Errorf("a server that does not answer: %v", got)
	}
}

// TestTheStaticPodsOfTheNewReleaseBehaveAsTheOldMinorRelease until they rise, and those of
// the old one do not.
func TestTheStaticPodsOfTheNewReleaseBehaveAsTheOldMinorRelease(t *testing.T) {
	m, current, _ := onDisk(t, parachute.Alone)
	server := filepath.Join(m.root, apiServerPod)
	made, err := os.ReadFile("../../render/kubeadm/testdata/made/kube-apiserver.yaml")
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Replace(string(made), ":v1.36.3", ":old", 1)
	putFile(t, server, old)
	m.pods.Level = func(from, to string) (string, error) {
		if from != oldOne || to != newOne {
			t.Errorf("the level between %s and %s", from, to)
		}
		return "1.35", nil
	}
	chosen := func(digest string) string {
		*current = digest
		if err := m.pods.Settle(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(server)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for range 2 { // the second time an administrator goes back, and it is made from the pod that is low
		if _, err := m.pods.Prepare(oldOne, newOne); err != nil {
			t.Fatal(err)
		}
		if got := chosen(oldOne); got != old {
			t.Fatalf("the old one: %s", got)
		}
		want := strings.Replace(strings.Replace(old, ":old", ":new", 1), "    - kube-apiserver\n", "    - kube-apiserver\n    - --emulated-version=1.35\n", 1)
		if got := chosen(newOne); got != want {
			t.Fatalf("the new one: %s", got)
		}
		if low, err := m.pods.Low(); err != nil || !slices.Equal(low, []string{apiServerPod}) {
			t.Errorf("low: %v %v", low, err)
		}
	}
	if err := m.pods.Forget(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.pods.Rise(apiServerPod); err != nil {
			t.Fatal(err)
		}
		if low, err := m.pods.Low(); err != nil || len(low) > 0 {
			t.Errorf("low: %v %v", low, err)
		}
	}
	if got, want := chosen(newOne), strings.Replace(old, ":old", ":new", 1); got != want {
		t.Errorf("raised: %s", got)
	}
	*current = oldOne
	m.pods.Level = func(string, string) (string, error) { return "", errors.New("not known") }
	if _, err := m.pods.Prepare(oldOne, newOne); err == nil {
		t.Error("without a level the new release is prepared")
	}
}

// runs starts a program that does nothing, at a path, until the test ends.
func runs(t *testing.T, path string) {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := exec.CommandContext(t.Context(), path, "600").Start(); err != nil {
		t.Fatal(err)
	}
}

// TestADaemonKubeletIsThatOfTheReleaseThatIsHeld, and its unit raises it only once the way
// back is closed.
func TestADaemonKubeletIsThatOfTheReleaseThatIsHeld(t *testing.T) {
	m, _, orders := onDisk(t, parachute.Worker)
	old, next := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	m.pods.Current = func() (string, error) { return next, nil }
	links := map[string]string{
		payload.CurrentRelease: strings.TrimPrefix(next, "sha256:"),
		payload.Kubelet:        filepath.Join(payload.ReleasesDir, strings.TrimPrefix(old, "sha256:"), payload.Kubelet),
	}
	for link, target := range links {
		if err := symlink(filepath.Join(m.root, link), target); err != nil {
			t.Fatal(err)
		}
	}
	if held, err := m.held(); err != nil || held != old {
		t.Errorf("held: %q %v", held, err)
	}
	program := filepath.Join(m.root, links[payload.Kubelet])
	runs(t, program)
	if got, err := m.running(t.Context(), next); err != nil || !got["kubelet"] {
		t.Errorf("the kubelet that is held runs: %v %v", got, err)
	}
	if err := symlink(filepath.Join(m.root, payload.Kubelet), payload.CurrentRelease+payload.Kubelet); err != nil {
		t.Fatal(err)
	}
	if held, err := m.held(); err != nil || held != "" {
		t.Errorf("nothing is held, and: %q %v", held, err)
	}
	if got, err := m.running(t.Context(), next); err != nil || got["kubelet"] {
		t.Errorf("the kubelet of an older release runs, and is taken for that of the current one: %v %v", got, err)
	}
	before := files(t, m.root)
	if err := m.raiseKubelet(t.Context()); err != nil || !slices.Contains(*orders, "start "+unit.RaiseUnit) {
		t.Errorf("%q %v", *orders, err)
	}
	if after := files(t, m.root); !slices.Equal(after, before) {
		t.Errorf("left: %q", after)
	}
	for _, j := range []parachute.Journal{{Step: parachute.Accepted}, {Step: parachute.Proving, Closed: true}, {Step: parachute.Returning, Closed: true}} {
		if err := m.store.Write(j, 1); err != nil {
			t.Fatal(err)
		}
		if err := m.letKubeletRise(); err == nil || !strings.Contains(err.Error(), "the way back is open") {
			t.Errorf("%s: %v", j.Step, err)
		}
	}
}
