package hostfiles

import (
	"maps"
	"slices"
)

// Arguments decides what becomes of a program's arguments, by name, between the release that
// gave it was and one that gives it is. was is nil if the former release does not say what it
// gave: then the program gets what the other one gives. set are values to give, drop names to
// take away; kept are names that the release gives otherwise, and that stay because they are
// not as the former release gave them.
func Arguments(has, was, is map[string]string) (set map[string]string, drop, kept []string) {
	set = map[string]string{}
	names := maps.Clone(is)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, was)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		have, before, after := value(has, name), value(was, name), value(is, name)
		switch {
		case have == after, was != nil && before == after:
		case was != nil && have != before:
			kept = append(kept, name)
		case after.given:
			set[name] = after.text
		default:
			drop = append(drop, name)
		}
	}
	return set, drop, kept
}

// argument is the value of an argument, if there is one.
type argument struct {
	text  string
	given bool
}

func value(of map[string]string, name string) argument {
	text, given := of[name]
	return argument{text, given}
}
