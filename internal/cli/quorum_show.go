package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/confirm"
	words "github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// show prints the known facts and the needed steps.
func (c *confirmation) show(s confirm.Situation, d confirm.Decision) {
	if c.output == "json" {
		return
	}
	_, _ = io.WriteString(c.streams.Out, confirmText(s, d, c.confirmFlags))
}

// confirmText returns the page that the administrator reads before saying yes.
func confirmText(s confirm.Situation, d confirm.Decision, f confirmFlags) string {
	var out strings.Builder
	part := func(title string, lines ...string) {
		if len(lines) == 0 {
			return
		}
		if out.Len() > 0 {
			out.WriteString("\n")
		}
		out.WriteString(title + "\n")
		for _, line := range lines {
			out.WriteString(page.Wrap("  ", line, page.Narrow))
		}
	}
	snap := s.Report.Snapshot
	if s.Agent && snap.Peer != "" {
		part("What is known about "+snap.Peer, peerFacts(s)...)
		part("This host, "+snap.Host, ownFacts(s)...)
	}
	part("What is needed", needWords(d)...)
	part("What would be lost or at risk", d.Risks...)
	steps := stepWords(s, d, f)
	part("What will be done", steps...)
	if f.dryRun && len(steps) > 0 { // not wrapped, so that it can be copied
		out.WriteString("\nNothing of this was done (--dry-run). To do it:\n  sudo " + commandLine(d) + "\n")
	}
	return out.String()
}

func peerFacts(s confirm.Situation) []string {
	snap := s.Report.Snapshot
	power := "its BMC reports " + s.BMC.Power.Value + ", read just now"
	if !s.BMC.Power.Known {
		power = "its BMC gives no power state: " + s.BMC.Problem
	}
	out := []string{words.LastContact(snap), power}
	if f := snap.Proofs.Fenced; f.Known && f.Value.Boot == snap.Boot {
		out = append(out, "it was fenced and its power read back as "+f.Value.State+" "+page.Duration(snap.Uptime-f.Value.At)+" ago")
	}
	return out
}

func ownFacts(s confirm.Situation) []string {
	r := s.Report
	out := []string{r.Verdict.Reason + " (rule " + r.Verdict.Rule + ", for " + page.Duration(r.Since) + ")"}
	if r.Problem != "" {
		out = append(out, "the last step failed: "+r.Problem)
	}
	return append(out, "the newer data: "+words.Newest(r.Snapshot))
}

func needWords(d confirm.Decision) []string {
	switch d.Need {
	case confirm.Confirm:
		return []string{"a yes: " + d.Reason}
	case confirm.Phrase:
		return []string{"a phrase, typed exactly: " + d.Phrase, d.Reason}
	case confirm.Refuse:
		return []string{"refused: " + d.Reason}
	case confirm.Wait:
		return []string{"only time: " + d.Reason}
	default:
		return []string{"nothing: " + d.Reason}
	}
}

func stepWords(s confirm.Situation, d confirm.Decision, f confirmFlags) []string {
	if d.Need != confirm.Confirm && d.Need != confirm.Phrase {
		return nil
	}
	var out []string
	add := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("%d. ", len(out)+1)+fmt.Sprintf(format, args...))
	}
	peer := s.Report.Snapshot.Peer
	if d.PowerOff {
		add("%s is switched off through its BMC; the next step needs exactly %s as answer", peer, state.PowerOff)
	}
	add("the confirmation by %s is recorded in %s", orWho(f.by), state.ConfirmationsPath)
	if d.Force {
		add("the data directory of this host is forced to lead, and its record notes that: %s", d.Then)
	} else {
		add("this host continues: %s", d.Then)
	}
	if !s.BMC.Power.Known {
		add("Pacemaker gets the confirmation that %s is down (stonith_admin --confirm %s)", peer, peer)
	}
	add("the command waits up to %s until etcd takes writes", f.watchLimit)
	return out
}

func orWho(by string) string {
	if by == "" {
		return "the administrator"
	}
	return by
}

// commandLine returns the command for a script.
func commandLine(d confirm.Decision) string {
	word := "--yes"
	if d.Need == confirm.Phrase {
		word = "--phrase '" + d.Phrase + "'"
	}
	return "holdfast quorum confirm " + word + " --reason 'WHY'"
}
