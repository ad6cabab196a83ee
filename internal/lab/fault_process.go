package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Signals of the process faults.
const (
	sigKill = unix.SIGKILL
	sigStop = unix.SIGSTOP
	sigCont = unix.SIGCONT
)

// errNoProcess reports that no process of the wanted name runs on the host.
var errNoProcess = errors.New("no such process on the host")

func ignoreNoProcess(err error) error {
	if errors.Is(err, errNoProcess) {
		return nil
	}
	return err
}

// signalProcesses sends a signal to every process of a name on a host,
// including those in the host's own containers.
func signalProcesses(ctx context.Context, h Host, name string, sig unix.Signal) error {
	id, err := containerID(ctx, h)
	if err != nil {
		return err
	}
	pids := processesOf(id, name)
	if len(pids) == 0 {
		return fmt.Errorf("%w: %s", errNoProcess, name)
	}
	var errs []error
	for _, pid := range pids {
		if err := unix.Kill(pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("signal %s (process %d): %w", name, pid, err))
		}
	}
	return errors.Join(errs...)
}

// Processes returns the processes that hold a control plane together, by the
// names that the process faults take.
func Processes() []string {
	return []string{
		"etcd", "conmon", "podman-etcd serve", "kube-apiserver", "kubelet", "containerd", "keepalived", "haproxy",
		"corosync", "pacemakerd", "pacemaker-controld", "pacemaker-attrd", "pacemaker-fenced", "pacemaker-execd",
		"pacemaker-based", "pacemaker-schedulerd",
	}
}

// processesOf returns the processes of a name below a container. A container
// within the host lies below it in the tree of control groups, whatever pid
// namespace it has. The monitor of the host's own container does not belong to
// the host: it runs in the lab's pid namespace.
func processesOf(container, name string) []int {
	var out []int
	own, _ := os.Readlink("/proc/self/ns/pid")
	found, _ := filepath.Glob("/proc/[0-9]*/cgroup") // the pattern is valid
	for _, file := range found {
		groups, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(groups, []byte(container)) {
			continue
		}
		dir := filepath.Dir(file)
		if ns, err := os.Readlink(filepath.Join(dir, "ns/pid")); err != nil || ns == own {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && named(dir, name) {
			out = append(out, pid)
		}
	}
	return out
}

// named reports whether a process runs the program of a name, with the
// arguments that the name may include.
func named(dir, name string) bool {
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return false
	}
	return fits(strings.Split(strings.TrimRight(string(line), "\x00"), "\x00"), name)
}

// fits reports whether a command line runs a program, with its first arguments
// if the name includes some: "podman-etcd serve" is the etcd keeper, and not
// Pacemaker's monitor.
func fits(line []string, name string) bool {
	program, args, _ := strings.Cut(name, " ")
	rest := strings.Join(line[1:], " ")
	return programName(line) == program && (args == "" || rest == args || strings.HasPrefix(rest, args+" "))
}

// programName returns the name of the program in a command line. If an
// interpreter runs a script, as with pcsd, it is the script's name.
func programName(line []string) string {
	name := filepath.Base(line[0])
	if !interpreter.MatchString(name) {
		return name
	}
	for _, word := range line[1:] {
		if !strings.HasPrefix(word, "-") {
			return filepath.Base(word)
		}
	}
	return name
}

// interpreter matches programs that are known by the script they run.
var interpreter = regexp.MustCompile(`^(python|ruby|perl)[0-9.]*$`)
