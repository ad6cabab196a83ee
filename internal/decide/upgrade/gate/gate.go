package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Verdict is what a gate says.
type Verdict string

// The verdicts.
const (
	OK Verdict = "ok"
	// Wait: it opens by itself.
	Wait Verdict = "wait"
	// Block: somebody has to do something.
	Block Verdict = "block"
	// Unknown: the fact could not be found out.
	Unknown Verdict = "unknown"
)

// Severity is how much a gate counts.
type Severity string

// The severities.
const (
	// Must: nobody can skip the gate.
	Must Severity = "must"
	// May: an administrator can skip it by name, with a reason that is recorded.
	May Severity = "may"
	// Advice: it is told, and keeps nobody from anything.
	Advice Severity = "advice"
)

// ID names a gate.
type ID string

// Stage is a moment at which gates are asked.
type Stage int

// The stages, which are bits of a set.
const (
	// Begin is before the first host is touched.
	Begin Stage = 1 << iota
	// Between is before each further host.
	Between
	// Bring is before each part that follows all hosts. No host is taken away for it.
	Bring
	// Commit is before the way back is closed, while the site soaks.
	Commit
	// Close is when the way back would be closed now: the soak is over, or a person
	// commits. What is closed then does not stop the clock of the soak.
	Close

	always = Begin | Between | Bring | Commit
)

// Gate is what one gate says, of one host if Host is not empty.
type Gate struct {
	ID       ID
	Verdict  Verdict
	Severity Severity
	Host     string
	// Why is the reason, Way what opens the gate. Both are empty for OK.
	Why, Way string
}

// Closed reports whether the gate is not open.
func (g Gate) Closed() bool { return g.Verdict != OK }

func (g Gate) String() string {
	where := ""
	if g.Host != "" {
		where = g.Host + ": "
	}
	return string(g.ID) + ": " + where + g.Why
}

// finding is a reason why a gate is closed.
type finding struct {
	verdict  Verdict
	host     string
	why, way string
}

// rule is a row of the table of gates.
type rule struct {
	id       ID
	severity Severity
	stages   Stage
	find     func(Facts) []finding
}

// Gates asks all gates of a stage, in the order of the table: a gate that is open is
// there once, and one that is closed once for each reason. It changes nothing that
// it is given.
func Gates(f Facts, at Stage) []Gate {
	var out []Gate
	for _, r := range rules {
		if r.stages&at == 0 {
			continue
		}
		found := r.find(f)
		if len(found) == 0 {
			out = append(out, Gate{ID: r.id, Verdict: OK, Severity: r.severity})
		}
		for _, c := range found {
			if r.severity == May {
				c.way += fmt.Sprintf(". To skip it: `holdfast upgrade start RELEASE --skip %s=REASON`", r.id)
			}
			out = append(out, Gate{r.id, c.verdict, r.severity, c.host, c.why, c.way})
		}
	}
	return out
}

// Override is a person's decision to skip a gate.
type Override struct {
	Gate ID
	// Reason and By are recorded in the history of the site.
	Reason, By string
	At         time.Time
}

// Judgement is what the gates and the overrides come to.
type Judgement struct {
	// Closed are the gates that hold an upgrade.
	Closed []Gate
	// Skipped are closed gates that an administrator skips, and Risks the sentences
	// that the history keeps of them.
	Skipped []Gate
	Risks   []string
	// Refused says which overrides do not count, and why.
	Refused []string
}

// Judge applies overrides to gates. Only a gate of severity May can be skipped, and
// only with a reason and a name.
func Judge(gates []Gate, overrides []Override) Judgement {
	var j Judgement
	valid := make(map[ID]Override)
	for _, o := range overrides {
		if why := refusal(o); why != "" {
			j.Refused = append(j.Refused, fmt.Sprintf("overrides[%s]: %s", o.Gate, why))
			continue
		}
		valid[o.Gate] = o
	}
	for _, g := range gates {
		o, skipped := valid[g.ID]
		switch {
		case !g.Closed() || g.Severity == Advice:
		case skipped:
			j.Skipped = append(j.Skipped, g)
			j.Risks = append(j.Risks, fmt.Sprintf("%s skipped %s at %s: %s", o.By, g, o.At.UTC().Format(time.RFC3339), o.Reason))
		default:
			j.Closed = append(j.Closed, g)
		}
	}
	return j
}

