package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/corosync"
)

// manager is the only package that names the tools of Corosync and Pacemaker in
// its commands. Other packages ask it for a command. If the command changes
// anything, they stand in the table of dangerous functions.
const manager = "internal/adapter/pacemaker"

// tool matches the name of a program of Corosync, Pacemaker, pcs or a fence
// agent.
const tool = `(?:crm_[a-z_]+|crmadmin|stonith_admin|cibadmin|pcs|attrd_updater|corosync-[a-z]+|fence_[a-z]+)`

var (
	// aTool matches a word of a command line that is a tool.
	aTool = regexp.MustCompile(`^(?:/\S*/)?` + tool + `$`)
	// aLine matches a line for a shell that begins with a tool.
	aLine = regexp.MustCompile(`^\s*(?:sudo |exec )*(?:/\S*/)?` + tool + `\s`)
	// inScript matches a tool anywhere in a script.
	inScript = regexp.MustCompile(`(?m)(?:^|[\s;&|('"` + "`" + `/])` + tool + `(?:$|[\s;&|)'"` + "`" + `])`)
	// inUnit matches a tool in a command of a systemd unit.
	inUnit = regexp.MustCompile(`(?m)^Exec\w+=.*\b` + tool + `\b`)
	shell  = regexp.MustCompile(`^(?:/\S*/)?(?:ba|da|a|k|z)?sh$|^-[a-z]*c$`)
)

// otherwise lists words that are the name of a tool but mean something else,
// each with that meaning.
var otherwise = map[string]map[string]string{
	"internal/report/bundle":          {"pcs": "a package that is asked for its version"},
	"internal/model/payload":          {"pcs": "a package to install", "/usr/sbin/fence_holdfast": "a file to install"},
	"internal/fence":                  {"/usr/sbin/fence_redfish": "the driver behind our own fence agent"},
	"internal/decide/twonode":         {"fence_holdfast": "the type of a resource"},
	"internal/decide/pacemakerstatus": {"fence_holdfast": "the type of a resource"},
	"internal/model/crmmon":           {"crm_mon": "an element", "fence_history": "an element", "fence_event": "an element"},
}

// The test bed is left out: it plays the administrator, and the faults.
func TestToolsOfTheClusterManagerAreRunByItsAdapter(t *testing.T) {
	used := map[string]bool{}
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module)
		if l, ok := layerOf(p.ImportPath); !ok || l == lab || rel == manager {
			continue
		}
		files := parsed(t, p)
		known := constants(files)
		for name, file := range files {
			for _, c := range known.commands(file) {
				if otherwise[rel][c] == "" {
					t.Errorf("%s/%s has %q run: %s has the function for it", rel, name, c, manager)
				}
				used[rel+" "+c] = true
			}
		}
	}
	for rel, words := range otherwise {
		for word := range words {
			if !used[rel+" "+word] {
				t.Errorf("%s does not say %q any more: take it out of the table", rel, word)
			}
		}
	}
}

