package haproxy

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// busyPerCPU is the number of runnable threads per CPU from which a host counts
// as busy: each of them then waits about as long as it runs.
const busyPerCPU = 2

// busy reports whether this host's CPUs have more to do than they can right
// now.
func busy() bool {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return false
	}
	return wanting(string(text)) > busyPerCPU*runtime.NumCPU()
}

// wanting returns the number of runnable threads: the fourth field of proc(5)'s
// loadavg, up to its slash; 0 if there is none.
func wanting(loadavg string) int {
	f := strings.Fields(loadavg)
	if len(f) < 4 {
		return 0
	}
	first, _, _ := strings.Cut(f[3], "/")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return n
}
