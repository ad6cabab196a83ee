// Package order compares what Go's own packages do not.
package order

// First puts what is true first, for cmp.Or and the sorts of package slices.
func First(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
