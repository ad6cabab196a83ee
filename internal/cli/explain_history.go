package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/holdfast/holdfast/internal/decide/hostreport"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// historyLength is the number of recent fences, and of recent confirmations, that
// are shown.
const historyLength = 5

// history lists the fences by this host, and the confirmations that
// administrators gave on it.
type history struct {
	Fences        []state.FenceEntry        `json:"fences"`
	Confirmations []state.ConfirmationEntry `json:"confirmations"`
}

// pacemakerState is the state of Pacemaker on one of two hosts.
type pacemakerState struct {
	hostreport.Cluster

	// Problem says why the other fields are unknown.
	Problem string `json:"problem,omitempty"`
}

// pacemakerStateOf returns what Pacemaker said. If it did not answer, that is part of
// the explanation.
func pacemakerStateOf(r hostreport.Report) *pacemakerState {
	return &pacemakerState{Cluster: r.Pacemaker.Value, Problem: firstLine(r.Pacemaker.Why)}
}

// print shows which resource runs where, and the failures.
func (a *pacemakerState) print(out io.Writer) error {
	if a == nil {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\nPacemaker")
	if a.Problem != "" {
		_, _ = fmt.Fprintf(w, "  %s\n", a.Problem)
		return w.Flush()
	}
	_, _ = fmt.Fprintf(w, "  online\t%s\n", cmp.Or(strings.Join(a.Online, " "), "none"))
	for _, name := range slices.Sorted(maps.Keys(a.Running)) {
		_, _ = fmt.Fprintf(w, "  %s\ton %s\n", name, strings.Join(a.Running[name], " "))
	}
	for _, f := range a.Failures {
		_, _ = fmt.Fprintf(w, "  failed:\t%s\n", f)
	}
	if len(a.Failures) > 0 {
		_, _ = fmt.Fprintln(w, "  failures stay listed until: pcs resource cleanup")
	}
	return w.Flush()
}

// historyOf returns the last entries of a host's records; a host that never
// fenced has none.
func historyOf(r hostreport.Report) (history, error) {
	if !r.Fences.Known || !r.Confirmations.Known {
		return history{}, errors.New(cmp.Or(r.Fences.Why, r.Confirmations.Why))
	}
	all, words := r.Fences.Value, r.Confirmations.Value
	return history{all[max(0, len(all)-historyLength):], words[max(0, len(words)-historyLength):]}, nil
}

// print shows the last fences and confirmations, the newest last.
func (h history) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	if len(h.Fences) > 0 {
		_, _ = fmt.Fprintln(w, "\nLast fences by this host")
	}
	for _, f := range h.Fences {
		result := "FAILED"
		if f.Off {
			result = "off"
		}
		_, _ = fmt.Fprintf(w, "  %s\t%s %s\t%s after %s\t%s\n", timestamp(f.Time), f.Action, f.Target, result, page.Duration(f.Phases.Total), firstLine(f.Detail))
	}
	if len(h.Confirmations) > 0 {
		_, _ = fmt.Fprintln(w, "\nLast confirmations on this host")
	}
	for _, c := range h.Confirmations {
		kind := "confirmed"
		if c.Force {
			kind = "forced"
		}
		_, _ = fmt.Fprintf(w, "  %s\t%s by %s\tBMC of %s: %s\t%s\n", timestamp(c.Time), kind, c.Who, c.Peer, firstLine(c.Power), c.Why)
	}
	return w.Flush()
}
