package hostchange

import (
	"path"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Row says what one sort of change needs. docs/host-changes.md shows the table to
// people.
type Row struct {
	// Rule names the row.
	Rule string
	// What are the changes of the row, and Why the reason for what they need, both
	// for people.
	What, Why string
	// Needs is what they need. An action of a unit without a name is of the unit
	// that changes.
	Needs []Action
	fits  func(Change) bool
}

func (r Row) actions(c Change) []Action {
	out := slices.Clone(r.Needs)
	for i := range out {
		if out[i].Unit == itself {
			out[i].Unit = c.Name
		}
	}
	return out
}

// itself stands for the unit that changes.
const itself = "UNIT"

// find returns the first row that fits. The last row of a table fits everything.
func find(table []Row, c Change) Row {
	return table[slices.IndexFunc(table, func(r Row) bool { return r.fits(c) })]
}

// Table returns what each change needs. The first row that fits decides. The rows
// of the site stand before ours, but not before the first ones: what carries the
// cluster is never touched on a host that is not empty, and the rows themselves
// need nothing.
func Table(site []Row) []Row {
	return slices.Concat(unitRows[:1], ownRows, site, unitRows[1:], fileRows, otherRows)
}

// ownRows are about the files of a configuration that no MachineConfig has.
var ownRows = []Row{
	{
		Rule: "file.policy", Needs: nil,
		What: "`" + machineconfig.PolicyPath + "`, which has the rows that the site declares",
		Why:  "the agent reads it with the configuration",
		fits: file(always, machineconfig.PolicyPath),
	},
	{
		Rule: "file.kubelet", Needs: reboot,
		What: "`" + machineconfig.KubeletPath + "`, which has kubelet's settings of KubeletConfigs and ContainerRuntimeConfigs",
		Why:  "pods that run keep the former settings, a kubelet that restarts may refuse some of them, and on two control planes Pacemaker acts upon its restart",
		fits: file(always, machineconfig.KubeletPath),
	},
	{
		Rule: "file.proxy-same", Needs: nil,
		What: "one of the next two files with the same lines as before, beside comments",
		Why:  "nobody would read anything else",
		fits: file(sameLines, machineconfig.ProxyPaths...),
	},
	{
		Rule: "file.proxy", Needs: []Action{{Do: Restart, Unit: containerdUnit}},
		What: "`" + state.ProxyPath + "`, which has the site's proxy",
		Why:  "containerd, which pulls images, reads it when it starts; containers live on, and other units read it at their next run",
		fits: file(always, state.ProxyPath),
	},
	{
		Rule: "file.trust", Needs: []Action{{Do: Restart, Unit: trustUnit}, {Do: Restart, Unit: containerdUnit}},
		What: "`" + state.TrustPath + "`, which has the authorities that the site adds",
		Why:  "the first unit makes the host's list of them, which containerd reads once; containers live on",
		fits: file(always, state.TrustPath),
	},
}

const (
	containerdUnit = "containerd.service"
	trustUnit      = "holdfast-trust.service"
)

var reboot = []Action{{Do: Reboot}}

// unitRows are about units.
var unitRows = []Row{
	{
		Rule: "unit.carries", Needs: reboot,
		What: "a unit that carries pods, etcd, the cluster or the network: " + strings.Join(carrying, ", ") + ", and those of Holdfast",
		Why:  "its restart takes something away from the cluster; that is done on a host that is empty and whose peer carries on",
		fits: unit(carries),
	},
	{
		Rule: "unit.type", Needs: reboot,
		What: "a template, or a unit that is no service, socket, timer or path",
		Why:  "instances, mounts and targets are what others stand on",
		fits: unit(func(c Change) bool {
			return strings.Contains(c.Name, "@.") || !slices.Contains(restartable, path.Ext(c.Name))
		}),
	},
	{
		Rule: "unit.released", Needs: reboot,
		What: "a unit of which `enabled`, `mask` or the contents are no longer set, while the configuration or the distribution still has the unit",
		Why:  "only a boot shows how it is without them",
		fits: unit(released),
	},
	{
		Rule: "unit.removed", Needs: []Action{{Do: Stop, Unit: itself}, {Do: DaemonReload}},
		What: "a unit that is removed with its contents",
		Why:  "a host that boots does not have it; if the distribution has one of that name, it starts at the next boot",
		fits: unit(func(c Change) bool { return c.is == nil && c.was.Contents != nil }),
	},
	{
		Rule: "unit.off", Needs: []Action{{Do: Stop, Unit: itself}, {Do: DaemonReload}},
		What: "a unit that is now masked or not enabled",
		Why:  "a host that boots does not start it",
		fits: unit(func(c Change) bool { return c.is != nil && off(*c.is) }),
	},
	{
		Rule: "unit.on", Needs: []Action{{Do: DaemonReload}, {Do: Restart, Unit: itself}},
		What: "a unit that is enabled",
		Why:  "a host that boots starts it as it is now",
		fits: unit(func(c Change) bool { return c.is != nil && is(c.is.Enabled, true) }),
	},
	{
		Rule: "unit.changed", Needs: []Action{{Do: DaemonReload}, {Do: TryRestart, Unit: itself}},
		What: "any other unit",
		Why:  "others decide whether it runs",
		fits: unit(func(Change) bool { return true }),
	},
}

// carrying are the units whose restart takes something away from the cluster,
// beside those of Holdfast.
var carrying = []string{
	"NetworkManager.service", "dbus-broker.service", "dbus.service", "firewalld.service", "iscsid.service", "multipathd.service", "networking.service",
	"nftables.service", "systemd-logind.service", "systemd-networkd.service", "systemd-resolved.service", "systemd-udevd.service", "ufw.service",
}

func carries(c Change) bool { return machineconfig.Ours(c.Name) || slices.Contains(carrying, c.Name) }

// restartable are the types of units that can be restarted by themselves.
var restartable = []string{".path", ".service", ".socket", ".timer"}

func unit(fits func(Change) bool) func(Change) bool {
	return func(c Change) bool { return c.Kind == Unit && fits(c) }
}

// released reports whether a unit goes back to what it was without the
// configuration, in a way that only the host knows.
func released(c Change) bool {
	if c.was == nil {
		return false
	}
	now := c.is
	if now == nil {
		if c.was.Contents != nil {
			return false // the unit itself is gone
		}
		now = &types.Unit{}
	}
	return c.was.Enabled != nil && now.Enabled == nil || c.was.Mask != nil && now.Mask == nil || c.was.Contents != nil && now.Contents == nil
}

// off reports whether a configuration keeps a unit from starting at boot.
func off(u types.Unit) bool { return is(u.Mask, true) || is(u.Enabled, false) }

func is(value *bool, want bool) bool { return value != nil && *value == want }

// fileRows are about files.
var fileRows = []Row{
	{
		Rule: "file.sysctl", Needs: []Action{{Do: Restart, Unit: sysctlUnit}},
		What: "a file in `" + machineconfig.SysctlFolder + "` that sets each parameter which it set before",
		Why:  "the unit sets all parameters anew",
		fits: file(keepsParameters, machineconfig.SysctlFolder),
	},
	{
		Rule: "file.modules", Needs: []Action{{Do: Restart, Unit: "systemd-modules-load.service"}},
		What: "a file in `" + modulesFolder + "` that names each module which it named before",
		Why:  "the unit loads what is missing",
		fits: file(keepsLines, modulesFolder),
	},
	{
		Rule: "file.dropped", Needs: reboot,
		What: "a file in one of these two folders that no longer sets a parameter or names a module",
		Why:  "the kernel keeps both until it boots",
		fits: file(always, machineconfig.SysctlFolder, modulesFolder),
	},
	{
		Rule: "file.registries", Needs: nil,
		What: "a file in `" + state.MirrorsFolder + "`",
		Why:  "containerd reads it at each pull",
		fits: file(always, state.MirrorsFolder),
	},
	{
		Rule: "file.firewall", Needs: nil,
		What: "`" + state.FirewallAlsoPath + "`",
		Why:  "the agent follows it",
		fits: file(always, state.FirewallAlsoPath),
	},
	{
		Rule: "file.journal", Needs: []Action{{Do: Restart, Unit: "systemd-journald.service"}},
		What: "`/etc/systemd/journald.conf`, or a file in `/etc/systemd/journald.conf.d/`",
		Why:  "journald reads it when it starts, and loses nothing by that",
		fits: file(always, "/etc/systemd/journald.conf", "/etc/systemd/journald.conf.d/"),
	},
	{
		Rule: "file.chrony", Needs: []Action{{Do: TryRestart, Unit: "chronyd.service"}},
		What: "`/etc/chrony.conf`, or a file in `/etc/chrony/` or `/etc/chrony.d/`",
		Why:  "chrony reads it when it starts",
		fits: file(always, "/etc/chrony.conf", "/etc/chrony/", "/etc/chrony.d/"),
	},
	{
		Rule: "file.timesyncd", Needs: []Action{{Do: TryRestart, Unit: "systemd-timesyncd.service"}},
		What: "`/etc/systemd/timesyncd.conf`, or a file in `/etc/systemd/timesyncd.conf.d/`",
		Why:  "timesyncd reads it when it starts",
		fits: file(always, "/etc/systemd/timesyncd.conf", "/etc/systemd/timesyncd.conf.d/"),
	},
	{
		Rule: "file.sshd", Needs: []Action{{Do: TryReload, Unit: "sshd.service"}},
		What: "`/etc/ssh/sshd_config`, or a file in `/etc/ssh/sshd_config.d/`",
		Why:  "sshd reads it when it is told; sessions stay",
		fits: file(always, "/etc/ssh/sshd_config", "/etc/ssh/sshd_config.d/"),
	},
	{
		Rule: "file.read-at-use", Needs: nil,
		What: "a file in " + inWords(readAtUse),
		Why:  "its reader opens it each time",
		fits: file(always, readAtUse...),
	},
}

// readAtUse are the files and folders that nobody keeps in memory.
var readAtUse = []string{
	"/etc/apt/", "/etc/cron.d/", "/etc/dnf/", "/etc/issue", "/etc/issue.d/", "/etc/logrotate.d/", "/etc/motd", "/etc/motd.d/",
	"/etc/pki/rpm-gpg/", "/etc/profile.d/", "/etc/skel/", "/etc/sudoers.d/", "/etc/yum.repos.d/",
}

func inWords(paths []string) string { return "`" + strings.Join(paths, "`, `") + "`" }

const modulesFolder = "/etc/modules-load.d/"

// otherRows end the table.
var otherRows = []Row{
	{
		Rule: "keys", Needs: nil,
		What: "keys of `" + machineconfig.User + "`",
		Why:  "sshd reads them at each login",
		fits: func(c Change) bool { return c.Kind == Keys },
	},
	{
		Rule: "kernel", Needs: reboot,
		What: "kernel arguments",
		Why:  "the kernel reads them when it boots",
		fits: func(c Change) bool { return c.Kind == KernelArguments },
	},
	{
		Rule: "other", Needs: reboot,
		What: "everything else",
		Why:  "nobody knows who reads it, and when",
		fits: always,
	},
}

func always(Change) bool { return true }

// file fits changes of files at the named paths. A path with a slash at its end
// names a folder.
func file(fits func(Change) bool, paths ...string) func(Change) bool {
	return func(c Change) bool {
		at := func(p string) bool { return c.Name == p || strings.HasSuffix(p, "/") && strings.HasPrefix(c.Name, p) }
		return c.Kind == File && slices.ContainsFunc(paths, at) && fits(c)
	}
}

// keepsParameters reports whether a file of kernel parameters sets all that it
// set before.
func keepsParameters(c Change) bool {
	before, _ := machineconfig.Sysctls(c.before)
	after, _ := machineconfig.Sysctls(c.after)
	for name := range before {
		if _, ok := after[name]; !ok {
			return false
		}
	}
	return true
}

// sameLines reports whether a file has the lines that it had before, in their order,
// beside comments. One that is not there has none.
func sameLines(c Change) bool { return slices.Equal(lines(c.before), lines(c.after)) }

// keepsLines reports whether a file has all lines that it had before, beside
// comments.
func keepsLines(c Change) bool {
	after := lines(c.after)
	return !slices.ContainsFunc(lines(c.before), func(line string) bool { return !slices.Contains(after, line) })
}

func lines(data []byte) []string {
	var out []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.ContainsAny(line[:1], "#;") {
			out = append(out, line)
		}
	}
	return out
}
