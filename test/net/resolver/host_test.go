package resolver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/lab/namednetns"
)

func TestMain(m *testing.M) {
	if verb := os.Getenv(verbVariable); verb != "" {
		if err := child(verb); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// machine is a real host: systemd in a container with its own network, and
// beside it the site's name server.
type machine struct {
	t    *testing.T
	name string
}

// kind is a way to configure a host's resolver.
type kind struct {
	packages []string
	// files are the host's files before its first boot; those that begin with
	// -> are links.
	files map[string]string
	// prepare runs in the host's tree before it boots.
	prepare string
	// writer is the tool that writes its resolver's configuration.
	writer string
	// up is the command that succeeds once the host is configured, rewrite the
	// one that makes the tool write its configuration again.
	up, rewrite string
	// interfaces is set if the host configures its interfaces itself.
	interfaces bool
}

// sysReadOnly makes tools believe that there is no udev, as in any container.
const sysReadOnly = `[Unit]
DefaultDependencies=no
Before=NetworkManager.service systemd-networkd.service sysinit.target
[Service]
Type=oneshot
ExecStart=/bin/mount -o remount,bind,ro /sys
[Install]
WantedBy=sysinit.target
`

func start(t *testing.T, k kind) *machine {
	t.Helper()
	image := imageOf(t, k.packages)
	m := &machine{t: t, name: "hfres-" + fmt.Sprint(os.Getpid()) + "-" + fmt.Sprint(time.Now().UnixNano()%1e6)}
	m.network(k.interfaces)
	m.podman("create", "--name", m.name, "--hostname", "cp-1", "--no-hosts", "--dns", "none", "--privileged", "--cgroupns", "private",
		"--systemd=false", "-e", "container=podman", "--stop-signal", "SIGRTMIN+3", "--log-driver", "none", "--pids-limit", "0",
		"--tmpfs", "/run:rw,exec,mode=755", "--tmpfs", "/run/lock:rw", "--tmpfs", "/tmp:rw,exec,mode=1777",
		"--ulimit", "nofile=10000:10000", "--ulimit", "nproc=8000:8000", "--network", "ns:/run/netns/"+m.name,
		"-v", m.program()+":/t:ro", image, "/sbin/init")
	t.Cleanup(func() { m.podman("rm", "-f", "-t", "0", m.name) })
	m.furnish(k)
	m.podman("start", m.name)
	m.until(k.up)
	return m
}

// podman runs podman as the lab does.
func (m *machine) podman(args ...string) string {
	m.t.Helper()
	out, err := run("podman", append([]string{"--runtime", "runc", "--events-backend", "file", "--cgroup-manager", "cgroupfs"}, args...)...)
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

func run(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %v: %w: %s%s", name, args, err, out.String(), errs.String())
	}
	return out.String(), nil
}

func imageOf(t *testing.T, packages []string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a host of a lab: not with -short")
	}
	if err := lab.CheckTools(); err != nil {
		t.Skipf("no lab can run here: %v", err)
	}
	image, err := lab.HostImage("/", packages)
	if err != nil {
		t.Skipf("no lab can run here: %v", err)
	}
	cache, err := release.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	// It has its own cache: the labs' images and these would push each other
	// out.
	if err := image.Ensure(t.Context(), filepath.Join(cache, "resolver"), t.Output()); err != nil {
		t.Fatal(err)
	}
	return image.Ref()
}

// program returns a folder with this test's program in it.
func (m *machine) program() string {
	m.t.Helper()
	self, err := os.Executable()
	if err != nil {
		m.t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	dir := m.t.TempDir()
	if err := errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "child"), data, 0o755)); err != nil {
		m.t.Fatal(err)
	}
	return dir
}

// furnish puts the host's files in place before it boots.
func (m *machine) furnish(k kind) {
	m.t.Helper()
	root := strings.TrimSpace(m.podman("mount", m.name))
	defer m.podman("umount", m.name)
	files := map[string]string{"/etc/systemd/system/sys-read-only.service": sysReadOnly}
	maps.Copy(files, k.files)
	for path, text := range files {
		at := filepath.Join(root, path)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		_ = os.Remove(at)
		if target, isLink := strings.CutPrefix(text, "->"); isLink {
			err = errors.Join(err, os.Symlink(target, at))
		} else {
			mode := os.FileMode(0o644)
			if strings.HasSuffix(path, ".nmconnection") {
				mode = 0o600
			}
			err = errors.Join(err, os.WriteFile(at, []byte(text), mode))
		}
		if err != nil {
			m.t.Fatal(err)
		}
	}
	for _, line := range []string{"systemctl enable sys-read-only.service", k.prepare} {
		if _, err := run("chroot", root, "/bin/sh", "-ec", line); err != nil {
			m.t.Fatal(err)
		}
	}
}

