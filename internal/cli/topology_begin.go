package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/cli/place"
	decide "github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/install/grow"
	"github.com/holdfast/holdfast/internal/install/plan"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// widening is what a file makes of this site.
type widening struct {
	have, want *site.Site
	changes    []manifests.Change
	own, other state.FencingDevice
}

// growthEffects are the effects of a growth besides the files of the plan. A test replaces them.
type growthEffects struct {
	// lone returns the site of this host as it is, or was, with one control plane.
	lone  func(plan *replace.Plan) (*site.Site, error)
	name  func() (string, error)
	own   func() (uuid, serial string, err error)
	test  func(context.Context, state.FencingDevice) fence.Report
	steps func(context.Context, *site.Site) ([]plan.Step, error)
	// here returns the site of this host, peer the name of the other control plane, and keep
	// writes down which site this host becomes.
	here func() (*site.Site, error)
	peer func() (string, error)
	keep func(*site.Site) error
	// planes returns the control planes that have a Node and vote in etcd, record the etcd keeper's
	// record of this host.
	planes func(context.Context) ([]planeFacts, error)
	// locked returns the ID of the plan that holds the lock, empty if none does.
	locked func(context.Context) (string, error)
	// nodes returns all nodes of the cluster.
	nodes func(context.Context) ([]state.Node, error)
	// early returns the facts for the gates that are judged before this host is prepared.
	early  func(ctx context.Context, now time.Time) replace.Facts
	record func() (state.EtcdState, error)
	// said returns what the site has today of a file, where objects of the cluster say it.
	said func(ctx context.Context, installed, file *config.InstallConfig) (*config.InstallConfig, error)
	// prepare gives this host and the cluster what those of two control planes have.
	prepare func(ctx context.Context, w widening, say func(format string, a ...any)) error
}

func onThisHost() growthEffects {
	return growthEffects{
		lone: func(plan *replace.Plan) (*site.Site, error) { return loneSiteOf("/", plan) }, name: host.Name, own: fence.OwnIdentity, test: fence.TestDevice, steps: grow.NewHost().Steps, prepare: prepare,
		here: func() (*site.Site, error) { s, _, err := ownSite("/"); return s, err }, peer: peerOfThisHost, keep: keepTarget, said: saidHere, planes: planes, nodes: nodesHere, early: earlyHere, locked: lockedHere,
		record: func() (state.EtcdState, error) { r, err := records.Files{}.Record(); return r.State, err },
	}
}

// begin shows what will be done, asks, prepares host and cluster, writes the order and follows it.
func (g *growth) begin(ctx context.Context, plan *replace.Plan, file *config.InstallConfig) error {
	w, err := g.widening(ctx, plan, file)
	if err != nil {
		return err
	}
	g.name = w.other.Target
	if plan != nil && exchanges(plan) {
		return g.exchange(ctx, plan, w)
	}
	if err := g.tryBMCs(ctx, &w); err != nil {
		return err
	}
	gates, err := g.earlyGates(ctx, plan, w)
	if err != nil {
		return err
	}
	if shut := replace.Closed(replace.BackupFirst(gates)); len(shut) > 0 {
		return g.refused(nothingChanged, shut)
	}
	if err := g.show(ctx, w); err != nil {
		return err
	}
	if err := g.agreed(ctx, "new"); err != nil {
		return err
	}
	if err := g.effects.prepare(ctx, w, g.say); err != nil {
		return err
	}
	order := g.order(planOf(plan), w)
	if err := g.store.PutOrder(order); err != nil {
		return err
	}
	return g.follow(ctx, order.Wish.ID)
}

// exchanges reports whether a plan takes in another machine, or another BMC, though it has begun: this host
// is prepared by then, and nobody was let in.
func exchanges(plan *replace.Plan) bool {
	return plan.Grows && (plan.Stage == replace.Widening || plan.Stage == replace.Waiting)
}

// exchange has the plan take in what the file says of the new host's BMC. Its name and address are in the
// site already.
func (g *growth) exchange(ctx context.Context, plan *replace.Plan, w widening) error {
	if n := plan.New; w.other.Target != n.Name || g.address != n.Address {
		return coded(command.ExitRefused, "refused, nothing was changed: the plan brings %s at %s, and takes in another machine or another BMC under that name and address alone", n.Name, n.Address)
	}
	if err := g.tryBMCs(ctx, &w); err != nil {
		return err
	}
	g.say("%s, at %s, has its BMC at %s: the plan takes that in, and nothing else of the file", w.other.Target, g.address, w.other.Address)
	if w.other.FirstSight {
		g.say("  its certificate, pinned at first sight: compare %s with the BMC's own page", redfish.PlainFingerprint(w.other.Fingerprint))
	}
	if err := g.confirm(ctx, "new"); err != nil {
		return err
	}
	order := g.order(plan.ID, w)
	order.Wish.Accepts = plan.Accepts.And(order.Wish.Accepts)
	if err := g.store.PutOrder(order); err != nil {
		return err
	}
	return g.follow(ctx, plan.ID)
}

