package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

const (
	self   = "cp-1"
	oldOne = "sha256:old"
	newOne = "sha256:new"
)

// world is a host with two releases, its cluster, and the programs that run there.
type world struct {
	t    *testing.T
	root string
	now  time.Time
	cut  powercut.Cut
	kind parachute.Kind
	boot int
	// up is when it booted last, dark for how long a crash leaves it without power.
	up   time.Time
	dark time.Duration

	// current and previous are what the links name. daemons has the release of each
	// daemon that runs; the agent is one of them. armed is the release of the
	// parachute that the next boot runs.
	current, previous string
	daemons           map[string]string
	armed             string
	hangs             int
	agent             *Agent

	annotations map[string]string
	writes      int
	// peer is whether the other control plane serves. bad: what the new release does
	// not show. broken: the daemon of the new release that never runs. gone: a release
	// that does not lie here any more. newer: what the old one cannot read.
	peer          state.Fact[bool]
	bad           string
	peerRuns      string // the release that the other one says it runs
	broken, newer string
	gone          string
	// mute is true if the containerd of the new release answers nobody.
	mute bool
	// fails: acts of the agent that fail, by their names in acts, and "ready".
	fails map[string]error
	// otherText is true if the release that runs would write another parachute.
	otherText bool
	// apart is true while Corosync has no other host, lost while etcd has no quorum for that.
	apart, lost bool
	// unpeered is since when no other control plane has served, zero while one does.
	unpeered time.Time
	// proves and returns are called before the host looks at what a release shows, and before it is
	// told to return.
	proves, returns func()
	// peerGone is true once the other control plane was taken out for good.
	peerGone    bool
	leads, left bool
	// madeWay is true if both were elsewhere when the host was told to return.
	madeWay, noDrain bool
	host             gate.Host
	acts             []string
	// events are those of the parachute.
	events []state.Event
	// minor: the releases are of two minor releases of Kubernetes. held is the release
	// whose kubelet is held, low are the pods that behave as the old one, and emulates is
	// what the API server does that runs.
	minor    bool
	held     string
	low      []string
	emulates bool
	// asleep: the agent's loop runs again only once it is woken. Else it does so at next.
	asleep bool
	next   time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, root: t.TempDir(), now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC), kind: parachute.OfTwo, boot: 1, current: oldOne,
		annotations: map[string]string{}, peer: state.Known(true), leads: true, daemons: map[string]string{},
	}
	w.up = w.now.Add(-time.Hour)
	w.starts()
	return w
}

// turn gives the host a turn.
func (w *world) turn(wish parachute.Wish) {
	w.t.Helper()
	text, err := annotation.Encode(annotation.Turn{Wish: wish, Upgrade: "u1", From: oldOne, To: newOne})
	if err != nil {
		w.t.Fatal(err)
	}
	w.annotations[annotation.TurnOf] = text
}

// starts has systemd start all that runs at a boot.
func (w *world) starts() {
	for _, name := range []string{"containerd", "kubelet", "agent"} {
		if w.current != newOne || w.broken != name && (name != "kubelet" || w.broken != "containerd") {
			w.daemons[name] = w.program(name)
		}
	}
	w.emulates = slices.Contains(w.low, apiServerPod)
	w.process()
}

// program is the release of which a daemon starts.
func (w *world) program(name string) string {
	if name == "kubelet" && w.held != "" {
		return w.held
	}
	return w.current
}

// process is a new process of the agent.
func (w *world) process() {
	w.left, w.asleep, w.next = false, false, w.now
	w.agent = New(Options{
		Host: w.effects(), Kind: w.kind, Now: w.clock, Event: func(state.Event) {}, Releases: w,
		Gather: func(context.Context) gate.Host { return w.host },
	})
	w.agent.Join(Cluster{
		SetAnnotations: func(_ context.Context, node string, values map[string]*string) error {
			return w.cut.Effect(func() error {
				w.writes++
				for name, value := range values {
					w.annotations[name] = *value
				}
				if node != self {
					w.t.Errorf("it writes to %s", node)
				}
				return nil
			})
		},
		View: w.view,
		Leave: func(context.Context) func() {
			_ = w.cut.Effect(func() error { w.left = true; return nil })
			return func() { w.left = false }
		},
	})
}