// reboot boots the host again. Its interfaces outlive the container, so they
// are reset as on a real machine.
func (m *machine) reboot(k kind) {
	m.t.Helper()
	m.podman("stop", "-t", "10", m.name)
	if k.interfaces {
		ns, err := netns.GetFromName(m.name)
		must(m.t, err)
		h, err := netlink.NewHandleAt(ns)
		must(m.t, errors.Join(err, ns.Close()))
		defer h.Close()
		link, err := h.LinkByName("eth0")
		must(m.t, err)
		must(m.t, h.LinkSetDown(link))
		list, err := h.AddrList(link, netlink.FAMILY_ALL)
		must(m.t, err)
		for _, a := range list {
			must(m.t, h.AddrDel(link, &a))
		}
	}
	m.podman("start", m.name)
}

// network makes the host's namespace, and the site's at the other end of eth0.
func (m *machine) network(interfaces bool) {
	m.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := netns.Get()
	must(m.t, err)
	hostNS, err := namednetns.New(m.name)
	must(m.t, err)
	siteNS, err := netns.New()
	must(m.t, errors.Join(err, netns.Set(own)))
	m.t.Cleanup(func() {
		must(m.t, errors.Join(hostNS.Close(), siteNS.Close(), own.Close(), netns.DeleteNamed(m.name)))
	})
	in, err := netlink.NewHandleAt(hostNS)
	must(m.t, err)
	defer in.Close()
	out, err := netlink.NewHandleAt(siteNS)
	must(m.t, err)
	defer out.Close()
	must(m.t, in.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "port0", PeerNamespace: netlink.NsFd(siteNS)}))
	up(m.t, in, "lo", "")
	up(m.t, out, "lo", "")
	up(m.t, out, "port0", siteIP+"/24")
	if !interfaces {
		up(m.t, in, "eth0", hostIP+"/24")
	}
	must(m.t, netns.Set(siteNS))
	listen, err := (&net.ListenConfig{}).ListenPacket(context.Background(), "udp", siteIP+":53")
	must(m.t, errors.Join(err, netns.Set(own)))
	site := &dns.Server{PacketConn: listen, Handler: dns.HandlerFunc(office)}
	go func() { _ = site.ActivateAndServe() }()
	m.t.Cleanup(func() { _ = listen.Close() })
}

func up(t *testing.T, h *netlink.Handle, name, address string) {
	t.Helper()
	link, err := h.LinkByName(name)
	must(t, err)
	if address != "" {
		a, err := netlink.ParseAddr(address)
		must(t, errors.Join(err, h.AddrAdd(link, a)))
	}
	must(t, h.LinkSetUp(link))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sh runs a command line in the host.
func (m *machine) sh(line string) (string, error) {
	return run("podman", "--runtime", "runc", "--events-backend", "file", "--cgroup-manager", "cgroupfs", "exec", m.name, "/bin/sh", "-c", line)
}

func (m *machine) must(line string) string {
	m.t.Helper()
	out, err := m.sh(line)
	must(m.t, err)
	return out
}

// until waits until a command line succeeds, and returns the time that it took.
func (m *machine) until(line string) time.Duration {
	m.t.Helper()
	began := time.Now()
	for {
		_, err := m.sh(line)
		if err == nil {
			return time.Since(began)
		}
		if time.Since(began) > 60*time.Second {
			m.t.Fatalf("%s: %v\n%s", line, err, m.tell())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// tell returns what a person would look at.
func (m *machine) tell() string {
	out, _ := m.sh("ls -l /etc/resolv.conf; cat /etc/resolv.conf; ip addr; systemctl --failed; journalctl -b --no-pager | tail -n 40")
	return out
}

// child runs a verb of this test's program in the host.
func (m *machine) child(verb string) string {
	m.t.Helper()
	return m.must(verbVariable + "=" + verb + " /t/child")
}

// begin runs it in the background as a unit, which end stops.
func (m *machine) begin(verb string) {
	m.t.Helper()
	m.must("systemd-run --quiet --unit=t-" + verb + " --setenv=" + verbVariable + "=" + verb + " /t/child")
}

func (m *machine) end(verb string) {
	m.t.Helper()
	m.must("systemctl kill -s KILL t-" + verb + "; systemctl stop t-" + verb + "; systemctl reset-failed t-" + verb + " || true")
}

func (m *machine) look() looked {
	m.t.Helper()
	var l looked
	must(m.t, json.Unmarshal([]byte(m.child("look")), &l))
	return l
}

// resolves returns a command line that succeeds if a program of the host finds
// a name by the C library.
func resolves(name, address string) string {
	return "getent ahostsv4 " + name + " | grep -q '^" + address + " '"
}

// file describes /etc/resolv.conf, byte for byte.
func (m *machine) file() string {
	m.t.Helper()
	return m.must("stat -c '%F %a' /etc/resolv.conf; readlink /etc/resolv.conf; od -c /etc/resolv.conf; cat /etc/resolv.conf")
}
