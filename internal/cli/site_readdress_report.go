package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/readdress"
	install "github.com/holdfast/holdfast/internal/install/readdress"
)

// moveReport is what is known of a move.
type moveReport struct {
	// Plan is the announced one, nil if there is none.
	Plan  *decide.Plan `json:"plan,omitempty"`
	Hosts []movedHost  `json:"hosts"`
}

// movedHost is what a host says of the move.
type movedHost struct {
	Host string `json:"host"`
	install.Doing
}

func (f readdressFlags) report(ctx context.Context) (moveReport, error) {
	a, err := f.cluster(ctx)
	if err == nil {
		var r moveReport
		if r, err = a.report(ctx); err == nil {
			return r, nil
		}
	}
	own, errHere := reportHere()
	if errHere != nil {
		return own, errors.Join(err, errHere)
	}
	return own, nil
}

// reportHere is what this host knows.
func reportHere() (moveReport, error) {
	name, err := host.Name()
	if err != nil {
		return moveReport{}, err
	}
	plan, _, err := install.Store{}.Load()
	if err != nil {
		return moveReport{}, err
	}
	r := moveReport{Plan: plan}
	if plan == nil {
		return r, nil
	}
	data, err := os.ReadFile(install.DoingPath)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	h := movedHost{Host: name}
	if err == nil {
		err = json.Unmarshal(data, &h.Doing)
	}
	r.Hosts = []movedHost{h}
	return r, err
}

func (a *moveAccess) report(ctx context.Context) (moveReport, error) {
	var r moveReport
	infra, err := a.infrastructure(ctx)
	if err != nil {
		return r, err
	}
	if text := infra.Annotations[kube.ReaddressAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &r.Plan); err != nil {
			return r, fmt.Errorf("annotation %s of the Infrastructure object: %w", kube.ReaddressAnnotation, err)
		}
	}
	list, err := a.nodes(ctx)
	for _, n := range list {
		h := movedHost{Host: n.Name}
		if text := n.Annotations[install.Annotation]; text != "" && json.Unmarshal([]byte(text), &h.Doing) != nil {
			h.Words = "its annotation cannot be read"
		}
		r.Hosts = append(r.Hosts, h)
	}
	return r, err
}

// without returns the hosts that do not have a plan yet, and one that carries out another one.
func (r moveReport) without(id string) (late []string, begun string) {
	for _, h := range r.Hosts {
		if h.Plan != id {
			late = append(late, h.Host)
			if h.Plan != "" && !h.Over && h.At == decide.To {
				begun = h.Host
			}
		}
	}
	return late, begun
}

// unable returns the hosts that cannot move, and why.
func (r moveReport) unable() []string {
	var out []string
	for _, h := range r.Hosts {
		if h.Lacks != "" {
			out = append(out, h.Host+", which cannot move: "+h.Lacks)
		}
	}
	return out
}

// going reports whether something is to come, of the announced plan or of one that a host has alone.
func (r moveReport) going() bool {
	return slices.ContainsFunc(r.Hosts, func(h movedHost) bool { return !h.Over && (r.Plan != nil || h.Plan != "") })
}

func (r moveReport) print(out io.Writer, format string) error {
	switch format {
	case "json":
		if err := command.PrintJSON(out, r); err != nil {
			return err
		}
	default:
		if err := r.text(out); err != nil {
			return err
		}
	}
	if r.going() {
		return coded(command.ExitRecovers, "the move goes on, or waits")
	}
	return nil
}

func (r moveReport) text(out io.Writer) error {
	var text strings.Builder
	if r.Plan == nil {
		_, _ = fmt.Fprintln(&text, "no move is announced")
		r.Hosts = slices.DeleteFunc(slices.Clone(r.Hosts), func(h movedHost) bool { return h.Plan == "" })
	} else {
		_, _ = fmt.Fprintf(&text, "move %s, announced by %s at %s\n", r.Plan.ID, r.Plan.By, r.Plan.At.Format(time.RFC3339))
	}
	if len(r.Hosts) == 0 {
		_, err := fmt.Fprint(out, text.String())
		return err
	}
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "HOST\tHAS\tSTATE")
	for _, h := range r.Hosts {
		has, words := "old addresses", cmp.Or(h.Words, "says nothing of it yet")
		switch {
		case h.Over:
			has, words = "new addresses", "the move is over"
		case h.At == decide.To:
			has = "new addresses"
		}
		if h.Local {
			words = "has a plan that was given to it alone: " + words
		}
		if h.Problem != "" {
			words += ": " + h.Problem
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", h.Host, has, words)
	}
	_ = w.Flush()
	_, err := fmt.Fprint(out, text.String())
	return err
}
