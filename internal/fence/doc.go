// Package fence is the fence agent of Holdfast, fence_holdfast, and what
// belongs to it: the files of the devices, the test of a BMC, the identity of
// a host, the evidence that a fence leaves.
//
// The agent has the distribution's fence_redfish ask for the power to be cut
// and believes nothing it says: a host is off when its BMC, shown to be that
// very host's, answers exactly Off to this package. What it decides lies in
// internal/decide/fencing. No password reaches an argument, an output or a
// file that others can read.
package fence
