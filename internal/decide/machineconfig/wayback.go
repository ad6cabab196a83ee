package machineconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_5/types"
)

// agentUnit is the unit that takes a host to a configuration, and back.
const agentUnit = "holdfast-agent.service"

// unitsOfTheWayBack are the other units without which a host stays with a configuration, or on a release, that
// does not work: what writes the files, what runs before the agent at a boot and in each shutdown, and what
// returns a host to its release. With a dash at its end systemd reads a name as the beginning of all of ours.
var unitsOfTheWayBack = []string{
	"holdfast-.service", "holdfast-.timer", "holdfast-configure.service", "holdfast-leave.service", "holdfast-life.service",
	"holdfast-parachute.service", "holdfast-parachute.timer", "holdfast-switch.service",
}

// foldersOfUnits are the folders in which systemd looks for units and drop-ins beside /etc/systemd/system, and
// where files may be. A site may have units of its own there.
var foldersOfUnits = []string{"/etc/systemd/system.attached/", "/etc/systemd/system.control/", "/usr/local/lib/systemd/system/"}

// dropinsOfAll are the folders of drop-ins that systemd reads for all units of a type, and so for ours.
var dropinsOfAll = []string{"service.d", "timer.d"}

// ofTheWayBack reports whether systemd reads a file for units of ours.
func ofTheWayBack(p string) bool {
	for _, folder := range foldersOfUnits {
		if below, ok := strings.CutPrefix(p, folder); ok {
			return slices.ContainsFunc(strings.Split(below, "/"), func(name string) bool {
				return strings.HasPrefix(name, marked) || slices.Contains(dropinsOfAll, name)
			})
		}
	}
	return false
}

// masksOurs reports whether a kernel argument masks a unit of ours. systemd takes a name without a suffix for
// that of a service.
func masksOurs(name, unit string) bool {
	return name == "systemd.mask" && (Ours(unit) || Ours(unit+".service"))
}

// agentSettings are what a drop-in of the agent may set, by section: nothing of it keeps the agent from starting,
// from finding the programs that it runs, or from processor, memory and files.
var agentSettings = map[string][]string{
	"Unit":    {"Description", "Documentation"},
	"Service": {"LogLevelMax", "LogRateLimitBurst", "LogRateLimitIntervalSec", "MemoryLow", "MemoryMin", writable},
}

// writable is the setting that a tool needs which the agent calls.
const writable = "ReadWritePaths"

// agent checks the drop-ins of the agent: what keeps it from its work, nobody takes back without a visit.
func (d *decoder) agent(field string, u *types.Unit) {
	if u.Name != agentUnit {
		return
	}
	for i, drop := range u.Dropins {
		if drop.Contents == nil {
			continue
		}
		for _, why := range wrongForTheAgent(*drop.Contents) {
			d.fault(fmt.Sprintf("%s.dropins.%d.contents", field, i), "%s", why)
		}
	}
}

// wrongForTheAgent returns what a drop-in of the agent may not say.
func wrongForTheAgent(text string) []string {
	return wrongLines(text, func(section, name, value string) string {
		switch {
		case !slices.Contains(agentSettings[section], name):
			return fmt.Sprintf("%q of [%s] may not be set: this unit takes a host back from its configuration, so a drop-in sets only %s", name, section, allowedForTheAgent())
		case name == writable && !harmlessPaths(value):
			return fmt.Sprintf("each path of %s begins with \"-/\": the agent would not start without one that is not there", writable)
		}
		return ""
	})
}

// wrongLines returns what is wrong with a file that systemd reads, by its lines. It reads line by line and refuses
// what continues on the next one: about those systemd and parsers do not agree. judge says why a setting may not
// stand there; empty if it may.
func wrongLines(text string, judge func(section, name, value string) string) []string {
	var out []string
	section := ""
	for i, line := range strings.Split(text, "\n") {
		line = strings.Trim(line, " \t")
		at := fmt.Sprintf("line %d: ", i+1)
		switch {
		case strings.ContainsAny(line, "\r\x00") || strings.HasSuffix(line, `\`):
			return append(out, at+"each setting is on one line, which ends with a line feed") // what follows may be part of a secret
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		default:
			name, value, _ := strings.Cut(line, "=")
			if why := judge(section, strings.TrimRight(name, " \t"), strings.TrimLeft(value, " \t")); why != "" {
				out = append(out, at+why)
			}
		}
	}
	return out
}

func allowedForTheAgent() string {
	var out []string
	for _, section := range slices.Sorted(maps.Keys(agentSettings)) {
		out = append(out, strings.Join(agentSettings[section], ", ")+" of ["+section+"]")
	}
	return strings.Join(out, ", and ")
}

// harmlessPaths reports whether each of the paths may be missing. Without any, the agent could write nothing.
func harmlessPaths(value string) bool {
	paths := strings.Fields(value)
	return len(paths) > 0 && !slices.ContainsFunc(paths, func(p string) bool { return !strings.HasPrefix(p, "-/") })
}
