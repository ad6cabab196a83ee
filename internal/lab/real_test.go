package lab

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// real is a test's lab of two bare hosts on this machine.
type real struct {
	t      *testing.T
	root   string
	lab    *Lab
	client *Client
}

// nameVariable passes the lab's name to child processes of this test binary.
const nameVariable = "HOLDFAST_TEST_LAB_NAME"

// realName is the name of the lab. Each run of the tests has another one, so
// that several may run on a machine.
var realName = cmp.Or(os.Getenv(nameVariable), "self"+strconv.FormatInt(int64(os.Getpid()), 36))

// needLab skips a test where no lab can run, and fails it where one must.
func needLab(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a lab: not with -short")
	}
	err := CheckTools()
	if err == nil {
		_, err = HostImage("/", nil)
	}
	if err == nil {
		return
	}
	if os.Getenv("HOLDFAST_REQUIRE_TOOLS") == "1" {
		t.Fatal(err)
	}
	t.Skipf("no lab can run here: %v", err)
}

func testBuilder(root string, log io.Writer) (*Builder, error) {
	cache, err := release.CacheDir()
	return &Builder{
		Root: root, Cache: cache, Launch: testLauncher, Log: log,
		Packages: payload.HostPackages(payload.ExtensionTwoNodeHA),
	}, err
}

func realSpec() Spec {
	return Spec{Name: realName, ControlPlanes: 2, Families: []Family{V4, V6}, Bare: true}
}

func (r *real) builder() *Builder {
	r.t.Helper()
	u, err := testBuilder(r.root, r.t.Output())
	if err != nil {
		r.t.Fatal(err)
	}
	return u
}

func startReal(t *testing.T) *real {
	t.Helper()
	r := &real{t: t, root: filepath.Join(t.TempDir(), "labs")}
	t.Cleanup(func() {
		if err := Down(context.Background(), r.root, realName); err != nil {
			t.Error(err)
		}
	})
	r.up()
	return r
}

func (r *real) up() {
	r.t.Helper()
	var err error
	if r.lab, r.client, err = r.builder().Up(r.t.Context(), Options{Spec: realSpec()}); err != nil {
		r.t.Fatal(err)
	}
	for _, h := range r.lab.Layout.Hosts {
		r.booted(h.Name)
	}
}

// sh runs a script on a host and returns its output and its error.
func (r *real) sh(name, script string) (string, error) {
	h, ok := r.lab.Layout.Host(name)
	if !ok {
		r.t.Fatalf("no host %s", name)
	}
	pid := r.status(h.Name).PID
	if pid == 0 {
		return "", errors.New("the host is off")
	}
	out, err := output(r.t.Context(), pid, "sh", "-c", script)
	return strings.TrimSpace(string(out)), err
}

func (r *real) works(name, script string) {
	r.t.Helper()
	if out, err := r.sh(name, script); err != nil {
		r.t.Errorf("%s: %s: %v\n%s", name, script, err, out)
	}
}

func (r *real) fails(name, script string) {
	r.t.Helper()
	if out, err := r.sh(name, script); err == nil {
		r.t.Errorf("%s: %s: succeeded\n%s", name, script, out)
	}
}

// eventually waits for a condition that the lab reaches by itself.
func (r *real) eventually(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if ok() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	r.t.Fatalf("not within 20 s: %s", what)
}

func (r *real) booted(name string) {
	r.t.Helper()
	failed := r.t.Failed()
	defer func() {
		if r.t.Failed() && !failed {
			out, err := r.sh(name, "systemctl is-system-running; systemctl list-jobs --no-pager; systemctl --failed --no-pager; ip -brief address; ps axf")
			r.t.Logf("%s (%v): %s\nThe daemon's last words:\n%s", name, err, out, r.lab.daemonWords())
		}
	}()
	r.eventually(name+" boots", func() bool {
		out, _ := r.sh(name, "systemctl is-system-running 2>/dev/null")
		return out == "running" || out == "degraded"
	})
}

func (r *real) status(name string) HostStatus {
	r.t.Helper()
	st, err := r.client.Status(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, h := range st.Hosts {
		if h.Name == name {
			return h
		}
	}
	r.t.Fatalf("no host %s", name)
	return HostStatus{}
}

func (r *real) power(name string, a PowerAction) {
	r.t.Helper()
	if err := r.client.Power(r.t.Context(), PowerRequest{Host: name, Action: a}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *real) inject(f Fault) {
	r.t.Helper()
	if err := r.client.Inject(r.t.Context(), f); err != nil {
		r.t.Fatal(err)
	}
	st, err := r.client.Status(r.t.Context())
	if err != nil || f.lasting() && len(st.Faults) != 1 {
		r.t.Fatalf("faults in force: %v (%v)", st.Faults, err)
	}
}

func (r *real) clear() {
	r.t.Helper()
	if _, err := r.client.Clear(r.t.Context(), ClearRequest{}); err != nil {
		r.t.Fatal(err)
	}
	if st, err := r.client.Status(r.t.Context()); err != nil || len(st.Faults) != 0 {
		r.t.Fatalf("faults in force after clear: %v (%v)", st.Faults, err)
	}
}

// name returns a name of the cluster.
func (r *real) name(label string) string { return label + "." + r.lab.Layout.ClusterDomain() }

// inSwitch runs a script in the namespace of the lab's switch.
func (r *real) inSwitch(script string) (string, error) {
	out, err := inNamespace(r.t.Context(), namespace(r.lab.Layout.Switch()), nil, "sh", "-c", script)
	return string(out), err
}

const ping = "ping -c1 -W1 "

// traceOfAll lists the parts of the machine's own network that no lab may
// change.
const traceOfAll = `ip -o link | cut -d: -f2; ip -o addr | awk '{print $2,$4}'; ip route; ip -6 route | grep -v expires; nft list ruleset
for f in net/ipv4/ip_forward net/ipv6/conf/all/forwarding; do echo $f $(cat /proc/sys/$f); done
ls /run/netns 2>/dev/null | grep $NAME; podman ps -a --format '{{.Names}}' | grep $NAME; grep $NAME /proc/mounts; losetup -a | grep $NAME; true`

// traceOfOne lists the traces of a lab that can be told only if it is the only
// one.
const traceOfOne = `ls /run/netns 2>/dev/null; ls -d /run/netns 2>/dev/null
cut -d' ' -f1,2,3 /proc/mounts | grep -v /tmp/; losetup -a | cut -d: -f1,3
podman ps -a --format '{{.Names}}'; podman volume ls -q; podman network ls -q
ps -eo args | grep -E 'conmon|/sbin/init|^/proc/self/exe' | grep -v -e grep -e defunct
for f in vm/overcommit_memory kernel/panic kernel/panic_on_oops kernel/pid_max; do echo $f $(cat /proc/sys/$f); done`

// trace lists everything that a lab could leave on the machine. While other
// labs come and go, it lists only what is certainly not theirs.
func trace(t *testing.T, alone bool) string {
	t.Helper()
	script := traceOfAll
	if alone {
		script += "\n" + traceOfOne
	}
	out, err := host.Run(t.Context(), host.Cmd{Name: "sh", Args: []string{"-c", script}, Env: []string{"NAME=" + realName}})
	if err != nil && host.ExitCode(err) < 0 {
		t.Fatal(err)
	}
	return string(out)
}

// otherLabs counts the containers of other labs.
func otherLabs(t *testing.T) int {
	t.Helper()
	out, err := podman(t.Context(), "ps", "--all", "--quiet", "--filter", "label="+containerLabel)
	if err != nil {
		t.Fatal(err)
	}
	return len(strings.Fields(string(out)))
}