func (w *world) nodes() []state.Node {
	peer := state.Node{Name: "cp-2", Labels: map[string]string{state.LabelControlPlane: ""}, Ready: state.Is(w.peer, true)}
	if w.peerRuns != "" {
		text, err := annotation.Encode(annotation.Host{At: w.now, Facts: gate.Host{Release: state.Known(w.peerRuns)}})
		if err != nil {
			w.t.Fatal(err)
		}
		peer.Annotations = map[string]string{annotation.HostOf: text}
	}
	return []state.Node{peer, {Name: self, Annotations: maps.Clone(w.annotations)}}
}

func (w *world) view() state.NetworkView {
	return state.NetworkView{Host: state.HostFacts{NodeName: self}, Nodes: state.Known(w.nodes())}
}

func (w *world) does(what string, do func()) error {
	if err := w.fails[what]; err != nil {
		return err
	}
	return w.cut.Effect(func() error { w.acts = append(w.acts, what); do(); return nil })
}

// effects are those of the host that a program of it has.
func (w *world) effects() Host {
	return Host{
		Journal: Store{Root: w.root, Remove: func(path string) error {
			return w.cut.Effect(func() error {
				if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
					return err
				}
				return nil
			})
		}, WriteFile: func(path string, data []byte, mode fs.FileMode) error {
			return w.cut.Effect(func() error { return powercut.WriteFile(path, data, mode) })
		}},
		Boot:     func() (string, time.Duration, error) { return fmt.Sprint("b", w.boot), w.now.Sub(w.up), nil },
		Running:  func() (string, error) { return w.current, nil },
		Previous: func() (string, error) { return w.previous, nil },
		Daemons: func(_ context.Context, release string) (bool, error) {
			for name, of := range w.daemons {
				if of != release && (name != "kubelet" || of != w.held) {
					return false, nil
				}
			}
			return len(w.daemons) == 3, nil
		},
		Quiet:      func(context.Context) (bool, error) { _, runs := w.daemons["kubelet"]; return !runs, nil },
		Armed:      func(_ context.Context, release string) (bool, error) { return w.armed == release && !w.otherText, nil },
		Kept:       func(release string) bool { return w.armed != "" && w.armed == release },
		Apart:      func(context.Context) state.Fact[bool] { return state.Known(w.apart) },
		Hangs:      func() (int, error) { return w.hangs, nil },
		Serves:     func(context.Context) state.Fact[bool] { return state.Known(w.serves()) },
		PeerServes: func(context.Context) state.Fact[bool] { return w.peer }, PeerGone: func() bool { return w.peerGone },
		Spare: func(context.Context) (state.Fact[bool], bool) { return w.peer, false },
		Newer: func(string, string) state.Fact[string] { return state.Known(w.newer) },
		Prove: func(_ context.Context, release string) parachute.Proof {
			if w.proves != nil {
				w.proves()
			}
			out := parachute.Proof{}
			for _, c := range parachute.Criteria() {
				out[c.ID] = state.Known(w.serves() && (release == oldOne || c.ID != w.bad))
			}
			return out
		},
		Held: func() (string, error) { return w.held, nil },
		Low:  func() ([]string, error) { return slices.Clone(w.low), nil },
		Rise: func(pod string) error {
			return w.does("rise "+filepath.Base(pod), func() {
				w.low = slices.DeleteFunc(w.low, func(p string) bool { return p == pod })
			})
		},
		Emulates: func(context.Context) state.Fact[bool] {
			return state.Fact[bool]{Known: w.serves(), Value: w.emulates}
		},
		RaiseKubelet: func(context.Context) error { return w.does("let kubelet rise", func() { w.held = "" }) },
		GiveLead: func(context.Context) (bool, error) {
			return true, w.cut.Effect(func() error { w.leads = false; return nil })
		},
		Stop:  func(context.Context) error { return w.does("stop", func() { delete(w.daemons, "kubelet") }) },
		Ready: func(context.Context, string, string) error { return w.fails["ready"] },
		Arm: func(_ context.Context, from, to string) ([]string, error) {
			if from != oldOne || to != newOne {
				w.t.Errorf("arm %s and %s", from, to)
			}
			return nil, w.does("arm", func() { w.armed, w.hangs = from, 0 })
		},
		Disarm: func(context.Context) error { return w.does("disarm", func() { w.armed = "" }) },
		Switch: func(context.Context) error { return w.does("switch", func() { w.link(newOne) }) },
		Start:  func(context.Context) error { return w.start() },
		Return: func(context.Context) error {
			w.madeWay = w.left && !w.leads
			if w.returns != nil {
				w.returns()
			}
			return w.run() //nolint:contextcheck // it is a program of its own
		},
	}
}

