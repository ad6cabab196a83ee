package replace

import (
	"encoding/json"
	"fmt"
)

// The ConfigMap that is the lock: the cluster's copy of the plan that is in force. It is there from
// the first step of a plan until the plan is over.
const (
	LockNamespace = "kube-system"
	LockName      = "holdfast-replace"
	// LockKey holds the ID of the plan, LockCopy the plan.
	LockKey  = "plan-id"
	LockCopy = "plan"
	// LockWords says for people what a plan does that is not about a control plane, and how it is
	// followed.
	LockWords = "words"
)

// InForce says which plan holds the lock, and how it is followed. It is empty if the ConfigMap
// names none. Other work on hosts waits for that plan.
func InForce(lock map[string]string) string {
	id := lock[LockKey]
	if id == "" {
		return ""
	}
	if words := lock[LockWords]; words != "" {
		return words
	}
	var p Plan
	if err := json.Unmarshal([]byte(lock[LockCopy]), &p); err != nil || p.ID != id || p.New.Name+p.Old.Name == "" {
		return fmt.Sprintf("the plan %s changes the control planes (ConfigMap %s/%s has no copy of it that can be read)", id, LockNamespace, LockName)
	}
	does := "replaces " + p.Old.Name
	switch {
	case p.Grows:
		does = "brings " + p.New.Name + " as the second control plane"
	case p.Widens:
		does = "brings " + p.New.Name + " as the third control plane"
	case p.Narrows:
		does = "takes " + p.Old.Name + " out: two control planes stay"
	case p.Shrinks:
		does = "takes " + p.Old.Name + " out: one control plane stays"
	}
	carrier := p.Survivor
	if p.Alone != "" {
		does, carrier = does+", and is taken back since "+p.Alone+" went on alone", p.Alone
	}
	return fmt.Sprintf("the plan %s of %s %s; to follow it, on %s: %s", id, p.By, does, carrier, command(Facts{Plan: &p}))
}

// LockedBy is the closed gate of a plan that waits for the one that holds the lock, with the words of
// InForce if there are any.
func LockedBy(inForce string) Gate {
	words := "another change of the control planes is under way"
	if inForce != "" {
		words += ": " + inForce
	}
	return shut("work", "kubectl -n "+LockNamespace+" get configmap "+LockName+" -o yaml", "%s", words)
}
