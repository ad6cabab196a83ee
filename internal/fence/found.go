package fence

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/records"
)

// FoundAttribute is the private attribute of Pacemaker by which the agent of a
// host tells both hosts what its last test of a BMC has found: of a fence agent
// that failed Pacemaker keeps no words.
const FoundAttribute = "holdfast-bmc"

// found is what a test has found.
type found struct {
	Target string `json:"target"`
	// Problem is why a fence would fail and what to do, empty where it would not.
	Problem string `json:"problem,omitempty"`
}

// maxFound bounds what is told, in bytes.
const maxFound = 900

// announce tells what a test has found. There is no account in it, and not where
// the BMC is.
func (a *Agent) announce(ctx context.Context, r Report) error {
	f := found{Target: r.Target, Problem: strings.Join(r.words, "; ")}
	if len(f.Problem) > maxFound {
		f.Problem = strings.ToValidUTF8(f.Problem[:maxFound], "") + "..."
	}
	value, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return a.tell(ctx, string(value))
}

// Problems are what the last tests of BMCs have found, by the host that would be
// fenced, made of what FoundAttribute is on each node. A host whose BMC is well
// is not among them.
func Problems(values map[string]string) map[string]string {
	out := map[string]string{}
	for _, value := range values {
		var f found
		if json.Unmarshal([]byte(value), &f) == nil && f.Problem != "" && records.IsNodeName(f.Target) {
			out[f.Target] = f.Problem
		}
	}
	return out
}
