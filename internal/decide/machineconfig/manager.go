package machineconfig

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// foldersOfGenerators are the folders with programs that systemd runs before it reads units: they make units and
// drop-ins, or the environment of all services.
var foldersOfGenerators = []string{
	"/etc/systemd/system-environment-generators/", "/etc/systemd/system-generators/",
	"/usr/local/lib/systemd/system-environment-generators/", "/usr/local/lib/systemd/system-generators/",
}

// managerFiles are the files with settings of systemd itself. Beside each may be a folder with more of them.
var managerFiles = []string{"/etc/systemd/system.conf", "/usr/local/lib/systemd/system.conf"}

// managerSettings are what a MachineConfig may set of systemd itself, in [Manager], each with what its value has to
// be; nil for any. With such a value none of them keeps a unit of ours from starting, from the programs that it runs, or
// from processor, memory and as many files as it has without one. All others are defaults of each unit, and so of ours,
// or take something from systemd.
var managerSettings = map[string]func(value string) string{
	"CrashAction": nil, "CrashChangeVT": nil, "CrashReboot": nil, "CrashShell": nil, "CrashVT": nil, "CtrlAltDelBurstAction": nil, "DumpCore": nil,
	"LogColor": nil, "LogLevel": nil, "LogLocation": nil, "LogTarget": nil, "LogTime": nil, "ShowStatus": nil, "StatusUnitFormat": nil,
	"KExecWatchdogSec": longWatchdog, "RebootWatchdogSec": longWatchdog, "RuntimeWatchdogSec": longWatchdog, "WatchdogDevice": nil,
	"DefaultBlockIOAccounting": nil, "DefaultCPUAccounting": nil, "DefaultIOAccounting": nil, "DefaultIPAccounting": nil, "DefaultMemoryAccounting": nil,
	"DefaultTasksAccounting": nil, "DefaultLimitCORE": nil, "DefaultLimitMEMLOCK": nil, "DefaultLimitNOFILE": manyFiles, "DefaultTasksMax": endless,
}

const infinity = "infinity"

func endless(value string) string {
	if value != infinity {
		return "is not " + infinity
	}
	return ""
}

// leastSoft is systemd's own default of how many files a process may have open. Up to leastHard it may raise that by
// itself, as etcd of two does, which takes the limit of its unit; other containers have that of containerd's unit.
const leastSoft, leastHard = 1024, 65536

// manyFiles checks a soft limit and a hard one. A value alone is both.
func manyFiles(value string) string {
	soft, hard, both := strings.Cut(value, ":")
	if !both {
		hard = soft
	}
	if !limitOf(soft, leastSoft) || !limitOf(hard, leastHard) {
		return fmt.Sprintf("needs a soft limit of at least %d and a hard one of at least %d, such as %[1]d:%[2]d or %s; a value alone is both", leastSoft, leastHard, infinity)
	}
	return ""
}

func limitOf(text string, least uint64) bool {
	n, err := strconv.ParseUint(text, 10, 32)
	return text == infinity || err == nil && n >= least
}

// leastWatchdog is for how long systemd may be busy, while it reads units for example, without a reset of the host.
const leastWatchdog = 10

var seconds = regexp.MustCompile(`^([0-9]{1,9}) ?(s|sec|m|min|h)?$`)

// longWatchdog checks the time after which a watchdog resets a host.
func longWatchdog(value string) string {
	if slices.Contains([]string{"off", "default", infinity, "0"}, value) {
		return ""
	}
	if found := seconds.FindStringSubmatch(value); found != nil {
		n, err := strconv.Atoi(found[1])
		long := strings.HasPrefix(found[2], "m") || found[2] == "h"
		if err == nil && (n >= leastWatchdog || long && n > 0) {
			return ""
		}
	}
	return fmt.Sprintf("is neither off, nor a time of at least %ds such as 30s or 2min", leastWatchdog)
}

// manager checks a file by which systemd itself is told what to do: it may hold for units of ours, or change them,
// and a host that cannot have its configuration goes back by them.
func (d *decoder) manager(field, file string, data []byte) {
	if slices.ContainsFunc(foldersOfGenerators, func(folder string) bool { return strings.HasPrefix(file, folder) }) {
		if len(data) > 0 {
			d.fault(field, "systemd runs %s before it reads units, and it may change those of Holdfast: only an empty file may be there, which takes the distribution's program of that name away; write units into systemd.units", file)
		}
		return
	}
	if !slices.ContainsFunc(managerFiles, func(own string) bool {
		return file == own || strings.HasPrefix(file, own+".d/") && path.Ext(file) == ".conf"
	}) {
		return
	}
	for _, why := range wrongLines(string(data), wrongForSystemd) {
		d.fault(field, "%s", why)
	}
}

// wrongForSystemd returns why a setting of systemd itself may not be set; empty if it may.
func wrongForSystemd(section, name, value string) string {
	check, may := managerSettings[name]
	if section != "Manager" || !may {
		return fmt.Sprintf("%q of [%s] may not be set: it is for systemd and all units, so also for those by which a host goes back from its configuration; a file sets only %s of [Manager]",
			name, section, strings.Join(slices.Sorted(maps.Keys(managerSettings)), ", "))
	}
	if check == nil {
		return ""
	}
	if why := check(value); why != "" {
		return name + " " + why
	}
	return ""
}
