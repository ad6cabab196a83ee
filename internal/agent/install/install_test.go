package install

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/wiping"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/keepalived"
	"github.com/holdfast/holdfast/internal/testkit/golden"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// newRun returns an installation that touches only a test's own directory.
func newRun(t *testing.T, role state.Role) (*run, *bytes.Buffer) {
	t.Helper()
	s := sitetest.New(t, sitetest.TwoDual)
	s.Role = role
	var log bytes.Buffer
	dir := t.TempDir()
	return &run{
		Options: Options{Site: s, Log: &log, Now: time.Now, Release: filepath.Join(dir, "brought")},
		done:    filepath.Join(dir, "done"), pulled: filepath.Join(dir, "pulled"),
		serves: func(context.Context) (string, error) { return "", nil },
		life: func(context.Context, string) (state.Life, bool, error) {
			return state.Life{}, false, errors.New("nobody answers")
		},
		recorder: &recorder{
			path: filepath.Join(dir, "progress.json"), now: time.Now, log: &log,
			p: state.Progress{Host: "cp-1", Role: role},
		},
	}, &log
}

func TestTheStepsOfARoleMatchTheApprovedList(t *testing.T) {
	var out strings.Builder
	for _, role := range []state.Role{state.RoleBootstrap, state.RoleMaster, state.RoleWorker} {
		r, _ := newRun(t, role)
		out.WriteString(string(role) + "\n")
		seen := map[string]bool{}
		for _, s := range r.steps() {
			out.WriteString("  " + s.name)
			if s.always {
				out.WriteString(" (always)")
			}
			out.WriteString("\n")
			if seen[slug(s.name)] {
				t.Errorf("%s: two steps share the marker %s", role, slug(s.name))
			}
			seen[slug(s.name)] = true
		}
	}
	golden.Check(t, "steps.txt", []byte(out.String()))
}

// apply goes by that step: before it nothing of a site or role is left on a host.
func TestTheFirstStepThatIsNotRepeatedTellsThatAnInstallationHasBegun(t *testing.T) {
	for _, role := range []state.Role{state.RoleBootstrap, state.RoleMaster, state.RoleWorker} {
		r, _ := newRun(t, role)
		steps := r.steps()
		i := slices.IndexFunc(steps, func(s step) bool { return !s.always })
		if got := filepath.Join(doneDir, slug(steps[i].name)); got != state.InstallBegunPath {
			t.Errorf("%s: it is %s", role, got)
		}
	}
}

func TestAStepThatIsDoneIsNotDoneAgain(t *testing.T) {
	r, _ := newRun(t, state.RoleMaster)
	calls := map[string]int{}
	count := func(name string, always bool) step {
		return step{name: name, always: always, do: func(context.Context) error { calls[name]++; return nil }}
	}
	for range 3 {
		for _, s := range []step{count("once", false), count("every time", true)} {
			if err := r.persist(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := map[string]int{"once": 1, "every time": 3}; cmp.Diff(want, calls) != "" {
		t.Errorf("got %v, want %v", calls, want)
	}
	if _, err := os.Stat(filepath.Join(r.done, "every-time")); err != nil {
		t.Error(err)
	}
}

func TestAFailedStepIsTriedAgainAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := newRun(t, state.RoleMaster)
		start, tries := time.Now(), 0
		err := r.persist(t.Context(), step{name: "join", do: func(context.Context) error {
			if tries++; tries < 3 {
				return errors.New("no answer")
			}
			return nil
		}})
		if err != nil || tries != 3 || time.Since(start) != 2*retryAfter {
			t.Errorf("%d tries in %s: %v", tries, time.Since(start), err)
		}
		want := "join ...\nfailed: no answer\njoin ...\nfailed: no answer\njoin ...\n"
		if log.String() != want {
			t.Errorf("log %q", log)
		}
		p := r.fromFile(t)
		if len(p.Steps) != 1 || p.Steps[0].State != state.StepDone || p.Steps[0].Message != "" || p.Error != "" {
			t.Errorf("recorded %+v", p)
		}
	})
}

// A restored cluster has the webhooks of its backup, whose pods come after the step that asks them.
func TestAStepThatAWebhookRefusesSaysWhatToSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := newRun(t, state.RoleBootstrap)
		ctx, cancel := context.WithTimeout(t.Context(), retryAfter*3/2)
		defer cancel()
		err := r.persist(ctx, step{name: "apply manifests", do: func(context.Context) error {
			return errors.New(`Internal error occurred: failed calling webhook "fail.example.com": no endpoints available for service "x"`)
		}})
		p := r.fromFile(t)
		for _, want := range []string{"ask webhook fail.example.com first", "--kubeconfig /etc/kubernetes/admin.conf delete KIND NAME"} {
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(log.String(), want) || len(p.Steps) != 1 || !strings.Contains(p.Error+p.Steps[0].Message, want) {
				t.Errorf("%v: want %q: %s; recorded is %+v", err, want, log, p)
			}
		}
	})
}