func (w *world) link(to string) {
	if w.current == to {
		return
	}
	w.current, w.previous = to, w.current
	w.held, w.low = "", nil
	if w.minor && to == newOne {
		w.held, w.low = oldOne, slices.Clone(podFiles[:3])
	}
}

// serves: daemons of two releases would be a mixture.
func (w *world) serves() bool { return !w.lost && w.daemons["kubelet"] == w.program("kubelet") }

// errNoStart is what systemd says of a containerd that does not start. Nothing starts after it.
var errNoStart = errors.New("start containerd: it has failed")

// start starts what does not run, and the agent last.
func (w *world) start() error {
	for _, name := range []string{"containerd", "kubelet", "agent"} {
		if w.current == newOne && w.broken == name && name == "containerd" {
			delete(w.daemons, name) // the old one was ended for it
			return errNoStart
		}
		if w.daemons[name] == w.program(name) || w.current == newOne && w.broken == name {
			continue
		}
		err := w.does("start "+name, func() {
			w.daemons[name] = w.program(name)
			w.emulates = slices.Contains(w.low, apiServerPod)
		})
		if err != nil {
			return err
		}
		if name == "agent" {
			w.process()
		}
	}
	return nil
}

// run runs the parachute once.
func (w *world) run() error {
	_, err := w.parachute().Run(w.t.Context())
	return err
}

// clock is the host's.
func (w *world) clock() time.Time { return w.now }

func (w *world) parachute() Parachute {
	return Parachute{
		Host: w.effects(), Kind: w.kind, Now: w.clock, Releases: w,
		StopAgent:  func(context.Context) error { return w.does("stop agent", func() { delete(w.daemons, "agent") }) },
		SwitchBack: func(context.Context) error { return w.does("switch back", func() { w.link(oldOne) }) },
		Event:      func(e state.Event) { w.events = append(w.events, e) },
		Turn: func(context.Context) state.Fact[parachute.Turn] {
			turn := turnIn(w.annotations)
			return state.Fact[parachute.Turn]{Known: w.serves() && turn.Known, Value: turn.Value.Of()}
		},
	}
}

// Whole implements Releases. Without containerd nobody knows it.
func (w *world) Whole(context.Context) state.Fact[[]string] {
	if of, runs := w.daemons["containerd"]; !runs || w.mute && of == newOne {
		return state.Fact[[]string]{}
	}
	return state.Known(slices.DeleteFunc([]string{oldOne, newOne}, func(d string) bool { return d == w.gone }))
}

// Placed implements Releases.
func (w *world) Placed(digest string) bool { return digest != w.gone }

// About implements Releases.
func (w *world) About(digest string) (gate.Release, error) {
	return gate.Release{Name: digest, Digest: digest}, nil
}

// Fetching implements Releases.
func (w *world) Fetching() (how, failed string) { return "", "" }

// operator drains the host as it wishes.
func (w *world) operator() {
	if wish := w.annotations[drain.Desired]; wish != "" && !w.noDrain {
		w.annotations[drain.Applied] = wish
	}
}