func TestACommandIsToldFromATextForAPerson(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"a command":              {`func f() { host.Run(ctx, host.Command("stonith_admin", "--confirm", peer)) }`, []string{"stonith_admin"}},
		"a runner":               {`func f() { by.Run(ctx, "stonith_admin", "--reboot", peer) }`, []string{"stonith_admin"}},
		"a path":                 {`func f() { host.Command("/usr/sbin/crm_resource", "--ban") }`, []string{"/usr/sbin/crm_resource"}},
		"a value":                {`var c = host.Cmd{Name: "cibadmin", Args: []string{"--erase", "--force"}}`, []string{"cibadmin"}},
		"a name kept elsewhere":  {`const admin = "stonith_admin"; func f() { host.Command(admin, "--fence", peer) }`, []string{"stonith_admin"}},
		"a name put together":    {`const crm = "crm_"; func f() { host.Command(crm + "resource", "--ban") }`, []string{"crm_resource"}},
		"behind another program": {`func f() { host.Command("timeout", "5", "corosync-cmapctl", "-s", key) }`, []string{"corosync-cmapctl"}},
		"a fence agent":          {`func f() { host.Command("fence_ipmilan", "--action=off") }`, []string{"fence_ipmilan"}},
		"a line for a shell":     {`func f() { host.Command("sh", "-c", "sleep 1; stonith_admin --confirm "+peer) }`, []string{"sleep 1; stonith_admin --confirm "}},
		"a condition":            {`func f() bool { return name == "crm_simulate" }`, []string{"crm_simulate"}},
		"a formatted line":       {`func f() { host.Command("/bin/bash", "-ec", fmt.Sprintf("pcs stonith confirm %s --force", peer)) }`, []string{"pcs stonith confirm %s --force"}},
		"a script kept":          {"const script = `set -e\n/usr/sbin/crm_node --remove x`\nfunc f() { run(host.Cmd{Name: \"bash\", Args: []string{\"-c\", script}}) }", []string{"set -e\n/usr/sbin/crm_node --remove x"}},
		"a script for stdin":     {`func f() { host.Cmd{Name: "sh", Stdin: strings.NewReader("pcs cluster destroy")} }`, []string{"pcs cluster destroy"}},
		"a line behind ssh":      {`func f() { run(ctx, "pcs cluster stop --force") }`, []string{"pcs cluster stop --force"}},
		"a line cut into words":  {`func f() { words := strings.Fields("crm_resource --ban --resource etcd") }`, []string{"crm_resource --ban --resource etcd"}},
		"a file with a script":   {"var hook = `#!/bin/sh\nexec attrd_updater --delete`", []string{"#!/bin/sh\nexec attrd_updater --delete"}},
		"a unit":                 {`const unit = "[Service]\nExecStart=/usr/sbin/pcs cluster start\n"`, []string{"[Service]\nExecStart=/usr/sbin/pcs cluster start\n"}},

		"advice":               {`var a = advice{{"pcs stonith history show " + peer, "shows what Pacemaker has tried"}, {"pcs status", "says why"}}`, nil},
		"an error":             {`func f() error { return fmt.Errorf("crm_mon says %s (pcs resource manage %s)", words, id) }`, nil},
		"a finding":            {`var x = row{command: "sudo pcs property set stonith-enabled=true", on: oneHost}`, nil},
		"a step of a dry run":  {`func f() { say("%s: stonith_admin --confirm %s", peer, peer) }`, nil},
		"an unlike word":       {`var x = []string{"pcsd", "corosync", "corosync.service", "crm_mon.xml", "pcs*"}`, nil},
		"an element":           {"type cib struct { P []nvset `xml:\"crm_config>cluster_property_set\"` }", nil},
		"an import":            {`import "example.com/pcs"`, nil},
		"a shell of its own":   {`func f() { host.Command("sh", "-c", "systemctl stop pcsd; rm -f /etc/corosync/corosync.conf") }`, nil},
		"a unit that is named": {`const unit = "[Unit]\n# before pcs cluster start\nAfter=corosync.service\n[Service]\nExecStart=/bin/true\n"`, nil},
	} {
		file := source(t, c.text)
		if got := constants(map[string]*ast.File{"": file}).commands(file); !slices.Equal(got, c.want) {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}

// harmless lists the forms of commands that change nothing, or only what comes
// back by itself: failures that are forgotten, and private attributes, which
// live in memory.
var harmless = []string{
	"crm_mon", "crm_resource --cleanup", "cibadmin --query", "attrd_updater", "stonith_admin --history=*",
	"corosync-quorumtool", "corosync-cfgtool -s", "corosync-cmapctl -m", "pcs status",
}

func TestWhatTheAdapterCannotUndoIsInTheTable(t *testing.T) {
	for _, p := range listPackages(t) {
		if strings.TrimPrefix(p.ImportPath, module) != manager {
			continue
		}
		files := parsed(t, p)
		for name, file := range files {
			for _, m := range constants(files).untold(file) {
				t.Errorf("%s/%s: %s", manager, name, m)
			}
		}
	}
}

func TestAnOrderThatTheTableDoesNotNameIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		bad  bool
	}{
		"a question":       {`func Ask() { host.Command("cibadmin", "--query") }`, false},
		"in the table":     {`func Fence() { order(ctx, limit, "stonith_admin", "--reboot", node) }`, false},
		"another form":     {`func Ask() { host.Command("cibadmin", "--replace") }`, true},
		"a ban":            {`func Move() { host.Command("crm_resource", "--ban", "--resource", id) }`, true},
		"a short option":   {`func Down() { host.Command("stonith_admin", "-C", node) }`, true},
		"words from away":  {`func Do(args ...string) { host.Command("pcs", args...) }`, true},
		"nobody's":         {`func down() { host.Command("stonith_admin", "--confirm", node) }`, true},
		"a method's":       {`func (x T) Fence() { host.Command("stonith_admin", "--reboot", node) }`, true},
		"a value":          {`var Down = host.Command("stonith_admin", "--confirm", "cp-2")`, true},
		"a value of words": {`var Words = []string{"pcs", "cluster", "destroy"}`, true},
		"a longer word":    {`func Ask() { host.Command("corosync-cfgtool", "-something") }`, true},
	} {
		file := source(t, c.text)
		if got := constants(map[string]*ast.File{"": file}).untold(file); (len(got) > 0) != c.bad {
			t.Errorf("%s: found %q", name, got)
		}
	}
}

