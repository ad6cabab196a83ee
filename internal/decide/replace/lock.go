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

// Holder is the plan that holds the lock, for people.
type Holder struct {
	ID string
	// Words say who wanted the plan, and what it does.
	Words string
	// Command follows it, typed on the host On. Both are empty if Words say how.
	On, Command string
	// Page is the page of the runbook, empty if the lock does not tell which.
	Page string
}

// HolderOf returns the plan that holds the lock. Its ID is empty if the ConfigMap names none.
func HolderOf(lock map[string]string) Holder {
	h := Holder{ID: lock[LockKey], Words: lock[LockWords]}
	if h.ID == "" {
		return Holder{}
	}
	if h.Words != "" {
		return h
	}
	var p Plan
	if err := json.Unmarshal([]byte(lock[LockCopy]), &p); err != nil || p.ID != h.ID || p.New.Name+p.Old.Name == "" {
		h.Words = fmt.Sprintf("the plan %s changes the control planes (ConfigMap %s/%s has no copy of it that can be read)", h.ID, LockNamespace, LockName)
		return h
	}
	does, page := "replaces "+p.Old.Name, "replace-host"
	switch {
	case p.Grows:
		does, page = "brings "+p.New.Name+" as the second control plane", "grow"
	case p.Widens:
		does, page = "brings "+p.New.Name+" as the third control plane", "grow-three"
	case p.Narrows:
		does, page = "takes "+p.Old.Name+" out: two control planes stay", "shrink-three"
	case p.Shrinks:
		does, page = "takes "+p.Old.Name+" out: one control plane stays", "shrink"
	}
	h.Page = "docs/runbook/" + page + ".md"
	h.On, h.Command = p.Survivor, command(Facts{Plan: &p})
	switch {
	case p.Alone != "":
		does, h.On = does+", and is taken back since "+p.Alone+" went on alone", p.Alone
	case p.Taken != "":
		does, h.On = does+", and is taken back by "+p.Taken+" since "+p.Survivor+" is lost", p.Taken
	}
	h.Words = fmt.Sprintf("the plan %s of %s %s", h.ID, p.By, does)
	return h
}

// InForce says which plan holds the lock, and how it is followed. It is empty if the ConfigMap
// names none. Other work on hosts waits for that plan.
func InForce(lock map[string]string) string {
	h := HolderOf(lock)
	if h.Command == "" {
		return h.Words
	}
	return fmt.Sprintf("%s; to follow it, on %s: %s", h.Words, h.On, h.Command)
}

// StageOf returns the stage in the cluster's copy of the plan that holds the lock, empty if that cannot be
// read. Plans of every kind have one (decide/widen, decide/narrow).
func StageOf(lock map[string]string) Stage {
	var copied struct {
		ID    string `json:"id"`
		Stage Stage  `json:"stage"`
	}
	if err := json.Unmarshal([]byte(lock[LockCopy]), &copied); err != nil || copied.ID != lock[LockKey] {
		return ""
	}
	return copied.Stage
}

// LockedBy is the closed gate of a plan that waits for the one that holds the lock, with the words of
// InForce if there are any. Its command tells in a few lines of that plan, and for what it waits; the
// ConfigMap has the whole plan.
func LockedBy(inForce string) Gate {
	words := "another change of the control planes is under way"
	if inForce != "" {
		words += ": " + inForce
	}
	return shut("work", statusShow, "%s", words)
}
