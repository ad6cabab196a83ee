package grow

import (
	"reflect"
	"slices"
	"strings"
)

// Patch is what is to be written into an object.
type Patch struct {
	// Fields is a merge patch (RFC 7386), nil if there is nothing to write.
	Fields map[string]any
	// Left names the fields that somebody has changed and that stay.
	Left []string
	// whole says that a list which differs becomes the wanted one, whoever added to it.
	whole bool
}

// Merge returns the patch by which an object of the API, as it is now, gets what differs
// between two renderings of it. A field that is the same in both stays, whoever wrote it.
// A field that differs and that somebody has changed is set if always is true; else it
// stays. A list of words gets the words that are new, loses those that only was has, and keeps
// those that others added.
func Merge(was, is, now map[string]any, always bool) Patch {
	var p Patch
	p.Fields = p.merge("", was, is, now, always)
	slices.Sort(p.Left)
	return p
}

// Replace returns the same with always, but a list of words that differs becomes the new one, without
// what others added.
func Replace(was, is, now map[string]any) Patch {
	p := Patch{whole: true}
	p.Fields = p.merge("", was, is, now, true)
	return p
}

func (p *Patch) merge(path string, was, is, now map[string]any, always bool) map[string]any {
	out := map[string]any{}
	for key := range union(was, is) {
		at := strings.TrimPrefix(path+"."+key, ".")
		old, wanted, living := was[key], is[key], now[key]
		if reflect.DeepEqual(old, wanted) {
			continue
		}
		before, hadTree := old.(map[string]any)
		there, hasTree := living.(map[string]any)
		tree, wantsTree := wanted.(map[string]any)
		// Where others have changed a part that goes, their fields in it stay.
		theirs := wanted == nil && hadTree && hasTree && !reflect.DeepEqual(old, living)
		if wantsTree || theirs {
			if inner := p.merge(at, before, tree, there, always); inner != nil {
				out[key] = inner
			}
			continue
		}
		switch {
		case reflect.DeepEqual(living, wanted):
		case reflect.DeepEqual(living, old), p.whole:
			out[key] = wanted
		case always:
			if all := joined(old, wanted, living); !reflect.DeepEqual(all, living) {
				out[key] = all
			}
		default:
			p.Left = append(p.Left, at)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func union(a, b map[string]any) map[string]bool {
	out := map[string]bool{}
	for key := range a {
		out[key] = true
	}
	for key := range b {
		out[key] = true
	}
	return out
}

// joined returns a list of words as it is now, with those that are new and without those that
// are no longer wanted. Anything else becomes what is wanted.
func joined(old, wanted, living any) any {
	had, listed := words(old)
	want, ok := words(wanted)
	have, also := words(living)
	if gone := wanted == nil && listed; !also || !ok && !gone {
		return wanted
	}
	out := slices.DeleteFunc(slices.Clone(living.([]any)), func(e any) bool {
		w, _ := e.(string)
		return slices.Contains(had, w) && !slices.Contains(want, w)
	})
	for _, w := range want {
		if !slices.Contains(had, w) && !slices.Contains(have, w) {
			out = append(out, w)
		}
	}
	if len(out) == 0 && wanted == nil {
		return nil
	}
	return out
}

func words(list any) ([]string, bool) {
	all, ok := list.([]any)
	var out []string
	for _, e := range all {
		word, is := e.(string)
		if !is {
			return nil, false
		}
		out = append(out, word)
	}
	return out, ok
}
