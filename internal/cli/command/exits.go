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
		{ExitOK, "it is done, or nothing was needed; what was looked at is well"},
		{ExitFailed, "the command failed, or what it tested does not work: the message says at what. Some of it may be done; to run it again is safe"},
		{ExitUsage, "the command line or an input file is wrong: nothing was tried, nothing was changed"},
		{ExitAttention, "it works, and something needs a look: not redundant, behind, a warning"},
		{ExitRecovers, "it does not work yet, and goes on by itself"},
		{ExitPerson, "something is critical, and only a person mends it"},
		{ExitUnknown, "too little could be seen to say more, or to decide"},
		{ExitRefused, "refused by a rule that keeps the cluster safe: nothing was changed, and the reason says what helps"},
		{ExitNotConfirmed, "a person was asked and did not agree, or nobody answered: nothing was changed"},
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
