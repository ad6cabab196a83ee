package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A mark names what a test runs against, and so how much the test proves.
// docs/CONFORMANCE.md explains the marks to the reader; each test has one.
const (
	markText    = "text"
	markUnit    = "unit"
	markAPI     = "API"
	markNetwork = "network"
	markHost    = "host"
	markMachine = "machine"
	markByHand  = "by hand"
)

// proof is a test or a fuzz target of the tree.
type proof struct {
	dir, name string
	mark      string
	never     bool // always skipped
}

// realThings are the packages whose use gives a test its mark.
var realThings = map[string]string{
	module + "internal/testkit/apitest":   markAPI,
	module + "internal/testkit/netnstest": markNetwork,
}

// skipWords matches, in the reason of a skip, the command that plays the test.
var skipWords = regexp.MustCompile(`'(?:hack/test|make) (lab-test|twonode|vip|ingress|bench|chaos|conformance|hostile|life|upgrade|loss|bootloader)'`)

// approvedName matches the names of tests that compare a text with an approved
// one, whatever else they check.
var approvedName = regexp.MustCompile(`(Is|Are|Match|Matches|Has|Parses|Reads)(The|To|As|Its).*(Approved|Golden)`)

// testSource holds what the test files of one folder define and use.
type testSource struct {
	dir   string
	funcs map[string]*ast.FuncDecl
	files map[string]*ast.File // by function
}

// allProofs reads every test of the tree, including the modules of payload. It
// skips files that are not valid Go, which the compiler reports.
var allProofs = sync.OnceValue(func() []proof {
	folders := map[string]*testSource{}
	for _, root := range []string{"../../../internal", "../../../test", "../../../cmd", "../../../payload", "../../../hack"} {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			dir := strings.TrimPrefix(filepath.Dir(path), "../../../")
			if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(dir, "test/") {
				addSource(folders, dir, path)
			}
			return nil
		})
	}
	var out []proof
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		out = append(out, folders[dir].proofs()...)
	}
	return out
})

func addSource(folders map[string]*testSource, dir, path string) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return
	}
	src := folders[dir]
	if src == nil {
		src = &testSource{dir: dir, funcs: map[string]*ast.FuncDecl{}, files: map[string]*ast.File{}}
		folders[dir] = src
	}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
			src.funcs[f.Name.Name], src.files[f.Name.Name] = f, file
		}
	}
}

func (s *testSource) proofs() []proof {
	var out []proof
	for _, name := range slices.Sorted(maps.Keys(s.funcs)) {
		f := s.funcs[name]
		if f.Recv == nil && testName.MatchString(name) && name != "TestMain" {
			mark := s.markOf(name)
			out = append(out, proof{dir: s.dir, name: name, mark: mark, never: skipsAlways(f)})
		}
	}
	return out
}

// skipsAlways reports whether a test begins with a skip.
func skipsAlways(f *ast.FuncDecl) bool {
	for _, stmt := range f.Body.List {
		if e, ok := stmt.(*ast.ExprStmt); ok && strings.HasPrefix(called(e.X), "t.Skip") {
			return true
		}
	}
	return false
}

// markOf follows a test through the helpers of its folder.
func (s *testSource) markOf(name string) string {
	found, golden, judges := "", false, false
	seen := map[string]bool{name: true}
	for todo := []string{name}; len(todo) > 0; todo = todo[1:] {
		f, file := s.funcs[todo[0]], s.files[todo[0]]
		approves := readsUpdate(f)
		golden = golden || approves
		judges = judges || (!approves && judgesItself(f))
		if mark := skipMark(f); mark != "" {
			return mark
		}
		for _, ref := range references(f, file) {
			switch {
			case realThings[ref.path] != "":
				found = stronger(found, realThings[ref.path])
			case ref.path == module+"internal/testkit/golden":
				golden = true
			case ref.path == "" && s.funcs[ref.name] != nil && !seen[ref.name]:
				seen[ref.name] = true
				todo = append(todo, ref.name)
			}
		}
	}
	switch {
	case s.dir == "payload/standin/harness": // its TestMain leaves them out of `make test`
		return markByHand
	case found != "":
		return found
	case strings.HasPrefix(s.dir, "test/net"):
		return markNetwork
	case golden && (!judges || approvedName.MatchString(name)):
		return markText
	default:
		return markUnit
	}
}

