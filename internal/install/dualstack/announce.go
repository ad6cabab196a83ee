package dualstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/dualstack"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/install/grow"
	"github.com/holdfast/holdfast/internal/model/state"
)

// LockAPI is the part of the API that the announcement and the lock of all plans need.
type LockAPI interface {
	grow.API
	ConfigMap(ctx context.Context, namespace, name string) (map[string]string, error)
	Lock(ctx context.Context, namespace, name string, data map[string]string) error
	Unlock(ctx context.Context, namespace, name, key, value string) error
}

var infrastructure = state.ObjectRef{APIVersion: "config.openshift.io/v1", Kind: "Infrastructure", Name: "cluster"}

// ErrTakenBack is the error of a plan whose announcement is gone.
var ErrTakenBack = errors.New("somebody took the announcement back")

// Begin takes the lock of all plans, and writes into the announcement that the plan has begun.
// Of a person who takes it back and this, one is first.
func Begin(ctx context.Context, api LockAPI, p decide.Plan) error {
	if err := Lock(ctx, api, p); err != nil {
		return err
	}
	return announce(ctx, api, func(now string) (string, error) {
		if is, err := Announced(now); err != nil || is.ID != p.ID {
			return "", ErrTakenBack
		}
		return begun(p)
	})
}

// Publish writes the announcement again, if there is none.
func Publish(ctx context.Context, api LockAPI, p decide.Plan) error {
	if err := Lock(ctx, api, p); err != nil {
		return err
	}
	return announce(ctx, api, func(now string) (string, error) {
		if now != "" {
			return now, nil
		}
		return begun(p)
	})
}

// Withdraw takes the announcement of a plan away, and the lock.
func Withdraw(ctx context.Context, api LockAPI, p decide.Plan) error {
	err := announce(ctx, api, func(now string) (string, error) {
		if is, err := Announced(now); err == nil && is.ID != p.ID {
			return now, nil
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	return Unlock(ctx, api, p)
}

// Unlock gives the lock of all plans back.
func Unlock(ctx context.Context, api LockAPI, p decide.Plan) error {
	return api.Unlock(ctx, replace.LockNamespace, replace.LockName, replace.LockKey, p.ID)
}

// Lock takes the lock of all plans, unless this one has it. If another one has it, the error says which.
func Lock(ctx context.Context, api LockAPI, p decide.Plan) error {
	data, err := api.ConfigMap(ctx, replace.LockNamespace, replace.LockName)
	if err == nil && data == nil {
		words := fmt.Sprintf("the plan %s of %s gives the site a second address family; to follow it: holdfast site dual-stack status", p.ID, p.By)
		err = api.Lock(ctx, replace.LockNamespace, replace.LockName, map[string]string{replace.LockKey: p.ID, replace.LockWords: words})
		if err == nil {
			data, err = api.ConfigMap(ctx, replace.LockNamespace, replace.LockName) // another one may have been first
		}
	}
	if err == nil && data[replace.LockKey] != p.ID {
		err = errors.New(replace.InForce(data))
	}
	return err
}

// Announced reads the announcement of a plan, the zero Plan for an empty one.
func Announced(text string) (p decide.Plan, err error) {
	if text == "" {
		return p, nil
	}
	if err = json.Unmarshal([]byte(text), &p); err != nil {
		err = fmt.Errorf("annotation %s of the Infrastructure object: %w", kube.DualStackAnnotation, err)
	}
	return p, err
}

func begun(p decide.Plan) (string, error) {
	p.Begun = true
	data, err := json.Marshal(p)
	return string(data), err
}

// announce changes the announcement. Empty means none.
func announce(ctx context.Context, api LockAPI, to func(now string) (string, error)) error {
	for range attempts {
		now, err := api.Fields(ctx, infrastructure)
		if err != nil {
			return err
		}
		meta, _ := now["metadata"].(map[string]any)
		set, _ := meta["annotations"].(map[string]any)
		have, _ := set[kube.DualStackAnnotation].(string)
		is, err := to(have)
		if err != nil || is == have {
			return err
		}
		var value any
		if is != "" {
			value = is
		}
		written, err := api.Merge(ctx, infrastructure, false, now, map[string]any{"metadata": map[string]any{"annotations": map[string]any{kube.DualStackAnnotation: value}}})
		if err != nil || written {
			return err
		}
	}
	return fmt.Errorf("%s changes all the time: %d attempts to write it failed", infrastructure, attempts)
}
