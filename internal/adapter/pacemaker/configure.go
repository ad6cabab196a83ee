package pacemaker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// The commands by which a host is set up. The step that runs them shows them to
// a person too, so they are values and not calls.

// Configuration prints Pacemaker's configuration and status, the CIB.
func Configuration() host.Cmd { return host.Command("cibadmin", "--query") }

// Reload has Corosync of each running host read its corosync.conf again.
func Reload() host.Cmd { return host.Command("corosync-cfgtool", "-R") }

// Destroy takes this host out of its cluster, with all that the cluster knows.
func Destroy() host.Cmd { return host.Command("pcs", "cluster", "destroy") }

// onCIB and onCorosync are the changes that pcs makes in a file alone. It heeds
// the file for no other one: `pcs -f FILE cluster destroy` destroys.
var (
	onCIB = []string{
		"property set", "resource create", "resource update", "resource meta", "resource clone", "stonith create", "stonith update",
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
		return fmt.Errorf("pcs %q does not change a file alone: must be one of %s", verb, strings.Join(allowed, ", "))
	}
	return nil
}

// Push has Pacemaker take the difference between two copies of the CIB.
func Push(before, after string) host.Cmd {
	return host.Command("pcs", "cluster", "cib-push", after, "diff-against="+before)
}

// Typed is a change of the CIB as a person would type it.
func Typed(args ...string) string {
	return "pcs " + host.Command(args[0], args[1:]...).String()
}

// clearTime bounds the order to Pacemaker, which may not run.
const clearTime = 10 * time.Second

// ClearFailures has Pacemaker forget the failures of a resource. It would within
// a minute by itself; a host that waits for a fence need not wait for that.
func ClearFailures(ctx context.Context, resource string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, clearTime, fmt.Errorf("no answer in %s", clearTime))
	defer cancel()
	_, err := host.Run(ctx, host.Command("crm_resource", "--cleanup", "--resource", resource))
	return err
}
