package pacemaker

import (
	"context"
	"encoding/xml"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/host"
)

// statusTimeout bounds crm_mon; it takes 50 ms where Pacemaker answers.
const statusTimeout = 10 * time.Second

// Status is what Pacemaker does, as far as the setup asks for it.
type Status struct {
	// Online are the nodes that take part.
	Online []string
	// Running says for each resource on which nodes it runs and has not failed.
	Running map[string][]string
	// Failures are the failed actions, in Pacemaker's words.
	Failures []string
}

// Missing says which resources do not run where they should, and what went
// wrong.
func (s Status) Missing(want map[string][]string) []string {
	var out []string
	for resource, nodes := range want {
		for _, n := range nodes {
			if !slices.Contains(s.Running[resource], n) {
				out = append(out, resource+" does not run on "+n)
			}
		}
	}
	slices.Sort(out)
	if len(out) > 0 {
		out = append(out, s.Failures...)
	}
	return out
}

// Look asks Pacemaker what it does.
func Look(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, statusTimeout, fmt.Errorf("no answer in %s", statusTimeout))
	defer cancel()
	out, err := host.Run(ctx, host.Command("crm_mon", "--one-shot", "--inactive", "--output-as=xml"))
	if err != nil {
		return Status{}, fmt.Errorf("look what Pacemaker does: %w", err)
	}
	return parseStatus(out)
}

type monitor struct {
	Nodes []struct {
		Name    string `xml:"name,attr"`
		Online  bool   `xml:"online,attr"`
		Pending bool   `xml:"pending,attr"`
	} `xml:"nodes>node"`
	Resources struct {
		Alone  []monitored `xml:"resource"`
		Cloned []monitored `xml:"clone>resource"`
	} `xml:"resources"`
	Failures []struct {
		Operation string `xml:"op_key,attr"`
		Node      string `xml:"node,attr"`
		Status    string `xml:"exitstatus,attr"`
		Reason    string `xml:"exitreason,attr"`
	} `xml:"failures>failure"`
}

type monitored struct {
	ID     string `xml:"id,attr"`
	Role   string `xml:"role,attr"`
	Failed bool   `xml:"failed,attr"`
	Nodes  []struct {
		Name string `xml:"name,attr"`
	} `xml:"node"`
}

func parseStatus(text []byte) (Status, error) {
	var m monitor
	if err := xml.Unmarshal(text, &m); err != nil {
		return Status{}, fmt.Errorf("read the output of crm_mon: %w", err)
	}
	s := Status{Running: map[string][]string{}}
	for _, n := range m.Nodes {
		if n.Online && !n.Pending {
			s.Online = append(s.Online, n.Name)
		}
	}
	for _, r := range slices.Concat(m.Resources.Alone, m.Resources.Cloned) {
		if r.Role != "Started" || r.Failed {
			continue
		}
		for _, n := range r.Nodes {
			s.Running[r.ID] = append(s.Running[r.ID], n.Name)
		}
	}
	for _, f := range m.Failures {
		s.Failures = append(s.Failures, fmt.Sprintf("%s on %s: %s %s", f.Operation, f.Node, f.Status, f.Reason))
	}
	return s, nil
}