func TestAReportStaysSmallHoweverOftenAStepFails(t *testing.T) {
	r, _ := newRun(t, state.RoleMaster)
	failure := errors.New(strings.Repeat("x", 8<<10)) // as much as a failed command may say
	for range 50 {
		r.start("join control plane")
		r.end(failure)
	}
	if n := len(r.encoded()); n > configserver.MaxProgressBytes {
		t.Errorf("a report of %d bytes, of which the server takes %d", n, configserver.MaxProgressBytes)
	}
	if step, _ := r.fromFile(t).Current(); step.State != state.StepFailed || step.Message != failure.Error() {
		t.Errorf("the last try is %s", step.State)
	}
}

func TestAStepThatWasCutOffIsNotMarkedAsDone(t *testing.T) {
	r, _ := newRun(t, state.RoleMaster)
	ctx, cancel := context.WithCancel(t.Context())
	err := r.persist(ctx, step{name: "join", do: func(context.Context) error { cancel(); return nil }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if host.Exists(filepath.Join(r.done, "join")) {
		t.Error("marked as done")
	}
}

func TestKubeadmDoesNotPrintTheBootstrapToken(t *testing.T) {
	if !slices.Contains(initArgs, "--skip-token-print") {
		t.Errorf("kubeadm %v prints it into the journal", initArgs)
	}
}

func TestAControlPlaneGoesByANameThatCanBeFenced(t *testing.T) {
	const other = "this host is called cp-1.example.test, but controlPlane.fencing.credentials names cp-1 and cp-2: " +
		"it could not be fenced; give it that name (hostnamectl set-hostname) or correct install-config.yaml"
	for _, c := range []struct {
		role state.Role
		name string
		want string
	}{
		{state.RoleBootstrap, "cp-1", ""},
		{state.RoleMaster, "cp-2", ""},
		{state.RoleMaster, "cp-1.example.test", other},
		{state.RoleWorker, "worker-1", ""},
	} {
		r, _ := newRun(t, c.role)
		got := ""
		if err := r.fencedByName(c.name); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.role, c.name, got, c.want)
		}
	}
	alone, _ := newRun(t, state.RoleBootstrap)
	alone.Site = sitetest.New(t, sitetest.OneNone)
	if err := alone.fencedByName("any"); err != nil {
		t.Errorf("a site without fencing: %v", err)
	}
}

