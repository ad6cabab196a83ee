package replace

// The command reads the plan, and then writes that it is to be taken back. The agent may retire the old
// host in between. Such an order must not wait in the wish until the plan has a meaning for it again: then
// it would say of a newcomer that it is lost.

// late reports whether the order to take the plan back came too late. Of a newcomer an administrator can
// say that it is lost only once it was let in, which was the last write of a plan that is joining. A plan
// that was written while the clock was ahead says nothing of what came later.
func late(f Facts) bool {
	return asksAbort(f) && (f.Plan.Stage != Joining || !f.Wish.At.After(f.Plan.Written) && !f.Plan.Written.After(f.Now))
}

// lateRule comes behind the rules that keep the hosts safe, and before every rule that waits.
var lateRule = rule{
	step: "R1", id: "late", act: DropAbort, when: late,
	words: func(f Facts) string { return "too late to take the plan back: " + f.Plan.TooLate() },
}

// TooLate says why a plan that is not over can no longer be taken back, and what there is instead.
func (p Plan) TooLate() string {
	follow := "sudo " + p.Command()
	switch {
	case p.Stage == Joining:
		return p.New.Name + " was let in meanwhile. To follow the plan: " + follow + "; if " + p.New.Name + " is lost for good, once more: " + follow + " --abort"
	case p.Grows:
		return p.Survivor + " has become one of two, so there is only the way forward: " + follow
	}
	return p.Old.Name + " is retired, so there is only the way forward: " + follow
}
