package restore

import "slices"

// KeepsServices reports whether a site with some service networks can serve the Services of a backup
// that was taken with others: each Service keeps its addresses, so the former networks have to be
// there, in their order. A second family may follow them.
func KeepsServices(former, now []string) bool {
	return len(now) >= len(former) && slices.Equal(now[:len(former)], former)
}
