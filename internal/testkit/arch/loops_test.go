package arch

import (
	"go/ast"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	loopsRoom  = "internal/agent/loop"
	agentRoom  = "internal/agent"
	loopsPage  = "docs/runbook/agent-loops.md"
	ownNetwork = "it is a source of the view or a guard of its piece, and sees to its own retries (network.Source)"
	inAStep    = "it waits within a step, which the step's context ends"
	once       = "it ends: a command, an installation or a start waits for something"
)

// timers are the places of the agent, outside of package loop, that wait for time,
// each with its reason. Everything else is a loop.Task or a loop.Watch, which the
// watchdog and /run/holdfast/loops.json know.
var timers = map[string]string{
	"internal/agent/nodeip.go":                            once,
	"internal/agent/monitor.go":                           "holdfast-agent monitor --follow looks until a person ends it",
	"internal/agent/apply.go":                             once,
	"internal/agent/parts/bring.go":                       once,
	"internal/agent/machineconfig/shutdown.go":            "a shutdown waits for it, a short time and once",
	"internal/agent/install/report.go":                    once,
	"internal/agent/install/install.go":                   once,
	"internal/agent/twonode/host.go":                      once,
	"internal/agent/controlplane/controlplane.go":         once,
	"internal/agent/hostnet/hostnet.go":                   once,
	"internal/agent/pair.go":                              once,
	"internal/agent/incident/watch.go":                    "a watch of files that looks now and then for folders that are not there yet; the task looks without it too",
	"internal/agent/pacemakerstatus/observer.go":          "a watch of files that looks now and then for folders that are not there yet",
	"internal/agent/pacemakerstatus/memberships.go":       "one question to the keeper follows the other, and Corosync is asked while there is no answer",
	"internal/agent/network/servingcert/servingcert.go":   inAStep,
	"internal/agent/leafcert/process.go":                  inAStep,
	"internal/agent/rotation/process.go":                  inAStep,
	"internal/agent/network/vipcheck/vipcheck.go":         inAStep,
	"internal/agent/network/registration/registration.go": inAStep,
	"internal/agent/network/balancer/balancer.go":         inAStep,
	"internal/agent/widen/act.go":                         inAStep,
	"internal/agent/network/keepalived/senders.go":        ownNetwork,
	"internal/agent/network/keepalived/run.go":            ownNetwork,
	"internal/agent/network/keepalived/around.go":         ownNetwork,
	"internal/agent/network/resolver/source.go":           ownNetwork,
	"internal/agent/network/leave.go":                     inAStep,
	"internal/agent/network/mayhold/mayhold.go":           ownNetwork,
	"internal/agent/network/stage/stage.go":               ownNetwork,
	"internal/agent/network/firewall/firewall.go":         ownNetwork,
	"internal/agent/network/redirect/redirect.go":         ownNetwork,
}

// waits are what a loop waits for time with.
var waits = []string{
	"internal/adapter/host.Sleep", "time.NewTimer", "time.NewTicker", "time.AfterFunc", "time.Sleep", "time.After", "time.Tick",
}

func TestEveryLoopOfTheAgentIsKnownToTheWatchdog(t *testing.T) {
	found := map[string]bool{}
	inAgent(t, func(path string, file *ast.File) {
		if !slices.ContainsFunc(uses(file), func(use string) bool { return slices.Contains(waits, use) }) {
			return
		}
		found[path] = true
		if timers[path] == "" {
			t.Errorf("%s waits for time: make it a loop.Task or a loop.Watch, so that somebody notices when it hangs", path)
		}
	})
	for path := range timers {
		if !found[path] {
			t.Errorf("%s does not wait for time any more: take it out of the table", path)
		}
	}
}

// TestTheRunbookNamesEveryLoop: `holdfast status` tells a loop by its name, and a
// person looks for it there.
func TestTheRunbookNamesEveryLoop(t *testing.T) {
	page, names := repository(t)[loopsPage], map[string]bool{}
	inAgent(t, func(path string, file *ast.File) {
		for _, name := range namesOfLoops(file) {
			if names[name] {
				t.Errorf("%s: a second loop is called %q", path, name)
			}
			names[name] = true
			if !strings.Contains(page, "| "+name+" |") {
				t.Errorf("%s: %s has no line for %q", path, loopsPage, name)
			}
		}
	})
	if len(names) < 15 {
		t.Errorf("only %d loops were found: %q", len(names), slices.Sorted(maps.Keys(names)))
	}
	for _, row := range tables(strings.Split(page, "\n"), "| loop | stands still while it fails | look at |") {
		if name, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |"); !names[name] {
			t.Errorf("%s: there is no loop %q", loopsPage, name)
		}
	}
}

// inAgent calls do for each file of the agent outside of package loop.
func inAgent(t *testing.T, do func(path string, file *ast.File)) {
	t.Helper()
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module)
		if rel != agentRoom && !strings.HasPrefix(rel, agentRoom+"/") || rel == loopsRoom {
			continue
		}
		for name, file := range parsed(t, p) {
			do(rel+"/"+name, file)
		}
	}
}

// namesOfLoops are the names that tasks and watches of a file are made with.
func namesOfLoops(file *ast.File) []string {
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		l, ok := n.(*ast.CompositeLit)
		if !ok || !isLoop(l.Type) {
			return true
		}
		for _, e := range slices.Concat(l.Elts, inside(l)) {
			kv, ok := e.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			key, ok := kv.Key.(*ast.Ident)
			text, isText := kv.Value.(*ast.BasicLit)
			if ok && isText && key.Name == "Name" {
				if name, err := strconv.Unquote(text.Value); err == nil {
					out = append(out, name)
				}
			}
		}
		return true
	})
	return out
}

// isLoop reports whether a type is loop.Task or loop.Watch, or a list of them.
func isLoop(e ast.Expr) bool {
	if list, ok := e.(*ast.ArrayType); ok {
		e = list.Elt
	}
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "loop" && (s.Sel.Name == "Task" || s.Sel.Name == "Watch")
}

// inside are the fields of the literals of a list whose type is left out.
func inside(list *ast.CompositeLit) []ast.Expr {
	var out []ast.Expr
	for _, e := range list.Elts {
		if l, ok := e.(*ast.CompositeLit); ok && l.Type == nil {
			out = append(out, l.Elts...)
		}
	}
	return out
}

func TestTheNamesOfLoopsAreFound(t *testing.T) {
	file := source(t, `var a = loop.Task{Name: "one", Every: 1}; var b = []loop.Watch{{Pause: 1, Name: "two"}, loop.Watch{Name: "three"}}; var c = other.Task{Name: "no"}`)
	if got := namesOfLoops(file); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("%q", got)
	}
}
