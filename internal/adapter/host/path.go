package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// sbin are the directories with the administrator's programs: a plain su or a
// service may leave them out of the search path.
var sbin = []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}

// LookPath returns the path of a program in the search path or among the
// administrator's programs. Run and StartDetached find programs in the same
// way, and so do the processes that they start.
func LookPath(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, dir := range sbin {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find %s: %w", program, exec.ErrNotFound)
}

// program returns what to start: it looks up a name and keeps a path. If a name
// is not found, the start fails with an error that names it.
func (c Cmd) program() string {
	if strings.ContainsRune(c.Name, '/') {
		return c.Name
	}
	if path, err := LookPath(c.Name); err == nil {
		return path
	}
	return c.Name
}

// environ returns the caller's environment with the complete search path, then
// Env. It leaves out what systemd gives to a service alone: a program of a service
// does not speak for it.
func (c Cmd) environ() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "NOTIFY_SOCKET=") || strings.HasPrefix(v, "WATCHDOG_")
	})
	return slices.Concat(env, []string{"PATH=" + searchPath(os.Getenv("PATH"))}, c.Env)
}

func searchPath(path string) string {
	dirs := filepath.SplitList(path)
	for _, dir := range sbin {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
}
