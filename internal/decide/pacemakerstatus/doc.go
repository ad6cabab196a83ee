// Package pacemakerstatus says what is true about the hosts that Pacemaker
// holds together: it makes the status of the PacemakerCluster of what crm_mon and
// corosync.conf say, every condition with the meaning that the API gives it.
//
// Where the known implementation of that status is silent or too kind this one
// is not (docs/API.md, "PacemakerCluster"): a failed, blocked or unmanaged
// resource is unhealthy, a device that runs on its own target proves nothing,
// a host that nobody reports on is not clean, and lists that are empty are
// written. A condition that nothing is known about is Unknown, never True.
package pacemakerstatus
