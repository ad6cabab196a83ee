package arch

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the column `shown by` of docs/CONFORMANCE.md anew; read the difference before you commit it")

const conformance = "../../../docs/CONFORMANCE.md"

var (
	// quoted matches a piece of code in Markdown.
	quoted = regexp.MustCompile("`([^`]+)`")
	// testName matches the name of a test or a fuzz target.
	testName = regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w+$`)
	// namedTest matches that name on the page, after its folder if several
	// folders have it.
	namedTest = regexp.MustCompile(`^(?:([\w./-]+):)?((?:Test|Fuzz)[A-Z]\w+)$`)
	// aCommand matches a command that plays tests.
	aCommand = regexp.MustCompile(`^(hack/test|make) ([a-z-]+)`)
)

// The head of the page's tables of statements, and of the table of marks.
const (
	head      = "| statement | where | proof | shown by | deviation and reason |"
	headMarks = "| shown by | what that is | played by |"
)

// The entry of the column "shown by" if no test is named, and the addition
// after the marks if the tests show only a part of the statement.
const (
	notShown  = "not shown"
	deviation = "declared deviation"
	inPart    = ", in part"
)

// missing introduces, in a row, what its tests do not show.
const missing = "not shown: "

// marks lists the marks in their order within a cell, the nearest to a real
// site last.
var marks = []string{
	markText, markUnit, markByHand, markNetwork, markAPI, markHost, markMachine,
	"lab", "lab twonode", "lab vip", "lab ingress", "lab chaos", "lab conformance", "lab hostile", "lab life",
}

// evidence holds everything that a row may name as a proof.
type evidence struct {
	tests     map[string][]proof
	rules     string
	sentences string
}

func theEvidence(t *testing.T) evidence {
	t.Helper()
	e := evidence{
		tests:     map[string][]proof{},
		rules:     "\n" + read(t, "../../model/config/testdata/rules.txt"),
		sentences: read(t, "../../model/topology/topology_test.go"),
	}
	for _, p := range allProofs() {
		e.tests[p.name] = append(e.tests[p.name], p)
	}
	return e
}

// find returns the test that text names on the page, or what is wrong with the
// name.
func (e evidence) find(text string) (found proof, mistake string) {
	m := namedTest.FindStringSubmatch(text)
	var fit []proof
	for _, p := range e.tests[m[2]] {
		if m[1] == "" || p.dir == m[1] {
			fit = append(fit, p)
		}
	}
	switch {
	case len(fit) == 0:
		return proof{}, "no such test: " + text
	case len(fit) > 1:
		return proof{}, "several tests are called " + text + ": write it as " + fit[0].dir + ":" + text
	case fit[0].never:
		return proof{}, text + " skips itself always"
	default:
		return fit[0], ""
	}
}

// marksOf returns the marks of all proofs that a cell names, and the mistakes
// in them.
func (e evidence) marksOf(cell string) (found, mistakes []string) {
	for _, match := range quoted.FindAllStringSubmatch(cell, -1) {
		text := match[1]
		rule, isRule := strings.CutPrefix(text, "rule: ")
		sentence, isSentence := strings.CutPrefix(text, "sentence: ")
		command := aCommand.FindStringSubmatch(text)
		switch {
		case isRule && !strings.Contains(e.rules, "\n"+rule+"\n"):
			mistakes = append(mistakes, "no such rule: "+rule)
		case isSentence && !strings.Contains(e.sentences, `"`+sentence+`"`):
			mistakes = append(mistakes, "no such sentence: "+sentence)
		case isRule || isSentence:
			found = append(found, markUnit)
		case command != nil:
			found = append(found, commandMark(command[2]))
		case namedTest.MatchString(text):
			p, mistake := e.find(text)
			if mistake != "" {
				mistakes = append(mistakes, mistake)
				continue
			}
			found = append(found, p.mark)
		}
	}
	slices.SortFunc(found, func(a, b string) int { return slices.Index(marks, a) - slices.Index(marks, b) })
	return slices.Compact(found), mistakes
}

// row is a statement of the page.
type row struct {
	line                        string
	statement, where            string
	proof, shownBy, annotations string
}

// rowOf reads a line of a table of statements, even of a table without the
// column "shown by".
func rowOf(line string) (row, bool) {
	line = strings.TrimSpace(line)
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
	for i, c := range cells {
		cells[i] = strings.TrimSpace(c)
	}
	switch len(cells) {
	case 4:
		return row{line, cells[0], cells[1], cells[2], "", cells[3]}, true
	case 5:
		return row{line, cells[0], cells[1], cells[2], cells[3], cells[4]}, true
	default:
		return row{}, false
	}
}

// written returns the row as it stands on the page.
func (r row) written() string {
	last := r.annotations + " |"
	if r.annotations == "" {
		last = "|"
	}
	return "| " + strings.Join([]string{r.statement, r.where, r.proof, r.shownBy, last}, " | ")
}

// shown returns the right content of a row's column "shown by", given the marks
// of its proofs.
func (r row) shown(found []string) string {
	switch {
	case len(found) == 0 && r.shownBy == deviation:
		return deviation
	case len(found) == 0:
		return notShown
	case strings.Contains(r.annotations, missing):
		return strings.Join(found, ", ") + inPart
	default:
		return strings.Join(found, ", ")
	}
}

// mistakes returns what is wrong with a row.
func (r row) mistakes(e evidence) []string {
	found, out := e.marksOf(r.proof)
	if want := r.shown(found); r.shownBy != want {
		out = append(out, "it is shown by "+want+", not by "+r.shownBy+" (go test ./internal/testkit/arch -run Conformance -update writes that column)")
	}
	if len(found) == 0 && r.annotations == "" {
		out = append(out, "neither a proof nor a reason")
	}
	return out
}

// tables yields the rows of the tables that begin with a head, and their
// places.
func tables(lines []string, head string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		inside := false
		for i, line := range lines {
			switch {
			case line == head:
				inside = true
			case !strings.HasPrefix(line, "|"):
				inside = false
			case inside && !strings.HasPrefix(line, "|--") && !yield(i, line):
				return
			}
		}
	}
}

// TestConformanceSaysByWhatEachStatementIsShown reads the tables of statements.
// Each proof in a row must exist, must not be skipped, and must be of the kind
// that the row names. A row without a proof must say so.
func TestConformanceSaysByWhatEachStatementIsShown(t *testing.T) {
	e := theEvidence(t)
	lines := strings.Split(read(t, conformance), "\n")
	if *update {
		rewrite(t, e, lines)
	}
	rows := 0
	for _, line := range tables(lines, head) {
		r, ok := rowOf(line)
		if !ok {
			t.Errorf("not a row of five cells: %s", line)
			continue
		}
		rows++
		for _, m := range r.mistakes(e) {
			t.Errorf("%s: %s", r.statement, m)
		}
	}
	if rows < 100 {
		t.Errorf("only %d statements were found: the page is not read as it is written", rows)
	}
}

// rewrite fills the column, in lines and on the page, even if rows or a whole
// table were written without it.
func rewrite(t *testing.T, e evidence, lines []string) {
	t.Helper()
	for i, line := range lines {
		if line == strings.Replace(head, " shown by |", "", 1) {
			lines[i], lines[i+1] = head, "|---|---|---|---|---|"
		}
	}
	for i, line := range tables(lines, head) {
		if r, ok := rowOf(line); ok {
			found, _ := e.marksOf(r.proof)
			r.shownBy = r.shown(found)
			lines[i] = r.written()
		}
	}
	if err := os.WriteFile(conformance, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestConformanceNamesWhatExists reads the whole page: its prose and its other
// tables, too, may name only tests that exist and are played.
func TestConformanceNamesWhatExists(t *testing.T) {
	e := theEvidence(t)
	for line := range strings.Lines(read(t, conformance)) {
		_, mistakes := e.marksOf(strings.NewReplacer("`rule: …`", "", "`sentence: …`", "").Replace(line))
		for _, m := range mistakes {
			t.Error(m)
		}
	}
}

// TestConformanceSaysWhichCommandPlaysEachKind compares the table of marks with
// the commands: each mark is explained, each command exists, and the tests of
// the lab are in the folders that their command plays.
func TestConformanceSaysWhichCommandPlaysEachKind(t *testing.T) {
	page, tests, makefile := read(t, conformance), read(t, "../../../hack/test"), read(t, "../../../Makefile")
	explained := map[string]bool{}
	for _, line := range tables(strings.Split(page, "\n"), headMarks) {
		cells := strings.Split(line, " | ")
		explained[strings.Trim(cells[0], "| ")] = true
		for _, match := range quoted.FindAllStringSubmatch(cells[len(cells)-1], -1) {
			c := aCommand.FindStringSubmatch(match[1])
			if c != nil && !strings.Contains(tests, "\n  "+c[2]+") ") && !strings.Contains(makefile, "\n"+c[2]+":") {
				t.Errorf("no such command: %s", match[1])
			}
		}
	}
	for _, p := range allProofs() {
		if !explained[p.mark] {
			t.Errorf("the page does not explain the mark %q of %s", p.mark, p.name)
			explained[p.mark] = true
		}
		if strings.HasPrefix(p.mark, "lab") && !strings.Contains(tests, "./"+p.dir) {
			t.Errorf("hack/test plays nothing of %s: %s", p.dir, p.name)
		}
	}
	for line := range strings.Lines(read(t, "../../../.ci/run")) {
		line = strings.TrimSpace(line)
		if plays := regexp.MustCompile(`^(\w+=\S+ )*(make|hack/test) `).MatchString(line); plays && !strings.Contains(page, line) {
			t.Errorf("CI plays %q, and the page does not say so", line)
		}
	}
}

// TestTheKindOfATestIsReadFromWhatItRuns checks the marks of some tests of each
// kind.
func TestTheKindOfATestIsReadFromWhatItRuns(t *testing.T) {
	e := theEvidence(t)
	for name, want := range map[string]string{
		"TestEverySettingIsTheApprovedOneAndHasAReason":           markText,
		"TestTheStepsOfARoleMatchTheApprovedList":                 markText,
		"TestAGoodFileParsesToItsGolden":                          markText,
		"TestOnlyOffIsOff":                                        markUnit,
		"TestTheServiceOfTheNodePortStrategyIsTheSpecifications":  markUnit,
		"TestTheGuardsOfTwoControlPlanes":                         markAPI,
		"TestARealAPIServerTakesTheNewCertificateWithoutARestart": markAPI,
		"TestTheReleasesRouterDoesWhatIsRenderedForIt":            markAPI,
		"TestHardCase36_TheBootstrapHandOverLosesNothing":         markNetwork,
		"TestWhoAnswersIsFoundByARPAndByNeighbourDiscovery":       markNetwork,
		"TestHardCase31_RealToolsArePrependedAndRestored":         markHost,
		"TestGRUBBootsWithTheArgumentsOfAConfiguration":           markMachine,
		"TestNothingAcknowledgedIsLost":                           markByHand,
		"TestClusters":                                            "lab",
		"TestKubelet":                                             "lab twonode",
		"TestTheHoldersPowerIsCut":                                "lab vip",
		"TestOneOfTwoHostsIsFenced":                               "lab ingress",
	} {
		if got, mistake := e.find(name); got.mark != want {
			t.Errorf("%s is %q, not %q %s", name, got.mark, want, mistake)
		}
	}
}

// TestARowThatSaysMoreThanItsTestsIsFound breaks rows in every way, and expects
// that each mistake is found.
func TestARowThatSaysMoreThanItsTestsIsFound(t *testing.T) {
	unit, lab := proof{dir: "internal/a", name: "TestOne", mark: markUnit}, proof{dir: "test/b", name: "TestLab", mark: "lab"}
	e := evidence{rules: "\na rule\n", tests: map[string][]proof{
		"TestOne": {unit}, "TestLab": {lab}, "TestTwice": {unit, lab}, "TestNever": {{name: "TestNever", never: true}},
	}}
	for line, want := range map[string]string{
		"| it | a | `TestOne`, `TestLab`, `rule: a rule` | unit, lab | |": "",
		"| it | a | `test/b:TestTwice` | lab | |":                         "",
		"| it | a | `TestOne` | unit, in part | not shown: the rest |":    "",
		"| it | – | – | declared deviation | since |":                     "",
		"| it | – | – | not shown | not yet |":                            "",
		"| it | a | `TestOne` | lab | |":                                  "shown by unit, not by lab",
		"| it | a | `TestOne` | unit | not shown: the rest |":             "shown by unit, in part",
		"| it | a | `TestOne` | unit, in part | |":                        "shown by unit, not by",
		"| it | a | `TestOne` | – | |":                                    "shown by unit, not by",
		"| it | a | `TestTwice` | unit | |":                               "several tests",
		"| it | a | `TestNever` | unit | |":                               "skips itself",
		"| it | a | `TestNone` | unit | |":                                "no such test",
		"| it | a | `rule: none` | unit | |":                              "no such rule",
		"| it | – | – | not shown | |":                                    "neither a proof nor a reason",
		"| it | – | – | unit | since |":                                   "shown by not shown",
	} {
		r, ok := rowOf(line)
		got := strings.Join(r.mistakes(e), "; ")
		if !ok || r.written() != line || (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, not %q", line, got, want)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
