package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/observe/netwatch"
	"github.com/holdfast/holdfast/internal/agent"
	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// asAgent turns this test binary into the agent.
const asAgent = "HOLDFAST_TEST_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		os.Exit(agent.Run(ctx, command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, []string{"run"})) //nolint:gocritic // the process ends here
	}
	os.Exit(m.Run())
}

const configuration = `apiVersion: v1
metadata: {name: shop}
baseDomain: example.test
controlPlane: {replicas: 3}
compute: [{name: worker, replicas: 2}]
networking:
  machineNetwork: [{cidr: 10.98.0.0/16}]
  clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}]
  serviceNetwork: [172.30.0.0/16]
platform:
  baremetal:
    apiVIPs: [10.98.0.5]
    ingressVIPs: [10.98.0.6]
`

// host is one host with its files in a directory, and the machine beside it,
// which has the API.
type host struct {
	t    *testing.T
	dir  string
	own  string // the network namespace of the host
	near string // the network namespace of the machine beside it
	proc *exec.Cmd
	log  bytes.Buffer
}

// newHost makes an installed host of a role, 10.98.0.11, whose agent is not yet
// running.
func newHost(t *testing.T, role state.Role) *host {
	t.Helper()
	netnstest.NeedRoot(t)
	id := strconv.Itoa(os.Getpid())
	h := &host{t: t, dir: t.TempDir(), own: "hfhost-" + id + "-own", near: "hfhost-" + id + "-near"}
	own, near := netnstest.New(t, h.own), netnstest.New(t, h.near)
	netnstest.Join(t, own, "eth0", near, "eth0")
	netnstest.Give(t, own, "eth0", "10.98.0.11/16")
	netnstest.Give(t, near, "eth0", "10.98.0.5/16")
	t.Cleanup(h.stop)
	data, err := sitetest.New(t, configuration).For(role).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	h.write(site.Path, data)
	h.write("/var/lib/holdfast/install/complete", nil)
	// The API of the tests has a network of IPv6 that the install configuration
	// does not have: the site got it after this host had chosen its address.
	// Without this file the choice would depend on which of the two is read first.
	h.write(netwatch.Path, []byte(`{"addresses":["10.98.0.11"],"interface":"eth0"}`))
	h.write("/etc/resolv.conf", []byte("nameserver 10.98.0.1\n"))
	return h
}

// write writes a file of the host.
func (h *host) write(path string, data []byte) {
	h.t.Helper()
	path = filepath.Join(h.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// mounts mounts the host's folders over the machine's, for the agent only.
const mounts = `set -e
mount --make-rprivate /
mkdir -p "$DIR/work"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$DIR/etc,workdir=$DIR/work" /etc
for d in /run/holdfast /var/lib/holdfast; do
  mkdir -p "$d" "$DIR$d"; mount --bind "$DIR$d" "$d"
done
hostname h-1
exec "$0"`

// start starts the agent.
func (h *host) start() {
	h.t.Helper()
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	h.proc = exec.Command("ip", "netns", "exec", h.own, "unshare", "--mount", "--uts", "sh", "-c", mounts, self)
	h.proc.Env = append(os.Environ(), asAgent+"=1", "DIR="+h.dir)
	h.proc.Stdout, h.proc.Stderr = &h.log, &h.log
	if err := h.proc.Start(); err != nil {
		h.t.Fatal(err)
	}
}

// stop ends the agent cleanly.
func (h *host) stop() {
	if h.proc == nil {
		return
	}
	_ = h.proc.Process.Signal(syscall.SIGTERM)
	err := h.proc.Wait()
	h.proc = nil
	if exit := new(exec.ExitError); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != -1) {
		h.t.Errorf("the agent: %v", err)
	}
	if h.t.Failed() {
		h.t.Logf("the agent's log:\n%s", h.log.String())
	}
}

// abort ends the agent such that it tells where its goroutines stand, and returns
// its log. A loop that hangs has nothing in the log that would show it.
func (h *host) abort() string {
	_ = h.proc.Process.Signal(syscall.SIGQUIT)
	_ = h.proc.Wait() // it was killed
	h.proc = nil
	return h.log.String()
}

// file returns a file of the host, empty if there is none.
func (h *host) file(path string) string {
	data, _ := os.ReadFile(filepath.Join(h.dir, path))
	return string(data)
}

// status returns the agent's status file.
func (h *host) status() network.Status {
	var s network.Status
	_ = json.Unmarshal([]byte(h.file(network.StatusPath)), &s) // there is none before the agent has begun
	return s
}

// until waits until a condition holds, and returns the time that it took.
func (h *host) until(what string, so func() bool) time.Duration {
	h.t.Helper()
	began := time.Now()
	for !so() {
		if time.Since(began) > 60*time.Second {
			h.t.Fatalf("not within a minute: %s\nlog, and where its goroutines stand:\n%s", what, h.abort())
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(began)
}

// usage returns the processor time and the memory that the agent has used.
func (h *host) usage() (cpu time.Duration, memory int) {
	h.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.proc.Process.Pid))
	if err != nil {
		h.t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+2:]))
	ticks := 0
	for _, f := range fields[11:13] { // user and system time, proc(5)
		n, err := strconv.Atoi(f)
		if err != nil {
			h.t.Fatal(err)
		}
		ticks += n
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.proc.Process.Pid))
	if err != nil {
		h.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			memory, _ = strconv.Atoi(strings.Fields(rest)[0])
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond, memory
}
