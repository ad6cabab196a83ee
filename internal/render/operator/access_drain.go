package operator

// drainAccess gives the rights to empty a host before it boots: to see whose pods
// run there and which disruption budgets they have, and to evict them. An eviction
// heeds budgets, and a deletion does not; there is no right to delete. The right to
// cordon is that of changing nodes.
func drainAccess() []Object {
	return inCluster("drain", Name+"-drain",
		rule("", []string{"list"}, "pods"),
		rule("", []string{"create"}, "pods/eviction"),
		rule("policy", []string{"list"}, "poddisruptionbudgets"),
	)
}

// Runs reports whether a pod of Namespace with these labels is the operator.
func Runs(of map[string]string) bool {
	for key, value := range labels() {
		if of[key] != value {
			return false
		}
	}
	return true
}
