package grow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	decide "github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/install/apply"
	"github.com/holdfast/holdfast/internal/install/plan"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
)

// clusterUnits are started by the two-node set-up, once their configuration is there.
var clusterUnits = []string{renderhost.CorosyncUnit, renderhost.PacemakerUnit, renderhost.PcsdUnit}

// Host is the lone control plane.
type Host struct {
	// Files has the effects on the host; its Root is that of the host.
	Files *apply.Host
	// GiveEtcd gives the image of etcd of the current release to podman.
	GiveEtcd func(ctx context.Context) error
	// Say tells a person about a step before it is taken; may be nil.
	Say func(plan.Step)
}

// NewHost returns this host.
func NewHost() *Host { return &Host{Files: apply.NewHost("/"), GiveEtcd: giveEtcd} }

func giveEtcd(ctx context.Context) error {
	const root = "/"
	digest, err := release.Current(root)
	if err != nil {
		return err
	}
	store, err := release.NewShelf(root, 0).Find(digest, release.Installed(root))
	if err != nil {
		return fmt.Errorf("release %s: %w", digest, err)
	}
	return store.GiveEtcd(ctx, podman.Ensure)
}

// Steps lists what Prepare would do. It changes nothing.
func (h *Host) Steps(ctx context.Context, want *site.Site) ([]plan.Step, error) {
	cfg, err := h.missing(want)
	if err != nil || cfg == nil {
		return nil, err
	}
	res, err := h.apply(ctx, cfg, apply.Request{Start: true, DryRun: true})
	if err != nil {
		return nil, err
	}
	var early, late []plan.Step
	for _, step := range res.Steps {
		if _, start := step.Action.(*plan.Start); start {
			late = append(late, step)
		} else {
			early = append(early, step)
		}
	}
	last := h.last(want)
	for i, l := range last {
		if i == len(last)-1 {
			early = append(early, late...)
		}
		early = append(early, l.step)
	}
	return early, nil
}

// Prepare makes this host one of two control planes, of which the other one is not there
// yet. want is what decide/grow.Site returns. It may be run again after a cut at any step;
// on a host that is one of two already it does nothing.
func (h *Host) Prepare(ctx context.Context, want *site.Site) error {
	cfg, err := h.missing(want)
	if err != nil || cfg == nil {
		return err
	}
	if err := h.bring(ctx, cfg); err != nil {
		return err
	}
	last := h.last(want)
	end := len(last) - 1
	if err := h.take(ctx, last[:end]); err != nil {
		return err
	}
	if _, err := h.apply(ctx, cfg, apply.Request{Start: true, OnStep: h.Say}); err != nil {
		return err
	}
	return h.take(ctx, last[end:])
}

// Equip gives this host the packages, files and units of one of two, and leaves site.json and the etcd
// keeper as they are: a host of three has both until the plan goes on (docs/adr/0102). It may be run again
// after a cut at any step.
func (h *Host) Equip(ctx context.Context, want *site.Site) error {
	cfg, err := h.missing(want)
	if err != nil || cfg == nil {
		return err
	}
	if err := h.bring(ctx, cfg); err != nil {
		return err
	}
	last := h.last(want)
	return h.take(ctx, last[:len(last)-1])
}

func (h *Host) take(ctx context.Context, list []doable) error {
	for _, l := range list {
		if h.Say != nil {
			h.Say(l.step)
		}
		if err := l.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", l.step.ID, err)
		}
	}
	return nil
}

// doable is a step besides those of the configuration.
type doable struct {
	step plan.Step
	do   func(context.Context) error
}

// last returns the steps behind packages, files and units. The etcd keeper starts before
// the very last one.
func (h *Host) last(want *site.Site) []doable {
	bridge, siteFile := h.at(renderhost.PodmanBridge), h.at(site.Path)
	return []doable{
		{
			plan.Step{ID: "remove:" + renderhost.PodmanBridge, Kind: plan.StepRemove, Path: renderhost.PodmanBridge, Why: "no pod may land on podman's own network"},
			func(context.Context) error {
				if !host.Exists(bridge) {
					return nil
				}
				return h.Files.Remove(bridge)
			},
		},
		{
			plan.Step{ID: "image:etcd", Why: "podman starts etcd where there is neither a kubelet nor a registry"}, h.GiveEtcd,
		},
		{
			plan.Step{ID: "file:" + site.Path, Kind: plan.StepFile, Path: site.Path, Why: "says that this host is one of two control planes"},
			func(context.Context) error {
				data, err := decide.Kept(want).Marshal()
				if err != nil {
					return err
				}
				return h.Files.WriteFile(siteFile, data, state.SecretFileMode)
			},
		},
	}
}

