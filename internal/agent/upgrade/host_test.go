package upgrade

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	unit "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/staticpod"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

func putFile(t *testing.T, path, text string) {
	t.Helper()
	if err := powercut.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func podOf(name, tag string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + name + "\nspec:\n  containers:\n  - name: a\n    image: " + payload.Registry + "/" + name + ":" + tag + "\n"
}

// onDisk is a machine in a folder with a release that was switched to, and static pods.
func onDisk(t *testing.T, kind parachute.Kind) (m machine, current *string, orders *[]string) {
	t.Helper()
	root, now, said := t.TempDir(), oldOne, []string{}
	m = machine{root: root, kind: kind, store: NewStore(root), remove: remove}
	m.members = func(context.Context) state.Fact[state.Membership] {
		return state.Known(state.Membership{Members: []string{"cp-1", "cp-2"}, Quorate: true})
	}
	m.systemd = func(_ context.Context, args ...string) ([]byte, error) {
		if args[0] == "show" { // no unit has a main process
			return []byte("0\n"), nil
		}
		said = append(said, strings.Join(args, " "))
		if args[0] == "is-active" {
			return []byte(strings.Repeat("inactive\n", len(args)-1)), errors.New("exit status 3")
		}
		return nil, nil
	}
	m.pods = Pods{
		Root: root, Current: func() (string, error) { return now, nil }, WriteFile: powercut.WriteFile,
		Level:     func(string, string) (string, error) { return "", nil },
		Arguments: func(string) (staticpod.Arguments, error) { return nil, nil },
		Images: func(digest string) (map[string]string, error) {
			tag := strings.TrimPrefix(digest, "sha256:")
			return map[string]string{"kube-apiserver": payload.Registry + "/kube-apiserver:" + tag, "etcd": payload.Registry + "/etcd:" + tag}, nil
		},
	}
	m.files = Files{
		Root: root, WriteFile: powercut.WriteFile, Remove: remove, Systemctl: m.systemd, Current: m.pods.Current, Left: m.left, tried: new([2]string),
		Of: func(context.Context, string) (state.Fact[[]state.File], error) {
			return state.Fact[[]state.File]{}, nil
		},
	}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		putFile(t, filepath.Join(root, manifestsDir, name+".yaml"), podOf(name, "old"))
	}
	for _, digest := range []string{oldOne, newOne} {
		putFile(t, filepath.Join(root, unit.ReleaseAgent(digest)), "")
	}
	return m, &now, &said
}

