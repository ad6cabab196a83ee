package machineconfig

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/model/state"
)

// mayBootNow asks what counts last before a boot of the host's own: whether the cluster carries on,
// and whether a program blocks shutdowns.
func (a *Agent) mayBootNow(ctx context.Context) (state.Fact[bool], string) {
	carries, why := a.mayBoot(ctx)
	if !state.Is(carries, true) {
		return carries, why
	}
	if blocked := hostapply.Blocked(a.locks(ctx)); blocked != "" {
		return state.Known(false), blocked
	}
	return carries, why
}

// locks returns those that programs hold at logind. If logind cannot be asked there are none: a host
// without it would never boot. systemd has the last word then, as before.
func (a *Agent) locks(ctx context.Context) []hostapply.Lock {
	list, err := a.Locks(ctx)
	if err != nil {
		return nil
	}
	return list
}

// logindLimit bounds a question to logind, which answers within milliseconds.
const logindLimit = 3 * time.Second

// locksOfLogind asks logind. systemd-inhibit prints a table, and JSON only since a later systemd.
func locksOfLogind(ctx context.Context) ([]hostapply.Lock, error) {
	limited, cancel := context.WithTimeout(ctx, logindLimit)
	defer cancel()
	const bus, object, methods = "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"
	answer, err := host.Run(limited, host.Command("busctl", "--json=short", "call", bus, object, methods, "ListInhibitors"))
	if err != nil {
		return nil, err
	}
	return readLocks(answer)
}

// signature is that of an answer: what, who, why, mode, user and process of each lock.
const signature = "a(ssssuu)"

func readLocks(answer []byte) ([]hostapply.Lock, error) {
	var reply struct {
		Type string                `json:"type"`
		Data [][][]json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return nil, fmt.Errorf("which locks logind has: %w", err)
	}
	if reply.Type != signature || len(reply.Data) != 1 {
		return nil, fmt.Errorf("which locks logind has: an answer of the form %q with %d values", reply.Type, len(reply.Data))
	}
	var out []hostapply.Lock
	for _, fields := range reply.Data[0] {
		var l hostapply.Lock
		into := []any{&l.What, &l.Who, &l.Why, &l.Mode, &l.User, &l.Process}
		if len(fields) != len(into) {
			return nil, fmt.Errorf("which locks logind has: one with %d fields", len(fields))
		}
		for i, field := range fields {
			if err := json.Unmarshal(field, into[i]); err != nil {
				return nil, fmt.Errorf("which locks logind has: %w", err)
			}
		}
		out = append(out, l)
	}
	return out, nil
}
