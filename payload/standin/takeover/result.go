package takeover

// Outcome tells how a run ended.
type Outcome string

// Outcomes of a run.
const (
	// Done: the survivor took writes and the fenced member is removed.
	Done Outcome = "done"
	// NothingToDo: the survivor is the only voter already, and takes writes.
	NothingToDo Outcome = "nothing-to-do"
	// Refused: the vote must not be cast; running again changes nothing.
	Refused Outcome = "refused"
	// Unfinished: time ran out, or somebody ended the run. Run again.
	Unfinished Outcome = "unfinished"
)

// Reasons of a refusal or of an unfinished run, beside those of package vote.
const (
	// TargetIsSurvivor: both identifiers of the request are the same.
	TargetIsSurvivor = "target-is-survivor"
	// ClusterMismatch: the survivor belongs to another cluster.
	ClusterMismatch = "cluster-mismatch"
	// VersionMismatch: the survivor's etcd is not of this program's minor.
	VersionMismatch = "version-mismatch"
	// SurvivorNotVoter: the survivor is a learner or not a member.
	SurvivorNotVoter = "survivor-not-voter"
	// NotTwoVoters: there are not exactly two voters.
	NotTwoVoters = "not-two-voters"
	// SurvivorMismatch: another member answers at the survivor's peer URL.
	SurvivorMismatch = "survivor-mismatch"
	// TargetAlive: something answers at the fenced member's peer URL.
	TargetAlive = "target-alive"
	// TLSIdentity: one side does not accept the other's certificate.
	TLSIdentity = "tls-identity"
	// Corrupt: etcd has found its own data corrupt.
	Corrupt = "corrupt"
	// Unreachable: the survivor's etcd did not answer in time.
	Unreachable = "survivor-unreachable"
	// NoLeader: the survivor did not win its election in time.
	NoLeader = "not-elected"
	// NotRemoved: the survivor leads, but did not remove the member in time.
	NotRemoved = "not-removed"
	// NotConfirmed: the survivor is the only voter, but takes no writes.
	NotConfirmed = "not-confirmed"
	// Interrupted: a signal ended the run.
	Interrupted = "interrupted"
)

// Exit codes of the program.
const (
	ExitDone       = 0 // Done or NothingToDo
	ExitFailed     = 1 // the result could not be written
	ExitUsage      = 2 // the request is wrong; nothing was tried
	ExitRefused    = 3 // Refused
	ExitUnfinished = 4 // Unfinished
	ExitLogShort   = 5 // settle alone: the log lost its end
)

// Result is the program's whole output.
type Result struct {
	Evidence string  `json:"evidence"`
	Outcome  Outcome `json:"outcome"`
	// Reason is a code, Detail a sentence. Both are empty if the run was done.
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Version is the version of etcd whose protocol the program speaks.
	Version string `json:"version"`
	// Term is the term in which the survivor leads.
	Term uint64 `json:"term,omitempty"`
	// Tail is the number of log entries that this vote made committed.
	Tail uint64 `json:"tail"`
	// Unseen is true if the program could not see some of them.
	Unseen bool `json:"unseen,omitempty"`
	// MS holds the times of the steps in milliseconds since the start, without
	// steps that were not reached.
	MS Steps `json:"ms"`
}

// Steps are times in milliseconds since the start of a run.
type Steps struct {
	// Checked: all checks before the vote passed.
	Checked float64 `json:"checked,omitempty"`
	// Answered: the survivor answered over the peer protocol.
	Answered float64 `json:"answered,omitempty"`
	// Leading: the survivor leads.
	Leading float64 `json:"leading,omitempty"`
	// Committing: the survivor commits, so it takes writes.
	Committing float64 `json:"committing,omitempty"`
	// Removed: the fenced member is no longer a member.
	Removed float64 `json:"removed,omitempty"`
	// Confirmed: the survivor's disk knows that it is the only voter.
	Confirmed float64 `json:"confirmed,omitempty"`
	// Ended: the run was over.
	Ended float64 `json:"ended"`
}

// ExitCode returns the exit code that goes with the outcome.
func (r Result) ExitCode() int {
	switch r.Outcome {
	case Done, NothingToDo:
		return ExitDone
	case Refused:
		return ExitRefused
	case Unfinished:
		return ExitUnfinished
	default:
		return ExitFailed
	}
}

// stop is the reason why a run ends early.
type stop struct {
	outcome        Outcome
	reason, detail string
}

// Error returns the detail.
func (s *stop) Error() string { return s.detail }

func refuse(reason, detail string) *stop { return &stop{Refused, reason, detail} }
