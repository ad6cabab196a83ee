package upgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	unit "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/staticpod"
)

// stopTime bounds the end of what Pacemaker runs, in order, and endTime that of a
// static pod's program after a signal.
const (
	stopTime = 4 * time.Minute
	endTime  = 15 * time.Second
)

// daemon is a program of a release that a host always runs.
type daemon struct{ name, path, unit string }

// daemonsOf lists them, in the order in which they start. The agent is the last.
func daemonsOf(kind parachute.Kind) []daemon {
	const bin = "/usr/local/bin/"
	out := []daemon{{"containerd", bin + "containerd", unit.ContainerdUnit}}
	if kind == parachute.OfTwo {
		out = append(out, daemon{"podman-etcd", payload.ResourceAgent, unit.EtcdUnit})
	}
	return append(out, daemon{"kubelet", payload.Kubelet, unit.KubeletUnit}, daemon{"holdfast-agent", bin + "holdfast-agent", unit.AgentUnit})
}

// servers are the programs of static pods that end with a control plane.
var servers = []host.PodProgram{
	{Name: "kube-apiserver", Flag: "--service-account-key-file", File: "/etc/kubernetes/pki/sa.pub"},
	{Name: "kube-controller-manager", Flag: "--service-account-private-key-file", File: "/etc/kubernetes/pki/sa.key"},
	{Name: "kube-scheduler", Flag: "--kubeconfig", File: "/etc/kubernetes/scheduler.conf"},
	{Name: "etcd", Flag: "--trusted-ca-file", File: "/etc/kubernetes/pki/etcd/ca.crt"},
}

// servers returns them with the files of this machine.
func (m machine) servers() []host.PodProgram {
	out := slices.Clone(servers)
	for i := range out {
		out[i].Root = strings.TrimSuffix(m.root, "/")
	}
	return out
}

// machine is the running host.
type machine struct {
	// root is "/" except in tests.
	root    string
	kind    parachute.Kind
	store   Store
	pods    Pods
	files   Files
	systemd func(ctx context.Context, args ...string) ([]byte, error)
	// members tells the membership of Corosync.
	members func(ctx context.Context) state.Fact[state.Membership]
	// remove deletes a file durably.
	remove func(path string) error
}

// ThisHost returns the effects on the running host that need no API. Add PeerServes,
// Serves, Prove, GiveLead, Newer and Emulates.
func ThisHost(kind parachute.Kind, releases Releases) Host {
	return newMachine(kind, releases).host()
}

func newMachine(kind parachute.Kind, releases Releases) machine {
	m := machine{root: "/", kind: kind, store: NewStore("/"), members: pacemaker.Members, remove: remove}
	m.systemd = func(ctx context.Context, args ...string) ([]byte, error) {
		return host.Run(ctx, host.Command("systemctl", args...))
	}
	m.pods = Pods{
		Root: "/", WriteFile: host.WriteFileAtomic, Current: func() (string, error) { return release.Current("/") },
		Images: func(digest string) (map[string]string, error) { return imagesOf("/", digest) }, Level: levelBy(releases),
		Arguments: func(digest string) (staticpod.Arguments, error) { return argumentsOf("/", digest) },
	}
	m.files = Files{
		Root: "/", WriteFile: host.WriteFileAtomic, Remove: remove, Systemctl: m.systemd, Current: m.pods.Current, Left: m.left, tried: new([2]string),
		Of: func(ctx context.Context, digest string) (state.Fact[[]state.File], error) {
			return filesOf(ctx, "/", digest)
		},
	}
	return m
}

func (m machine) host() Host {
	return Host{
		Journal: m.store, Boot: observe.Boot,
		Running:  func() (string, error) { return release.Current("/") },
		Previous: func() (string, error) { return release.Previous("/") },
		PeerGone: m.peerGone, Kept: m.kept,
		Apart: func(ctx context.Context) state.Fact[bool] {
			now := m.members(ctx)
			return state.Fact[bool]{Known: now.Known, Value: len(now.Value.Members) < 2}
		},
		Held: m.held, Low: m.pods.Low, Rise: m.pods.Rise, RaiseKubelet: m.raiseKubelet,
		Daemons: m.daemons, Quiet: m.quiet, Armed: m.armed, Hangs: m.store.Hangs,
		Stop: m.stop, Ready: m.ready, Arm: m.arm, Disarm: m.disarm, Start: m.start,
		Switch: func(ctx context.Context) error { return m.systemctl(ctx, "start", unit.SwitchUnit) },
		Return: func(ctx context.Context) error { // the timer, too: somebody may have ended it
			return m.systemctl(ctx, "start", "--no-block", unit.ParachuteTimer, unit.ParachuteUnit)
		},
	}
}

