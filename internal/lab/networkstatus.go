package lab

import (
	"encoding/json"
	"fmt"
	"os"

	agent "github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
)

// lookForTrouble notes the network problems that the agents of running hosts
// report: what they cannot bring in step, and who else claims a VIP. A host
// whose agent has reported nothing yet has no trouble.
func (b *Lab) lookForTrouble(hosts []HostStatus, s *Status) {
	for _, h := range hosts {
		if h.PID == 0 {
			continue
		}
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/root%s", h.PID, agent.StatusPath))
		if err != nil {
			continue
		}
		s.Notes = append(s.Notes, troubles(h.Name, data)...)
	}
}

// troubles returns the lines of an agent's status that need attention.
func troubles(name string, data []byte) []string {
	var status agent.Status
	if err := json.Unmarshal(data, &status); err != nil {
		return []string{name + ": cannot parse the status of its agent: " + err.Error()}
	}
	var out []string
	for _, p := range status.Reconcilers {
		if p.Error != "" {
			out = append(out, fmt.Sprintf("%s: %s: %s (%d tries)", name, p.Name, p.Error, p.Failures))
		}
	}
	for _, c := range status.View.Claims {
		out = append(out, name+": "+vrrp.Explain(c))
	}
	for _, f := range status.View.Forged {
		out = append(out, name+": "+vrrp.ExplainForged(f))
	}
	return out
}
