package rollout

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

// StageAt is the annotation of a node with the Stage of its host. It comes and goes with
// StateOf.
const StageAt = state.AnnotationDomain + "machine-config-stage"

// BlockedOf is the annotation of a node whose host only waits, in its turn, until a program on it no longer
// blocks shutdowns. It repeats ReasonOf: an agent of an earlier release leaves it there beside another
// reason. A Stage of its own would do, but `holdfast status` of earlier releases ends at one that it does
// not know.
const BlockedOf = state.AnnotationDomain + "machine-config-blocked"

// Blocked reports whether nothing but a program keeps a host from its boot. It may be so for days, and
// everything on the host serves meanwhile.
func Blocked(a map[string]string) bool {
	return a[StateOf] == string(Working) && a[StageAt] == string(Held) && a[BlockedOf] != "" && a[BlockedOf] == a[ReasonOf]
}

// Stage is what a host does about its configuration, as far as people and alerts
// tell it apart.
type Stage string

// The stages.
const (
	// Untold: the host has not answered, or was never given anything.
	Untold Stage = ""
	// Settled: it has what it was given.
	Settled Stage = "settled"
	// Applies: it writes, tells its units, boots or is checked.
	Applies Stage = "applies"
	// Drains: it waits until its pods have moved.
	Drains Stage = "drains"
	// Held: it waits with its reboot, because the cluster may not carry on without it, or a
	// program on it blocks shutdowns (Blocked).
	Held Stage = "held"
	// WaitsForBoot: a person boots it.
	WaitsForBoot Stage = "waits-for-boot"
	// GoesBack: the new configuration failed, and it is on its way back.
	GoesBack Stage = "goes-back"
	// Failed: it is back, and says why.
	Failed Stage = "failed"
	// Refused: it refused the configuration, and changed nothing.
	Refused Stage = "refused"
	// Changed: somebody changed what it had applied.
	Changed Stage = "changed"
)

// BackWith stands in the reason of a host that failed, between why it went back and what failed
// on the way back. Earlier releases write it too.
const BackWith = "; back with "

// stageOf returns the stage of a host whose agent, of an earlier build, tells its
// state alone.
func stageOf(s State) Stage {
	return map[State]Stage{Done: Settled, Working: Applies, Degraded: Failed, Unreconcilable: Refused}[s]
}

// Trouble is one thing about the configuration of hosts that people are told.
type Trouble struct {
	// Host is empty for a pool, and Pool for a host.
	Host, Pool string
	Kind       TroubleKind
	// Patch is true for a wish that waits, if it is for updates.
	Patch bool
	// Late is true if a person should look at it today.
	Late bool
	// Since is when it began, zero if nobody knows.
	Since time.Time
	// Config is the configuration that is wanted, Has the one that the host has.
	Config, Has string
	// Cancel is the command that takes back what somebody wants of the host; empty while
	// it is on its way to a configuration.
	Cancel string
	// Why is what the host or the operator says of it.
	Why string
	// InTheWay says who keeps its pods from moving.
	InTheWay string
	// Unfinished is true for a host that failed, and is not known to run with what it has.
	Unfinished bool
	// Lacking is how many hosts of a pool do not have Config.
	Lacking int
}

// TroubleKind is a kind of Trouble.
type TroubleKind string

// The kinds.
const (
	IsUnderWay    TroubleKind = "under-way"
	IsSilent      TroubleKind = "silent"
	NeedsBoot     TroubleKind = "needs-boot"
	HasFailed     TroubleKind = "failed"
	HasRefused    TroubleKind = "refused"
	WasChanged    TroubleKind = "changed"
	UpdatesFailed TroubleKind = "updates-failed"
	WantsBoot     TroubleKind = "reboot-required"
	WishWaits     TroubleKind = "wish-waits"
	DrainWaits    TroubleKind = "drain-waits"
	IsEmpty       TroubleKind = "empty"
	HasNoPool     TroubleKind = "no-pool"
	PoolRefused   TroubleKind = "pool-refused"
	PoolIsPaused  TroubleKind = "pool-paused"
	PoolThatWaits TroubleKind = "pool-waits"
)

// The times after which people should look.
const (
	// LateAfter is that of a host at work, and of a pool that waits. It is that of a
	// drain, because nothing else takes as long.
	LateAfter = time.Hour
	// BootLateAfter is that of a host which a person is to boot.
	BootLateAfter = 24 * time.Hour
	// EmptyLateAfter is that of a host that is empty, as an administrator wants.
	EmptyLateAfter = 24 * time.Hour
	// PauseLateAfter is that of a paused pool whose hosts lack something.
	PauseLateAfter = 7 * 24 * time.Hour
	// WindowLateAfter is that of a pool with maintenance windows, of which one opens
	// within a week.
	WindowLateAfter = 8 * 24 * time.Hour
)

// PoolState is what the operator says of a pool.
type PoolState struct {
	Name   string
	Config string
	Paused bool
	// Selector is the one by which it selects hosts, nil if it selects none.
	Selector *metav1.LabelSelector
	// Windows is true if it has maintenance windows.
	Windows bool
	// Lacking is how many of its hosts do not have the configuration. Since is when the
	// pool was last whole, or became so.
	Lacking int
	Since   time.Time
	// Refused says why its MachineConfigs make no configuration.
	Refused string
	// Progress says how far it is and for what it waits.
	Progress string
}

