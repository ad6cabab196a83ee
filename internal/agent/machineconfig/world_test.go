package machineconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
	adapter "github.com/holdfast/holdfast/internal/adapter/updates"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

const node = "worker-1"

// world is a host in a folder with a fake systemd, and the API.
type world struct {
	t    *testing.T
	root string
	now  time.Time
	boot int
	// bootedAt is when, by the clock of then.
	bootedAt time.Time
	// agent is the process; a crash makes another one.
	agent *Agent

	objects     map[string]*mcfgv1.MachineConfig
	annotations map[string]string
	writes      int // of annotations
	// away: the API does not answer. notReady: the node or kubelet is not well.
	// blocked: the operator does not get pods away. needed: the cluster does not carry
	// on without the host.
	away, notReady, blocked, needed bool
	// cordoned: the node gets no new pods.
	cordoned bool
	// pressure is the condition in which kubelet ends pods; nil for none.
	pressure func() corev1.NodeConditionType
	// idle: the host is known to carry nothing of the cluster.
	idle bool
	// leftAlone: Pacemaker does not stop etcd. halts is the error of a stop and of a start by
	// the agent.
	leftAlone bool
	otherDown bool // the other control plane could not go on
	halts     error
	// noTurn: the operator gives no turn for a reboot.
	noTurn bool
	// first is the configuration that came with the host's Ignition config, unjoined:
	// the host has yet to join.
	first    string
	unjoined bool
	// rebooting: systemd was asked to boot the host. asked has what the host asked of
	// the operator.
	rebooting bool
	asked     []string
	// events are those that the agent noted.
	events []state.Event

	// Of systemd: units that packages bring, units that are enabled, those that run and
	// with which definition, and what it has read. failing units do not start.
	packaged      map[string]bool
	enabled       map[string]bool
	running, read map[string]string
	failing       map[string]bool
	orders        []string
	// units counts how often those were written that read the site's proxy and
	// authorities, and unitsFail keeps them from it.
	units     int
	unitsFail error
	// refused is a verb that systemd refuses; leaving is called while the host gives
	// its virtual IPs away.
	refused string
	leaving func()
	// down: systemd carries a shutdown out, and starts nothing. deaf: it does not say so. gone: this process
	// has given the virtual IPs away.
	down, deaf, gone bool
	view             state.NetworkView
	// locks are those that programs hold at logind, and noLogind is why it does not say them.
	locks    []hostapply.Lock
	noLogind error
	// required is whether the distribution wants a reboot, packages is the version of
	// its packages, and offered that of the repository. unit is the state of the unit that
	// installs, and hangs: it does not end. mirror is why a repository does not answer.
	required          updates.Required
	packages, offered string
	unit, mirror      string
	hangs             bool
	// stack is the version of what etcd runs on, and bad why it cannot change. queue counts
	// the questions about the unit that changes it at a boot: it does its work at the third
	// one, if that was ordered before the boot, unless skipped.
	stack, bad       string
	queue            int
	ordered, skipped bool
	// between: that unit ends after the agent has read its record, and before it asks systemd.
	between bool
	// parameters are the kernel's, commandLine is how it was booted, menu what the
	// boot loader will do.
	parameters        map[string]string
	commandLine, menu string
	// oneWay are parameters, each with a value that it does not take again once it has another.
	oneWay map[string]string

	// left is the number of effects until the crash, -1 for none; power makes it a
	// power cut.
	left    int
	power   bool
	dead    bool
	effects int
	// cutsWrites: writes into the API count as effects.
	cutsWrites bool
}

