package twonode

import (
	"fmt"
	"slices"
	"strings"
)

// steps returns the commands that bring one resource to the wanted state.
func (r Resource) steps(have []Resource) ([]Command, error) {
	i := slices.IndexFunc(have, func(h Resource) bool { return h.ID == r.ID })
	if i < 0 {
		return []Command{r.create()}, nil
	}
	h := have[i]
	switch {
	case h.Agent != r.Agent:
		return nil, fmt.Errorf("resource %s is run by %s, not by %s: rename or remove it", r.ID, h.Agent, r.Agent)
	case h.Within != "":
		return nil, fmt.Errorf("resource %s is part of %s: take it out ('pcs resource ungroup')", r.ID, h.Within)
	case h.Clone != nil && (r.Clone == nil || h.Clone.ID != r.Clone.ID):
		return nil, fmt.Errorf("resource %s is cloned as %s: remove the clone ('pcs resource unclone %s')", r.ID, h.Clone.ID, r.ID)
	}
	return append(r.update(h), r.clone(h)...), nil
}

// verb returns the noun of pcs for a resource.
func (r Resource) verb() string {
	if class, _, _ := strings.Cut(r.Agent, ":"); class == fence {
		return fence
	}
	return "resource"
}

func (r Resource) create() Command {
	_, agentType, _ := strings.Cut(r.Agent, ":")
	if r.verb() != fence {
		agentType = r.Agent
	}
	args := append([]string{r.verb(), "create", r.ID, agentType}, words(r.Parameters)...)
	for _, op := range r.Operations {
		args = append(append(args, "op", op.Name), words(op.Settings)...)
	}
	if len(r.Meta) > 0 {
		args = append(append(args, "meta"), words(r.Meta)...)
	}
	if r.Clone != nil {
		args = append(append(args, "clone", r.Clone.ID), words(r.Clone.Meta)...)
	}
	if r.verb() != fence {
		args = append(args, "--no-default-ops") // the table gives all operations that matter
	}
	return Command{Args: args, Why: "there is no " + r.ID + " yet"}
}

// update changes the differing settings of the resource itself.
func (r Resource) update(have Resource) []Command {
	var changes []Setting
	args := []string{r.verb(), "update", r.ID}
	if differ := missing(have.Parameters, r.Parameters); len(differ) > 0 {
		changes = append(changes, differ...)
		args = append(args, words(differ)...)
	}
	for _, op := range r.Operations {
		if differ := missing(have.operation(op.Name), op.Settings); len(differ) > 0 {
			changes = append(changes, differ...)
			args = append(append(args, "op", op.Name), words(op.Settings)...)
			args = append(args, words(have.besides(op))...)
		}
	}
	if differ := missing(have.Meta, r.Meta); len(differ) > 0 {
		changes = append(changes, differ...)
		args = append(append(args, "meta"), words(differ)...)
	}
	if len(changes) == 0 {
		return nil
	}
	return []Command{{Args: args, Why: reasons(changes)}}
}

// besides returns the settings that a person gave to an operation. When pcs
// changes an operation it drops the settings that are not named.
func (r Resource) besides(want Operation) []Setting {
	return slices.DeleteFunc(slices.Clone(r.operation(want.Name)), func(s Setting) bool {
		_, ours := value(want.Settings, s.Name)
		return ours || s.Name == "id"
	})
}

func (r Resource) operation(name string) []Setting {
	for _, op := range r.Operations {
		if op.Name == name {
			return op.Settings
		}
	}
	return nil
}

// clone makes or changes the clone around the resource.
func (r Resource) clone(have Resource) []Command {
	switch {
	case r.Clone == nil:
		return nil
	case have.Clone == nil:
		args := append([]string{"resource", "clone", r.ID, r.Clone.ID}, words(r.Clone.Meta)...)
		return []Command{{Args: args, Why: "it runs on both nodes: " + reasons(r.Clone.Meta)}}
	}
	differ := missing(have.Clone.Meta, r.Clone.Meta)
	if len(differ) == 0 {
		return nil
	}
	return []Command{{Args: append([]string{"resource", "meta", r.Clone.ID}, words(differ)...), Why: reasons(differ)}}
}
