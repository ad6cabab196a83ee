package fence

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/model/state"
)

// FoundAttribute is the private Pacemaker attribute in which the agent of a
// host publishes the result of its last BMC test to both hosts. Pacemaker
// itself keeps no error text of a fence agent that failed.
const FoundAttribute = "holdfast-bmc"

// found is the published result of one test.
type found struct {
	Target string `json:"target"`
	// Problem says why a fence would fail and what to do; empty if it would not
	// fail.
	Problem string          `json:"problem,omitempty"`
	Repair  state.BMCRepair `json:"repair,omitempty"`
}

// maxFound bounds the published problem, in bytes.
const maxFound = 900

// announce publishes the result of a test. It contains neither the account nor
// the address of the BMC.
func (a *Agent) announce(ctx context.Context, r Report) error {
	f := found{Target: r.Target, Problem: strings.Join(r.words, "; "), Repair: r.repair}
	if len(f.Problem) > maxFound {
		f.Problem = strings.ToValidUTF8(f.Problem[:maxFound], "") + "..."
	}
	value, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return a.tell(ctx, string(value))
}

// announceRefusal publishes why a BMC let nobody fence its host, if a command of a
// person mends that. The next test, which says the same, may be a minute away.
func (a *Agent) announceRefusal(ctx context.Context, target string, refusal error) {
	r := Report{Target: target}
	if r.refused(refusal); r.repair == "" {
		return
	}
	if err := a.announce(ctx, r); err != nil {
		a.warn("%v", err)
	}
}

// Problems returns the problems of the last BMC tests, by the host that would be
// fenced. It reads the values that FoundAttribute has on the nodes, and leaves
// out hosts whose BMC has no problem.
func Problems(values map[string]string) map[string]state.BMCProblem {
	out := map[string]state.BMCProblem{}
	for _, value := range values {
		var f found
		if json.Unmarshal([]byte(value), &f) == nil && f.Problem != "" && records.IsNodeName(f.Target) {
			out[f.Target] = state.BMCProblem{Words: f.Problem, Repair: f.Repair}
		}
	}
	return out
}
