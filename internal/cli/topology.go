package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/bmc"
)

func newTopology(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Make one control plane of a living site two, two three, three two, or two one",
		Long: `A site of one control plane becomes a site of two while it serves, a site of two one of three,
a site of three one of two, and a site of two one of one. The number of control planes stands in install-config.yaml:
edit a copy of the site's file, and give it to these commands as root, on a control plane that stays.`,
	}
	cmd.AddCommand(newTopologyPlan(streams), newTopologyApply(streams))
	return cmd
}

// topologyFlags are the flags of topology plan and topology apply.
type topologyFlags struct {
	file, newName, address, uuid, by, reason, joinFile, output string
	noBackup, yes, abort                                       bool
	// of a site that shrinks
	keepAccount                bool
	ownUser, ownPassword, gone string
	lost                       []string
	timeout, joinLife          time.Duration
}

func newTopologyPlan(streams Streams) *cobra.Command {
	var f topologyFlags
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what this site needs to have the control planes of a file",
		Long: `Compares an edited install-config.yaml with this site, and shows each step by which the
site gets its control planes: packages, files and units of this host, objects of the cluster,
and what the agent of this host does then. It changes nothing. For a second control plane it
tells which gates are open, of those that can be judged before this host is prepared. For two of
three control planes it tests both BMCs, and tells which gates are open.

The file may differ in controlPlane.replicas, in controlPlane.fencing, which names the BMCs of
both hosts, and in platform.baremetal.hosts. A site that grows needs virtual IPs. A file of three
control planes has no controlPlane.fencing, and what it says of platform.baremetal.hosts stays
as the site has it. On a site of three, controlPlane.fencing names the BMCs of the two control
planes that stay: the third one goes.

Exit codes: 0 the site can get there; 1 it failed; 2 the file is refused, and each reason is
named with its field; 7 refused, because the site is not what the command needs, or a gate is
closed.`,
		Example: `  sudo holdfast topology plan --install-config two.yaml --address 192.0.2.12
  sudo holdfast topology plan --install-config three.yaml --new-name cp-3 --address 192.0.2.13
  sudo holdfast topology plan --install-config two-of-three.yaml
  sudo holdfast topology plan --install-config one.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.by = "nobody"
			f.timeout, f.joinLife = time.Hour, time.Hour
			g, err := newGrowth(streams, f, true)
			if err != nil {
				return err
			}
			return g.plan(cmd.Context())
		},
	}
	f.wish(cmd)
	return cmd
}

func newTopologyApply(streams Streams) *cobra.Command {
	f := topologyFlags{timeout: time.Hour, joinLife: 24 * time.Hour}
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Make this control plane the first of two, one of three, or the only one",
		Long: `With a file of two control planes it makes this lone control plane one of two without a peer,
and then lets the new host in. This host serves all the time, but for some seconds in which
etcd goes from kubelet to Pacemaker. From then on it starts alone after a power cut until the
new host is a voter, however long that takes. While another plan or an upgrade is under way,
nothing is prepared.

With a file of three control planes the agents of both hosts let a third one in. It is installed,
its etcd gets all data, and then its vote. From that second on the plan only goes forward: etcd of
one host after the other goes from Pacemaker to kubelet, Pacemaker and Corosync end, and the
cluster's objects become those of three. Two members of etcd serve all the time. A host of the
two that is lost meanwhile has to come back before the plan goes on, the third machine unless you
say that it is lost for good.

With a file of two control planes, on a site of three, the agents of the two that stay set both up as
two while three vote: packages, BMCs, files, objects, Corosync, Pacemaker. Then etcd of one host
after the other goes from kubelet to its etcd keeper, and the third host is emptied and leaves. From
then on either of the two may be lost. Switch the third host off when the command says so, and wipe
its disk. If it is lost for good meanwhile, say so with --is-gone.

With a file of one control plane it takes the other host out for good. Switch that one off
first (sudo poweroff there), and wipe its disk before it gets to another network. Then this
host gives etcd back to kubelet, with the API away for some seconds, and leaves Corosync and
Pacemaker. From then on nothing takes over for it, and its disk holds everything.

'holdfast topology plan' shows the steps. Without a good backup of the last four hours on this
host the command takes one first, once you have agreed; if that fails, it is refused. Then
it follows the plan that the agent of this host carries out, even if the command has ended or
this host was booted. Run it again without --install-config to follow, and with --join-file to
get the file with which a new machine is installed.

You can take the plan back with --abort until this host becomes one of two, the third member
votes, etcd goes to the etcd keepers, or the other host is retired. Then it only goes forward.
A third machine that votes, and is lost for good before its API server answers, is taken out by
--abort and --is-gone with its serial number. If it is lost after that, while etcd moves to
kubelet, --is-gone alone lets the plan go on without it; writes stop for some seconds, twice.
On the way to two, both with the serial number of the other host that stays take the plan back without
it, also on the host that does not carry the plan. A plan that is over waits up to ten minutes for the
other host; --abort once more ends that.
Until the second host was let in you can still name another BMC or machine for it, by the same
command with the edited file. If it is lost for good after that, --abort ends the plan, and
'holdfast host replace' gives its place to another machine.

Exit codes: 0 the plan is whole (with --abort: it is taken back); 3 it was not whole
at the timeout, and the message says what a person has to do; 4 it was not whole at the
timeout, and goes on by itself; 7 refused, because a gate is closed or there is no way back; 8
not confirmed; 1 it failed; 2 wrong usage, or the file is refused.`,
		Example: `  sudo holdfast topology apply --install-config two.yaml --address 192.0.2.12 --join-file cp-2.ign
  sudo holdfast topology apply                  follow the plan that has begun
  sudo holdfast topology apply --abort
  sudo holdfast topology apply --install-config three.yaml --new-name cp-3 --address 192.0.2.13 --join-file cp-3.ign
  sudo holdfast topology apply --install-config two-of-three.yaml
  sudo holdfast topology apply --install-config one.yaml --keep-bmc-account`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.by = cmp.Or(f.by, login())
			g, err := newGrowth(streams, f, f.file != "")
			if err != nil {
				return err
			}
			return g.run(cmd.Context())
		},
	}
	f.wish(cmd)
	formatFlag(cmd, &f.output)
	timeoutFlag(cmd, &f.timeout)
	flags := cmd.Flags()
	flags.StringVar(&f.uuid, "uuid", "", "UUID of the new machine: no other one is let in")
	withoutBackupFlag(cmd, &f.noBackup)
	flags.StringVar(&f.joinFile, "join-file", "", "write the Ignition file with which the new machine is installed; it holds a secret")
	flags.DurationVar(&f.joinLife, "join-life", f.joinLife, "how long the secret in that file is valid")
	flags.StringVar(&f.by, "by", "", "who does it")
	flags.StringVar(&f.reason, "reason", "", "why")
	flags.BoolVar(&f.yes, "yes", false, "do not ask")
	flags.BoolVar(&f.abort, "abort", false, "take the plan back, while it can be")
	f.goes(cmd)
	return cmd
}

// goes adds the flags about a host that goes.
func (f *topologyFlags) goes(cmd *cobra.Command) {
	flags := cmd.Flags()
	const fewer = "for one control plane: "
	flags.StringVar(&f.ownUser, "own-bmc-username", "", fewer+"user at this host's own BMC, whose password was changed")
	flags.StringVar(&f.ownPassword, "own-bmc-password-file", "", fewer+"file with the new password of this host's own BMC: the other host knows the old one")
	flags.BoolVar(&f.keepAccount, "keep-bmc-account", false, fewer+"keep the account with which the other host could switch this host off")
	flags.StringVar(&f.gone, "is-gone", "", "serial number (UUID, if it has none) of the machine that goes, of the third one that came or, with --abort, of the other host of two, if you have seen that it has no power and will not come back")
	flags.StringSliceVar(&f.lost, "accept-lost", nil, fewer+"volumes whose data are lost with the other host")
}

func (f *topologyFlags) wish(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "install-config", "", "the edited install-config.yaml; it holds accounts of BMCs")
	cmd.Flags().StringVar(&f.newName, "new-name", "", "for three control planes: name of the new host")
	cmd.Flags().StringVar(&f.address, "address", "", "address of the new host in the machine network")
}

// check returns all mistakes of the command line at once.
func (f *topologyFlags) check(begins bool) error {
	var mistakes []error
	wrong := func(format string, a ...any) { mistakes = append(mistakes, fmt.Errorf(format, a...)) }
	if begins && f.file == "" {
		wrong("--install-config: is needed, because it says which control planes the site is to have")
	}
	if _, err := netip.ParseAddr(f.address); begins && f.address != "" && err != nil {
		wrong("--address %q: must be the IP address that the new host will have: etcd and Corosync know it by that address", f.address)
	}
	if f.abort && (f.file != "" || f.joinFile != "") {
		wrong("--abort: cannot be combined with --install-config or --join-file")
	}
	mistakes = append(mistakes, checkOwnAccount(f.ownUser, f.ownPassword, f.keepAccount)...)
	if f.by == "" {
		wrong("--by: must name who does it")
	}
	mistakes = append(mistakes, checkTimes(f.joinLife, f.timeout))
	if err := errors.Join(mistakes...); err != nil {
		return &UsageError{Err: err}
	}
	return nil
}

// growth is one run of a command.
type growth struct {
	hostReplacement
	file, address string
	// letsGo is true if the command waits until the lock of a plan that is over is gone.
	letsGo bool
	// takes is true if this host takes over the plan of a lost one.
	takes   bool
	effects growthEffects
}

func newGrowth(streams Streams, f topologyFlags, begins bool) (*growth, error) {
	if err := f.check(begins); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, &UsageError{Err: errors.New("topology works on this host's own files: run it with sudo on the control plane")}
	}
	r := hostReplacement{
		replaceFlags: replaceFlags{
			ownUser: f.ownUser, ownPassword: f.ownPassword, keepAccount: f.keepAccount, gone: f.gone, lost: f.lost, newName: f.newName, uuid: f.uuid, by: f.by, reason: f.reason, joinFile: f.joinFile, hostFlags: hostFlags{output: f.output}, noBackup: f.noBackup, yes: f.yes, abort: f.abort,
			timeout: f.timeout, joinLife: f.joinLife, bmc: replaceBMC{verification: bmc.VerificationEnabled},
		},
		streams: streams, store: replacement.ThisStore(), sleep: host.Sleep, now: time.Now, backups: backupsHere(streams, "before topology apply"), pointer: joinPointer, sight: fence.Sight, topology: true,
	}
	return &growth{hostReplacement: r, file: f.file, address: f.address, effects: onThisHost()}, nil
}

func (g *growth) run(ctx context.Context) error {
	plan, err := g.store.Plan()
	if err != nil {
		return err
	}
	both, err := g.pairPlans()
	if err != nil {
		return err
	}
	if begun, err := both.follow(ctx, g); begun || err != nil {
		return err
	}
	active := plan != nil && !plan.Stage.Over()
	if g.abort && !active {
		if waits, err := both.letGo(ctx, g); waits || err != nil {
			return err
		}
		if dropped, err := g.dropWish(); dropped || err != nil {
			return err
		}
	}
	switch {
	case active && !plan.Grows && !plan.Shrinks:
		return coded(command.ExitRefused, "refused: this host replaces %s: wait until that replacement is over", plan.Old.Name)
	case active:
		g.name = cmp.Or(plan.New.Name, plan.Old.Name)
	}
	switch {
	case g.abort:
		return g.takeBack(ctx, plan, active)
	case active && plan.Stage != decide.Planned && g.file != "" && !exchanges(plan):
		return coded(command.ExitRefused, "refused: the plan has begun: run the command without --install-config to follow it")
	case active && g.file == "":
		return g.goOn(ctx, plan)
	case g.file == "" && both.later(plan):
		return both.ended(g)
	case g.file == "" && plan != nil && (plan.Grows || plan.Shrinks):
		return g.ended(plan)
	case g.file == "":
		return &UsageError{Err: errors.New("--install-config: is needed to begin")}
	}
	return g.runFile(ctx, plan, active)
}

// runFile begins what a file asks for. The plan is the last one, nil for none.
func (g *growth) runFile(ctx context.Context, plan *decide.Plan, active bool) error {
	file, err := g.read(ctx)
	if err != nil {
		return err
	}
	pair, err := g.two(file)
	switch {
	case err != nil:
		return err
	case active && (more(file) || pair || fewer(file) && plan.Grows):
		return coded(command.ExitRefused, "refused: a plan to %s is under way; to follow it: sudo %s", plan.Work(), plan.Command())
	case fewer(file):
		return g.shrink(ctx, plan, file)
	case more(file):
		return g.beginThree(ctx, file)
	case pair:
		return g.beginTwo(ctx, file)
	}
	return g.begin(ctx, plan, file)
}
