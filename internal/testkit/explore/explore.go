// Package explore visits every state of a model, and finds those from which no way leads to an end.
package explore

// Visit visits each state that follows from the first one. next returns the states that follow from a
// state, and what is wrong with it; Visit ends at the first state with which something is. counts
// reports whether a step counts as a way: nil for each. before has the states that lead to each one.
func Visit[W comparable](first W, next func(W) (out []W, wrong []string), counts func(from, to W) bool) (before map[W][]W, bad W, wrong []string) {
	before = map[W][]W{first: nil}
	for queue := []W{first}; len(queue) > 0; queue = queue[1:] {
		w := queue[0]
		following, found := next(w)
		if len(found) > 0 {
			return before, w, found
		}
		for _, n := range following {
			was, seen := before[n]
			if !seen {
				queue = append(queue, n)
			}
			if counts == nil || counts(w, n) {
				was = append(was, w)
			}
			before[n] = was
		}
	}
	return before, bad, nil
}

// Stuck returns the states from which no way leads to one that is over.
func Stuck[W comparable](before map[W][]W, over func(W) bool) (out []W) {
	ends := map[W]bool{}
	var queue []W
	for w := range before {
		if over(w) {
			ends[w] = true
			queue = append(queue, w)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, b := range before[queue[0]] {
			if !ends[b] {
				ends[b] = true
				queue = append(queue, b)
			}
		}
	}
	for w := range before {
		if !ends[w] {
			out = append(out, w)
		}
	}
	return out
}
