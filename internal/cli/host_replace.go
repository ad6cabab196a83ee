package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/state"
)

// replaceFlags holds the flags of host replace.
type replaceFlags struct {
	hostFlags
	newName, uuid, by, reason, gone, joinFile, dir string
	bmc                                            replaceBMC
	ownUser, ownPassword                           string
	lost                                           []string
	keepAccount, noBackup, dryRun, yes, abort      bool
	timeout, joinLife                              time.Duration
}

// replaceBMC is the BMC of the new host; its fields are those of the install-config.
type replaceBMC struct{ address, username, passwordFile, verification, fingerprint, tls string }

func newHostReplace(streams Streams) *cobra.Command {
	f := replaceFlags{timeout: time.Hour, joinLife: 24 * time.Hour}
	cmd := &cobra.Command{
		Use:   "replace NAME",
		Short: "Replace a lost control plane, or a worker, by another machine",
		Long: `Takes the lost host NAME out of the cluster and lets another machine take its place, under
the same name or under that of --new-name. Run the command as root on the control plane that
stays. Its record of etcd must say sole (holdfast explain etcd): the silence of the other host
is no proof.

With --new-name the old name stays retired. The site's configuration names the new host from
the moment in which nothing of the old one is left; the agent of this host is started anew for
that. The name must be a new one: no host of this site has it, and none that was taken out had it.

The command writes the wish and follows the plan. The agent of this host carries the plan
out, even if the command has ended or this host was booted. First the command names each
closed gate, and what to type. Until the old host is retired you can take the plan back with
--abort, and the plan takes itself back if the old host returns. After that the plan only goes
forward, and the old host stays inert if it wakes up: it lacks Corosync's new key. If the new
machine is lost for good after it was let in, --abort ends the plan, and another one may begin.

Install the new machine with the file that --join-file writes. The plan lets the machine in
once it is proved that the BMC is part of it. When the command ends, either host may be lost.

Without a good backup of the last four hours on this host one is taken first, once you have
agreed; if that fails, the command is refused. For one of three control planes that of any host
counts.

The key of join secrets is replaced, too: run 'holdfast join-secret rotate' in the install
directory afterwards, before it makes another pointer.

Of a worker the command does what 'holdfast host remove' and 'holdfast host add' do, one after the
other: its pods move, its Node and what is left under its name are deleted, and the new machine
joins with the file of --join-file. It runs where those run, and ends when the new Node is Ready.
A worker that does not answer is taken out only if you say that it has no power (--is-gone NAME).
Under the same name the old machine must be off, or wiped, before there is a join file. You can
interrupt the command and type it again: it goes on where it was.

One of three control planes is replaced in the same way, as root on one of the two that stay.
First its member leaves etcd: both others must vote then, and until the new host votes the loss
of one more control plane stops the site. You must have seen that the lost machine has no power,
and type its serial number, or its UUID if it has none (--is-gone SERIAL). The command ends when
three members vote.

Exit codes: 0 the replacement is whole (with --dry-run: all gates are open; with --abort: it
is taken back); 3 it was not whole at the timeout, and the message says what a person has to do;
4 it was not whole at the timeout, and goes on by itself; 7 refused, because a gate is closed or
there is no way back; 8 not confirmed; 1 it failed; 2 wrong usage.`,
		Example: `  sudo holdfast host replace cp-2 --bmc-address redfish://192.0.2.112/redfish/v1/Systems/1 --bmc-username fencer --bmc-password-file /root/bmc --dry-run
  sudo holdfast host replace cp-2 --bmc-address redfish://192.0.2.112/redfish/v1/Systems/1 --bmc-username fencer --bmc-password-file /root/bmc --join-file cp-2.ign
  sudo holdfast host replace cp-2 --new-name cp-3 --bmc-address redfish://192.0.2.113/redfish/v1/Systems/1 --bmc-username fencer --bmc-password-file /root/bmc --join-file cp-3.ign
  sudo holdfast host replace cp-2                  follow the plan that has begun
  sudo holdfast host replace cp-2 --abort
  sudo holdfast host replace worker-3 --is-gone worker-3 --join-file worker-3.ign`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.replaces(cmd.Context(), args[0], streams) },
	}
	f.register(cmd)
	f.completeHosts(cmd)
	hosts := cmd.ValidArgsFunction
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
		found, directive := hosts(cmd, args, text)
		if len(args) == 0 {
			others, _ := records.Files{}.Targets() // the API may be away, and the lost host have no Node
			for _, name := range others {
				if !slices.Contains(found, name) {
					found = append(found, name)
				}
			}
		}
		return found, directive
	}
	return cmd
}

