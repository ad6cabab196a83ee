package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Corosync runs in a real-time class on a real host, and must not lose its
// token because the machine is busy. In a control group that needs a budget
// (kernels with CONFIG_RT_GROUP_SCHED and cgroup v1), here as a part of a second
// for each host and for all of them, in microseconds.
const (
	realtimeOfHost = 50_000
	realtimeOfAll  = 500_000
)

// cpuHierarchy is where cgroup v1 has its CPU controller.
const cpuHierarchy = "/sys/fs/cgroup/cpu"

// grantRealtime lets a host's processes have a real-time class. Where the
// kernel asks for no budget there is nothing to grant.
func grantRealtime(pid int) error {
	groups, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return err
	}
	all, own := containerGroup(cpuGroup(string(groups)))
	if own == "" {
		return nil
	}
	for _, grant := range []struct {
		dir    string
		budget int
	}{{all, realtimeOfAll}, {own, realtimeOfHost}} {
		if err := grantBudget(filepath.Join(cpuHierarchy, grant.dir, "cpu.rt_runtime_us"), grant.budget); err != nil {
			return fmt.Errorf("real-time budget: %w", err)
		}
	}
	return nil
}

// containerGroup returns the group that holds all of podman's containers, and
// that of the container in which a process of the group is. A host's init may
// have made groups of its own below it already.
func containerGroup(group string) (all, own string) {
	parts := strings.Split(group, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "libpod-") {
			return strings.Join(parts[:i], "/"), strings.Join(parts[:i+1], "/")
		}
	}
	return "", ""
}

// grantBudget raises a group's budget; more than is wanted is left.
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

// cpuGroup is a process's group in the hierarchy of the CPU controller, from
// its /proc/PID/cgroup; empty on cgroup v2.
func cpuGroup(groups string) string {
	for line := range strings.Lines(groups) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) == 3 && part[1] == "cpu" || len(part) == 3 && strings.HasPrefix(part[1], "cpu,") {
			return part[2]
		}
	}
	return ""
}
