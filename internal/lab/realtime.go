package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Corosync runs in a real-time class on a real host, and must not lose its
// token because the machine is busy. In a control group a real-time class needs
// a budget (kernels with CONFIG_RT_GROUP_SCHED and cgroup v1). These are the
// microseconds of each second for one host and for all hosts. With 50,000 for
// one host, Corosync was held back for 5.2 s as it started on a slow machine, and
// lost its token several times.
const (
	realtimeOfHost = 100_000
	realtimeOfAll  = 900_000
)

// sharesOfAll is the weight of all hosts together against each single process of the machine,
// which has 1024. Without it a whole lab gets as much processor time as one compiler beside
// it: in cgroup v1 the group of all containers competes with processes. Beside a linter and
// tests a lab of two hosts came to a load of 90 and lost its monitors (2026-11-26).
const sharesOfAll = 8192

// A host of a site takes no processor time from another host: each has its own. Those of a lab share
// the machine's, and one that boots takes what it gets: for 0.6 s a host that served had a third of what
// it needed, and its programs waited 1.2 s for a processor in 0.4 s (2026-12-01, two processors). So a
// host that boots has a small weight for a while, and then that of the others again, podman's own.
const (
	sharesOfHost    = 1024
	sharesOfBooting = 128
	bootsFor        = 90 * time.Second
)

// The clients of a test stand for machines of their own, which never wait for a processor of
// the site's hosts. They have a group for themselves, with a weight far above that of all hosts
// together. Without it they waited for up to 1.2 s while a host booted, and of 200 requests a
// second half failed that the hosts had answered in time (2026-11-26).
const (
	clientsGroup    = "holdfast-clients"
	sharesOfClients = 8 * sharesOfAll
)

// PreferClient has a process, a client of a lab's hosts, get processor time before all hosts. What
// it starts from then on is preferred, too. It does nothing where there is no cgroup v1.
func PreferClient(pid int) error {
	if _, err := os.Stat(filepath.Join(cpuHierarchy, "cpu.shares")); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	dir := filepath.Join(cpuHierarchy, clientsGroup)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) { // #nosec G301 -- the kernel decides who may read it
		return err
	}
	if err := grantBudget(filepath.Join(dir, "cpu.shares"), sharesOfClients); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// cpuHierarchy is the directory of the CPU controller in cgroup v1.
const cpuHierarchy = "/sys/fs/cgroup/cpu"

// grantCPU lets a host's processes have a real-time class, and gives the hosts their weight
// against the processes of the machine. It does nothing where there is no cgroup v1.
func grantCPU(pid int) error {
	groups, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return err
	}
	all, own := containerGroup(cpuGroup(string(groups)))
	if own == "" {
		return nil
	}
	for _, grant := range []struct {
		dir, file string
		budget    int
	}{{all, "cpu.shares", sharesOfAll}, {all, "cpu.rt_runtime_us", realtimeOfAll}, {own, "cpu.rt_runtime_us", realtimeOfHost}} {
		if err := grantBudget(filepath.Join(cpuHierarchy, grant.dir, grant.file), grant.budget); err != nil {
			return fmt.Errorf("processor time of the hosts: %w", err)
		}
	}
	return nil
}

// weigh gives a host its weight against the other hosts. It does nothing where there is no cgroup v1, or
// the host has ended.
func weigh(pid, shares int) error {
	groups, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, own := containerGroup(cpuGroup(string(groups)))
	if own == "" {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(cpuHierarchy, own, "cpu.shares"), os.O_WRONLY, 0) // #nosec G304 -- a file of the kernel
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, shares)
	return errors.Join(err, file.Close())
}

// containerGroup returns the group that holds all of podman's containers, and
// the group of the container to which a process's group belongs. A host's init
// may already have made groups of its own below it.
func containerGroup(group string) (all, own string) {
	parts := strings.Split(group, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "libpod-") {
			return strings.Join(parts[:i], "/"), strings.Join(parts[:i+1], "/")
		}
	}
	return "", ""
}

// grantBudget raises a group's budget. It leaves a larger one alone.
func grantBudget(file string, budget int) error {
	now, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(now))); err != nil || n >= budget || n < 0 {
		return err
	}
	return os.WriteFile(file, []byte(strconv.Itoa(budget)), 0)
}

// cpuGroup returns a process's group in the hierarchy of the CPU controller,
// from its /proc/PID/cgroup; empty on cgroup v2.
func cpuGroup(groups string) string {
	for line := range strings.Lines(groups) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) == 3 && part[1] == "cpu" || len(part) == 3 && strings.HasPrefix(part[1], "cpu,") {
			return part[2]
		}
	}
	return ""
}
