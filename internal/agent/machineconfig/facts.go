package machineconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/hostchange"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Config is the configuration of a host.
type Config = machineconfig.Config

// facts gathers what a decision needs. missing is an error that only keeps a new
// way from beginning.
func (a *Agent) facts(ctx context.Context, desired state.Fact[string]) (f hostapply.Facts, missing, err error) {
	j := *a.journal
	a.unseen = nil
	f = hostapply.Facts{Now: a.Now().UTC().Round(0), Desired: desired, Did: a.did, Failed: a.failed}
	f.Drained = drain.Emptied(a.annotations(), drain.Before(a.goal(desired)))
	if f.Boot, f.Uptime, err = a.Boot(); err != nil {
		return f, nil, fmt.Errorf("which boot this is: %w", err)
	}
	if err := a.addUpdates(ctx, &f); err != nil {
		return f, nil, err
	}
	switch {
	case j.Target != "":
		from, to := j.Good, j.Target
		if j.Back {
			from, to = to, from
		}
		err = a.way(ctx, &f, from, to)
	case !j.Begins(desired):
		a.unseen = a.lookForDrift(ctx, f)
	case desired.Value == j.Good: // the way back to it did not end; it was judged before
		err = a.way(ctx, &f, j.Good, j.Good)
	default:
		if f.Refused, missing = a.obtain(ctx, desired.Value); missing != nil {
			f.Desired = state.Fact[string]{}
		} else if f.Refused == "" {
			err = a.way(ctx, &f, j.Good, desired.Value)
		}
	}
	if err == nil && missing == nil {
		err = a.addWish(ctx, &f)
	}
	return f, missing, err
}

// ownError is an error of this host: the API answers, and no wait ends it.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }

// obtain brings a configuration to the disk, and returns why the host cannot have
// it; empty if it can.
func (a *Agent) obtain(ctx context.Context, name string) (refused string, err error) {
	if why := hostconfig.NoName(name); why != "" {
		return why, nil
	}
	mc, kept, err := a.object(ctx, name)
	if err != nil {
		return "", err
	}
	if refused, err = a.judge(ctx, mc, kept); err != nil {
		err = ownError{fmt.Errorf("look at %s: %w", name, err)}
	}
	return refused, err
}

// judge keeps a configuration on the disk, and returns why the host cannot have it.
func (a *Agent) judge(ctx context.Context, mc *mcfgv1.MachineConfig, kept bool) (refused string, err error) {
	cfg, err := machineconfig.Read(*mc)
	if err == nil {
		_, err = hostchange.TableOf(cfg)
	}
	if mistakes, ok := errors.AsType[machineconfig.Mistakes](err); ok {
		return mistakes.Error(), nil
	}
	if err == nil && !kept {
		err = a.Store.PutConfig(mc)
	}
	if err != nil {
		return "", err
	}
	return a.Refusal(ctx, cfg)
}

// object returns a configuration from the disk, or else from the API.
func (a *Agent) object(ctx context.Context, name string) (mc *mcfgv1.MachineConfig, kept bool, err error) {
	mc, err = a.Store.Object(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return mc, true, err
	}
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	mc, err = a.cluster.MachineConfig(limited, name)
	return mc, false, err
}

// config returns a configuration that the host has, or is on its way to or from. Nobody
// judges it any more: obtain has, maybe in an earlier release, which refused less.
func (a *Agent) config(ctx context.Context, name string) (Config, error) {
	if name == "" {
		return a.Store.Config(name)
	}
	mc, kept, err := a.object(ctx, name)
	if err == nil && !kept {
		err = a.Store.PutConfig(mc)
	}
	if err != nil {
		return Config{}, err
	}
	return a.Store.Config(name)
}