var errCrash = errors.New("crash")

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		view: state.NetworkView{Role: state.RoleWorker, Host: state.HostFacts{NodeName: node}},
		t:    t, root: t.TempDir(), now: time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC), left: -1,
		objects: map[string]*mcfgv1.MachineConfig{}, annotations: map[string]string{},
		required: updates.Required{Wants: state.Known(false)}, packages: "1", offered: "1", stack: "1", unit: "inactive",
		packaged: map[string]bool{}, enabled: map[string]bool{}, running: map[string]string{}, read: map[string]string{}, failing: map[string]bool{}, parameters: defaults(),
	}
	for path, data := range map[string]string{
		"/etc/passwd": "root:x:0:0::/root:/bin/sh\n", "/etc/group": "root:x:0:\n", "/etc/motd": "of the distribution\n",
		"/etc/default/grub": "", "/usr/sbin/update-grub": "", "/etc/default/grub.d/x.cfg": "", "/etc/sysctl.d/10-dist.conf": "", "/etc/systemd/system/x": "",
	} {
		w.put(path, data)
	}
	w.start()
	return w
}

func (w *world) put(path, data string) {
	w.t.Helper()
	if err := powercut.WriteFile(filepath.Join(w.root, path), []byte(data), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// file returns a file's contents, or nothing.
func (w *world) file(path string) string {
	data, err := os.ReadFile(filepath.Join(w.root, path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	return string(data)
}

// effect counts an effect and carries it out, unless the agent crashes there.
func (w *world) effect(do func() error) error {
	if w.dead {
		return errCrash
	}
	w.effects++
	err := do()
	if w.left >= 0 {
		if w.left--; w.left < 0 {
			w.dead = true
			return errCrash
		}
	}
	return err
}

// start starts an agent, as after a crash.
func (w *world) start() {
	w.dead, w.gone = false, false
	writer := hostconfig.NewWriter(w.root)
	w.instrument(&writer)
	w.agent = New(Options{Now: func() time.Time { return w.now }, Event: func(e state.Event) { w.events = append(w.events, e) }, Host: Host{
		Store: writer.Store, Refusal: writer.Refusal, Differences: writer.Differences, Systemctl: w.systemctl,
		Configure: func(ctx context.Context, name string) error {
			if w.down {
				return errDestructive
			}
			wrote, err := writer.Write(ctx)
			if err == nil && wrote != name {
				err = fmt.Errorf("it wrote %q and not %q", wrote, name)
			}
			return err
		},
		Parameter: func(name string) (string, error) {
			if value, ok := w.parameters[name]; ok {
				return value, nil
			}
			return "", fs.ErrNotExist
		},
		SetParameter: func(name, value string) error {
			if refused, is := w.oneWay[name]; is && refused == value {
				return syscall.EINVAL
			}
			return w.effect(func() error { w.parameters[name] = value; return nil })
		},
		SurroundingUnits: func(context.Context) error {
			if w.unitsFail != nil {
				return w.unitsFail
			}
			return w.effect(func() error { w.units++; return nil })
		},
		Updates:     adapter.Store{Root: w.root, WriteFile: writer.Store.WriteFile},
		Required:    func(context.Context) updates.Required { return w.required },
		Locks:       func(context.Context) ([]hostapply.Lock, error) { return w.locks, w.noLogind },
		Boot:        func() (string, time.Duration, error) { return fmt.Sprint(w.boot), w.now.Sub(w.bootedAt), nil },
		CommandLine: func() (string, error) { return w.commandLine, nil },
		Kubelet:     func(context.Context) bool { return !w.notReady && !w.unjoined },
		Joined:      func() bool { return !w.unjoined },
		First: func() (*mcfgv1.MachineConfig, error) {
			if w.first == "" {
				return nil, nil
			}
			return w.objects[w.first], nil
		},
	}})
	w.agent.Join(Cluster{
		API: w, View: func() state.NetworkView { return w.view },
		MayBoot:  func(context.Context) (state.Fact[bool], string) { return state.Known(!w.needed), "cp-2 is absent" },
		Idle:     func(context.Context) bool { return w.idle },
		GiveLead: func(context.Context) { w.does("give lead", w.gone) },
		EndAPI:   func(context.Context) { w.does("end API", w.gone) },
		EndAnew:  func() { w.does("end anew", w.gone) },
		MayHalt: func(ctx context.Context) (state.Fact[bool], string) {
			return state.Fact[bool]{Known: ctx.Err() == nil, Value: w.leftAlone && !w.otherDown}, "cp-2 does not run"
		},
		Halt: func(ctx context.Context) error {
			w.does("halt etcd", w.gone)
			return errors.Join(w.halts, ctx.Err())
		},
		Unhalt: func(context.Context) error { w.does("start etcd", w.gone); return w.halts },
		Leave: func(context.Context) func() {
			w.does("leave", true)
			if w.leaving != nil {
				w.leaving()
			}
			return func() { w.does("stay", false) }
		},
	})
	if !w.away && !w.unjoined {
		w.watch()
	}
}

// does is an effect about the virtual IPs, which are away after it or not.
func (w *world) does(what string, gone bool) {
	_ = w.effect(func() error {
		w.orders, w.gone = append(w.orders, what), gone
		return nil
	})
}

func (w *world) instrument(writer *hostconfig.Writer) {
	write := func(path string, data []byte, mode fs.FileMode) error {
		return w.effect(func() error { return powercut.WriteFile(path, data, mode) })
	}
	f := writer.Files
	writer.Store.WriteFile, f.WriteFile = write, write
	f.WriteFor = func(path string, data []byte, mode fs.FileMode, _, _ int) error { return write(path, data, mode) }
	f.Remove = func(path string) error { return w.effect(func() error { return os.RemoveAll(path) }) }
	f.Chmod = func(path string, mode fs.FileMode) error {
		return w.effect(func() error { return os.Chmod(path, mode) })
	}
	f.Chown = func(string, int, int) error { return nil }
	f.Owner = func(fs.FileInfo) (int, int) { return 0, 0 }
	f.Run = func(ctx context.Context, c host.Cmd) ([]byte, error) {
		if c.Name == "update-grub" {
			return nil, w.effect(func() error { w.menu = w.file("/etc/default/grub.d/zzz-holdfast-machineconfig.cfg"); return nil })
		}
		return w.systemctl(ctx, slices.DeleteFunc(slices.Clone(c.Args), func(a string) bool { return strings.HasPrefix(a, "--root") })...)
	}
}

// watch has the agent hear its node.
func (w *world) watch() {
	w.agent.Nodes([]state.Node{{Name: "other"}, {Name: node, Ready: !w.notReady, Cordoned: w.cordoned, Annotations: maps.Clone(w.annotations)}})
}

// wish gives the host a configuration.
func (w *world) wish(name string) {
	w.annotations[rollout.DesiredConfig] = name
	w.watch()
}

// byHand leaves the reboot to a person.
func (w *world) byHand() { w.annotations[rollout.Reboot] = rollout.ByHand }

func (w *world) MachineConfig(_ context.Context, name string) (*mcfgv1.MachineConfig, error) {
	if w.away {
		return nil, errAway
	}
	if mc, ok := w.objects[name]; ok {
		return mc, nil
	}
	return nil, fmt.Errorf("get MachineConfig %s: %w", name, apierrors.NewNotFound(mcfgv1.Resource("machineconfigs"), name))
}

var errAway = errors.New("the API is away")

func (w *world) NodeReady(context.Context, string) (bool, error) {
	if w.away {
		return false, errAway
	}
	return !w.notReady, nil
}

func (w *world) NodePressures(context.Context, string) ([]corev1.NodeConditionType, error) {
	if w.away {
		return nil, errAway
	}
	if w.pressure == nil || w.pressure() == "" {
		return nil, nil
	}
	return []corev1.NodeConditionType{w.pressure()}, nil
}

func (w *world) SetAnnotations(_ context.Context, name string, values map[string]*string) error {
	if w.away || w.dead {
		return errAway
	}
	if name != node {
		w.t.Errorf("it annotates %s", name)
	}
	write := func() error {
		w.writes++
		for key, value := range values {
			if value == nil {
				delete(w.annotations, key)
			} else {
				w.annotations[key] = *value
			}
		}
		w.operator()
		return nil
	}
	if w.cutsWrites {
		return w.effect(write)
	}
	return write()
}

// wants has somebody want a reboot, or no longer.
func (w *world) wants(when string) {
	if w.annotations[rollout.RebootWanted] = when; when == "" {
		delete(w.annotations, rollout.RebootWanted)
	}
	w.operator()
	w.watch()
}

// turns gives the host its turn for a reboot or updates, and removes a wish that was
// carried out or taken back.
func (w *world) turns() {
	wish := rollout.WishOf(w.annotations)
	names := wish.Names()
	switch {
	case wish.Done, wish.Wanted == "" && wish.Left:
		delete(w.annotations, names.Wanted)
		delete(w.annotations, names.Reason)
		delete(w.annotations, names.Given)
		w.watch()
	case wish.Open() && wish.From != "" && wish.Given.IsZero() && w.annotations[rollout.StateOf] != string(rollout.Working) && !w.noTurn:
		w.annotations[names.Given] = rollout.About(wish.Wanted, w.now.Format(time.RFC3339))
		w.watch()
	}
}

// operator answers what the host asks about its pods.
func (w *world) operator() {
	w.turns()
	wish := w.annotations[drain.Desired]
	if len(w.asked) == 0 && wish != "" || len(w.asked) > 0 && w.asked[len(w.asked)-1] != wish {
		w.asked = append(w.asked, wish)
	}
	if !w.blocked && w.annotations[drain.Applied] != wish {
		w.annotations[drain.Applied] = wish
		w.watch()
	}
}

// once runs the agent once, and returns when it wants to run again, and whether
// it crashed.
func (w *world) once() (loop.Result, error) {
	result, err := w.agent.step(w.t.Context())
	switch {
	case w.dead && w.power:
		w.boots()
	case w.dead:
		w.start()
	}
	if w.rebooting {
		w.boots()
	}
	return result, err
}

// settle runs the agent until it rests, or waits for a person for so long.
func (w *world) settle(most time.Duration) {
	w.t.Helper()
	for end := w.now.Add(most); w.now.Before(end); {
		result, err := w.once()
		if err == nil && (result.Again == driftEvery || result == (loop.Result{})) && !w.woken() {
			return
		}
		if result.Again == onTheWay {
			result.Again *= 4 // it only waits
		}
		w.now = w.now.Add(max(result.Again, time.Second))
	}
}

// woken reports whether the node has changed since the agent ran.
func (w *world) woken() bool {
	select {
	case <-w.agent.wake:
		return true
	default:
		return false
	}
}

// has adds a configuration to the API.
func (w *world) has(name string, files map[string]string, units []types.Unit, kernel ...string) {
	w.t.Helper()
	c := types.Config{Systemd: types.Systemd{Units: units}}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		f := types.File{Node: types.Node{Path: path}}
		f.Contents.Source = new(ignition.DataURL([]byte(files[path])))
		c.Storage.Files = append(c.Storage.Files, f)
	}
	w.hasConfig(name, c, kernel...)
}

func (w *world) hasConfig(name string, c types.Config, kernel ...string) {
	w.t.Helper()
	c.Ignition.Version = ignition.Newest
	raw, err := json.Marshal(c)
	if err != nil {
		w.t.Fatal(err)
	}
	mc := &mcfgv1.MachineConfig{Spec: mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: raw}, KernelArguments: append([]string{}, kernel...), Extensions: []string{}}}
	mc.Name = name
	w.objects[name] = mc
}

// says returns what the host reports in the API.
func (w *world) says() string {
	a := w.annotations
	return fmt.Sprintf("%s %s: %s", a[rollout.StateOf], a[rollout.CurrentConfig], a[rollout.ReasonOf])
}

// short is what it says without the reason.
func (w *world) short() string {
	text, _, _ := strings.Cut(w.says(), ":")
	return text
}

// look is what the host is like, beside what the agent remembers.
func (w *world) look() string {
	return fmt.Sprintf("motd %q, sysctl %q, parameters %v, unit %q, enabled %v, running %q, boot loader %q",
		w.file("/etc/motd"), w.file("/etc/sysctl.d/50-site.conf"), w.parameters, w.unitFile("site.service"), w.enabled, w.running, arguments(w.menu))
}