func TestEveryVIPThatIsInUseIsNamed(t *testing.T) {
	api, ingress := netip.MustParseAddr("10.98.0.5"), netip.MustParseAddr("10.98.0.6")
	vips := []netip.Addr{api, ingress}
	if err := free(vips, nil); err != nil {
		t.Error(err)
	}
	err := free(vips, map[netip.Addr]net.HardwareAddr{ingress: {2, 0, 0, 0, 0, 9}, api: {2, 0, 0, 0, 0, 8}})
	for _, want := range []string{
		"VIP 10.98.0.5 is in use by the machine with hardware address 02:00:00:00:00:08",
		"VIP 10.98.0.6 is in use by the machine with hardware address 02:00:00:00:00:09",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A foreign host that has the ingress VIP is heard in the VIP's own network
// alone.
func TestAVIPIsAskedAboutAndHeldInItsOwnNetwork(t *testing.T) {
	on := func(nic string, index int, p string) state.HostAddress {
		return state.HostAddress{Interface: nic, Index: index, Prefix: netip.MustParsePrefix(p), Usable: true}
	}
	api, ingress := netip.MustParseAddr("10.98.0.5"), netip.MustParseAddr("10.99.0.6")
	v := state.NetworkView{
		Settings: state.NetworkSettings{
			ManagedVIPs: true, APIVIPs: []netip.Addr{api}, IngressVIPs: []netip.Addr{ingress},
			MachineNetworks: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24"), netip.MustParsePrefix("10.99.0.0/24")},
		},
		Role: state.RoleBootstrap, Host: state.HostFacts{NodeName: "cp-1", Interface: "eth0"},
		Addresses: []state.HostAddress{on("eth0", 2, "10.98.0.11/24"), on("eth1", 3, "10.99.0.11/24")},
	}
	ask, hold, err := places(v)
	if err != nil || fmt.Sprint(ask) != "map[eth0:[10.98.0.5] eth1:[10.99.0.6]]" || fmt.Sprint(hold) != "map[10.98.0.5:eth0]" {
		t.Errorf("asks %v, holds %v, %v", ask, hold, err)
	}
	v.Host.Interface, v.Addresses = "eth0", v.Addresses[:1]
	if ask, _, err := places(v); err != nil || fmt.Sprint(ask) != "map[eth0:[10.98.0.5]]" {
		t.Errorf("without a NIC in the network of ingress: asks %v, %v", ask, err)
	}
	v.Addresses = []state.HostAddress{on("eth0", 2, "10.99.0.11/24")}
	if _, hold, err := places(v); err == nil || len(hold) != 0 || !strings.Contains(err.Error(), "VIP 10.98.0.5 is in 10.98.0.0/24, where this host has no address") {
		t.Errorf("without one in that of the API: holds %v, %v", hold, err)
	}
}

// kubelet starts keepalived, and has no configuration before kubeadm init. A boot before that takes
// the VIPs away, though the pod is there.
func TestAVIPIsHeldAnewUntilKubeletCanStartKeepalived(t *testing.T) {
	r, _ := newRun(t, state.RoleBootstrap)
	r.root = t.TempDir()
	put := func(path string) {
		t.Helper()
		if err := host.WriteFileAtomic(filepath.Join(r.root, path), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(keepalived.PodPath)
	if err := r.holdVIP(t.Context()); err == nil || !strings.Contains(err.Error(), "VIP 10.98.0.5") {
		t.Errorf("it does not look where to hold them: %v", err) // this host of a test has no address
	}
	put(kubeletSettings)
	if err := r.holdVIP(t.Context()); err != nil {
		t.Errorf("keepalived decides: %v", err)
	}
}

// The same host may be installed again into the same site: then only this tells that it lives anew.
func TestAnInstallationEndsThePermissionOfAFormerWipe(t *testing.T) {
	r, _ := newRun(t, state.RoleWorker)
	r.root = t.TempDir()
	journal := filepath.Join(r.root, wiping.JournalPath)
	if err := host.WriteFileAtomic(journal, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.doAll(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if host.Exists(journal) {
		t.Error("the next wipe asks nobody")
	}
}

func TestStartedRemembersAcrossRuns(t *testing.T) {
	r, _ := newRun(t, state.RoleMaster)
	for i, want := range []bool{false, true, true} {
		got, err := r.started("start control plane")
		if err != nil || got != want {
			t.Errorf("call %d: %t, %v", i, got, err)
		}
	}
	if got, err := r.started("join"); err != nil || got {
		t.Errorf("another step: %t, %v", got, err)
	}
}

func TestPollShowsWhatItWaitsForOnceAndErrorsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := newRun(t, state.RoleMaster)
		r.start("wait")
		answers := []struct {
			ok      bool
			waiting string
			err     error
		}{{waiting: "for cp-2"}, {waiting: "for cp-2"}, {err: errors.New("no route")}, {ok: true, err: errors.New("half an answer")}, {ok: true}}
		n := 0
		err := r.poll(t.Context(), time.Second, func(context.Context) (bool, string, error) {
			a := answers[n]
			n++
			return a.ok, a.waiting, a.err
		})
		if err != nil || n != len(answers) {
			t.Errorf("%d looks: %v", n, err)
		}
		if want := "wait ...\n  for cp-2\n  no route\n  half an answer\n"; log.String() != want {
			t.Errorf("log %q", log)
		}
	})
}

func TestDescribeNodes(t *testing.T) {
	for want, got := range map[string]string{
		"nodes: 0 of 3 ready":                             describeNodes("nodes", 0, 3, nil),
		"control planes: 1 of 2 ready, waiting for cp-2":  describeNodes("control planes", 1, 2, []string{"cp-2"}),
		"nodes: 1 of 3 ready, waiting for cp-2, worker-1": describeNodes("nodes", 1, 3, []string{"cp-2", "worker-1"}),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestImagesOfARole(t *testing.T) {
	worker, _ := newRun(t, state.RoleWorker)
	master, _ := newRun(t, state.RoleMaster)
	for _, name := range worker.images() {
		if !slices.Contains(master.images(), name) {
			t.Errorf("a control plane lacks %s", name)
		}
	}
	if slices.Contains(worker.images(), "etcd") || !slices.Contains(master.images(), "etcd") {
		t.Error("etcd belongs on control planes only")
	}
}

func TestTheProgressIsKeptAndPublished(t *testing.T) {
	r, _ := newRun(t, state.RoleWorker)
	var published [][]byte
	r.publish = func(data []byte) { published = append(published, data) }
	r.start("find own addresses")
	r.wait("no address yet")
	r.end(errors.New("no interface"))
	failed := r.fromFile(t)
	if step, _ := failed.Current(); step.State != state.StepFailed || failed.Error != "no interface" {
		t.Errorf("after a failure: %+v", failed)
	}
	r.start("find own addresses")
	r.end(nil)
	r.complete()
	p := r.fromFile(t)
	if step, _ := p.Current(); !p.Complete || step.State != state.StepDone || step.Message != "" || p.Error != "" {
		t.Errorf("after all: %+v", p)
	}
	if len(published) != 6 {
		t.Errorf("published %d times", len(published))
	}
	file, err := os.ReadFile(r.path)
	if err != nil || !bytes.Equal(file, published[5]) || !bytes.Equal(file, r.encoded()) {
		t.Errorf("the file, what was published and what is sent last differ (%v)", err)
	}
}

func TestAProgressThatCannotBeWrittenStopsNothing(t *testing.T) {
	log := &bytes.Buffer{}
	r := &recorder{path: "/dev/null/progress.json", now: time.Now, log: log}
	r.start("a step")
	r.end(nil)
	if !strings.Contains(log.String(), "progress is not recorded") {
		t.Errorf("log %q", log)
	}
}

func (r *run) fromFile(t *testing.T) state.Progress {
	t.Helper()
	data, err := os.ReadFile(r.path)
	if err != nil {
		t.Fatal(err)
	}
	var p state.Progress
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	return p
}
