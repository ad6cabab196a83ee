// Package host is the only place that starts processes and writes files of
// the machine it runs on. Everything that must survive a crash or a power cut
// goes through WriteFileAtomic; every process through Run, so that a failure
// always tells the command, its output and its cause.
package host
