package hostchange

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
)

// Policies returns the rows that a site declares in the object MachineConfiguration
// `cluster`, for Table (docs/facts/machine-config.md#what-a-change-needs, N1). The
// error is a machineconfig.Mistakes.
func Policies(policy operatorv1.NodeDisruptionPolicyConfig) ([]Row, error) {
	p := policies{}
	files := slices.Clone(policy.Files)
	for i, f := range policy.Files {
		p.path(fmt.Sprintf("files.%d.path", i), f.Path)
		p.actions(fmt.Sprintf("files.%d.actions", i), f.Actions)
	}
	// The longest path is the most exact one.
	slices.SortStableFunc(files, func(a, b operatorv1.NodeDisruptionPolicySpecFile) int {
		return cmp.Or(cmp.Compare(len(b.Path), len(a.Path)), cmp.Compare(a.Path, b.Path))
	})
	for _, f := range files {
		folder := strings.TrimSuffix(f.Path, "/")
		p.add("`"+f.Path+"`", f.Actions, file(always, folder, folder+"/"))
	}
	for i, u := range policy.Units {
		name := string(u.Name)
		if carries(Change{Name: name}) {
			p.fault(fmt.Sprintf("units.%d.name", i), "%s carries the cluster, and a change of it needs a reboot; remove it", name)
		}
		p.actions(fmt.Sprintf("units.%d.actions", i), u.Actions)
		reads := operatorv1.NodeDisruptionPolicySpecAction{Type: operatorv1.DaemonReloadSpecAction}
		// A unit that ends needs no policy.
		p.add("`"+name+"`", append([]operatorv1.NodeDisruptionPolicySpecAction{reads}, u.Actions...), unit(func(c Change) bool { return c.Name == name && c.is != nil && !off(*c.is) }))
	}
	if len(policy.SSHKey.Actions) > 0 {
		p.actions("sshkey.actions", policy.SSHKey.Actions)
		p.add("keys", policy.SSHKey.Actions, func(c Change) bool { return c.Kind == Keys })
	}
	if len(p.mistakes) > 0 {
		return nil, p.mistakes
	}
	return p.rows, nil
}

// TableOf returns what each change needs on the way to a configuration, and on the
// way back from it: the rows of the site are those that came with it. The rows of
// the way back stand behind them.
func TableOf(to machineconfig.Config, back ...Row) ([]Row, error) {
	policy, err := to.Policy()
	if err != nil {
		return nil, err
	}
	rows, err := Policies(policy)
	if err != nil {
		return nil, err
	}
	return Table(slices.Concat(rows, back)), nil
}

// policies collects rows and mistakes.
type policies struct {
	rows     []Row
	mistakes machineconfig.Mistakes
}

func (p *policies) fault(field, format string, args ...any) {
	p.mistakes = append(p.mistakes, machineconfig.Mistake{
		Object: "MachineConfiguration cluster", Field: "spec.nodeDisruptionPolicy." + field, Why: fmt.Sprintf(format, args...),
	})
}

func (p *policies) path(field, text string) {
	if clean := strings.TrimSuffix(text, "/"); !path.IsAbs(clean) || path.Clean(clean) != clean || clean == "/" {
		p.fault(field, "%q is not the absolute path of a file or a folder", text)
	}
}

func (p *policies) actions(field string, list []operatorv1.NodeDisruptionPolicySpecAction) {
	for i, a := range list {
		at := fmt.Sprintf("%s.%d", field, i)
		target, known := action(a)
		switch {
		case !known:
			p.fault(at+".type", "%q is not None, Drain, Reload, Restart, DaemonReload or Reboot, with its unit where it has one", a.Type)
		case len(list) > 1 && (a.Type == operatorv1.NoneSpecAction || a.Type == operatorv1.RebootSpecAction):
			p.fault(at+".type", "%s stands alone", a.Type)
		case target.Unit != "" && carries(Change{Name: target.Unit}):
			p.fault(at, "%s carries the cluster, and is not restarted while the host carries pods; use Reboot", target.Unit)
		}
	}
}

// action returns an action, and whether it is one. None is the action that does
// nothing.
func action(a operatorv1.NodeDisruptionPolicySpecAction) (Action, bool) {
	switch a.Type {
	case operatorv1.NoneSpecAction:
		return Action{}, true
	case operatorv1.RebootSpecAction:
		return Action{Do: Reboot}, true
	case operatorv1.DrainSpecAction:
		return Action{Do: Drain}, true
	case operatorv1.DaemonReloadSpecAction:
		return Action{Do: DaemonReload}, true
	case operatorv1.ReloadSpecAction:
		if a.Reload != nil && a.Reload.ServiceName != "" {
			return Action{TryReload, string(a.Reload.ServiceName)}, true
		}
	case operatorv1.RestartSpecAction:
		if a.Restart != nil && a.Restart.ServiceName != "" {
			return Action{Restart, string(a.Restart.ServiceName)}, true
		}
	}
	return Action{}, false
}

func (p *policies) add(what string, list []operatorv1.NodeDisruptionPolicySpecAction, fits func(Change) bool) {
	row := Row{Rule: "site." + strings.Trim(what, "`"), What: what, Why: "the site declares it", fits: fits}
	for _, a := range list {
		if one, known := action(a); known && one != (Action{}) {
			row.Needs = append(row.Needs, one)
		}
	}
	p.rows = append(p.rows, row)
}
