package encryption

import "strings"

// Follow returns the keys that a host takes for a wish. have are those of its file, and kept says
// whether the last of them is one that it keeps.
//
// A host that was away, or comes with an older file, may have written with a key that the others
// have dropped meanwhile. It keeps that one for reading, and says so: then everything is written
// anew. Else nobody could read what it wrote.
func Follow(have Keys, kept bool, wish Keys) (keys Keys, keeps bool) {
	if len(wish) == 0 { // nobody wishes anything now
		return have, kept
	}
	if len(have) == 0 || len(wish) != 1 {
		return wish, false
	}
	wrote := have[0]
	if kept && wrote == wish[0] {
		wrote = have[len(have)-1]
	}
	if wrote == wish[0] {
		return wish, false
	}
	return Keys{wish[0], wrote}, true
}

// keptWord follows the keys that a host publishes if it keeps the last one. Releases of before it
// take that for no keys at all, and hold a rotation.
const keptWord = " kept"

// Told returns what a host publishes about its keys, and ParseTold reads it.
func Told(k Keys, kept bool) string {
	if kept {
		return k.String() + keptWord
	}
	return k.String()
}

// ParseTold reads what Told returns.
func ParseTold(text string) (k Keys, kept bool, err error) {
	text, kept = strings.CutSuffix(text, keptWord)
	k, err = Parse(text)
	return k, kept, err
}
