package witness

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Approved describes how a scenario must look: subjects with their steps, each
// on its own line. A step with "? " before it may be missing, one with "* " may
// occur once or more often, one with "| " may replace the one before it; a
// subject with "? " may be missing as a whole. Each such mark needs a line "#
// why" before it, in the same subject. "as always" stands for the steps and the
// mark of the subject in the text that all scenarios share.
type Approved struct {
	Head     []string // lines before the first subject
	Sections []section
	shared   map[string]section
}

// asAlways is the only line of a subject that is as in the shared text.
const asAlways = "as always"

// section is one subject: its lines as a person wrote them, and the steps that
// they allow.
type section struct {
	subject  string
	optional bool
	lines    []string
	steps    []step
}

// step is one place in a row. It matches one of its texts, nothing if it is
// optional, or several of them.
type step struct {
	texts          []string
	optional, many bool
}

// ReadScenario reads the approved text of a scenario, and the text that all
// scenarios share.
func ReadScenario(text, shared string) (Approved, error) {
	a, err := ReadApproved(text)
	all, other := ReadApproved(shared)
	errs := []error{err, other}
	a.shared = all.bySubject()
	for i, s := range a.Sections {
		if len(s.steps) != 1 || s.steps[0].texts[0] != asAlways {
			continue
		}
		always, ok := a.shared[s.subject]
		if !ok {
			errs = append(errs, fmt.Errorf("%s is as always, and the shared text has no such subject", s.subject))
		}
		a.Sections[i].steps, a.Sections[i].optional = always.steps, s.optional || always.optional
	}
	return a, errors.Join(errs...)
}

func (a Approved) bySubject() map[string]section {
	out := map[string]section{}
	for _, s := range a.Sections {
		out[s.subject] = s
	}
	return out
}

// ReadApproved reads an approved text.
func ReadApproved(text string) (Approved, error) {
	var a Approved
	var before []string // comments, which belong to the next line
	var errs []error
	why := false
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		trimmed := strings.TrimSpace(line)
		marked := slices.ContainsFunc([]string{"? ", "* ", "| "}, func(mark string) bool { return strings.HasPrefix(trimmed, mark) })
		switch {
		case trimmed == "" && len(a.Sections) == 0 && len(before) > 0:
			a.Head, before = append(a.Head, before...), nil
		case trimmed == "":
		case strings.HasPrefix(trimmed, "#"):
			before, why = append(before, line), true
		case !strings.HasPrefix(line, " "):
			why = len(before) > 0
			subject, optional := strings.CutPrefix(line, "? ")
			a.Sections = append(a.Sections, section{subject: subject, optional: optional, lines: append(before, line)})
			before = nil
		case len(a.Sections) == 0:
			errs = append(errs, fmt.Errorf("line %d: %q belongs to no subject", n+1, trimmed))
		default:
			s := &a.Sections[len(a.Sections)-1]
			s.lines, before = append(append(s.lines, before...), line), nil
			if err := s.add(trimmed); err != nil {
				errs = append(errs, fmt.Errorf("line %d: %w", n+1, err))
			}
		}
		if marked && !why {
			errs = append(errs, fmt.Errorf("line %d: %q may differ, and no line with # says why", n+1, trimmed))
		}
	}
	return a, errors.Join(errs...)
}

func (s *section) add(line string) error {
	if text, ok := strings.CutPrefix(line, "| "); ok {
		if len(s.steps) == 0 {
			return fmt.Errorf("%q stands in place of nothing", line)
		}
		last := &s.steps[len(s.steps)-1]
		last.texts = append(last.texts, text)
		return nil
	}
	text, optional := strings.CutPrefix(line, "? ")
	text, many := strings.CutPrefix(text, "* ")
	s.steps = append(s.steps, step{texts: []string{text}, optional: optional, many: many})
	return nil
}

// allows reports whether a person approved the steps.
func (s section) allows(got []string) bool { return fits(s.steps, got) }

func fits(want []step, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0].optional && fits(want[1:], got) {
		return true
	}
	if len(got) == 0 || !slices.Contains(want[0].texts, got[0]) {
		return false
	}
	again := want[0].many && fits(want, got[1:])
	return again || fits(want[1:], got[1:])
}

// With returns the approved text after the approval of the rows. Lines that
// already allow them stay as they were written, others are rewritten. If
// nothing differs the text is the same.
func (a Approved) With(rows []Row) string {
	var out strings.Builder
	for _, line := range a.Head {
		out.WriteString(line + "\n")
	}
	if len(a.Head) > 0 {
		out.WriteString("\n")
	}
	known := a.bySubject()
	for _, r := range a.ordered(rows) {
		s, there := known[r.Subject]
		if there && (r.Steps == nil || s.allows(r.Steps)) {
			out.WriteString(strings.Join(s.lines, "\n") + "\n")
			continue
		}
		out.WriteString(r.Subject + "\n")
		if always, ok := a.shared[r.Subject]; ok && always.allows(r.Steps) {
			r.Steps = []string{asAlways}
		}
		for _, step := range r.Steps {
			out.WriteString("  " + step + "\n")
		}
	}
	return out.String()
}

// ordered returns the rows, and between them the optional subjects that are
// missing, in the order in which they were approved.
func (a Approved) ordered(rows []Row) []Row {
	out := slices.Clone(rows)
	for n, s := range a.Sections {
		if !s.optional || slices.ContainsFunc(out, func(r Row) bool { return r.Subject == s.subject }) {
			continue
		}
		at := 0
		if n > 0 {
			at = 1 + slices.IndexFunc(out, func(r Row) bool { return r.Subject == a.Sections[n-1].subject })
		}
		out = slices.Insert(out, at, Row{Subject: s.subject})
	}
	return out
}