func TestOnePackageReadsCorosyncsConfiguration(t *testing.T) {
	for _, p := range listPackages(t) {
		if l, ok := layerOf(p.ImportPath); !ok || l == lab || within(p.ImportPath, module+"internal/model/corosync") {
			continue
		}
		for name, file := range parsed(t, p) {
			if says(file, strconv.Quote(corosync.Path)) {
				t.Errorf("%s/%s spells %s out: take corosync.Path, and corosync.Parse", strings.TrimPrefix(p.ImportPath, module), name, corosync.Path)
			}
		}
	}
}

// texts holds the values of a package's names, as far as the package itself
// tells them.
type texts map[string][]string

func constants(files map[string]*ast.File) texts {
	known := texts{}
	for range 2 { // one may be made from another
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				switch d := n.(type) {
				case *ast.ValueSpec:
					for i, v := range d.Values {
						known.keep(d.Names[min(i, len(d.Names)-1)], v)
					}
				case *ast.AssignStmt:
					for i, v := range d.Rhs {
						known.keep(d.Lhs[min(i, len(d.Lhs)-1)], v)
					}
				}
				return true
			})
		}
	}
	return known
}

func (k texts) keep(name, value ast.Expr) {
	id, ok := name.(*ast.Ident)
	if !ok {
		return
	}
	for _, v := range k.of(value) {
		if !slices.Contains(k[id.Name], v) {
			k[id.Name] = append(k[id.Name], v)
		}
	}
}

// of returns the possible values of an expression, none if it is no text. It
// leaves out unknown parts of a sum.
func (k texts) of(e ast.Expr) []string {
	switch x := e.(type) {
	case *ast.BasicLit:
		if v, err := strconv.Unquote(x.Value); err == nil && x.Kind == token.STRING {
			return []string{v}
		}
	case *ast.Ident:
		return k[x.Name]
	case *ast.ParenExpr:
		return k.of(x.X)
	case *ast.KeyValueExpr:
		return k.of(x.Value)
	case *ast.BinaryExpr:
		return k.sum(x)
	}
	return nil
}

func (k texts) sum(x *ast.BinaryExpr) (out []string) {
	left, right := k.of(x.X), k.of(x.Y)
	if x.Op != token.ADD || len(left)+len(right) == 0 {
		return nil
	}
	for _, l := range append(left, "")[:max(1, len(left))] {
		for _, r := range append(right, "")[:max(1, len(right))] {
			out = append(out, l+r)
		}
	}
	return out
}

// direct returns the values of a call or a composite, and the name of the
// called function.
func direct(n ast.Node) (callee string, values []ast.Expr) {
	switch x := n.(type) {
	case *ast.CallExpr:
		if s, ok := x.Fun.(*ast.SelectorExpr); ok {
			callee = s.Sel.Name
			if p, ok := s.X.(*ast.Ident); ok {
				callee = p.Name + "." + callee
			}
		}
		return callee, x.Args
	case *ast.CompositeLit:
		return "", x.Elts
	}
	return "", nil
}

