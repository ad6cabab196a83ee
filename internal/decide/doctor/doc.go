// Package doctor judges what the guards of the API cannot see: whether
// something else could switch a host off, whether fencing would work on the day
// it is needed, whether both hosts depend on one cable, whether the workload of
// two hosts fits on one, whether a drain would ever end, and whether clocks,
// disks, certificates and versions are good enough.
//
// It takes facts and returns a result for each check. A fact that could not be
// observed is unknown, and no check treats unknown as a pass. The table of
// checks is also the text of docs/runbook/doctor.md.
package doctor