// replaces replaces the host of a name.
func (f replaceFlags) replaces(ctx context.Context, name string, streams Streams) error {
	f.by = cmp.Or(f.by, login())
	if err := f.check(); err != nil {
		return err
	}
	store := replacement.ThisStore()
	here, err := thisReplaceHere(store)
	if err != nil {
		return err
	}
	pair, err := f.ofPair(name, here)
	if err != nil {
		return err
	}
	if !pair {
		w, err := f.newWorkerReplacement(ctx, name, streams)
		if err != nil {
			return err
		}
		return w.run(ctx)
	}
	r := hostReplacement{replaceFlags: f, streams: streams, store: store, name: name, sleep: host.Sleep, now: time.Now, backups: backupsHere(streams, "before host replace"), pointer: joinPointer, sight: fence.Sight}
	return r.run(ctx)
}

func (f *replaceFlags) register(cmd *cobra.Command) {
	f.hostFlags.register(cmd)
	timeoutFlag(cmd, &f.timeout)
	flags := cmd.Flags()
	flags.StringVar(&f.newName, "new-name", "", "name of the new host (default: NAME); NAME stays retired then")
	flags.StringVar(&f.uuid, "uuid", "", "UUID of the new machine: no other one is let in")
	flags.StringVar(&f.bmc.address, "bmc-address", "", "address of the new host's BMC, as in install-config.yaml")
	flags.StringVar(&f.bmc.username, "bmc-username", "", "user at that BMC")
	flags.StringVar(&f.bmc.passwordFile, "bmc-password-file", "", "file with the password, without its last line break; - is the standard input")
	flags.StringVar(&f.bmc.verification, "bmc-certificate-verification", bmc.VerificationEnabled, "Enabled, or Disabled: then the certificate that the BMC shows is pinned")
	flags.StringVar(&f.bmc.fingerprint, "bmc-fingerprint", "", "SHA-256 of the only certificate to trust")
	flags.StringVar(&f.bmc.tls, "bmc-tls", bmc.TLSDefault, "Default or Legacy")
	flags.StringVar(&f.ownUser, "own-bmc-username", "", "user at this host's own BMC, whose password was changed")
	flags.StringVar(&f.ownPassword, "own-bmc-password-file", "", "file with the new password of this host's own BMC: the old host knows the old one")
	flags.BoolVar(&f.keepAccount, "keep-bmc-account", false, "keep the account with which the old host could switch this host off")
	flags.StringVar(&f.gone, "is-gone", "", "state that the old machine has no power, which you have seen: its serial number (UUID, if it has none), if its BMC is silent; of a worker that does not answer its name once more")
	flags.StringVar(&f.dir, "dir", "", "of a worker: install directory; empty for the keys of this control plane")
	flags.StringSliceVar(&f.lost, "accept-lost", nil, "volumes whose data are lost with the old host")
	withoutBackupFlag(cmd, &f.noBackup)
	flags.StringVar(&f.joinFile, "join-file", "", "write the Ignition file with which the new machine is installed; it holds a secret")
	flags.DurationVar(&f.joinLife, "join-life", f.joinLife, "how long the secret in that file is valid")
	flags.StringVar(&f.by, "by", "", "who replaces the host")
	flags.StringVar(&f.reason, "reason", "", "why")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show the plan and the gates, and change nothing")
	flags.BoolVar(&f.yes, "yes", false, "do not ask")
	flags.BoolVar(&f.abort, "abort", false, "take the plan back, while the old host is not retired; or end it, if the new machine was let in and is lost")
}

