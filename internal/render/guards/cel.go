package guards

import (
	"fmt"
	"strconv"
	"strings"
)

// Expressions read objects with dyn: the kinds are third-party, may be
// installed later, and differ from version to version.

// list formats texts as a CEL list.
func list(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = strconv.QuoteToASCII(t)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// field returns the CEL expression for a field, or for otherwise if the object
// lacks the field or a part of its path. Dots separate the parts of the path.
func field(object, path, otherwise string) string {
	return fmt.Sprintf("dyn(%s).?%s.orValue(%s)", object, strings.ReplaceAll(path, ".", ".?"), otherwise)
}

// stays returns the CEL expression that a field with a value keeps that value.
func stays(path string) string {
	return fmt.Sprintf("%[1]s == '' || %[1]s == %[2]s", field("oldObject", path, "''"), field("object", path, "''"))
}

// never is the expression of a check that always fails.
const never = "false"

// beingDeleted is the expression for an object that only waits for its end:
// removing a finalizer changes it.
const beingDeleted = "has(dyn(object).metadata.deletionTimestamp)"
