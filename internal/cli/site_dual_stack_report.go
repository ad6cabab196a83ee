package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/dualstack"
	install "github.com/holdfast/holdfast/internal/install/dualstack"
)

// familyReport is what is known of a plan for a second family.
type familyReport struct {
	// Plan is the announced one, nil if there is none.
	Plan  *decide.Plan `json:"plan,omitempty"`
	Hosts []familyHost `json:"hosts"`
}

// familyHost is what a host says of it.
type familyHost struct {
	Host string `json:"host"`
	install.Doing
}

func (a *moveAccess) secondFamily(ctx context.Context) (familyReport, error) {
	infra, err := a.infrastructure(ctx)
	if err != nil {
		return familyReport{}, err
	}
	list, err := a.nodes(ctx)
	if err != nil {
		return familyReport{}, err
	}
	return familyReportOf(infra, list)
}

// familyPlanOf returns the plan that the Infrastructure object announces, nil for none.
func familyPlanOf(infra *configv1.Infrastructure) (*decide.Plan, error) {
	text := infra.Annotations[kube.DualStackAnnotation]
	if text == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	p, err := install.Announced(text)
	return &p, err
}

func familyReportOf(infra *configv1.Infrastructure, list []corev1.Node) (familyReport, error) {
	var r familyReport
	var err error
	if r.Plan, err = familyPlanOf(infra); err != nil {
		return r, err
	}
	for _, n := range list {
		h := familyHost{Host: n.Name}
		if text := n.Annotations[install.Annotation]; text != "" && json.Unmarshal([]byte(text), &h.Doing) != nil {
			h.Words = "its annotation cannot be read"
		}
		r.Hosts = append(r.Hosts, h)
	}
	slices.SortFunc(r.Hosts, func(a, b familyHost) int { return cmp.Compare(a.Host, b.Host) })
	return r, nil
}

// any returns the plan of which some host tells.
func (r familyReport) any() string {
	for _, h := range r.Hosts {
		if h.Plan != "" {
			return h.Plan
		}
	}
	return ""
}

// with returns the hosts that have a plan.
func (r familyReport) with(id string) (out []string) {
	for _, h := range r.Hosts {
		if id != "" && h.Plan == id {
			out = append(out, h.Host)
		}
	}
	return out
}

// stages say for people how far a host is.
var stages = map[decide.Stage]string{
	decide.Kept: "has the plan", decide.Served: "serves both", decide.Written: "boots", decide.Over: "has both",
}

func (r familyReport) print(out io.Writer, format string) error {
	var err error
	switch {
	case format == "json":
		err = command.PrintJSON(out, r)
	case r.Plan == nil:
		_, err = fmt.Fprintln(out, "there is no plan for a second family")
	default:
		begun := "can be taken back: holdfast site dual-stack apply --abort"
		if r.Plan.Begun {
			begun = "has begun, and only goes forward"
		}
		_, err = fmt.Fprintf(out, "plan %s of %s at %s: %s\n%s\n", r.Plan.ID, r.Plan.By, r.Plan.At.Format(time.RFC3339), begun, r.lines())
	}
	if err == nil && r.Plan != nil {
		return coded(command.ExitRecovers, "the plan goes on, or waits")
	}
	return err
}

// lines are a table of the hosts.
func (r familyReport) lines() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "HOST\tIS\tSTATE")
	for _, h := range r.Hosts {
		is, words := stages[h.Stage], h.Words
		if r.Plan == nil || h.Plan != r.Plan.ID {
			is, words = "-", "says nothing of it yet"
		}
		if h.Problem != "" {
			words += ": " + h.Problem
		}
		if h.Way != "" {
			words += " (" + h.Way + ")"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", h.Host, is, words)
	}
	_ = w.Flush()
	return strings.TrimRight(text.String(), "\n")
}