// Troubles returns what people are told of hosts, and then of pools. A pool that
// waits for a host at work, or for one that failed, is told by that host.
func Troubles(now time.Time, hosts []Host, pools []PoolState) []Trouble {
	var out []Trouble
	told := false
	for _, h := range hosts {
		if t, is := h.trouble(now); is {
			out, told = append(out, t), true
		}
	}
	for _, h := range hosts {
		out = append(append(out, h.OfWishes(now)...), h.OfUpdates()...)
	}
	out = append(out, withoutPool(now, hosts, pools)...)
	for _, p := range pools {
		if t, is := p.trouble(now, told); is {
			out = append(out, t)
		}
	}
	return out
}

// withoutPool returns the hosts that no pool configures, or not every pool that selects them. A host that
// joins gets its labels a little later. If nobody knows which hosts pools select, none is told.
func withoutPool(now time.Time, hosts []Host, pools []PoolState) []Trouble {
	s, young := Site{Hosts: hosts}, map[string]bool{}
	for _, p := range pools {
		if p.Selector != nil {
			s.Pools = append(s.Pools, Pool{Name: p.Name, NodeSelector: p.Selector})
		}
	}
	if len(s.Pools) == 0 {
		return nil
	}
	for _, h := range hosts {
		young[h.Name] = now.Sub(h.Created) < AnswerLimit
	}
	var out []Trouble
	_, astray := Members(s)
	for _, a := range astray {
		if !young[a.Host] {
			out = append(out, Trouble{Host: a.Host, Kind: HasNoPool, Late: true, Why: a.Why})
		}
	}
	return out
}

// trouble returns what people are told of a host.
func (h Host) trouble(now time.Time) (Trouble, bool) {
	t := Trouble{Host: h.Name, Config: h.Desired, Has: h.Current, Why: h.Reason, InTheWay: h.InTheWay, Since: h.asked()}
	if h.rebooting() {
		t.Cancel = h.Wish.Cancel(h.Name)
	}
	if h.silent(now) {
		t.Kind, t.Late = IsSilent, true
		return t, true
	}
	switch h.stage() {
	case Failed:
		t.Kind, t.Late, t.Unfinished = HasFailed, true, strings.Contains(h.Reason, BackWith)
	case Refused:
		t.Kind, t.Late = HasRefused, true
	case Changed:
		t.Kind, t.Late = WasChanged, true
	case WaitsForBoot:
		t.Kind, t.Late = NeedsBoot, t.older(now, BootLateAfter)
	case Untold, Settled, Applies, Drains, Held, GoesBack:
		if !h.working() {
			return t, false
		}
		t.Kind, t.Why = IsUnderWay, h.doing()
		t.Late = t.older(now, LateAfter) || h.late(now)
	}
	return t, h.Desired != ""
}

// OfUpdates returns what people are told of the updates of a host's distribution. It is
// told and not done: only somebody who wants it, or any other boot, boots the host.
func (h Host) OfUpdates() []Trouble {
	var out []Trouble
	if h.UpdatesFailed != "" {
		out = append(out, Trouble{Host: h.Name, Kind: UpdatesFailed, Late: true, Why: h.UpdatesFailed})
	}
	if h.Required != "" && !h.Wish.Open() {
		out = append(out, Trouble{Host: h.Name, Kind: WantsBoot, Why: h.Required})
	}
	return out
}

// stage returns what a host says it does. Of a stage of a later release its state counts.
func (h Host) stage() Stage {
	switch h.Stage {
	case Settled, Applies, Drains, Held, WaitsForBoot, GoesBack, Failed, Refused, Changed:
		return h.Stage
	case Untold:
	}
	return stageOf(h.State)
}

// doing returns what a host at work does, without who is in the way. One that is not
// ready said before what it would do.
func (h Host) doing() string {
	h.InTheWay, h.Unschedulable = "", false // its work cordons it
	switch away := h.away(); {
	case h.State != Working:
		return "has not answered yet"
	case away != "":
		return strings.TrimPrefix(h.Reason+"; "+away, "; ")
	}
	return h.Reason
}

func (t Trouble) older(now time.Time, limit time.Duration) bool {
	return !t.Since.IsZero() && now.Sub(t.Since) > limit
}

// trouble returns what people are told of a pool; told is true if they are told of a
// host, for which it may wait.
func (p PoolState) trouble(now time.Time, told bool) (Trouble, bool) {
	t := Trouble{Pool: p.Name, Config: p.Config, Why: p.Progress, Since: p.Since, Lacking: p.Lacking}
	switch {
	case p.Refused != "":
		t.Kind, t.Why, t.Late = PoolRefused, p.Refused, true
		return t, true
	case p.Lacking == 0 || p.Config == "":
		return t, false
	case p.Paused:
		t.Kind, t.Late = PoolIsPaused, t.older(now, PauseLateAfter)
		return t, true
	case told:
		return t, false
	}
	limit := LateAfter
	if p.Windows {
		limit = WindowLateAfter
	}
	t.Kind, t.Late = PoolThatWaits, t.older(now, limit)
	return t, true
}