// check returns all mistakes of the command line at once.
func (f *replaceFlags) check() error {
	var mistakes []error
	wrong := func(format string, a ...any) { mistakes = append(mistakes, fmt.Errorf(format, a...)) }
	if f.newName != "" {
		if err := config.NewName("--new-name", f.newName, nil); err != nil {
			mistakes = append(mistakes, err)
		}
	}
	if f.bmc.address != "" {
		if _, err := bmc.Parse(f.bmc.address); err != nil {
			wrong("--bmc-address: %w", err)
		}
		if f.bmc.username == "" || f.bmc.passwordFile == "" {
			wrong("--bmc-address: needs --bmc-username and --bmc-password-file, too")
		}
	}
	if v := f.bmc.verification; v != bmc.VerificationEnabled && v != bmc.VerificationDisabled {
		wrong("--bmc-certificate-verification %q: must be Enabled or Disabled", v)
	}
	if v := f.bmc.tls; v != bmc.TLSDefault && v != bmc.TLSLegacy {
		wrong("--bmc-tls %q: must be Default or Legacy", v)
	}
	mistakes = append(mistakes, checkOwnAccount(f.ownUser, f.ownPassword, f.keepAccount)...)
	if f.abort && (f.dryRun || f.bmc.address != "" || f.joinFile != "") {
		wrong("--abort: cannot be combined with --dry-run, --bmc-address or --join-file")
	}
	if f.by == "" {
		wrong("--by: must name who replaces the host")
	}
	mistakes = append(mistakes, checkTimes(f.joinLife, f.timeout))
	if err := errors.Join(mistakes...); err != nil {
		return &UsageError{Err: err}
	}
	return nil
}

// checkOwnAccount returns the mistakes of the flags about this host's own BMC, whose account the
// other host knows.
func checkOwnAccount(user, passwordFile string, keep bool) []error {
	var mistakes []error
	if (user == "") != (passwordFile == "") {
		mistakes = append(mistakes, errors.New("--own-bmc-username: needs --own-bmc-password-file, and the other way round"))
	}
	if passwordFile != "" && keep {
		mistakes = append(mistakes, errors.New("--keep-bmc-account: cannot be combined with --own-bmc-password-file"))
	}
	return mistakes
}

// checkTimes returns the mistakes of the times that the commands have which bring a control plane.
func checkTimes(joinLife, timeout time.Duration) error {
	var err error
	if joinLife < time.Minute || joinLife > 7*24*time.Hour {
		err = fmt.Errorf("--join-life %s: must be 1m0s to 168h0m0s", joinLife)
	}
	return errors.Join(err, positive(timeout))
}

// hostReplacement is one run of the command.
type hostReplacement struct {
	replaceFlags
	streams Streams
	store   replacement.Store
	name    string
	// next is the name of the new host, which may be that of the old one.
	next    string
	sleep   func(context.Context, time.Duration) error
	now     func() time.Time
	backups ownBackups
	// pointer makes the Ignition file of a new machine.
	pointer func(ctx context.Context, name string, life time.Duration) ([]byte, error)
	// topology is true if the command changes the number of control planes: no host takes another
	// one's place.
	topology bool
	// sight pins the certificate that a BMC shows, if nothing else vouches for it.
	sight func(context.Context, state.FencingDevice) (state.FencingDevice, error)
}

