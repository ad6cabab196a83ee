package machineconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
	"github.com/holdfast/holdfast/internal/decide/hostchange"
)

// keepParameters keeps the values of all kernel parameters that the target sets, once
// for each way. One that the kernel does not have is kept as empty, and needs nothing.
// One that cannot be read could not be put back.
func (a *Agent) keepParameters(ctx context.Context) error {
	kept, err := a.Store.Parameters()
	if err != nil || kept.Target == a.journal.Target {
		return err // a run that was cut may have changed them since
	}
	cfg, err := a.config(ctx, a.journal.Target)
	if err != nil {
		return err
	}
	names := hostchange.Parameters(cfg)
	if len(names) == 0 && kept.Target == "" {
		return nil
	}
	kept = hostconfig.Parameters{Target: a.journal.Target, Values: map[string]string{}}
	if kept.Boot, _, err = a.Boot(); err != nil {
		return err
	}
	for _, name := range names {
		if value, err := a.Parameter(name); err == nil || errors.Is(err, fs.ErrNotExist) {
			kept.Values[name] = value
		}
	}
	return a.Store.PutParameters(kept)
}

// former returns the values that kernel parameters had before the way that the host
// goes back on; none if it has booted since.
func (a *Agent) former() (map[string]string, error) {
	if !a.journal.Back {
		return nil, nil
	}
	kept, err := a.Store.Parameters()
	if err != nil {
		return nil, err
	}
	boot, _, err := a.Boot()
	if err != nil || kept.Target != a.journal.Target || kept.Boot != boot {
		return nil, err
	}
	return kept.Values, nil
}

// restorable returns the row for them.
func (a *Agent) restorable() ([]hostchange.Row, error) {
	values, err := a.former()
	if len(values) == 0 {
		return nil, err
	}
	return []hostchange.Row{hostchange.Restored(values)}, nil
}

// restoreParameters sets them again, before systemd sets those that files name. One that has its
// former value is left alone: the kernel may refuse that one all the same, as the 0 of what can
// only be set. One that is gone has no value of ours.
func (a *Agent) restoreParameters() error {
	values, err := a.former()
	if err != nil {
		return err
	}
	var refused []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		now, err := a.Parameter(name)
		if values[name] == "" || err == nil && now == values[name] || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := a.SetParameter(name, values[name]); err != nil {
			refused = append(refused, fmt.Errorf("set the kernel parameter %s again: %w", name, err))
		}
	}
	return errors.Join(refused...)
}