// tick lets a few seconds pass, in which each program that runs gets its turn. A run
// that was cut off takes the host's power with it, or only the process.
func (w *world) tick(power bool) {
	w.now = w.now.Add(3 * time.Second)
	w.operator()
	if _, runs := w.daemons["kubelet"]; runs { // it starts pods anew whose manifest has changed
		w.emulates = slices.Contains(w.low, apiServerPod)
	}
	if _, runs := w.daemons["agent"]; runs {
		w.loop()
	}
	if w.armed != "" && w.now.Unix()%15 == 0 {
		w.expect(w.run())
	}
	if w.cut.Dead {
		w.cut.Dead, w.cut.At = false, 0
		if power {
			w.crash()
		} else if _, runs := w.daemons["agent"]; runs {
			w.process()
		} else if w.armed == "" {
			w.t.Fatal("nobody is left to do anything")
		}
	}
}

// loop runs the agent's loop as package loop does: when it was woken, and when its pause
// is over. A step that wants no further run gets none.
func (w *world) loop() {
	w.agent.Nodes(w.nodes())
	select {
	case <-w.agent.wake:
	default:
		if w.asleep || w.now.Before(w.next) {
			return
		}
	}
	result, err := w.agent.step(w.t.Context())
	w.expect(err)
	w.asleep = err == nil && result.Again == 0
	w.next = w.now.Add(max(result.Again, 0))
	w.hasItsVIPs()
}

// mostUnpeered is for how long a host that serves may leave its virtual IPs to a peer that is gone:
// a peer that only answers late shows itself within it.
const mostUnpeered = 20 * time.Second

// hasItsVIPs: the only host that serves may have the virtual IPs.
func (w *world) hasItsVIPs() {
	switch {
	case state.Is(w.peer, true):
		w.unpeered = time.Time{}
	case w.unpeered.IsZero():
		w.unpeered = w.now
	case w.left && w.serves() && w.now.Sub(w.unpeered) > mostUnpeered:
		w.t.Errorf("nobody has the virtual IPs %s after the peer went: %+v", w.now.Sub(w.unpeered), w.journal())
	}
}

func (w *world) expect(err error) {
	if err != nil && !errors.Is(err, powercut.Err) && !errors.Is(err, errNoStart) && !errors.Is(err, errFails) {
		w.t.Fatalf("%v, after %v", err, w.acts)
	}
}

// crash cuts the power, and boots.
func (w *world) crash() {
	w.boot++
	w.now = w.now.Add(w.dark)
	w.up = w.now.Add(-20 * time.Second)
	w.daemons = map[string]string{}
	w.starts()
	if w.armed != "" {
		w.expect(w.run())
	}
}

// journal returns what is on the disk.
func (w *world) journal() parachute.Journal {
	w.t.Helper()
	j, _, err := w.effects().Journal.Read()
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// rests plays until the host is at rest, and nothing of a way is left.
func (w *world) rests(power bool) {
	w.t.Helper()
	for range 600 {
		w.tick(power)
		if w.journal().Step.AtRest() && w.journal().Step != parachute.None && w.over() == "" {
			return
		}
	}
	w.t.Fatalf("no rest: %+v: %s, after %v", w.journal(), w.over(), w.acts)
}

// over says what is left of a way, empty for nothing.
func (w *world) over() string {
	var left []string
	for name, release := range w.daemons {
		if release != w.program(name) {
			left = append(left, name+" is of "+release)
		}
	}
	if len(w.daemons) != 3 {
		left = append(left, fmt.Sprintf("daemons: %v", w.daemons))
	}
	if w.armed != "" || w.effects().Journal.Down() || w.left || drain.Empties(w.annotations[drain.Desired]) {
		left = append(left, fmt.Sprintf("armed %q, down %v, left %v, wish %q", w.armed, w.effects().Journal.Down(), w.left, w.annotations[drain.Desired]))
	}
	return strings.Join(left, "; ")
}

// until plays until the host has come to a step.
func (w *world) until(step parachute.Step) {
	w.t.Helper()
	for range 100 {
		if w.tick(false); w.journal().Step == step {
			return
		}
	}
	w.t.Fatalf("it does not come to %s: %+v", step, w.journal())
}
