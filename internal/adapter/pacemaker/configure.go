package pacemaker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// The commands by which a host is set up. They are values and not calls,
// because the step that runs them also shows them to a person.

// Configuration prints Pacemaker's configuration and status, the CIB.
func Configuration() host.Cmd { return host.Command("cibadmin", "--query") }

// Reload makes Corosync on each running host read its corosync.conf again.
func Reload() host.Cmd { return host.Command("corosync-cfgtool", "-R") }

// Forget makes Pacemaker forget a node that is no longer in corosync.conf. It can be run
// again. Afterwards Pacemaker does not fence that node, so the caller must know that the
// node is off.
func Forget(node string) host.Cmd {
	return host.Command("crm_node", "--force", "--remove", node)
}

// Destroy removes this host from its cluster, with everything that the cluster
// knows.
func Destroy() host.Cmd { return host.Command("pcs", "cluster", "destroy") }

// Disable makes Pacemaker stop a resource, and not start it again.
func Disable(resource string) host.Cmd { return host.Command("pcs", "resource", "disable", resource) }

// Maintain makes Pacemaker leave every resource as it is, also when Pacemaker ends.
func Maintain() host.Cmd { return host.Command("pcs", "property", "set", "maintenance-mode=true") }

// Manage makes Pacemaker act on its resources again.
func Manage() host.Cmd { return host.Command("pcs", "property", "set", "maintenance-mode=false") }

// onCIB and onCorosync are the subcommands by which pcs changes only a file.
// For any other subcommand it ignores the file: `pcs -f FILE cluster destroy`
// destroys.
var (
	onCIB = []string{
		"property set", "resource create", "resource update", "resource meta", "resource clone", "stonith create", "stonith update", "stonith delete",
		"constraint order", "constraint colocation", "constraint location", "constraint delete",
	}
	onCorosync = []string{"cluster setup", "cluster config"}
)

// EditCIB changes a copy of the CIB.
func EditCIB(file string, args ...string) (host.Cmd, error) {
	return host.Command("pcs", append([]string{"-f", file}, args...)...), oneOf(onCIB, args)
}

// EditCorosync makes or changes a copy of corosync.conf.
func EditCorosync(file string, args ...string) (host.Cmd, error) {
	return host.Command("pcs", append(slices.Clone(args), "--corosync_conf", file)...), oneOf(onCorosync, args)
}

func oneOf(allowed, args []string) error {
	if verb := strings.Join(args[:min(2, len(args))], " "); !slices.Contains(allowed, verb) {
		return fmt.Errorf("pcs %q does more than change a file: allowed are %s", verb, strings.Join(allowed, ", "))
	}
	return nil
}

// ApplyCIB makes Pacemaker apply the difference between two copies of the CIB.
func ApplyCIB(before, after string) host.Cmd {
	return host.Command("pcs", "cluster", "cib-push", after, "diff-against="+before)
}

// CommandLine returns a change of the CIB as a person would type it.
func CommandLine(args ...string) string {
	return "pcs " + host.Command(args[0], args[1:]...).String()
}

// clearTime bounds the order to Pacemaker, which may not run.
const clearTime = 10 * time.Second

// ClearFailures makes Pacemaker forget the failures of a resource. Pacemaker
// does so by itself within a minute, but a host that waits for a fence need not
// wait for that.
func ClearFailures(ctx context.Context, resource string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, clearTime, fmt.Errorf("no answer in %s", clearTime))
	defer cancel()
	_, err := host.Run(ctx, host.Command("crm_resource", "--cleanup", "--resource", resource))
	return err
}
