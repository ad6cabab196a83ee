package arch

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	decisionsPage = "docs/adr/README.md"
	headDecisions = "| # | title | question | decision |"
)

var (
	decisionFile  = regexp.MustCompile(`^docs/adr/(\d{4})-[a-z0-9-]+\.md$`)
	decisionTitle = regexp.MustCompile(`^# (\d{4}): (.+)\n`)
	decisionRow   = regexp.MustCompile(`^\| \[(\d{4})\]\((\S+)\) \| (.+) \| (.+\?) \| (.+\.) \|$`)
)

// TestDecisionRecordsAreAllInTheIndex checks that each page has one row, in the
// order of the numbers, with the page's own title, a question and the decision.
func TestDecisionRecordsAreAllInTheIndex(t *testing.T) {
	texts := repository(t)
	var rows []string
	titles := map[string]string{}
	for _, line := range tables(strings.Split(texts[decisionsPage], "\n"), headDecisions) {
		m := decisionRow.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("not a row of number, title, question and decision: %s", line)
			continue
		}
		file := "docs/adr/" + m[2]
		rows, titles[file] = append(rows, file), m[3]
		if !strings.HasPrefix(m[2], m[1]+"-") {
			t.Errorf("%s leads to %s", m[1], m[2])
		}
	}
	var pages []string
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		if decisionFile.MatchString(file) {
			pages = append(pages, file)
		}
	}
	if !slices.Equal(rows, pages) {
		t.Errorf("%s has\n%s\nand the folder\n%s", decisionsPage, strings.Join(rows, "\n"), strings.Join(pages, "\n"))
	}
	for _, file := range pages {
		m := decisionTitle.FindStringSubmatch(texts[file])
		if m == nil || !strings.HasPrefix(path.Base(file), m[1]+"-") {
			t.Errorf("%s does not begin with its number and a title", file)
		} else if titles[file] != m[2] {
			t.Errorf("%s is called %q, and in the index %q", file, m[2], titles[file])
		}
	}
}
