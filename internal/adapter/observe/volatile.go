package observe

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// InMemory returns those of the given folders whose content is lost at the next
// boot, as on a live image, each with the reason.
func InMemory(paths ...string) ([]string, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read what is mounted: %w", err)
	}
	exists := func(path string) bool {
		_, err := os.Lstat(path)
		return err == nil
	}
	return inMemory(string(table), paths, exists), nil
}

func inMemory(table string, paths []string, exists func(string) bool) []string {
	mounts := parseMounts(table)
	var out []string
	for _, path := range paths {
		if why := mounts.inMemory(path, exists); why != "" {
			out = append(out, path+" ("+why+")")
		}
	}
	return out
}

// mount is one line of /proc/PID/mountinfo.
type mount struct{ point, kind, options string }

// mounts lists mounts in the order in which they were made: a later one hides
// an earlier one at the same place.
type mounts []mount

func parseMounts(table string) mounts {
	var out mounts
	for line := range strings.Lines(table) {
		before, after, ok := strings.Cut(line, " - ")
		place, super := strings.Fields(before), strings.Fields(after)
		if ok && len(place) > 4 && len(super) > 2 {
			out = append(out, mount{point: unescape(place[4]), kind: super[0], options: super[2]})
		}
	}
	return out
}

// unescape decodes \040 and the like, by which proc(5) writes a space.
func unescape(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// inMemory returns the reason why data written to path are lost at the next
// boot, or nothing if they are not. A layered file system writes to its upper
// folder. If this process cannot see that folder, it belongs to a machine
// around it, as in a container.
func (m mounts) inMemory(path string, exists func(string) bool) string {
	how := ""
	for range len(m) { // bounds a chain of overlays
		on := m.holding(path)
		switch on.kind {
		case "tmpfs", "ramfs", "rootfs":
			return how + on.kind + " at " + on.point
		case "overlay":
			upper := on.upper()
			if upper == "" || !exists(upper) || m.holding(upper) == on {
				return ""
			}
			path, how = upper, "overlay over "
		default:
			return ""
		}
	}
	return ""
}

// holding returns the mount on which a path lies.
func (m mounts) holding(path string) mount {
	var out mount
	for _, c := range m {
		inside := path == c.point || strings.HasPrefix(path, strings.TrimSuffix(c.point, "/")+"/")
		if inside && len(c.point) >= len(out.point) {
			out = c
		}
	}
	return out
}

func (m mount) upper() string {
	for option := range strings.SplitSeq(m.options, ",") {
		if dir, ok := strings.CutPrefix(option, "upperdir="); ok && filepath.IsAbs(dir) {
			return filepath.Clean(unescape(dir))
		}
	}
	return ""
}