// files lists all files and links below a folder.
func files(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			out = append(out, strings.TrimPrefix(path, root))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAnArmedHostReturnsAtEachBootAndADisarmedOneHasNothingLeft(t *testing.T) {
	m, _, orders := onDisk(t, parachute.OfTwo)
	before := files(t, m.root)
	if armed, err := m.armed(t.Context(), oldOne); armed || err != nil {
		t.Fatalf("%v %v", armed, err)
	}
	for range 2 { // a crash has it done again
		if _, err := m.arm(t.Context(), oldOne, newOne); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range unit.ParachuteLinks() {
		if got, err := os.Readlink(filepath.Join(m.root, link)); err != nil || got != target {
			t.Errorf("%s: %q %v", link, got, err)
		}
	}
	if !slices.Contains(*orders, "start "+unit.ParachuteTimer) {
		t.Errorf("%q", *orders)
	}
	m.systemd = func(context.Context, ...string) ([]byte, error) { return []byte("active\n"), nil }
	for digest, want := range map[string]bool{oldOne: true, newOne: false} {
		if armed, err := m.armed(t.Context(), digest); armed != want || err != nil {
			t.Errorf("the parachute of %s: %v %v", digest, armed, err)
		}
	}
	for range 2 {
		if err := m.disarm(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if after := files(t, m.root); !slices.Equal(after, before) {
		t.Errorf("left: %q", after)
	}
}

func TestWithoutAProgramToReturnWithNothingIsArmed(t *testing.T) {
	m, _, _ := onDisk(t, parachute.Worker)
	if err := remove(filepath.Join(m.root, unit.ReleaseAgent(oldOne))); err != nil {
		t.Fatal(err)
	}
	before := files(t, m.root)
	if _, err := m.arm(t.Context(), oldOne, newOne); err == nil || !strings.Contains(err.Error(), "to return with") {
		t.Fatal(err)
	}
	if after := files(t, m.root); !slices.Equal(after, before) {
		t.Errorf("%q", after)
	}
}

// TestTheLinkChoosesTheStaticPodsToo: whatever lies there after a cut between any two
// writes, Settle makes it that of the release that is chosen.
func TestTheLinkChoosesTheStaticPodsToo(t *testing.T) {
	for cutAt := range 4 {
		m, current, _ := onDisk(t, parachute.Alone)
		if _, err := m.pods.Prepare(oldOne, newOne); err != nil {
			t.Fatal(err)
		}
		*current = newOne
		cut := powercut.Cut{At: cutAt}
		broken := m.pods
		broken.WriteFile = func(path string, data []byte, mode fs.FileMode) error {
			return cut.Effect(func() error { return powercut.WriteFile(path, data, mode) })
		}
		if err := broken.Settle(); err != nil && !errors.Is(err, powercut.Err) {
			t.Fatal(err)
		}
		for _, chosen := range []string{newOne, oldOne, newOne} {
			*current = chosen
			if err := m.pods.Settle(); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"kube-apiserver", "etcd"} {
				got, err := os.ReadFile(filepath.Join(m.root, manifestsDir, name+".yaml"))
				if want := podOf(name, strings.TrimPrefix(chosen, "sha256:")); err != nil || string(got) != want {
					t.Errorf("cut at %d: %s has %s, %v", cutAt, name, got, err)
				}
			}
		}
	}
}

func TestAPodThatChangedSinceAnEarlierWayIsPreparedAnew(t *testing.T) {
	m, current, _ := onDisk(t, parachute.Alone)
	if _, err := m.pods.Prepare(oldOne, newOne); err != nil {
		t.Fatal(err)
	}
	*current = newOne
	if err := m.pods.Settle(); err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(podOf("etcd", "new"), "name: a", "name: b", 1)
	putFile(t, filepath.Join(m.root, manifestsDir, "etcd.yaml"), changed)
	if _, err := m.pods.Prepare(oldOne, newOne); err != nil { // an administrator goes back
		t.Fatal(err)
	}
	*current = oldOne
	if err := m.pods.Settle(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(m.root, manifestsDir, "etcd.yaml"))
	if want := strings.Replace(changed, ":new", ":old", 1); err != nil || string(got) != want {
		t.Errorf("%s %v", got, err)
	}
}

// apiServerWith is a pod of an API server with arguments.
func apiServerWith(tag string, args ...string) string {
	command := "    command:\n    - kube-apiserver\n    - --advertise-address=10.0.0.1\n"
	for _, a := range args {
		command += "    - " + a + "\n"
	}
	return podOf("kube-apiserver", tag) + command
}

// withArguments is a host whose new release gives the API server an argument of its own.
func withArguments(t *testing.T, old, now staticpod.Arguments) (m machine, current *string, has func() string) {
	t.Helper()
	m, current, _ = onDisk(t, parachute.Alone)
	path := filepath.Join(m.root, apiServerPod)
	putFile(t, path, apiServerWith("old", "--of-a-person=1", "--delay=1s"))
	m.pods.Arguments = func(digest string) (staticpod.Arguments, error) {
		return map[string]staticpod.Arguments{oldOne: old, newOne: now}[digest], nil
	}
	return m, current, func() string {
		t.Helper()
		if err := m.pods.Settle(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// TestTheArgumentsOfAReleaseComeAndGoWithIt: also back to it, when the pods of the way have
// been forgotten.
func TestTheArgumentsOfAReleaseComeAndGoWithIt(t *testing.T) {
	old := staticpod.Arguments{"kube-apiserver": {"delay": "1s"}}
	now := staticpod.Arguments{"kube-apiserver": {"delay": "2s", "added": "true"}}
	m, current, has := withArguments(t, old, now)
	for _, way := range [][2]string{{oldOne, newOne}, {newOne, oldOne}, {oldOne, newOne}} {
		if _, err := m.pods.Prepare(way[0], way[1]); err != nil {
			t.Fatal(err)
		}
		*current = way[1]
		want := map[string]string{
			oldOne: apiServerWith("old", "--of-a-person=1", "--delay=1s"), newOne: apiServerWith("new", "--of-a-person=1", "--delay=2s", "--added=true"),
		}[way[1]]
		if got := has(); got != want {
			t.Errorf("at %s it has\n%s", way[1], got)
		}
		if err := m.pods.Forget(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAReturnDoesNotWaitForTheArgumentsOfTheReleaseThatItLeaves: its layout cannot be read. What the
// pod has stays.
func TestAReturnDoesNotWaitForTheArgumentsOfTheReleaseThatItLeaves(t *testing.T) {
	old := staticpod.Arguments{"kube-apiserver": {"delay": "9s"}}
	m, current, has := withArguments(t, old, nil)
	says := m.pods.Arguments
	m.pods.Arguments = func(digest string) (staticpod.Arguments, error) {
		if digest == newOne {
			return nil, errFails
		}
		return says(digest)
	}
	*current = newOne
	if kept, err := m.pods.Prepare(oldOne, newOne); err != nil || len(kept) > 0 {
		t.Fatalf("%q %v", kept, err)
	}
	*current = oldOne
	if got := has(); got != apiServerWith("old", "--of-a-person=1", "--delay=1s") {
		t.Errorf("it has\n%s", got)
	}
}

func TestOnlyWhatDoesNotRunIsStartedAndTheAgentLast(t *testing.T) {
	for _, c := range []struct {
		kind parachute.Kind
		want []string
	}{
		{parachute.Worker, []string{"daemon-reload", "restart containerd.service", "restart kubelet.service", "restart --no-block holdfast-agent.service"}},
		{parachute.OfTwo, []string{"daemon-reload", "restart containerd.service", "restart podman-etcd.service", "try-restart kubelet.service", "is-active pacemaker.service", "start --no-block pacemaker.service", "restart --no-block holdfast-agent.service"}},
	} {
		m, _, orders := onDisk(t, c.kind)
		for _, d := range daemonsOf(c.kind) { // no process runs these files
			putFile(t, filepath.Join(m.root, payload.ReleasesDir, "old", d.path), "")
		}
		if err := m.start(t.Context()); err != nil || !slices.Equal(*orders, c.want) {
			t.Errorf("kind %d: %q, %v", c.kind, *orders, err)
		}
		if all, err := m.daemons(t.Context(), oldOne); all || err != nil {
			t.Errorf("all run: %v %v", all, err)
		}
	}
	m, _, _ := onDisk(t, parachute.Worker)
	if all, err := m.daemons(t.Context(), ""); !all || err != nil {
		t.Errorf("a host that was never switched: %v %v", all, err)
	}
}

func TestAHostIsQuietOnceItsUnitsHaveEnded(t *testing.T) {
	for words, want := range map[string]bool{"inactive inactive": true, "inactive failed": true, "inactive active": false, "deactivating inactive": false} {
		m, _, _ := onDisk(t, parachute.OfTwo)
		m.systemd = func(context.Context, ...string) ([]byte, error) { return []byte(words), errors.New("exit status 3") }
		if got, err := m.quiet(t.Context()); err != nil || got != want {
			t.Errorf("%s: %v %v", words, got, err)
		}
	}
	m, _, _ := onDisk(t, parachute.OfTwo)
	m.systemd = func(context.Context, ...string) ([]byte, error) { return nil, errors.New("no bus") }
	if _, err := m.quiet(t.Context()); err == nil {
		t.Error("silence is taken for quiet")
	}
	m.systemd = func(context.Context, ...string) ([]byte, error) { return []byte("inactive\n"), nil }
	if _, err := m.quiet(t.Context()); err == nil || !strings.HasSuffix(err.Error(), `: it answers "inactive\n"`) {
		t.Errorf("half of an answer: %v", err)
	}
}

func TestAHostStopsWhatPacemakerRunsInOrder(t *testing.T) {
	for _, c := range []struct {
		kind parachute.Kind
		want []string
	}{{parachute.OfTwo, []string{"stop pacemaker.service", "stop kubelet.service"}}, {parachute.Worker, []string{"stop kubelet.service"}}} {
		m, _, orders := onDisk(t, c.kind)
		if err := m.stop(t.Context()); err != nil || !slices.Equal(*orders, c.want) {
			t.Errorf("%q %v", *orders, err)
		}
	}
}

func TestWithoutAnotherControlPlaneNobodyElseServes(t *testing.T) {
	own := state.Node{Name: "cp-1", Labels: map[string]string{state.LabelControlPlane: ""}}
	for _, list := range [][]state.Node{nil, {own}, {own, {Name: "worker-1"}}} {
		if got := PeerServes(t.Context(), "cp-1", list); got != state.Known(false) {
			t.Errorf("%v: %v", list, got)
		}
	}
}

func TestEtcdOfThreeSparesAHostWhileTwoOthersServe(t *testing.T) {
	plane := func(name string) state.Node {
		return state.Node{Name: name, Labels: map[string]string{state.LabelControlPlane: ""}, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
	}
	without := plane("cp-3")
	without.Addresses = nil
	yes, no, unknown := state.Known(true), state.Known(false), state.Fact[bool]{}
	for what, c := range map[string]struct {
		list []state.Node
		said map[string]state.Fact[bool]
		want state.Fact[bool]
		few  bool
	}{
		"both others serve":           {[]state.Node{plane("cp-1"), plane("cp-2"), plane("cp-3"), {Name: "w-1"}}, map[string]state.Fact[bool]{"cp-2": yes, "cp-3": yes}, yes, false},
		"one does not":                {[]state.Node{plane("cp-1"), plane("cp-2"), plane("cp-3")}, map[string]state.Fact[bool]{"cp-2": yes, "cp-3": no}, no, false},
		"one gives no answer":         {[]state.Node{plane("cp-1"), plane("cp-2"), plane("cp-3")}, map[string]state.Fact[bool]{"cp-2": yes}, unknown, false},
		"the address of one is lost":  {[]state.Node{plane("cp-1"), plane("cp-2"), without}, map[string]state.Fact[bool]{"cp-2": yes, "cp-3": yes}, unknown, false},
		"the third one was taken out": {[]state.Node{plane("cp-1"), plane("cp-2")}, map[string]state.Fact[bool]{"cp-2": yes}, no, true},
		"nobody has read the list":    {nil, nil, unknown, false},
	} {
		got, few := spared("cp-1", c.list, func(n state.Node) state.Fact[bool] { return c.said[n.Name] })
		if got != c.want || few != c.few {
			t.Errorf("%s: %+v, %v", what, got, few)
		}
	}
}

func TestADaemonThatTheReleaseLacksDoesNotRun(t *testing.T) {
	m, _, _ := onDisk(t, parachute.Worker)
	if all, err := m.daemons(t.Context(), newOne); all || err != nil {
		t.Errorf("%v %v", all, err)
	}
}

// TestADaemonIsKnownByItsFile: this process is one, if its file is that of the release.
func TestADaemonIsKnownByItsFile(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSpace(string(comm))
	if got, err := among(map[string]string{name: exe}); err != nil || !got[name] {
		t.Errorf("%v %v", got, err)
	}
	other := filepath.Join(t.TempDir(), "other")
	putFile(t, other, "")
	if got, err := among(map[string]string{name: other}); err != nil || got[name] {
		t.Errorf("another file of that name: %v %v", got, err)
	}
}
