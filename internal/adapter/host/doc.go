// Package host is the only place that starts processes and writes files of the
// machine on which it runs. Everything that must survive a crash or a power cut
// goes through WriteFileAtomic. Every process goes through Run, so that an
// error always names the command, its output and its cause.
package host