// peerGone reports whether the plan that replaces the other control plane has taken it out, and let
// nobody in yet. Word of it that cannot be read counts as none.
func (m machine) peerGone() bool {
	word, err := records.Files{Root: m.root}.Retired()
	return err == nil && word.Known
}

func (m machine) systemctl(ctx context.Context, args ...string) error {
	_, err := m.systemd(ctx, args...)
	return err
}

// running returns which daemons run from the files of a release. A kubelet that is held is
// expected to run from those of its own. Of a program that others start too, such as a backup, or a
// monitor of Pacemaker's, the process counts that systemd has for its unit: a leftover of the release
// is no daemon.
func (m machine) running(ctx context.Context, digest string) (map[string]bool, error) {
	held, err := m.held()
	if err != nil {
		return nil, err
	}
	files, out := map[string]string{}, map[string]bool{}
	for _, d := range daemonsOf(m.kind) {
		of := digest
		if d.path == payload.Kubelet && held != "" {
			of = held
		}
		path := filepath.Join(m.root, payload.ReleasesDir, strings.TrimPrefix(of, "sha256:"), d.path)
		if d.unit != unit.AgentUnit && d.unit != unit.EtcdUnit {
			files[d.name] = path
			continue
		}
		if out[d.name], err = m.main(ctx, d.unit, path); err != nil {
			return nil, err
		}
	}
	others, err := among(files)
	maps.Copy(out, others)
	return out, err
}

// main reports whether the main process of a unit runs a file. A unit that is not there has none.
func (m machine) main(ctx context.Context, name, path string) (bool, error) {
	own, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	pid, err := m.systemd(ctx, "show", "--property=MainPID", "--value", "--", name)
	if err != nil {
		return false, fmt.Errorf("ask systemd for %s: %w", name, err)
	}
	info, err := os.Stat(filepath.Join("/proc", cmp.Or(strings.TrimSpace(string(pid)), "0"), "exe"))
	return err == nil && os.SameFile(info, own), nil // else it does not run, or has ended
}

// among returns which programs run, by the names of their processes, from their files.
// A process is known by its file: its path may be a link, or that of an earlier link.
func among(files map[string]string) (map[string]bool, error) {
	out, own := map[string]bool{}, map[string]fs.FileInfo{}
	for name, path := range files {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // what is not there does not run, and keeps nobody from going back
		}
		if err != nil {
			return nil, err
		}
		own[name] = info
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		comm, err := os.ReadFile(filepath.Join("/proc", e.Name(), "comm"))
		name := strings.TrimSpace(string(comm))
		if err != nil || own[name] == nil {
			continue // it has ended, or is another program
		}
		if info, err := os.Stat(filepath.Join("/proc", e.Name(), "exe")); err == nil && os.SameFile(info, own[name]) {
			out[name] = true
		}
	}
	return out, nil
}

func (m machine) daemons(ctx context.Context, digest string) (bool, error) {
	if digest == "" {
		return true, nil // nothing was ever switched here
	}
	run, err := m.running(ctx, digest)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(daemonsOf(m.kind), func(d daemon) bool { return !run[d.name] }), nil
}

// quiet reports whether kubelet, Pacemaker and what both run as servers have ended.
func (m machine) quiet(ctx context.Context) (bool, error) {
	units := []string{unit.KubeletUnit}
	if m.kind == parachute.OfTwo {
		units = append(units, unit.PacemakerUnit)
	}
	// systemctl fails where none is active, and has printed each state then.
	out, err := m.systemd(ctx, append([]string{"is-active"}, units...)...)
	states := strings.Fields(string(out))
	if len(states) != len(units) {
		return false, fmt.Errorf("ask systemd for %s: %w", strings.Join(units, ", "), cmp.Or(err, fmt.Errorf("it answers %q", out)))
	}
	for _, s := range states {
		if s != "inactive" && s != "failed" {
			return false, nil
		}
	}
	for _, p := range m.servers() {
		if pids, err := p.Processes(); err != nil || len(pids) > 0 {
			return false, err
		}
	}
	return true, nil
}

