// Package pacemakerstatus makes the status of the PacemakerCluster from what
// crm_mon and corosync.conf report. Every condition has the meaning that the API
// gives it.
//
// The known implementation of that status is silent or too lenient in some places.
// This one is not (docs/API.md, "PacemakerCluster"): a failed, blocked or unmanaged
// resource is unhealthy, a device that runs on its own target proves nothing, a
// host that no source reports on is not clean, and empty lists are written. A
// condition about which nothing is known is Unknown, never True.
package pacemakerstatus