// way adds what the way from one configuration to another needs.
func (a *Agent) way(ctx context.Context, f *hostapply.Facts, from, to string) error {
	plan, err := a.plan(ctx, from, to)
	if err != nil {
		return err
	}
	f.Quiet, f.Reboots, f.Drains = plan.Quiet(), plan.Reboots(), plan.Drains()
	if a.journal.MustBoot(f.Boot) {
		f.Reboots, f.Drains = true, true
	}
	wanted := a.serves.HasTurn() && !a.serves.Patch // then a person wants the boot of this host, now
	if f.Reboots && !wanted && a.annotations()[rollout.Reboot] == rollout.ByHand {
		// Whoever boots the host also drains it, right before.
		f.ByHand, f.Drains = byHand(plan, a.cluster.View().Host.NodeName), false
	}
	if (f.Reboots || f.Drains) && f.ByHand == "" {
		a.addSpared(ctx, f)
	}
	if a.journal.Target == "" && plan.Kubelet() && a.Joined() {
		f.Pressures = a.pressures(ctx)
	}
	if a.journal.Phase != hostapply.Checking {
		a.calm = time.Time{}
	} else {
		cfg, err := a.config(ctx, to)
		if err != nil {
			return err
		}
		var arguments []string
		if f.Reboots && a.journal.Booted {
			arguments = cfg.KernelArguments
		}
		f.Ready, f.NotReady = a.ready(ctx, cfg, arguments)
		switch {
		case !state.Is(f.Ready, true):
			a.calm = time.Time{}
		case !a.journal.Back && plan.Kubelet():
			f.Ready, f.NotReady = a.easy(ctx, f.Now)
		}
	}
	return nil
}

// pressures returns those that the node has before its kubelet gets other settings, as the journal keeps them.
// If nobody can say it, none is kept: each one that comes then counts.
func (a *Agent) pressures(ctx context.Context) string {
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var out []string
	kinds, err := a.cluster.NodePressures(limited, a.cluster.View().Host.NodeName)
	if err != nil {
		return ""
	}
	for _, kind := range kinds {
		out = append(out, string(kind))
	}
	return strings.Join(out, ",")
}

// easy reports whether kubelet ends no pods with its other settings, and has not for a while: it is ready
// before it has looked for the first time, and its node says what was before until it has told. A want that the node had
// before the way says nothing of those settings. On the way back nobody asks: those settings are not on trial, and a host that waits for memory there would fail for it.
func (a *Agent) easy(ctx context.Context, now time.Time) (state.Fact[bool], string) {
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	kinds, err := a.cluster.NodePressures(limited, a.cluster.View().Host.NodeName)
	before := strings.Split(a.journal.Pressures, ",")
	kinds = slices.DeleteFunc(kinds, func(k corev1.NodeConditionType) bool { return slices.Contains(before, string(k)) })
	switch {
	case err != nil:
		a.calm = time.Time{}
		return state.Fact[bool]{}, fmt.Sprintf("the API does not say whether kubelet ends pods: %v", err)
	case len(kinds) > 0:
		a.calm = time.Time{}
		return state.Known(false), "kubelet has other settings, and ends pods: " + rollout.WantOf(kinds[0])
	case a.calm.IsZero() || now.Before(a.calm):
		a.calm = now
	}
	if now.Sub(a.calm) < hostapply.Calm {
		return state.Known(false), "kubelet has other settings, and is watched for " + hostapply.Calm.String()
	}
	return state.Known(true), ""
}

// plan returns the step from one configuration to another. On the way back the rows
// of the site are those of the way there.
func (a *Agent) plan(ctx context.Context, from, to string) (hostchange.Plan, error) {
	was, err := a.config(ctx, from)
	if err != nil {
		return hostchange.Plan{}, err
	}
	is, err := a.config(ctx, to)
	if err != nil {
		return hostchange.Plan{}, err
	}
	if was, is, err = a.asInstalled(was, is); err != nil {
		return hostchange.Plan{}, err
	}
	given := is
	if a.journal.Back {
		given = was
	}
	restored, err := a.restorable()
	if err != nil {
		return hostchange.Plan{}, err
	}
	table, err := hostchange.TableOf(given, restored...)
	if _, refused := errors.AsType[machineconfig.Mistakes](err); refused {
		table, err = hostchange.Table(restored), nil // what no row fits needs a reboot
	}
	return hostchange.Compare(was, is, table), err
}

// asInstalled returns two configurations with the files that the host has from its
// installation, where they have none at these paths: what is written over a file that
// says the same needs nothing.
func (a *Agent) asInstalled(from, to Config) (was, is Config, err error) {
	var files []state.File
	for _, path := range machineconfig.ProxyPaths {
		f, err := a.Store.Before(path)
		if err != nil {
			return from, to, err
		}
		if f != nil {
			files = append(files, *f)
		}
	}
	return from.Beside(files), to.Beside(files), nil
}

