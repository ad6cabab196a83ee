package updates

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The packages below etcd change while the host boots: Corosync and Pacemaker have ended in order
// then, no etcd runs, and the other host carries the cluster (docs/adr/0100).

// BootUnit is the unit that changes it, before Corosync and Pacemaker start. It begins only
// if MarkPath is there, and while QuietPath is there packages start nothing.
const (
	BootUnit  = "holdfast-held.service"
	MarkPath  = "/var/lib/holdfast/updates/at-boot"
	QuietPath = "/run/holdfast/updates/quiet"
)

// Below reports whether etcd runs on a package, on one of two control planes.
func Below(name string) bool { return belowEtcd(name) }

// Ordered reports whether the host is to change packages at this boot: the agent ordered the
// boot for it, or an earlier boot has begun with it.
func (r Record) Ordered(q Request) bool {
	return r.Phase == Changing || r.Phase == Staged && q.AtBoot && q.Wish == r.Wish
}

// AtBoot returns how far a host is with packages that change at a boot, and what it does or
// why it failed; is says whether its record is about that at all. boot is the present boot, and
// active is systemd's word for the state of BootUnit. Over says that a boot is still to come: the
// present one is that in which the packages were staged, or the boot for them was ordered. Of an
// order that names no boot the former alone is known.
func (r Record) AtBoot(q Request, wish, boot, active string) (stage Stage, what string, is bool) {
	runs := Runs(active)
	switch {
	case r.Phase == Changing && runs:
		return Busy, "changes what etcd runs on, before Corosync and Pacemaker start: " + few(r.Stack), true
	case r.Wish != wish || r.Phase != Changing && r.Phase != Staged:
		return Nothing, "", false
	case r.Phase == Staged && (r.Boot == boot || q.Boot == boot || !r.Ordered(q)):
		return Over, "", true
	case runs, r.Boot != boot && active != "failed":
		return Busy, fmt.Sprintf("waits for %s, which changes what etcd runs on: %s", BootUnit, few(r.Stack)), true
	default:
		return Broken, fmt.Sprintf("%s was cut off while it changed what etcd runs on (%s): its journal says why; it goes on at the next boot", BootUnit, few(r.Stack)), true
	}
}

// Runs reports whether a unit runs, by systemd's word for its state.
func Runs(active string) bool {
	return slices.Contains([]string{"activating", "active", "deactivating", "reloading"}, active)
}

// Exact returns packages as NAME=VERSION, sorted.
func Exact(names []string, versions map[string]string) []string {
	var out []string
	for _, name := range slices.Sorted(slices.Values(names)) {
		out = append(out, name+"="+versions[name])
	}
	return out
}

// StackRefusal returns why packages below etcd do not change by themselves; empty if they may.
// have are the versions that are there, and next those that would come, by name. For some
// minutes or days the two hosts have different versions, and there is no way back.
func StackRefusal(have, next map[string]string) string {
	var why []string
	for _, name := range slices.Sorted(maps.Keys(next)) {
		from, to := have[name], next[name]
		if from == "" {
			continue // it is new, and brought by another one
		}
		if said := refusal(name, upstream(from), upstream(to)); said != "" {
			why = append(why, fmt.Sprintf("%s %s to %s: %s", name, from, to, said))
		}
	}
	return strings.Join(why, "; ")
}

// refusal returns why one package does not go from a version of its makers to another one.
func refusal(name, from, to string) string {
	of := func(family string) bool { return name == family || strings.HasPrefix(name, family+"-") }
	switch a, b := numbers(from), numbers(to); {
	case to == "":
		return "nobody says which version would come"
	case of("pacemaker") && from != to:
		return "a host with the former release may not be let in again once the new one was alone"
	case of("corosync") && (len(a) == 0 || len(b) == 0 || a[0] != b[0]):
		return "two major releases of Corosync do not speak with each other"
	case of("podman") && (len(a) == 0 || len(b) == 0 || slices.Compare(a, migrates) < 0 && slices.Compare(b, migrates) >= 0):
		return "podman 5.8 and later migrate their state, without a way back"
	default:
		return ""
	}
}

// migrates is the first release of podman that migrates its state.
var migrates = []int{5, 8}

// upstream returns the version of the makers of a package: 2.1.5 of 1:2.1.5-1+deb12u1.
func upstream(version string) string {
	if _, after, ok := strings.Cut(version, ":"); ok {
		version = after
	}
	if i := strings.LastIndex(version, "-"); i >= 0 {
		version = version[:i]
	}
	version, _, _ = strings.Cut(version, "+")
	return version
}

// numbers returns the numbers with which a version begins.
func numbers(version string) []int {
	var out []int
	for part := range strings.SplitSeq(version, ".") {
		digits := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' })
		if digits < 0 {
			digits = len(part)
		}
		n, err := strconv.Atoi(part[:digits])
		if err != nil {
			break
		}
		out = append(out, n)
	}
	return out
}

// AptVersions returns the versions that apt-get would bring, by what it says when it only
// simulates.
func AptVersions(said []byte) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(string(said)) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "Inst" {
			continue
		}
		name, _, _ := strings.Cut(words[1], ":")
		for _, w := range words[2:] {
			if version, is := strings.CutPrefix(w, "("); is {
				out[name] = version
				break
			}
		}
	}
	return out
}

// DnfVersions returns the versions in the table of dnf --assumeno. A long name has its
// version on the line below.
func DnfVersions(said []byte) map[string]string {
	out := map[string]string{}
	last := ""
	for line := range strings.Lines(string(said)) {
		words := strings.Fields(line)
		indented := strings.HasPrefix(line, "  ")
		switch {
		case len(words) == 0 || !strings.HasPrefix(line, " ") || words[0] == "replacing":
			last = ""
		case indented && last != "" && len(words) > 1:
			out[last], last = words[1], ""
		case !indented && len(words) > 2 && out[words[0]] == "": // the first table with it is of what comes
			out[words[0]], last = words[2], ""
		case !indented && len(words) == 1:
			last = words[0]
		}
	}
	return out
}

// NamedVersions reads lines NAME=VERSION, as dpkg-query and rpm are asked to write them.
func NamedVersions(said []byte) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(string(said)) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), "="); ok && version != "" {
			out[name] = version
		}
	}
	return out
}
