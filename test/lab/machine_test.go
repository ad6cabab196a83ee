package lab_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// machineState lists all state of the machine that a lab could leave behind.
func machineState(t *testing.T) map[string][]string {
	t.Helper()
	return map[string][]string{
		"namespaces": output(t, "ip", "netns", "list"),
		"links":      columns(output(t, "ip", "-o", "link", "show"), 1),
		"addresses":  columns(output(t, "ip", "-o", "addr", "show"), 1, 3),
		"routes":     output(t, "ip", "route", "show", "table", "all"),
		"containers": output(t, "podman", "ps", "--all", "--format", "{{.Names}}"),
		"mounts":     slices.DeleteFunc(columns(lines(read(t, "/proc/self/mounts")), 1), ofIPRoute),
		"processes":  processes(t),
		"labs":       entries(t, "/var/lib/holdfast/labs"),
		"sysctls": {
			read(t, "/proc/sys/vm/overcommit_memory"), read(t, "/proc/sys/kernel/panic"), read(t, "/proc/sys/kernel/panic_on_oops"),
		},
	}
}

// ofIPRoute reports whether a mount is the folder of named network namespaces, which
// `ip netns add` mounts once after each boot and never unmounts.
func ofIPRoute(mount string) bool { return mount == "/run/netns" }

func compareMachine(t *testing.T, before map[string][]string) {
	t.Helper()
	// Container monitors end by themselves, a moment after their container.
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		diff := cmp.Diff(before, machineState(t))
		if diff == "" {
			return
		}
		if time.Now().After(end) {
			t.Errorf("the lab left a trace (-before +after):\n%s", diff)
			return
		}
	}
}

func output(t *testing.T, name string, args ...string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // also works during clean-up
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return lines(string(out))
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		out = append(out, strings.TrimSpace(line))
	}
	slices.Sort(out)
	return out
}

// columns keeps the given fields of each line.
func columns(list []string, indexes ...int) []string {
	var out []string
	for _, line := range list {
		fields := strings.Fields(line)
		var kept []string
		for _, i := range indexes {
			if i < len(fields) {
				kept = append(kept, fields[i])
			}
		}
		out = append(out, strings.Join(kept, " "))
	}
	slices.Sort(out)
	return out
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// processes lists the processes that only a lab runs: container monitors, lab
// daemons, and everything in a process namespace other than this one.
func processes(t *testing.T) []string {
	t.Helper()
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, dir := range dirs {
		space, err := os.Readlink(dir + "/ns/pid")
		line, lineErr := os.ReadFile(dir + "/cmdline")
		if err != nil || lineErr != nil || len(line) == 0 {
			continue // it ended meanwhile, or is a kernel thread
		}
		words := strings.Split(string(line), "\x00")
		if space != own || filepath.Base(words[0]) == "conmon" || slices.Contains(words, "daemon") {
			out = append(out, strings.Join(words, " "))
		}
	}
	slices.Sort(out)
	return out
}
