// Package backup decides when a control plane takes a backup, what keeps it from that or
// ends one that is on its way, what the cluster is told of it, and what of that is a
// problem. Package model/backup has what a backup is, and agent/backup acts.
//
// Each host decides for itself, from what it sees: it needs no API for that. Hosts take
// their backups at different times of one schedule, so that two never work at once.
package backup