func (r *hostReplacement) run(ctx context.Context) error {
	plan, err := r.store.Plan()
	if err != nil {
		return err
	}
	active := plan != nil && !plan.Stage.Over()
	r.next = cmp.Or(r.newName, r.name)
	if active && plan.Old.Name == r.name {
		r.next = cmp.Or(r.newName, plan.New.Name, r.name)
	}
	switch {
	case active && (plan.Grows || plan.Shrinks):
		return coded(command.ExitRefused, "refused: a plan to %s is under way; to follow it: %s", plan.Work(), "sudo "+plan.Command())
	case active && r.newName != "" && plan.New.Name != "" && plan.Old.Name == r.name && r.newName != plan.New.Name && !r.abort:
		return coded(command.ExitRefused, "refused: the new host of this plan is %s, not %s: follow the plan without --new-name, or, until %s is retired, take it back first: %s --abort",
			plan.New.Name, r.newName, r.name, r.again())
	case active && plan.Old.Name != r.name:
		return coded(command.ExitRefused, "refused: this host replaces %s, not %s: wait until that replacement is over", plan.Old.Name, r.name)
	case r.abort:
		return r.takeBack(ctx, plan, active)
	case active && r.dryRun:
		return coded(command.ExitRefused, "refused: the replacement of %s is under way: run the command without --dry-run and --bmc-address to follow it", r.name)
	case active && r.bmc.address == "":
		return r.goOn(ctx, plan)
	case r.bmc.address == "" && plan != nil && plan.Old.Name == r.name:
		return r.endedBefore(plan)
	case r.bmc.address == "":
		return &UsageError{Err: errors.New("--bmc-address: is needed to begin, because a host that nobody can fence cannot be one of two")}
	case active && plan.Stage == decide.Joining:
		return coded(command.ExitRefused, "refused: the new machine was let in, so the plan can no longer be changed: run the command without --bmc-address to follow it")
	case active:
		return r.begin(ctx, plan.ID) // the plan takes in the new flags
	}
	return r.begin(ctx, "")
}

// begin shows what will be done, asks, writes the order and follows it.
func (r *hostReplacement) begin(ctx context.Context, plan string) error {
	o, err := r.order(ctx)
	if err != nil {
		return err
	}
	o.Wish.ID = cmp.Or(plan, o.Wish.ID)
	r.say("%s", planText(o))
	if r.dryRun {
		return r.dry(ctx, o)
	}
	if err := r.agreed(ctx, "lost"); err != nil {
		return err
	}
	if err := r.store.PutOrder(o); err != nil {
		return err
	}
	return r.follow(ctx, o.Wish.ID)
}

// confirm has a person type the name of the host that the command is about, the lost or the new one.
func (r *hostReplacement) confirm(ctx context.Context, which string) error {
	if r.yes {
		return nil
	}
	return command.Agreed(ctx, r.streams, "To continue, type the name of the "+which+" host: ", r.name)
}

// takeBack asks the agent to take a plan back, and waits for it.
func (r *hostReplacement) takeBack(ctx context.Context, plan *decide.Plan, active bool) error {
	order, err := r.store.Order()
	switch {
	case err != nil:
		return err
	case !active && order != nil && (order.Wish.Grows || order.Wish.Shrinks) == r.topology && (r.topology || order.Wish.Old == r.name) && (plan == nil || plan.ID != order.Wish.ID):
		return r.store.DropOrder() // a wish whose gates are closed
	case !active && r.topology:
		return coded(command.ExitRefused, "there is no plan to take back")
	case !active:
		return coded(command.ExitRefused, "there is no plan for %s to take back", r.name)
	case plan.Stage == decide.Joining:
		r.say("the plan ends once %s is out of contact and etcd here goes on alone; see yourself that the machine is off", plan.New.Name)
	case plan.Stage != decide.Planned:
		return coded(command.ExitRefused, "refused: %s", plan.TooLate())
	}
	if order == nil {
		order = &replacement.Order{}
	}
	order.Wish.At = r.now().UTC()
	order.Wish.ID, order.Wish.Grows, order.Wish.Shrinks, order.Wish.Old, order.Wish.Abort = plan.ID, plan.Grows, plan.Shrinks, plan.Old.Name, true
	if err := r.store.PutOrder(*order); err != nil {
		return err
	}
	return r.follow(ctx, plan.ID)
}