func (g *growth) order(plan string, w widening) replacement.Order {
	return replacement.Order{
		Wish: replace.Wish{
			ID: plan, Grows: true, By: g.by, Why: g.reason, At: g.now().UTC(), Accepts: replace.Accepts{NoBackup: g.noBackup},
			New: replace.New{Name: w.other.Target, BMC: w.other.Address, UUID: g.uuid, Address: g.address},
		},
		Device: w.other,
	}
}

func (g *growth) plan(ctx context.Context) error {
	last, err := g.store.Plan()
	if err != nil {
		return err
	}
	file, err := g.read(ctx)
	if err != nil {
		return err
	}
	switch pair, err := g.two(file); {
	case err != nil:
		return err
	case pair:
		return g.planTwo(ctx, file)
	case more(file):
		return g.planThree(ctx, file)
	}
	if fewer(file) {
		w, err := g.narrowing(file)
		if err != nil {
			return err
		}
		return g.showNarrowing(w)
	}
	w, err := g.widening(ctx, last, file)
	if err != nil {
		return err
	}
	g.name = w.other.Target
	if err := g.show(ctx, w); err != nil {
		return err
	}
	gates, err := g.earlyGates(ctx, last, w)
	if err != nil || gates == nil {
		return err
	}
	return g.showGates(gates)
}

// read reads the edited file, with what living hosts can follow as at the installation: plans
// compare it with that.
func (g *growth) read(ctx context.Context) (*config.InstallConfig, error) {
	data, err := readFile(g.streams.In, g.file)
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	file, err := config.Parse(data)
	if err != nil {
		return nil, &UsageError{Err: fmt.Errorf("%s: %w", g.file, err)}
	}
	have, err := g.effects.here()
	if err != nil {
		return nil, err
	}
	now, err := g.effects.said(ctx, have.Config, file)
	if err != nil {
		return nil, fmt.Errorf("read what this site has today as sshKey, proxy and additionalTrustBundle: %w", err)
	}
	if file, err = decide.Living(have.Config, now, file); err != nil {
		return nil, &UsageError{Err: fmt.Errorf("%s: %w", g.file, err)}
	}
	return file, nil
}

// saidHere asks the API with an account of this host.
func saidHere(ctx context.Context, installed, file *config.InstallConfig) (*config.InstallConfig, error) {
	access, err := (&place.Flags{}).OwnAccess(ctx)
	if err != nil {
		return nil, err
	}
	_, has, err := openMachineConfigs(ctx, access)
	if errors.Is(err, errNoMachineConfigs) {
		return installed, nil // nobody could change it
	}
	if err != nil {
		return nil, err
	}
	return has.objects.Said(installed, file)
}

// widening compares the file with this site. The plan is the last one, nil for none.
func (g *growth) widening(ctx context.Context, last *replace.Plan, file *config.InstallConfig) (widening, error) {
	var w widening
	var err error
	if _, err := netip.ParseAddr(g.address); err != nil {
		return w, &UsageError{Err: fmt.Errorf("--address %q: must be the IP address that the new host will have: etcd and Corosync know it by that address", g.address)}
	}
	if w.have, err = g.effects.lone(last); err != nil {
		return w, err
	}
	name, err := g.effects.name()
	if err != nil {
		return w, err
	}
	if w.want, err = decide.Site(w.have, file, name); err != nil {
		return w, &UsageError{Err: fmt.Errorf("%s: %w", g.file, err)}
	}
	if w.changes, err = grow.Objects(w.have, w.want); err != nil {
		return w, err
	}
	for _, c := range w.want.Config.ControlPlane.Fencing.Credentials {
		dev := deviceOf(c)
		if c.HostName == name {
			w.own = dev
		} else {
			w.other = dev
		}
	}
	return w, g.share(ctx, w.have, w.other.Target)
}

// share refuses a new host that would get no part of the pod network.
func (g *growth) share(ctx context.Context, have *site.Site, name string) error {
	nodes, err := g.effects.nodes(ctx)
	if err != nil {
		return err
	}
	if err := joining.Of(have.Config).Share(name, nodes); err != nil {
		return coded(command.ExitRefused, "refused, nothing was changed: %w", err)
	}
	return nil
}

func nodesHere(ctx context.Context) ([]state.Node, error) {
	c, err := kube.Open(state.AgentKubeconfig)
	if err != nil {
		return nil, err
	}
	return c.Nodes(ctx)
}

// loneSiteOf returns the site of a host as it was, or is, with one control plane. What was kept of
// it does not count once the last plan is whole, although it may still be there: applied again,
// it would set objects back that people changed since.
func loneSiteOf(root string, last *replace.Plan) (*site.Site, error) {
	now, _, err := ownSite(root)
	if err != nil {
		return nil, err
	}
	if now.Topology().ControlPlanes == 1 {
		return now, nil
	}
	data, err := os.ReadFile(filepath.Join(root, replacement.LoneSitePath))
	if errors.Is(err, fs.ErrNotExist) || last != nil && !last.Shrinks && last.Stage == replace.Whole {
		return nil, coded(command.ExitRefused, "refused: this site has %d control planes: only a site of one grows", now.Topology().ControlPlanes)
	}
	if err != nil {
		return nil, err
	}
	return site.Unmarshal(data)
}

