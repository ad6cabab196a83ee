package bootloader

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// installArguments are those of the boot that installs the boot loader. Debian's
	// kernel-install makes the first entry of systemd-boot from them.
	installArguments = "root=LABEL=root ro console=ttyS0 distribution.one=1 quiet loglevel=3"
	// bootLimit bounds a boot, and lineLimit what the test types. An emulated
	// processor takes twenty times as long as a real one, and others may use that too.
	bootLimit = 10 * time.Minute
	lineLimit = 10 * time.Minute
	// probeLimit is the time in which a kernel without a disk gives up where KVM works.
	probeLimit = 15 * time.Second
)

// machine is a virtual machine. Its first serial port is the console of its kernel, its
// second one runs what the test types.
type machine struct {
	kind kind
	// dir is the folder of its disk, and tools is its second disk, if it has one.
	dir, tools string
	// kernel is true if QEMU gives it the kernel, since nothing boots it yet.
	kernel bool

	process *os.Process
	ended   chan struct{}
	in      io.Writer
	lines   chan string
}

// accelerated holds the flags of QEMU for the fastest processor that works here.
var accelerated = struct {
	sync.Once
	flags []string
}{}

// processor returns them. Machines that are virtual themselves may offer a KVM with which
// no kernel comes up, so one is tried: without a disk it gives up, which ends QEMU.
func processor(t *testing.T, kernel string) []string {
	t.Helper()
	accelerated.Do(func() {
		kvm := []string{"-accel", "kvm", "-cpu", "host"}
		cmd := exec.CommandContext(t.Context(), "timeout", slices.Concat([]string{"--signal=KILL", probeLimit.String(), "qemu-system-x86_64"}, kvm,
			[]string{"-m", "256", "-nodefaults", "-display", "none", "-no-reboot", "-kernel", kernel, "-append", "panic=-1"})...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("no KVM, an emulated processor: %v %s", err, out)
			kvm = []string{"-accel", "tcg", "-cpu", "qemu64"}
		}
		accelerated.flags = kvm
	})
	return accelerated.flags
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

func (m *machine) flags(t *testing.T) []string {
	t.Helper()
	flags := slices.Concat(processor(t, m.path(kernelFile)), []string{
		"-m", "512", "-nodefaults", "-no-user-config", "-display", "none", "-device", "virtio-rng-pci",
		// Killing QEMU loses nothing that the guest wrote, so nothing waits for a disk here.
		"-drive", "if=virtio,format=raw,cache=unsafe,file=" + m.path(diskFile),
		"-chardev", "file,id=console,append=on,path=" + m.path("console.log"), "-serial", "chardev:console", "-serial", "stdio",
	})
	if m.tools != "" {
		flags = append(flags, "-drive", "if=virtio,format=raw,readonly=on,file="+m.tools)
	}
	if m.kind.uefi {
		flags = append(flags, "-drive", "if=pflash,format=raw,readonly=on,file="+firmware, "-drive", "if=pflash,format=raw,file="+m.path(varsFile))
	}
	if m.kernel {
		flags = append(flags, "-kernel", m.path(kernelFile), "-initrd", m.path(initrdFile), "-append", installArguments)
	}
	return flags
}

// start switches the machine on and waits until it takes what is typed.
func (m *machine) start(t *testing.T) {
	t.Helper()
	cmd := exec.Command("qemu-system-x86_64", m.flags(t)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if m.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	said, err := os.Create(m.path("qemu.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = said.Close() }()
	cmd.Stderr = said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended, lines := make(chan error), make(chan struct{}), make(chan string, 1000)
	go func() {
		// QEMU gets its signal when the thread that started it ends, also if nobody
		// cleans up: the thread stays for as long as QEMU runs.
		runtime.LockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- strings.TrimRight(s.Text(), "\r")
		}
		_ = cmd.Wait()
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	m.process, m.ended, m.lines = cmd.Process, ended, lines
	t.Cleanup(m.cut)
	m.booted(t)
}

// booted waits until the machine takes what is typed.
func (m *machine) booted(t *testing.T) {
	t.Helper()
	began := time.Now()
	m.wait(t, bootLimit, func(line string) bool { return strings.HasSuffix(line, "typed: ready") })
	if m.tools != "" {
		m.must(t, "mount -o ro LABEL=tools /media/tools")
	}
	t.Logf("booted after %.1f s", time.Since(began).Seconds())
}

// cut takes the machine's power away.
func (m *machine) cut() {
	select {
	case <-m.ended:
		return
	default:
	}
	_ = m.process.Kill() // it may have ended by itself
	for {
		select {
		case <-m.lines: // whoever reads its output may stand at a full channel
		case <-m.ended:
			return
		}
	}
}

// off shuts the machine down.
func (m *machine) off(t *testing.T) {
	t.Helper()
	m.send(t, "systemctl poweroff")
	select {
	case <-m.ended:
	case <-time.After(bootLimit):
		t.Fatalf("the machine does not shut down:\n%s", m.console())
	}
}

// reboot boots the machine in order.
func (m *machine) reboot(t *testing.T) {
	t.Helper()
	m.send(t, "systemctl reboot")
	m.booted(t)
}

func (m *machine) send(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(m.in, line); err != nil {
		t.Fatalf("%v\n%s", err, m.console())
	}
}

// wait reads lines up to one that is meant, and returns those before it.
func (m *machine) wait(t *testing.T, limit time.Duration, meant func(string) bool) (before []string, last string) {
	t.Helper()
	late := time.After(limit)
	for {
		select {
		case line := <-m.lines:
			if meant(line) {
				return before, line
			}
			before = append(before, line)
		case <-m.ended:
			t.Fatalf("QEMU has ended: %q\n%s", before, m.console())
		case <-late:
			t.Fatalf("nothing for %s, but %q\n%s", limit, before, m.console())
		}
	}
}

// must runs a line of shell in the machine, and returns what it printed.
func (m *machine) must(t *testing.T, line string) string {
	t.Helper()
	m.send(t, line)
	before, last := m.wait(t, lineLimit, func(l string) bool { return strings.HasPrefix(l, "typed: ended ") })
	out := strings.TrimSpace(strings.Join(before, "\n"))
	if last != "typed: ended 0" {
		t.Fatalf("%s: %s\n%s", line, last, out)
	}
	return out
}

// console returns the end of what the kernel and QEMU said.
func (m *machine) console() string {
	const most = 4000
	var out []string
	for _, name := range []string{"qemu.log", "console.log"} {
		data, err := os.ReadFile(m.path(name))
		if err != nil {
			data = []byte(err.Error())
		}
		out = append(out, string(data[max(0, len(data)-most):]))
	}
	return strings.Join(out, "\n")
}
