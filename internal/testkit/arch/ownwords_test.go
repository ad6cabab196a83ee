package arch

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// searches lists the functions of strings and bytes that search one text for
	// another.
	searches = []string{
		"Contains", "HasPrefix", "HasSuffix", "EqualFold", "Index", "LastIndex", "Count", "Cut", "CutPrefix", "CutSuffix", "TrimPrefix", "TrimSuffix",
	}
	// expressions matches the methods of a regular expression that search a text.
	expressions = regexp.MustCompile(`^(Match|Find|ReplaceAll)`)
	// sentence matches a text of several words.
	sentence   = regexp.MustCompile(`[A-Za-z]{2,} [A-Za-z]{2,}`)
	hasLetters = regexp.MustCompile(`\pL`)
	// forReaders lists names of fields whose texts are for people.
	forReaders = []string{"Message", "Output", "Problem", "Words", "Failure", "Failed", "Summary", "Sentence", "Meaning", "Detail", "Why", "StandIn"}
)

// match is a place where code searches a text that people read, or searches for one.
type match struct{ text, pattern string }

// matches finds such places in a file.
func (k texts) matches(file *ast.File) []match {
	var out []match
	add := func(text, pattern ast.Expr) {
		words := k.of(unwrapped(pattern))
		if (text == nil || !isForReaders(text)) && !slices.ContainsFunc(words, sentence.MatchString) {
			return
		}
		if _, all := unwrapped(pattern).(*ast.BasicLit); all && !slices.ContainsFunc(words, hasLetters.MatchString) {
			return // the end of a line decides nothing
		}
		m := match{pattern: strings.Join(words, "|")}
		if len(words) == 0 {
			m.pattern = types.ExprString(pattern)
		}
		if text != nil {
			m.text = types.ExprString(text)
		}
		out = append(out, m)
	}
	literal := func(e ast.Expr) { // a name stands for a value
		if l, ok := e.(*ast.BasicLit); ok {
			add(nil, l)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.CallExpr:
			sel, ok := x.Fun.(*ast.SelectorExpr)
			if !ok || len(x.Args) == 0 {
				return true
			}
			switch of, _ := sel.X.(*ast.Ident); {
			case of != nil && (of.Name == "strings" || of.Name == "bytes") && slices.Contains(searches, sel.Sel.Name):
				add(x.Args[0], x.Args[1])
			case of != nil && of.Name == "regexp":
				add(nil, x.Args[0])
			case (of == nil || of.Name != "strings" && of.Name != "bytes") && expressions.MatchString(sel.Sel.Name) && isForReaders(x.Args[0]):
				add(x.Args[0], sel.X)
			}
		case *ast.BinaryExpr:
			if x.Op == token.EQL || x.Op == token.NEQ {
				literal(x.X)
				literal(x.Y)
			}
		case *ast.CaseClause:
			for _, e := range x.List {
				literal(e)
			}
		}
		return true
	})
	return out
}

// unwrapped returns the text of a conversion to bytes.
func unwrapped(e ast.Expr) ast.Expr {
	if c, ok := e.(*ast.CallExpr); ok && len(c.Args) == 1 {
		if _, ok := c.Fun.(*ast.ArrayType); ok {
			return c.Args[0]
		}
	}
	return e
}

// isForReaders reports whether an expression is the text of an error, or a field
// whose text is for people.
func isForReaders(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			found = found || sel.Sel.Name == "Error" || slices.Contains(forReaders, sel.Sel.Name)
		}
		return !found
	})
	return found
}

// textsPage holds a row for each text that code searches for.
const textsPage = "docs/facts/texts.md"

// textRow is a row of that page.
type textRow struct {
	file  string
	texts []string
}

var (
	quotedText = regexp.MustCompile("`([^`]+)`")
	goFile     = regexp.MustCompile(`^(?:internal|test|payload|cmd)/\S+\.go$`)
)

// textRows reads the rows of the page that name a file.
func textRows(page string) []textRow {
	var out []textRow
	for line := range strings.Lines(page) {
		cells := strings.Split(line, " | ")
		i := slices.IndexFunc(cells, goFile.MatchString)
		if i < 0 {
			continue
		}
		r := textRow{file: cells[i]}
		for _, m := range quotedText.FindAllStringSubmatch(cells[0], -1) {
			r.texts = append(r.texts, m[1])
		}
		out = append(out, r)
	}
	return out
}

// names reports whether a row names a match in a file.
func (r textRow) names(file string, m match) bool {
	return r.file == file && slices.ContainsFunc(r.texts, func(text string) bool { return strings.Contains(m.pattern, text) })
}

func TestNothingIsDecidedByWordsForPeople(t *testing.T) {
	rows := textRows(read(t, "../../../"+textsPage))
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module)
		files := parsed(t, p)
		known := constants(files)
		for name, file := range files {
			for _, m := range known.matches(file) {
				if !slices.ContainsFunc(rows, func(r textRow) bool { return r.names(rel+"/"+name, m) }) {
					t.Errorf("%s/%s searches %s for %q: use a typed error, a field or a reason; %s has texts of other programs", rel, name, m.text, m.pattern, textsPage)
				}
			}
		}
	}
}

func TestEachFileHasTheWordsThatThePageNames(t *testing.T) {
	rows := textRows(read(t, "../../../"+textsPage))
	if len(rows) < 10 {
		t.Fatalf("%s has %d rows", textsPage, len(rows))
	}
	for _, r := range rows {
		source := read(t, "../../../"+r.file)
		for _, text := range r.texts {
			if !strings.Contains(source, text) && !strings.Contains(source, strings.ReplaceAll(text, `"`, `\"`)) && !strings.Contains(source, strings.ReplaceAll(text, " ", `[A-Z ]*`)) {
				t.Errorf("%s has no %q: correct %s", r.file, text, textsPage)
			}
		}
	}
}

func TestSearchesForWordsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		bad  bool
	}{
		"the text of an error":        {`func f() bool { return strings.Contains(err.Error(), final) }`, true},
		"a message":                   {`func f() bool { return strings.HasPrefix(c.Message, host+" ") }`, true},
		"the output of a program":     {`func f() bool { return bytes.Contains([]byte(re.Output), []byte(ErrShort.Error())) }`, true},
		"a sentence":                  {`func f(s string) bool { return strings.Contains(s, "is not tried again") }`, true},
		"a sentence with a name":      {`const final = "is not tried again"; func f(s string) bool { return strings.HasSuffix(s, final) }`, true},
		"a sentence in bytes":         {`func f(b []byte) bool { return bytes.Contains(b, []byte("the nodes are not known")) }`, true},
		"a comparison":                {`func f(s string) bool { return s == "it is off" }`, true},
		"a case":                      {`func f(s string) { switch s { case "catching up": } }`, true},
		"an expression for words":     {`var again = regexp.MustCompile("is (not )?tried again")`, true},
		"an expression on a message":  {`func f() { mends.FindStringSubmatch(c.Message) }`, true},
		"a prefix of a name":          {`func f(s string) bool { return strings.HasPrefix(s, "kube-") }`, false},
		"a value":                     {`func f() bool { return c.Reason == ReasonLost || v.Rule == "equal.idle" }`, false},
		"the first line of a message": {`func f() { line, _, _ := strings.Cut(r.Detail, "\n") }`, false},
		"words for a reader":          {`func f() string { return strings.ReplaceAll(err.Error(), "\n", "; ") }`, false},
	} {
		file := source(t, c.text)
		if got := constants(map[string]*ast.File{"": file}).matches(file); (len(got) > 0) != c.bad {
			t.Errorf("%s: found %+v", name, got)
		}
	}
}
