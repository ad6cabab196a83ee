// Package doctor gathers what decide/doctor judges: on a host what that host is
// like (this package), in a cluster what the API says (cluster). It changes
// nothing, with one exception that has to be asked for: the measurement of the
// disk writes at most 8 MiB within 2 s into a file without a name, which is
// gone whatever happens. What cannot be read is unknown, and why is said.
package doctor