// byHand says what a person does, and for what.
func byHand(p hostchange.Plan, node string) string {
	const most = 3
	var what []string
	for _, c := range p.Changes {
		if slices.Contains(c.Needs, hostchange.Action{Do: hostchange.Reboot}) {
			what = append(what, strings.TrimSpace(string(c.Kind)+" "+c.Name))
		}
	}
	if len(what) == 0 {
		return fmt.Sprintf("the way back needs one. Drain %s, then boot it", node)
	}
	if more := len(what) - most; more > 0 {
		what = append(what[:most], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("%s changed. Drain %s, then boot it", strings.Join(what, ", "), node)
}

// ready reports whether the host is ready with a configuration, and why not. arguments are
// those of the kernel that the boot of this way should have brought: one that somebody took
// from the boot loader before is no fault of a way that boots for nothing, or for a wish.
func (a *Agent) ready(ctx context.Context, cfg Config, arguments []string) (state.Fact[bool], string) {
	if why := a.unwell(ctx, cfg, arguments); why != "" {
		return state.Known(false), why
	}
	if v := a.cluster.View(); v.Role.ControlPlane() && !state.Is(v.LocalAPI, true) {
		return v.LocalAPI, "the API server of this host is not ready"
	}
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	ready, err := a.cluster.NodeReady(limited, a.cluster.View().Host.NodeName)
	switch {
	case err != nil:
		return state.Fact[bool]{}, fmt.Sprintf("the API does not say whether the node is ready: %v", err)
	case !ready:
		return state.Known(false), "the node is not ready"
	}
	return state.Known(true), ""
}

// unwell returns what the host itself sees that is wrong.
func (a *Agent) unwell(ctx context.Context, cfg Config, arguments []string) string {
	if !a.Kubelet(ctx) {
		return "kubelet is not healthy"
	}
	for _, u := range cfg.Ignition.Systemd.Units {
		if u.Enabled == nil || !*u.Enabled || strings.Contains(u.Name, "@.") {
			continue
		}
		out, err := a.Systemctl(ctx, "show", "--property=ActiveState", "--value", "--", u.Name)
		if err != nil {
			return err.Error()
		}
		if strings.TrimSpace(string(out)) == "failed" {
			return u.Name + " has failed"
		}
	}
	missing, err := a.missingArguments(arguments)
	if err != nil {
		return err.Error()
	}
	if len(missing) > 0 {
		return "the kernel was booted without " + strings.Join(missing, " ")
	}
	return ""
}

func (a *Agent) missingArguments(want []string) ([]string, error) {
	if len(want) == 0 {
		return nil, nil
	}
	line, err := a.CommandLine()
	return hostconfig.MissingArguments(line, want), err
}

// lookForDrift looks at what somebody changed on a host at rest, now and then.
func (a *Agent) lookForDrift(ctx context.Context, f hostapply.Facts) error {
	j := *a.journal
	if j.Good == "" || j.Failed != "" || f.Now.Sub(a.looked).Abs() < driftEvery {
		return nil
	}
	a.looked = f.Now // also if that fails: it compares the whole host
	cfg, err := a.config(ctx, j.Good)
	if err != nil {
		return err
	}
	found, err := a.Differences(ctx, cfg)
	if err != nil {
		return fmt.Errorf("compare the host with %s: %w", j.Good, err)
	}
	missing, err := a.missingArguments(cfg.KernelArguments)
	if err != nil {
		return err
	}
	for _, m := range missing {
		found = append(found, "the kernel argument "+m)
	}
	a.drift = found
	return nil
}

// cannot tells why a host that is to do something does not even decide. All else that it
// has said stays. Without the API it is in the log alone.
func (a *Agent) cannot(ctx context.Context, desired state.Fact[string], err error) error {
	if a.journal.Target == "" && !a.journal.Begins(desired) && !a.wanted().HasTurn() {
		return err
	}
	r := hostapply.Report{State: rollout.Working, Stage: rollout.Applies, Current: a.journal.Good, Reason: "cannot go on: " + err.Error()}
	return errors.Join(err, a.tell(ctx, r, a.annotations()))
}

// cannotSay tells why a host does not know how far it is with what it is to do: it cannot read its journal.
// A host at rest, which has what its node says it is to have, keeps what it said last.
func (a *Agent) cannotSay(ctx context.Context, err error) error {
	has := a.annotations()
	desired, current := has[rollout.DesiredConfig], has[rollout.CurrentConfig]
	rests := desired == "" || desired == current && has[rollout.StateOf] == string(rollout.Done)
	if rests && !a.wanted().HasTurn() {
		return err
	}
	r := hostapply.Report{State: rollout.Working, Stage: rollout.Applies, Current: current, Reason: "cannot say how far it is: " + err.Error()}
	return errors.Join(err, a.tell(ctx, r, has))
}

// bounded cuts a reason at maxReason.
func bounded(text string) string {
	if len(text) <= maxReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxReason-len("...")], "") + "..."
}
