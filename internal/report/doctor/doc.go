// Package doctor gathers the facts that decide/doctor judges: those of a host
// (this package), and those from the API (package cluster). It changes nothing,
// with one exception that must be requested: the measurement of the disk writes
// at most 8 MiB within 2 s into a file without a name, which disappears
// whatever happens. A fact that it cannot read is unknown, and it reports why.
package doctor
