package outofservice

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Operation is one step of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

const (
	taintsPath      = "/spec/taints"
	annotationsPath = "/metadata/annotations"
	versionPath     = "/metadata/resourceVersion"
)

// markPath is the path of the annotation; a slash in a key is spelled ~1.
var markPath = annotationsPath + "/" + strings.ReplaceAll(Annotation, "/", "~1")

// Patch returns the change of a node that carries out a verdict. It holds only
// our own parts, and applies only to the list of taints that was read. Other
// kinds of patch replace the list as a whole, and with it a taint that somebody
// else has just added.
func Patch(n Node, v Verdict) []Operation {
	switch v.Action {
	case Add:
		return addition(n, v.Mark)
	case Remove:
		return removal(n)
	default:
		return nil
	}
}

func addition(n Node, mark string) []Operation {
	var ops []Operation
	taint := Taint{Key: Key, Value: Value, Effect: Effect}
	if len(n.Taints) == 0 || n.Annotations == nil { // there is no list to test
		ops = append(ops, Operation{"test", versionPath, n.ResourceVersion})
	}
	switch {
	case len(n.Taints) == 0:
		ops = append(ops, Operation{"add", taintsPath, []Taint{taint}})
	case n.index() < 0:
		ops = append(ops, Operation{"test", taintsPath, n.Taints}, Operation{"add", taintsPath + "/-", taint})
	default: // the taint is there, of an earlier fence
		ops = append(ops, Operation{"test", taintsPath, n.Taints})
	}
	if n.Annotations == nil {
		return append(ops, Operation{"add", annotationsPath, map[string]string{Annotation: mark}})
	}
	return append(ops, Operation{"add", markPath, mark})
}

func removal(n Node) []Operation {
	ops := []Operation{{"test", markPath, n.Annotations[Annotation]}}
	if i := n.index(); i >= 0 {
		ops = append(ops, Operation{"test", taintsPath, n.Taints}, Operation{Op: "remove", Path: taintsPath + "/" + strconv.Itoa(i)})
	}
	return append(ops, Operation{Op: "remove", Path: markPath})
}

// Apply returns a node with the taints and the mark that it has after a verdict,
// as the patch makes them in the API's object.
func Apply(n Node, v Verdict) Node {
	out := n
	out.Taints = slices.Clone(n.Taints)
	out.Annotations = map[string]string{}
	maps.Copy(out.Annotations, n.Annotations)
	switch v.Action {
	case Add:
		if n.index() < 0 {
			out.Taints = append(out.Taints, Taint{Key: Key, Value: Value, Effect: Effect})
		}
		out.Annotations[Annotation] = v.Mark
	case Remove:
		if i := n.index(); i >= 0 {
			out.Taints = slices.Delete(out.Taints, i, i+1)
		}
		delete(out.Annotations, Annotation)
	case Leave:
	}
	return out
}
