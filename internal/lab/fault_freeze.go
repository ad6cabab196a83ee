package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A control group of the second version has these files. One of the first
// version would not let a frozen process die.
const (
	freezeFile = "cgroup.freeze"
	procsFile  = "cgroup.procs"
)

// errNoCgroup2 reports that this machine cannot freeze processes as a current
// host does.
var errNoCgroup2 = errors.New("this machine has no cgroup v2 hierarchy")

// freezeProcesses freezes the processes of a name on a host. If the host's
// groups are of the second version, it freezes their own group. If the machine
// has both versions, all processes are in one group of the second; the lab then
// moves these into a group of its own.
func freezeProcesses(ctx context.Context, h Host, name string) error {
	root, err := cgroup2()
	if err != nil {
		return err
	}
	id, err := containerID(ctx, h)
	if err != nil {
		return err
	}
	pids := processesOf(id, name)
	if len(pids) == 0 {
		return fmt.Errorf("%w: %s", errNoProcess, name)
	}
	for _, pid := range pids {
		if err := freeze(root, id, frozenGroup(h, name), pid); err != nil {
			return fmt.Errorf("freeze %s (process %d): %w", name, pid, err)
		}
	}
	return nil
}

// frozenGroup returns the name of the lab's own group for the processes of a
// name on a host.
func frozenGroup(h Host, name string) string { return h.Container + "-frozen-" + name }

func freeze(root, id, own string, pid int) error {
	group, err := groupOf(pid)
	if err != nil {
		return err
	}
	if strings.Contains(group, id) {
		return os.WriteFile(filepath.Join(root, group, freezeFile), []byte("1"), 0)
	}
	dir := filepath.Join(root, own)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, procsFile), []byte(strconv.Itoa(pid)), 0); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, freezeFile), []byte("1"), 0)
}

// thawProcesses lets the processes of a name on a host go on. It moves those in
// a group of the lab's back to the group of all others.
func thawProcesses(ctx context.Context, h Host, name string) error {
	root, err := cgroup2()
	if err != nil {
		return err
	}
	if err := dissolve(root, frozenGroup(h, name)); err != nil {
		return err
	}
	id, err := containerID(ctx, h)
	if err != nil {
		return err
	}
	var errs []error
	for _, pid := range processesOf(id, name) {
		if group, err := groupOf(pid); err == nil && strings.Contains(group, id) {
			errs = append(errs, os.WriteFile(filepath.Join(root, group, freezeFile), []byte("0"), 0))
		}
	}
	return errors.Join(errs...)
}

// dissolve thaws a group of the lab's, empties and removes it.
func dissolve(root, own string) error {
	dir := filepath.Join(root, own)
	if !exists(dir) {
		return nil
	}
	if err := os.WriteFile(filepath.Join(dir, freezeFile), []byte("0"), 0); err != nil {
		return err
	}
	pids, err := os.ReadFile(filepath.Join(dir, procsFile))
	if err != nil {
		return err
	}
	for pid := range strings.FieldsSeq(string(pids)) {
		// A process that has ended meanwhile is in no group any more.
		if err := os.WriteFile(filepath.Join(root, procsFile), []byte(pid), 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return unix.Rmdir(dir)
}

// dissolveAll removes the groups that a lab has left.
func dissolveAll(name string) error {
	root, err := cgroup2()
	if errors.Is(err, errNoCgroup2) {
		return nil
	}
	found, globErr := filepath.Glob(filepath.Join(root, "hf-"+name+"-*-frozen-*"))
	err = errors.Join(err, globErr)
	for _, dir := range found {
		err = errors.Join(err, dissolve(root, filepath.Base(dir)))
	}
	return err
}

// cgroup2 returns the mount point of the hierarchy of the second version.
func cgroup2() (string, error) {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[2] == "cgroup2" && !strings.Contains(fields[1], "containers") {
			return fields[1], nil
		}
	}
	return "", errNoCgroup2
}

// groupOf returns the group of a process in the hierarchy of the second
// version.
func groupOf(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if group, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSpace(group), nil
		}
	}
	return "", errNoCgroup2
}

func containerID(ctx context.Context, h Host) (string, error) {
	out, err := podman(ctx, "container", "inspect", "--format", "{{.Id}}", h.Container)
	return strings.TrimSpace(string(out)), err
}