// bring gives the host packages, files and units. A package of Debian starts its program
// with an example as configuration. Pacemaker and Corosync get theirs later, so they do not
// start before.
func (h *Host) bring(ctx context.Context, cfg []byte) error {
	if err := h.systemctl(ctx, "mask", "--runtime"); err != nil {
		return err
	}
	_, err := h.apply(ctx, cfg, apply.Request{OnStep: h.Say})
	err = errors.Join(err, h.systemctl(ctx, "unmask", "--runtime"))
	if err != nil {
		return err
	}
	return h.systemctl(ctx, "disable", "--now") // an earlier run that was cut may have let them start
}

func (h *Host) systemctl(ctx context.Context, verb, flag string) error {
	_, err := h.Files.Run(ctx, host.Command("systemctl", append([]string{verb, flag, "--quiet", "--"}, clusterUnits...)...))
	if err != nil {
		return fmt.Errorf("keep Corosync and Pacemaker from starting: %w", err)
	}
	return nil
}

func (h *Host) apply(ctx context.Context, cfg []byte, req apply.Request) (apply.Result, error) {
	req.Config, req.Fetch = cfg, &apply.Fetcher{Now: time.Now, Sleep: host.Sleep}
	return h.Files.Apply(ctx, req)
}

func (h *Host) at(path string) string { return filepath.Join(h.Files.Root, path) }

// missing returns the Ignition config of what this host lacks to be one of two, nil if it
// is one already.
func (h *Host) missing(want *site.Site) ([]byte, error) {
	data, err := os.ReadFile(h.at(site.Path))
	if err != nil {
		return nil, err
	}
	have, err := site.Unmarshal(data)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", site.Path, err)
	case have.Identity.ClusterID != want.Identity.ClusterID || have.Role != want.Role || !have.Role.ControlPlane():
		return nil, fmt.Errorf("%s is of another site or role (%s)", site.Path, have.Role)
	case have.Topology().Fencing:
		return nil, nil
	}
	if err := h.free(); err != nil {
		return nil, err
	}
	cfg, err := Difference(have, want)
	if err != nil {
		return nil, err
	}
	return ignition.Marshal(cfg, ignition.Newest)
}

// free returns an error if the host is in somebody's cluster of Corosync.
func (h *Host) free() error {
	text, err := os.ReadFile(h.at(corosync.Path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	conf, err := corosync.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", corosync.Path, err)
	}
	if c := twonode.CorosyncOf(conf); c.Name != "" && !c.Example() {
		return &apply.InputError{Err: fmt.Errorf("this host is in the Corosync cluster %q already: two control planes need Corosync for themselves; "+
			"take the host out of that cluster and remove %s", c.Name, corosync.Path)}
	}
	return nil
}

// Difference returns what a control plane of one site has and that of another one lacks, or
// has otherwise, without site.json. What is the same stays as machine configurations and
// people have left it; what differs belongs to Holdfast alone, and no MachineConfig sets it.
func Difference(have, want *site.Site) (ignition.Config, error) {
	out, gone, err := difference(have, want)
	for _, f := range gone.Files {
		err = errors.Join(err, fmt.Errorf("one of two control planes has no %s, which this host has: nothing takes it away", f.Path))
	}
	for _, u := range gone.Units {
		err = errors.Join(err, fmt.Errorf("one of two control planes has no %s, which this host has: nothing takes it away", u.Name))
	}
	return out, err
}

// difference also returns what only the first one has.
func difference(have, want *site.Site) (out, gone ignition.Config, err error) {
	was, err := renderhost.Config(have, have.Role, nil)
	if err != nil {
		return out, gone, err
	}
	is, err := renderhost.Config(want, want.Role, nil)
	if err != nil {
		return out, gone, err
	}
	out.Files, gone.Files = differing(was.Files, is.Files, func(f state.File) string { return f.Path })
	out.Files = slices.DeleteFunc(out.Files, func(f state.File) bool { return f.Path == site.Path })
	out.Units, gone.Units = differing(was.Units, is.Units, func(u ignition.Unit) string { return u.Name })
	return out, gone, nil
}

// differing returns what of a list another one lacks or has otherwise, in order, and what only the
// other one has.
func differing[T any](was, is []T, name func(T) string) (out, gone []T) {
	all := map[string]T{}
	for _, e := range is {
		all[name(e)] = e
	}
	for _, e := range was {
		now, there := all[name(e)]
		if !there {
			gone = append(gone, e)
		}
		if reflect.DeepEqual(now, e) {
			delete(all, name(e))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[key])
	}
	return out, gone
}
