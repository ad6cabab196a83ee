package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
)

// upgradeFollow follows an upgrade until a release runs on all hosts. What was begun goes
// on without it.
type upgradeFollow struct {
	cluster client.Reader
	streams Streams
	output  string
	timeout time.Duration
	// digest is the release that is to run. commits waits for the commit, too.
	digest  string
	commits bool
}

// run shows what the site and the hosts do, and prints the state at the end.
func (f upgradeFollow) run(ctx context.Context) error {
	s, err := f.until(ctx)
	if err != nil {
		return err
	}
	return printUpgrade(f.streams.Out, f.output, s)
}

func (f upgradeFollow) until(ctx context.Context) (people.Status, error) {
	var last people.Status
	err := watch(ctx, f.streams.Err, f.timeout, func(ctx context.Context) (looked, error) {
		s, err := f.look(ctx)
		if err != nil {
			return trouble(ctx, "site", "the API does not answer", err), nil
		}
		last = s
		over, err := f.over(s)
		return looked{lines: linesOf(s), over: over}, err
	}, func(cause error) error { return f.ended(cause, last) })
	return last, err
}

func (f upgradeFollow) look(ctx context.Context) (people.Status, error) {
	limited, stop := context.WithTimeout(ctx, lookLimit)
	defer stop()
	u, err := gatherUpgrade(limited, f.cluster, time.Now())
	if err != nil {
		return people.Status{}, err
	}
	return u.Status(), nil
}

func linesOf(s people.Status) []command.ViewLine {
	site, hosts := s.Doing()
	out := []command.ViewLine{{Host: "site", Doing: site}}
	for i, doing := range hosts {
		out = append(out, command.ViewLine{Host: s.Hosts[i].Name, Doing: doing})
	}
	return out
}

// over reports whether the release runs everywhere. An error says that it will not.
func (f upgradeFollow) over(s people.Status) (bool, error) {
	switch {
	case s.Refused != "":
		return false, coded(command.ExitRefused, "holdfast-operator does not follow: %s", s.Refused)
	case s.WayBack != "" && s.To == f.digest && s.Phase == cluster.Returning:
		return false, errors.New("somebody goes back: the site returns to its old release. To follow it: holdfast upgrade status --watch")
	case s.WayBack == "" && s.To != "" && s.To != f.digest, s.WayBack == "" && s.To == "" && s.From != "" && s.From != f.digest:
		return false, errors.New("somebody else changed what is wanted: see holdfast upgrade status")
	case f.commits:
		return s.WayBack == "" && s.From == f.digest, nil
	}
	return s.Done(f.digest), nil
}

// ended explains an end before the release runs everywhere.
func (f upgradeFollow) ended(cause error, last people.Status) error {
	const more = "To see it: holdfast upgrade status; to go back: holdfast upgrade rollback"
	if !errors.Is(cause, errNotYet) {
		return fmt.Errorf("interrupted: this command has ended, and the upgrade goes on. %s", more)
	}
	code := command.ExitRecovers
	if last.Held != "" {
		code = command.ExitAttention
	}
	site, _ := last.Doing()
	return coded(code, "not done after %s, and it goes on: %s. %s", f.timeout, site, more)
}

func printUpgrade(out io.Writer, format string, s people.Status) error {
	if format == "json" || format == "yaml" {
		return printData(out, format, s)
	}
	_, err := io.WriteString(out, s.Text(page.Style{Colour: command.IsTerminal(out), Wide: format == "wide"}))
	return err
}
