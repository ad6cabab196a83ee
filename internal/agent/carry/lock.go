package carry

import (
	"context"
	"encoding/json"

	"github.com/holdfast/holdfast/internal/decide/plans"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// LockAPI is the part of the cluster's API that the lock of plans needs.
type LockAPI interface {
	Lock(ctx context.Context, namespace, name string, data map[string]string) error
	SetLocked(ctx context.Context, namespace, name, key, value string, data map[string]string) error
	Unlock(ctx context.Context, namespace, name, key, value string) error
	SetAnnotations(ctx context.Context, node string, values map[string]*string) error
}

// CopyPlan takes the lock for the plan of a host, or writes the newer plan into it. The Node names the plan
// before the lock is there, so that a cut in between is done again.
func CopyPlan(ctx context.Context, api LockAPI, host, annotation, id string, plan any) error {
	text, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	if err := api.SetAnnotations(ctx, host, map[string]*string{annotation: &id}); err != nil {
		return err
	}
	if err := api.Lock(ctx, replace.LockNamespace, replace.LockName, map[string]string{replace.LockKey: id, replace.LockCopy: string(text)}); err != nil {
		return err
	}
	return api.SetLocked(ctx, replace.LockNamespace, replace.LockName, replace.LockKey, id, map[string]string{replace.LockCopy: string(text)})
}

// DropLock deletes the lock. The Node of the host that wrote it names the plan, too: that may be either of
// hosts, and its Node may be gone with it.
func DropLock(ctx context.Context, api LockAPI, hosts []string, there func(context.Context, string) (bool, error), annotation, id string) error {
	for _, name := range hosts {
		is, err := there(ctx, name)
		if err == nil && is {
			err = api.SetAnnotations(ctx, name, map[string]*string{annotation: nil})
		}
		if err != nil {
			return err
		}
	}
	return api.Unlock(ctx, replace.LockNamespace, replace.LockName, replace.LockKey, id)
}

// TellPeer writes into the lock how far this host is.
func TellPeer(ctx context.Context, api LockAPI, id string, progress any) error {
	text, err := json.Marshal(progress)
	if err != nil {
		return err
	}
	return api.SetLocked(ctx, replace.LockNamespace, replace.LockName, replace.LockKey, id, map[string]string{plans.LockTold: string(text)})
}

// Locked reads the lock: the ID of its plan, the plan, and what the other host tells. The plan is nil if
// the text is none of the kind that ours knows.
func Locked[P, T any](data map[string]string, ours func(p P, id string) bool) (id string, plan *P, told state.Fact[T]) {
	id = data[replace.LockKey]
	var p P
	if err := json.Unmarshal([]byte(data[replace.LockCopy]), &p); err == nil && ours(p, id) {
		plan = &p
	}
	var t T
	if text := data[plans.LockTold]; text != "" {
		if err := json.Unmarshal([]byte(text), &t); err != nil {
			return id, plan, told
		}
	}
	return id, plan, state.Known(t)
}