func deviceOf(c config.FencingCredential) state.FencingDevice {
	return state.FencingDevice{
		Target: c.HostName, Address: c.Address, Username: c.Username, Password: c.Password.Reveal(),
		Insecure: c.CertificateVerification == bmc.VerificationDisabled, Fingerprint: c.CertificateFingerprint, LegacyTLS: c.TLS == bmc.TLSLegacy,
		SystemID: c.SystemID,
	}
}

// tryBMCs tests from here that the host's own BMC is part of this machine, and that the new one's
// answers and is not. Both accounts come from the file, so a mistake is told before anything
// is changed.
func (g *growth) tryBMCs(ctx context.Context, w *widening) error {
	uuid, serial, err := g.effects.own()
	if err != nil {
		return fmt.Errorf("read the identity of this machine: %w", err)
	}
	mine := fence.IdentityMatches
	if w.own.SystemID != "" {
		mine = fence.IdentityNamed // the person says what the BMC reports of this machine
	}
	var bad []error
	for _, d := range []struct {
		dev  *state.FencingDevice
		want fence.Identity
		not  string
	}{
		{&w.own, mine, "is not known to be part of this machine"},
		{&w.other, fence.IdentityDiffers, "does not answer, refuses the account, or is part of this machine"},
	} {
		if *d.dev, err = g.sight(ctx, *d.dev); err != nil {
			bad = append(bad, fmt.Errorf("BMC of %s: %w", d.dev.Target, err))
			continue
		}
		dev := *d.dev
		dev.UUID, dev.Serial = uuid, serial
		if d.dev == &w.other {
			dev.SystemID = "" // what it reports is compared with this machine, not with the name of its own
		}
		if r := g.effects.test(ctx, dev); r.Identity != d.want {
			bad = append(bad, fmt.Errorf("BMC of %s at %s %s: %s", d.dev.Target, d.dev.Address, d.not, strings.Join(r.Problems, "; ")))
		}
	}
	if len(bad) > 0 {
		return coded(command.ExitRefused, "refused, nothing was changed:\n%w", errors.Join(bad...))
	}
	return nil
}

// show prints what will be done.
func (g *growth) show(ctx context.Context, w widening) error {
	var out strings.Builder
	line := func(format string, a ...any) { _, _ = fmt.Fprintf(&out, format+"\n", a...) }
	line("%s becomes the second control plane of this site, at %s.", g.name, g.address)
	line("  this host:")
	steps, err := g.effects.steps(ctx, w.want)
	if err != nil {
		return err
	}
	for _, s := range steps {
		line("    %s (%s)", s.ID, s.Why)
	}
	if len(steps) == 0 {
		line("    is prepared already")
	}
	line("  the cluster:")
	for _, c := range w.changes {
		line("    %s%s", c.ObjectRef, map[bool]string{true: ", its status"}[c.Status])
	}
	line("  then, by the agent of this host:")
	line("    Corosync and Pacemaker start with this host alone, and etcd goes from kubelet to Pacemaker: the API is away for some seconds")
	line("    the new machine is let in once it is proved that the BMC at %s is part of it", w.other.Address)
	line("    etcd's data go to it; from the moment in which it votes until it is whole, a second or two, both hosts are needed to write")
	if w.other.FirstSight {
		line("  its certificate, pinned at first sight: compare %s with the BMC's own page", redfish.PlainFingerprint(w.other.Fingerprint))
	}
	_, err = fmt.Fprint(g.streams.Out, out.String())
	return err
}

// prepare may be cut off and run again.
func prepare(ctx context.Context, w widening, say func(format string, a ...any)) error {
	kept, err := w.have.Marshal()
	if err != nil {
		return err
	}
	// The objects that the cluster lacks are the difference between both sites, and a run that was
	// cut off may have written the new one already.
	if err := host.WriteFileAtomic(replacement.LoneSitePath, kept, state.SecretFileMode); err != nil {
		return err
	}
	h := grow.NewHost()
	h.Say = func(s plan.Step) { say("%s (%s)", s.ID, s.Why) }
	if err := h.Prepare(ctx, w.want); err != nil {
		return fmt.Errorf("prepare this host: %w; the site goes on with one control plane, and the same command goes on from here", err)
	}
	api, err := grow.Open()
	if err != nil {
		return err
	}
	left, err := grow.Apply(ctx, api, w.changes)
	if err != nil {
		return fmt.Errorf("prepare the cluster: %w; the same command goes on from here", err)
	}
	for _, l := range left {
		say("%s: %s was changed by somebody and stays", l.Object, l.Field)
	}
	_, err = host.Run(ctx, host.Command("systemctl", "restart", renderhost.AgentUnit))
	return err
}
