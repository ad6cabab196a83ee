// Package fence implements Holdfast's fence agent, fence_holdfast, and its
// parts: the device files, the test of a BMC, the identity of a host, and the
// evidence that a fence leaves.
//
// The agent lets the distribution's fence_redfish request the power-off, but
// does not trust its result. A host is off when its BMC answers exactly Off to
// this package, and is shown to be that host's own. Package
// internal/decide/fencing makes the decisions. No password appears in an
// argument, in output, or in a file that others can read.
package fence