// refusal says why an override does not count; empty if it does.
func refusal(o Override) string {
	i := slices.IndexFunc(rules, func(r rule) bool { return r.id == o.Gate })
	switch {
	case i < 0:
		return "there is no such gate; those that can be skipped are " + strings.Join(skippable(), ", ")
	case rules[i].severity == Must:
		return "nobody can skip this gate; those that can be skipped are " + strings.Join(skippable(), ", ")
	case rules[i].severity == Advice:
		return "this is advice, and keeps nobody from anything"
	case strings.TrimSpace(o.Reason) == "" || o.By == "":
		return "a reason and who gives it are recorded, and one of them is missing"
	}
	return ""
}

func skippable() []string {
	var out []string
	for _, r := range rules {
		if r.severity == May {
			out = append(out, string(r.id))
		}
	}
	return out
}

// Condition is the condition Upgradeable, without its time.
type Condition struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// Upgradeable says whether an upgrade to the next minor release could begin. It is
// asked always, and not only once somebody wants an upgrade. Where a gate is closed it is
// False; where none is closed and a fact is missing it is Unknown.
func Upgradeable(f Facts) Condition {
	var closed, unknown []string
	reason := ""
	for _, g := range Judge(Gates(f, Begin), nil).Closed {
		if g.Verdict == Unknown {
			unknown = append(unknown, g.String())
			continue
		}
		closed = append(closed, g.String()+". "+g.Way)
		if reason != "" && reason != string(g.ID) {
			reason = "several"
		} else {
			reason = string(g.ID)
		}
	}
	switch {
	case len(closed) > 0:
		return Condition{metav1.ConditionFalse, camel(reason), strings.Join(closed, "; ")}
	case len(unknown) > 0:
		return Condition{metav1.ConditionUnknown, "FactsUnknown", "not known: " + strings.Join(unknown, "; ")}
	}
	return Condition{Status: metav1.ConditionTrue, Reason: "AsExpected"}
}

// camel writes the name of a gate as a reason of a condition.
func camel(id string) string {
	var out strings.Builder
	for word := range strings.SplitSeq(id, "-") {
		out.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return out.String() + "GateClosed"
}

// Helpers of the gates.

func block(host, way, format string, args ...any) finding {
	return finding{Block, host, fmt.Sprintf(format, args...), way}
}

func unknown(host, what string) finding {
	return finding{Unknown, host, what + " is not known", "Find out why with `holdfast status` and `holdfast doctor`"}
}

// is finds a fact of a host that is not as it must be.
func is[T comparable](host string, fact state.Fact[T], want T, what, why, way string) []finding {
	switch {
	case !fact.Known:
		return []finding{unknown(host, what)}
	case fact.Value != want:
		return []finding{block(host, way, "%s", why)}
	}
	return nil
}

// none finds a list that is not empty.
func none(verdict Verdict, host string, fact state.Fact[[]string], what, way string) []finding {
	switch {
	case !fact.Known:
		return []finding{unknown(host, what)}
	case len(fact.Value) > 0:
		return []finding{{verdict, host, what + ": " + strings.Join(fact.Value, ", "), way}}
	}
	return nil
}

// each asks a gate of every host of a list.
func each(hosts []Host, find func(Host) []finding) []finding {
	var out []finding
	for _, h := range hosts {
		out = append(out, find(h)...)
	}
	return out
}

// target is the offered release, or the present one if none is offered.
func (f Facts) target() Release {
	if f.To == nil {
		return f.From
	}
	return *f.To
}

// next is the minor release of Kubernetes that the gates ask about.
func (f Facts) next() Version {
	if f.To == nil {
		return Version{f.Level.Major, f.Level.Minor + 1, 0}
	}
	return f.To.Kubernetes.series()
}

// sortedFormats returns the names of formats in a fixed order.
func sortedFormats(formats map[string]Format) []string {
	var out []string
	for name := range formats {
		out = append(out, name)
	}
	slices.SortFunc(out, cmp.Compare[string])
	return out
}
