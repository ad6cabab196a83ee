// Package order holds comparisons that Go's own packages lack.
package order

// First orders true before false, for cmp.Or and the sorts of package slices.
func First(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