// commands returns the texts in a file by which a tool is run, or may be: words
// that are its name, and lines that are split into words.
func (k texts) commands(file *ast.File) (out []string) {
	found := func(text string) {
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			x.Tag = nil
		case *ast.BinaryExpr: // the parts of a sum are no separate words
			if x.Op != token.ADD {
				return true
			}
			k.words(x, found)
			ast.Inspect(x, func(n ast.Node) bool { // but the arguments of a call in it are
				c, ok := n.(*ast.CallExpr)
				if ok {
					for _, t := range k.commands(&ast.File{Name: ast.NewIdent("p"), Decls: []ast.Decl{declared(c)}}) {
						found(t)
					}
				}
				return !ok
			})
			return false
		case *ast.BasicLit:
			k.words(x, found)
		case *ast.CallExpr, *ast.CompositeLit:
			k.lines(n, found)
		}
		return true
	})
	return out
}

// declared wraps an expression in a declaration.
func declared(e ast.Expr) ast.Decl {
	return &ast.GenDecl{Tok: token.VAR, Specs: []ast.Spec{&ast.ValueSpec{Names: []*ast.Ident{ast.NewIdent("_")}, Values: []ast.Expr{e}}}}
}

// words finds the name of a tool, and units and scripts that run one.
func (k texts) words(e ast.Expr, found func(string)) {
	for _, v := range k.of(e) {
		if aTool.MatchString(v) || inUnit.MatchString(v) || strings.HasPrefix(v, "#!") && inScript.MatchString(v) {
			found(v)
		}
	}
}

// cutters are functions that split a line into words.
var cutters = []string{"strings.Fields", "strings.FieldsSeq", "strings.Split", "strings.SplitN", "strings.SplitSeq"}

// lines finds the lines that a shell runs, on this host or, through ssh, on
// another one.
func (k texts) lines(n ast.Node, found func(string)) {
	callee, values := direct(n)
	script, runs := slices.Contains(cutters, callee), false
	for _, v := range values {
		if id, ok := v.(*ast.Ident); ok && id.Name == "ctx" {
			runs = true
		}
		script = script || slices.ContainsFunc(k.of(v), shell.MatchString)
	}
	for _, v := range values {
		if runs {
			k.matching(v, aLine, found)
		}
		if script {
			ast.Inspect(v, func(n ast.Node) bool {
				e, ok := n.(ast.Expr)
				if _, sum := n.(*ast.BinaryExpr); ok {
					k.matching(e, inScript, found)
					return !sum
				}
				return true
			})
		}
	}
}

func (k texts) matching(e ast.Expr, what *regexp.Regexp, found func(string)) {
	for _, v := range k.of(e) {
		if what.MatchString(v) {
			found(v)
		}
	}
}

// untold returns the commands in a file of the adapter that no row of the table
// of dangerous functions covers.
func (k texts) untold(file *ast.File) (out []string) {
	for _, d := range file.Decls {
		by, exported := "a value", false
		if f, ok := d.(*ast.FuncDecl); ok {
			by, exported = f.Name.Name, f.Recv == nil
		}
		ast.Inspect(d, func(n ast.Node) bool {
			_, values := direct(n)
			for _, form := range k.forms(values) {
				if _, told := dangerous[manager+"."+by]; !isHarmless(form) && (!told || !exported) {
					out = append(out, fmt.Sprintf("%s runs %q, and no row of the table names it", by, form))
				}
			}
			return true
		})
	}
	return out
}

// forms returns the commands among values: the tool, with those of its words
// that are known.
func (k texts) forms(values []ast.Expr) (out []string) {
	for i, v := range values {
		for _, t := range k.of(v) {
			if !aTool.MatchString(t) {
				continue
			}
			words := []string{path.Base(t)}
			for _, after := range values[i+1:] {
				more := k.of(after)
				if len(more) != 1 {
					break
				}
				words = append(words, more[0])
			}
			out = append(out, strings.Join(words, " "))
		}
	}
	return out
}

func isHarmless(form string) bool {
	return slices.ContainsFunc(harmless, func(h string) bool { return form == h || strings.HasPrefix(form, h+" ") })
}
