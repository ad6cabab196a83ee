package hostconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/install/apply"
	"github.com/holdfast/holdfast/internal/install/plan"
)

// Writer writes configurations.
type Writer struct {
	Store Store
	// Files has the effects on the host.
	Files *apply.Host
}

// NewWriter returns the writer of the host below root.
func NewWriter(root string) Writer {
	return Writer{Store: NewStore(root), Files: apply.NewHost(root)}
}

// Write makes the host have the configuration that its journal names, and returns
// the name.
func (w Writer) Write(ctx context.Context) (string, error) {
	unlock, err := w.Files.Alone(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	j, err := w.Store.Journal()
	if err != nil {
		return "", err
	}
	name := j.Config()
	cfg, err := w.Store.Config(name)
	if err != nil {
		return name, err
	}
	return name, w.write(ctx, cfg)
}

func (w Writer) write(ctx context.Context, cfg machineconfig.Config) error {
	o, err := w.Store.originals()
	if err != nil {
		return err
	}
	d, seen, err := w.observe(ctx, o, cfg)
	if err != nil {
		return err
	}
	added, err := o.record(d, seen)
	if err != nil {
		return err
	}
	p, err := w.Files.Conform(d, o.restored(d, seen), true)
	if err != nil {
		return err
	}
	if added {
		if err := w.Store.putOriginals(o); err != nil {
			return fmt.Errorf("keep what was there before: %w", err)
		}
	}
	if err := w.Files.Take(ctx, slices.Concat(o.before(d, seen), p.Steps, o.after(d, seen))); err != nil {
		return err
	}
	if err := w.disableHidden(ctx, o, d, seen); err != nil {
		return err
	}
	if err := w.setArguments(ctx, &o, cfg.KernelArguments); err != nil {
		return fmt.Errorf("kernel arguments: %w", err)
	}
	if o.prune(d) {
		return w.Store.putOriginals(o)
	}
	return nil
}

// disableHidden disables what is to be disabled and was enabled below a mask that is gone now. A run that was cut
// before that sees it without the mask.
func (w Writer) disableHidden(ctx context.Context, o originals, d plan.Desired, seen plan.Observed) error {
	if !hides(d, seen) {
		return nil
	}
	now, err := w.Files.Observe(ctx, o.look(d))
	if err != nil {
		return err
	}
	steps := o.disables(d, now)
	for _, u := range d.Units {
		if u.Enabled != nil && !*u.Enabled && !masked(d, u.Name) && on(now.Units[u.Name].Enabled) {
			steps = append(steps, plan.Step{ID: "disable:" + u.Name, Action: &plan.Disable{Unit: u.Name}})
		}
	}
	return w.Files.Take(ctx, steps)
}

// keysOf marks the keys of a machine configuration in authorized_keys.
const keysOf = "the machine configuration"

// desired returns a configuration as the steps of package plan need it, with the
// keys of the account.
func desired(cfg machineconfig.Config) (plan.Desired, error) {
	rest := cfg.Ignition
	rest.Passwd.Users = nil
	d, err := plan.FromConfig(rest)
	if err != nil {
		return d, &apply.InputError{Err: err}
	}
	user := plan.User{Field: "passwd.users." + machineconfig.User, Name: machineconfig.User, KeysOf: keysOf}
	for _, u := range cfg.Ignition.Passwd.Users {
		for _, key := range u.SSHAuthorizedKeys {
			user.Keys = append(user.Keys, string(key))
		}
	}
	d.Users = []plan.User{user}
	return d, nil
}

// observe returns a configuration, and the host as far as that depends on it.
func (w Writer) observe(ctx context.Context, o originals, cfg machineconfig.Config) (plan.Desired, plan.Observed, error) {
	d, err := desired(cfg)
	if err != nil {
		return d, plan.Observed{}, err
	}
	seen, err := w.Files.Observe(ctx, o.look(d))
	if err != nil {
		return d, seen, err
	}
	account, there := seen.Users[machineconfig.User]
	switch keys := len(d.Users[0].Keys) > 0; {
	case keys && !there:
		return d, seen, errNoAccount
	case !keys && seen.Nodes[account.Home].Kind == plan.KindAbsent:
		d.Users = nil // there is no file with keys of ours
	}
	return d, seen, nil
}

var errNoAccount = &apply.InputError{Err: errors.New("this host has no account " + machineconfig.User + ", whose keys the configuration sets")}

// Differences returns what of a configuration the host does not have, one phrase
// each. What keeps the host from having it is one of them: somebody changed that too,
// since the host had it once. Keys are left out: the agent, which asks, cannot see home
// folders.
func (w Writer) Differences(ctx context.Context, cfg machineconfig.Config) ([]string, error) {
	p, err := w.compare(ctx, cfg)
	if refused, ok := errors.AsType[*apply.InputError](err); ok {
		return []string{"what it needs: " + strings.ReplaceAll(refused.Error(), "\n", "; ")}, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range p.Steps {
		out = append(out, fmt.Sprintf("%s (%s)", s.ID, s.Why))
	}
	return out, nil
}

// Refusal returns why the host cannot have a configuration; empty if it can.
func (w Writer) Refusal(ctx context.Context, cfg machineconfig.Config) (string, error) {
	_, err := w.compare(ctx, cfg)
	if err == nil && len(cfg.KernelArguments) > 0 {
		_, err = w.bootLoader()
	}
	if refused, ok := errors.AsType[*apply.InputError](err); ok {
		return refused.Error(), nil
	}
	return "", err
}

// compare returns the steps to a configuration, without those of its keys. It
// changes nothing.
func (w Writer) compare(ctx context.Context, cfg machineconfig.Config) (plan.Plan, error) {
	o, err := w.Store.originals()
	if err != nil {
		return plan.Plan{}, err
	}
	d, err := desired(cfg)
	if err != nil {
		return plan.Plan{}, err
	}
	keys := len(d.Users[0].Keys) > 0
	d.Users = nil
	seen, err := w.Files.Observe(ctx, o.look(d))
	if err != nil {
		return plan.Plan{}, err
	}
	if _, there := seen.Users[machineconfig.User]; keys && !there {
		return plan.Plan{}, errNoAccount
	}
	if _, err := o.record(d, seen); err != nil {
		return plan.Plan{}, err
	}
	if err := unitsExist(d, seen); err != nil {
		return plan.Plan{}, err
	}
	return w.Files.Conform(d, o.restored(d, seen), false)
}

// unitsExist returns an error for a unit that is enabled and is nowhere.
func unitsExist(d plan.Desired, seen plan.Observed) error {
	set := touched(d)
	for _, u := range d.Units {
		if u.Enabled != nil && *u.Enabled && seen.Units[u.Name].Enabled == "not-found" && !set[unitPath(u.Name)] {
			return &apply.InputError{Err: fmt.Errorf("this host has no unit %s to enable; install its package, or give the unit contents", u.Name)}
		}
	}
	return nil
}
