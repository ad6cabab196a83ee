// Package backup decides when a control plane takes a backup, what keeps it from beginning one
// or ends one that has begun, what the host reports to the cluster, and which parts of these
// reports are problems. Package model/backup says what a backup is; agent/backup acts.
//
// Each host decides for itself from what it can see, without the API. Hosts take their
// backups at different times of one schedule, so that two do not work at once.
package backup
