package command

// Exit codes. Each has the same meaning in every command of all our binaries,
// except in commands whose codes other programs define (fence agents, resource
// agents). Exits describes them.
const (
	ExitOK           = 0
	ExitFailed       = 1
	ExitUsage        = 2
	ExitAttention    = 3
	ExitRecovers     = 4
	ExitPerson       = 5
	ExitUnknown      = 6
	ExitRefused      = 7
	ExitNotConfirmed = 8
)

// Exit is an exit code with its meaning.
type Exit struct {
	Code  int
	Means string
}

// Exits lists all exit codes.
func Exits() []Exit {
	return []Exit{
		{ExitOK, "done, or nothing to do; what was checked is healthy"},
		{ExitFailed, "the command failed, or what it tested does not work: the message says where. Part of the work may be done; it is safe to run the command again"},
		{ExitUsage, "the command line or an input file is wrong: nothing was tried, nothing was changed"},
		{ExitAttention, "works, but needs attention: not redundant, a host is behind, a warning"},
		{ExitRecovers, "does not work yet, and recovers by itself"},
		{ExitPerson, "critical: an administrator must act"},
		{ExitUnknown, "too little is known to judge or to decide"},
		{ExitRefused, "refused by a rule that keeps the cluster safe: nothing was changed, and the reason says what to do"},
		{ExitNotConfirmed, "an administrator was asked and did not agree, or did not answer: nothing was changed"},
	}
}

// Coded is an error with an exit code of its own. Its text may be empty if the
// code says everything.
type Coded struct {
	Err  error
	Code int
}

func (e *Coded) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *Coded) Unwrap() error { return e.Err }

// ExitCode makes Coded a Coder.
func (e *Coded) ExitCode() int { return e.Code }
