package hostchange

import (
	"maps"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/ignition"
)

// sysctlUnit sets the kernel parameters of all files.
const sysctlUnit = "systemd-sysctl.service"

// Parameters returns the kernel parameters that a configuration sets, as paths
// below /proc/sys. Patterns are left out.
func Parameters(cfg machineconfig.Config) []string {
	found := map[string]bool{}
	for _, f := range cfg.Ignition.Storage.Files {
		if !strings.HasPrefix(f.Path, machineconfig.SysctlFolder) {
			continue
		}
		data, err := ignition.Contents(f.Contents)
		if err != nil {
			continue // a configuration that was read has none such
		}
		settings, _ := machineconfig.Sysctls(data)
		for name := range settings {
			if !strings.ContainsAny(name, "*?[") {
				found[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Restored returns a row for the way back from a configuration, on a host that has
// not booted since. values are those that kernel parameters had before. Whoever sets
// them again needs no reboot for a parameter that is no longer set.
func Restored(values map[string]string) Row {
	keeps := func(c Change) bool {
		before, _ := machineconfig.Sysctls(c.before)
		after, _ := machineconfig.Sysctls(c.after)
		for name := range before {
			_, kept := after[name]
			_, known := values[name]
			if !kept && !known {
				return false
			}
		}
		return true
	}
	return Row{
		Rule: "file.restored", What: "a file in `" + machineconfig.SysctlFolder + "`, on the way back", Why: "each parameter gets the value again that it had",
		Needs: []Action{{Do: Restart, Unit: sysctlUnit}}, fits: file(keeps, machineconfig.SysctlFolder),
	}
}

// Parameters reports whether a step sets kernel parameters without a reboot.
func (p Plan) Parameters() bool {
	return slices.Contains(p.After, Action{Do: Restart, Unit: sysctlUnit})
}

// Surroundings reports whether a step writes the proxy or the authorities of a site.
func (p Plan) Surroundings() bool {
	return slices.ContainsFunc(p.Changes, func(c Change) bool {
		return c.Kind == File && slices.Contains(machineconfig.ProxyPaths, c.Name)
	})
}

// Kubelet reports whether a step changes the settings of kubelet.
func (p Plan) Kubelet() bool {
	return slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Kind == File && c.Name == machineconfig.KubeletPath })
}
