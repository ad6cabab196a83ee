package machineconfig

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// SysctlFolder holds files with kernel parameters.
const SysctlFolder = "/etc/sysctl.d/"

// parameters are the kernel parameters that Holdfast sets, as paths below
// /proc/sys.
var parameters = []string{
	"fs/inotify/max_user_instances", "net/core/wmem_default",
	"net/ipv4/conf/*/arp_announce", "net/ipv4/conf/*/arp_ignore", "net/ipv4/conf/*/forwarding", "net/ipv4/ip_forward",
	"net/ipv6/conf/*/accept_ra", "net/ipv6/conf/*/forwarding",
}

// sysctl checks a file with kernel parameters. systemd would skip a wrong line
// and say so in the journal alone.
func (d *decoder) sysctl(field, file string, data []byte) {
	if !strings.HasPrefix(file, SysctlFolder) {
		return
	}
	if path.Ext(file) != ".conf" {
		d.fault(strings.TrimSuffix(field, ".contents")+".path", "%s is not read: only files that end with .conf are", file)
	}
	settings, wrong := Sysctls(data)
	for _, line := range wrong {
		d.fault(field, "line %d is not NAME = VALUE", line)
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if slices.ContainsFunc(parameters, func(own string) bool { return sameParameter(own, name) }) {
			d.fault(field, "Holdfast sets %s, and another value would break the host's network or its watches; remove it", name)
		}
	}
}

// sameParameter reports whether a name of a file, which may have patterns, stands for
// a parameter of ours, of which an asterisk is any one part.
func sameParameter(own, name string) bool {
	ours, theirs := strings.Split(own, "/"), strings.Split(name, "/")
	if len(ours) != len(theirs) {
		return false
	}
	for i, part := range ours {
		if same, err := path.Match(theirs[i], part); part != "*" && (err != nil || !same) {
			return false
		}
	}
	return true
}

// Sysctls reads a file of sysctl.d(5): kernel parameters by their path below
// /proc/sys, and the numbers of lines that are none.
func Sysctls(data []byte) (settings map[string]string, wrong []int) {
	settings = map[string]string{}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		text := strings.TrimSpace(line)
		if text == "" || strings.HasPrefix(text, "#") || strings.HasPrefix(text, ";") {
			continue
		}
		rest, optional := strings.CutPrefix(text, "-")
		name, value, assigned := strings.Cut(rest, "=")
		name = parameterPath(strings.TrimSpace(name))
		if name == "" || !assigned && !optional {
			wrong = append(wrong, number)
			continue
		}
		if assigned { // without a value the line excludes names from a pattern
			settings[name] = strings.TrimSpace(value)
		}
	}
	return settings, wrong
}

// parameterPath returns the path of a parameter. Names have dots between their
// parts, or slashes; the first of the two says which. The other sign then stands
// for the first one inside of a part
// (docs/facts/machine-config.md#what-a-change-needs, N4).
func parameterPath(name string) string {
	first := strings.IndexAny(name, "./")
	switch {
	case strings.ContainsAny(name, " \t\x00"):
		return ""
	case first < 0 || name[first] == '/':
		return strings.TrimPrefix(path.Clean("/"+name), "/")
	default:
		swapped := strings.NewReplacer(".", "/", "/", ".").Replace(name)
		return strings.TrimPrefix(path.Clean("/"+swapped), "/")
	}
}

// String shows an override to people.
func (o Override) String() string {
	return fmt.Sprintf("%s of %s is overridden by %s", o.What, o.Of, o.By)
}
