package guards

import (
	"fmt"
	"strconv"
	"strings"
)

// Expressions look at objects as they come, with dyn: the kinds are other
// people's, may be installed later, and differ from version to version.

// list writes texts as a list of CEL.
func list(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = strconv.QuoteToASCII(t)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// field is a field, or what it is where there is none: an object may lack
// anything on the way to it. The parts of its path are joined by dots.
func field(object, path, otherwise string) string {
	return fmt.Sprintf("dyn(%s).?%s.orValue(%s)", object, strings.ReplaceAll(path, ".", ".?"), otherwise)
}

// stays is whether a field is what it was, once it was something.
func stays(path string) string {
	return fmt.Sprintf("%[1]s == '' || %[1]s == %[2]s", field("oldObject", path, "''"), field("object", path, "''"))
}

// never is what a check says that nothing keeps.
const never = "false"

// beingDeleted is whether an object only waits for its end: whoever takes his
// finalizer off changes it.
const beingDeleted = "has(dyn(object).metadata.deletionTimestamp)"