// stronger returns the mark that is nearer to the real thing.
func stronger(a, b string) string {
	order := []string{"", markNetwork, markAPI}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// reference is a name that a function uses: of a package (path), or of its own
// folder.
type reference struct{ path, name string }

func references(f *ast.FuncDecl, file *ast.File) []reference {
	imports := map[string]string{}
	for _, imp := range file.Imports {
		path, _ := strconv.Unquote(imp.Path.Value) // the parser accepted it
		name := path[strings.LastIndex(path, "/")+1:]
		if imp.Name != nil {
			name = imp.Name.Name
		}
		imports[name] = path
	}
	var out []reference
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			switch {
			case ok && imports[x.Name] != "":
				out = append(out, reference{path: imports[x.Name], name: n.Sel.Name})
				return false
			case !ok || x.Name != "t":
				out = append(out, reference{name: n.Sel.Name})
			}
		case *ast.Ident:
			out = append(out, reference{name: n.Name})
		}
		return true
	})
	return out
}

// called returns the "x.F" of a call of x.F.
func called(e ast.Expr) string {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return ""
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := s.X.(*ast.Ident); ok {
		return x.Name + "." + s.Sel.Name
	}
	return ""
}

// readsUpdate reports whether a function rewrites a golden file on demand.
func readsUpdate(f *ast.FuncDecl) bool {
	found := false
	ast.Inspect(f.Body, func(n ast.Node) bool {
		star, ok := n.(*ast.StarExpr)
		if ok {
			x, isName := star.X.(*ast.Ident)
			found = found || (isName && x.Name == "update")
		}
		return true
	})
	return found
}

// judgesItself reports whether a function fails a test for another reason than
// an error or a golden file.
func judgesItself(f *ast.FuncDecl) bool {
	onlyErrors := map[ast.Node]bool{}
	judges := false
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if cond, ok := n.(*ast.IfStmt); ok && isErrNotNil(cond.Cond) {
			onlyErrors[cond.Body] = true
		}
		if onlyErrors[n] {
			return false
		}
		if call, ok := n.(*ast.CallExpr); ok {
			name := called(call)
			judges = judges || strings.HasPrefix(name, "t.Error") || strings.HasPrefix(name, "t.Fatal")
		}
		return true
	})
	return judges
}

func isErrNotNil(cond ast.Expr) bool {
	b, ok := cond.(*ast.BinaryExpr)
	if !ok || b.Op != token.NEQ {
		return false
	}
	x, okX := b.X.(*ast.Ident)
	y, okY := b.Y.(*ast.Ident)
	return okX && okY && x.Name == "err" && y.Name == "nil"
}

// skipMark returns the mark of a test that f skips if something is missing. The
// reason that f gives determines the mark.
func skipMark(f *ast.FuncDecl) string {
	mark := ""
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !strings.HasPrefix(called(call), "t.Skip") || len(call.Args) == 0 {
			return true
		}
		lit, ok := call.Args[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		reason := lit.Value
		switch m := skipWords.FindStringSubmatch(reason); {
		case m != nil:
			mark = commandMark(m[1])
		case strings.Contains(reason, "HOLDFAST_BENCH"), strings.Contains(reason, "-args"):
			mark = markByHand
		case strings.Contains(reason, "no lab can run here"):
			mark = markHost
		case strings.Contains(reason, "needs network namespaces"):
			mark = markNetwork
		}
		return true
	})
	return mark
}

// commandMark returns the mark of the tests that a command of the lab plays.
func commandMark(command string) string {
	switch command {
	case "lab-test":
		return "lab"
	case "bench":
		return markByHand
	case "bootloader":
		return markMachine
	default:
		return "lab " + command
	}
}