// stop ends them. Pacemaker has etcd leave in order, as in any planned stop.
func (m machine) stop(ctx context.Context) error {
	limited, cancel := context.WithTimeoutCause(ctx, stopTime, fmt.Errorf("no end after %s", stopTime))
	defer cancel()
	if m.kind == parachute.OfTwo {
		if err := m.systemctl(limited, "stop", unit.PacemakerUnit); err != nil {
			return err
		}
	}
	if err := m.systemctl(limited, "stop", unit.KubeletUnit); err != nil {
		return err
	}
	for _, p := range m.servers() {
		if err := end(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// end has a program end, with a second signal if the first one does not do it: without
// its etcd an API server waits for requests that nobody can answer any more, for over a
// minute, and a second signal ends it at once.
func end(ctx context.Context, p host.PodProgram) error {
	err := signal(ctx, p)
	if err != nil && ctx.Err() == nil {
		err = signal(ctx, p)
	}
	return err
}

func signal(ctx context.Context, p host.PodProgram) error {
	ctx, cancel := context.WithTimeoutCause(ctx, endTime, fmt.Errorf("no end after %s", endTime))
	defer cancel()
	pids, err := p.Processes()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := host.EndProcess(ctx, pid, func() bool { return p.Is(pid) }); err != nil {
			return fmt.Errorf("end %s: %w", p.Name, err)
		}
	}
	return nil
}

// start starts what does not run from the current release.
func (m machine) start(ctx context.Context) error {
	digest, err := m.pods.Current()
	if err != nil {
		return err
	}
	if err := m.pods.Settle(); err != nil {
		return err
	}
	unsettled := m.files.Settle(ctx) // daemons start all the same: a file counts for less
	if err := m.systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	run := map[string]bool{}
	if digest != "" {
		if run, err = m.running(ctx, digest); err != nil {
			return err
		}
	}
	for _, d := range daemonsOf(m.kind) {
		if err := m.startOne(ctx, d, run[d.name]); err != nil {
			return err
		}
	}
	return unsettled
}

func (m machine) startOne(ctx context.Context, d daemon, runs bool) error {
	switch {
	case d.name == "kubelet" && m.kind == parachute.OfTwo:
		if !runs { // Pacemaker starts it
			if err := m.systemctl(ctx, "try-restart", d.unit); err != nil {
				return err
			}
		}
		return m.startPacemaker(ctx)
	case runs:
		return nil
	case d.unit == unit.AgentUnit:
		return m.systemctl(ctx, "restart", "--no-block", d.unit) // it may be this process
	}
	return m.systemctl(ctx, "restart", d.unit)
}

// ready does of arm what a host can do that still serves: it looks for the program of the release
// to return to, makes the static pods and the files of the host without writing them, and keeps of
// the disk what a return needs.
func (m machine) ready(ctx context.Context, from, to string) error {
	return errors.Join(m.mayReturn(from), m.pods.Check(from, to), m.files.Check(ctx, from, to), m.store.Reserve())
}

func (m machine) mayReturn(from string) error {
	if program := unit.ReleaseAgent(from); !host.Exists(filepath.Join(m.root, program)) {
		return fmt.Errorf("arm the parachute: there is no %s to return with", program)
	}
	return nil
}

// arm prepares pods and files of both releases, writes the parachute of the first one, and lets it
// run. kept are arguments and files that stay because they are not as the release that runs gave
// them.
func (m machine) arm(ctx context.Context, from, to string) (kept []string, err error) {
	if err := m.mayReturn(from); err != nil {
		return nil, err
	}
	kept, err = m.files.Prepare(ctx, from, to)
	arguments, unprepared := m.pods.Prepare(from, to)
	if err := errors.Join(err, unprepared, m.store.Forget(), m.store.Reserve()); err != nil {
		return nil, err
	}
	files := unit.Parachute(from, filepath.Join(Folder, hangsFile))
	if _, err := host.WriteFiles(m.root, files); err != nil {
		return nil, fmt.Errorf("arm the parachute: %w", err)
	}
	for link, target := range unit.ParachuteLinks() {
		if err := symlink(filepath.Join(m.root, link), target); err != nil {
			return nil, fmt.Errorf("arm the parachute: %w", err)
		}
	}
	if err := m.systemctl(ctx, "daemon-reload"); err != nil {
		return nil, err
	}
	return append(arguments, kept...), m.systemctl(ctx, "start", unit.ParachuteTimer)
}

// symlink makes a link durably.
func symlink(path, target string) error {
	if have, err := os.Readlink(path); err == nil && have == target {
		return nil
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), remove(path)); err != nil {
		return err
	}
	if err := os.Symlink(target, path); err != nil {
		return err
	}
	return host.SyncDir(filepath.Dir(path))
}

// armed reports whether the parachute of a release is as arm leaves it.
func (m machine) armed(ctx context.Context, from string) (bool, error) {
	for _, f := range unit.Parachute(from, filepath.Join(Folder, hangsFile)) {
		if have, err := os.ReadFile(filepath.Join(m.root, f.Path)); err != nil || string(have) != string(f.Data) {
			return false, nil //nolint:nilerr // it is written again
		}
	}
	out, err := m.systemd(ctx, "is-active", unit.ParachuteTimer)
	if word := strings.TrimSpace(string(out)); word != "" {
		return word == "active", nil
	}
	return false, err
}

// kept reports whether what arm wrote for a release still lies here: the units name its program, and
// its pods are there. disarm takes them away in the opposite order.
func (m machine) kept(from string) bool {
	if from == "" || !host.Exists(filepath.Join(m.root, Folder, podsFolder, strings.TrimPrefix(from, "sha256:"))) && m.kind != parachute.Worker {
		return false
	}
	for _, f := range unit.Parachute(from, "") {
		base := filepath.Base(f.Path)
		if base != unit.ParachuteUnit && base != unit.SwitchUnit {
			continue
		}
		if have, err := os.ReadFile(filepath.Join(m.root, f.Path)); err != nil || !strings.Contains(string(have), unit.ReleaseAgent(from)+" ") {
			return false
		}
	}
	return true
}

// disarm removes what arm wrote. First goes what does something by itself: static pods of the day
// of the upgrade would be written over later ones at each start of kubelet. They go after the
// first units: a host that is armed has them. What runs the parachute goes last: it finds the way
// at its end and finishes this, whoever was cut off in it.
//
// A power cut may have come before the files of the release, and the boot has started its daemons:
// this is the last moment for them.
func (m machine) disarm(ctx context.Context) error {
	unsettled := m.files.Settle(ctx)
	own := []string{unit.UnitDir + "/" + unit.ParachuteTimer, unit.UnitDir + "/" + unit.ParachuteUnit}
	for _, f := range unit.Parachute("sha256:", "") {
		if slices.Contains(own, f.Path) {
			continue
		}
		if err := m.remove(filepath.Join(m.root, f.Path)); err != nil {
			return err
		}
	}
	if err := errors.Join(m.pods.Forget(), m.files.Forget(), m.store.Forget(), m.store.GiveBack(), m.systemctl(ctx, "daemon-reload")); err != nil {
		return err
	}
	return errors.Join(m.disarmParachute(ctx, own), m.systemctl(ctx, "daemon-reload"), unsettled)
}

// disarmParachute removes the parachute itself. A boot runs it until the very last: its unit and
// the link by which a boot does so.
func (m machine) disarmParachute(ctx context.Context, own []string) error {
	for link := range unit.ParachuteLinks() {
		if link == unit.ParachuteWants {
			continue
		}
		if err := m.remove(filepath.Join(m.root, link)); err != nil {
			return err
		}
	}
	_, err := m.systemd(ctx, "stop", unit.ParachuteTimer)
	if err != nil && host.ExitCode(err) != notLoaded {
		return err
	}
	for _, path := range []string{own[0], unit.ParachuteWants, own[1]} {
		if err := m.remove(filepath.Join(m.root, path)); err != nil {
			return err
		}
	}
	return nil
}

// notLoaded is the exit code of systemctl for a unit that does not exist.
const notLoaded = 5

// switchTo has the one link lead to a release, with the static pods of it and the kubelet
// of the release that is held, if any.
func (m machine) switchTo(digest, held string) error {
	if err := release.SwitchHolding(m.root, digest, held); err != nil {
		return err
	}
	return m.pods.Settle()
}

// loadEtcd has podman have the etcd of a release whose layout lies here.
func loadEtcd(ctx context.Context, digest string) error {
	store, err := layoutOf("/", digest)
	if err != nil {
		return err
	}
	return store.GiveEtcd(ctx, podman.Ensure)
}
