package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/rotation"
)

const (
	// leastTokenLife is the shortest life of a token that Kubernetes signs.
	leastTokenLife = 10 * time.Minute
	// caTimeout allows each of several hosts a restart of its API server in each
	// phase, and the two minutes in which it reads a file for sure.
	caTimeout = 45 * time.Minute
	// caEvery is the pause between two readings.
	caEvery = 3 * time.Second
)

// rotateCAFlags holds the flags of ca rotate.
type rotateCAFlags struct {
	caFlags
	dryRun, yes        bool
	withoutBackup      bool
	timeout, tokenLife time.Duration // tokenLife is zero if nobody names one
}

func newCARotate(streams Streams) *cobra.Command {
	f := rotateCAFlags{timeout: caTimeout}
	cmd := &cobra.Command{
		Use:   "rotate AUTHORITY",
		Short: "Replace an authority of a cluster, while the cluster runs",
		Long: `Replaces service-account-key, the key that signs tokens of service accounts;
front-proxy-ca, the CA by which servers that extend the API know API servers; etcd-ca,
the CA of etcd and its clients; or kubernetes-ca, the CA of the API and its clients.
One control plane after the other: first all trust the old and the new one, then all
sign with the new one, and at last all drop the old one. The command says what it
waits for. You may interrupt it at any time and run it again to continue.

The command refuses while a control plane is absent, is being installed, or renews
certificates, and while a plan replaces, adds or takes out one; for kubernetes-ca also
while a worker is being installed. A host that goes away, or comes, in the middle holds
the rotation where it is.
It begins with a good backup that is at most four hours old. If there is none it takes
one first, and is refused if that fails.

For service-account-key each API server is restarted three times, and only while
those of the other control planes are ready. With one control plane the API is away
for some seconds each time. Before the old key is dropped, the command ends with code
3 until no pod uses a token of it: 25 hours, because kubelets renew every token
within 24. Run it again then. Tokens that programs asked for themselves may live
longer; name the longest life with --token-life: later runs know it. Secrets with
tokens that have no end are listed: somebody has to replace these.

For front-proxy-ca nothing is restarted. Servers that extend the API must follow the
ConfigMap kube-system/extension-apiserver-authentication, as those that are built
with Kubernetes' library do; restart others after the first step.

For etcd-ca each etcd and each API server is restarted twice. Of two control planes
the etcd keeper restarts etcd, and only while etcd could do without that host; of
others etcd and API server of a host are restarted together, while the API servers of
all others are ready. With one control plane the API is away for some seconds.

For kubernetes-ca run the command on a control plane. It refuses on a site that an
earlier release installed. Controller manager and scheduler of each control plane are
restarted in each phase, and kubelet of each host in the first two; workers come
after the control planes. A worker that is away holds the rotation too: bring it
back, or take it out ('holdfast host remove') and add it later. Of two control planes only a
reboot restarts kubelet: the command ends with code 3 and names the host; run it again
after 'holdfast host reboot NAME'. Before the new CA signs, everybody outside has to
trust it: the command asks. Kubeconfigs that people hold then need another certificate
('holdfast kubeconfig' on a control plane), and pods that read ca.crt only when they
start have to be restarted. flannel is such a one: the command ends with code 3 and
says how, until it was.

Exit codes: 0 the authority was replaced; 1 it failed, or is not complete in time;
2 wrong usage; 3 it goes on later, or after something that a person does; 7 refused,
nothing was changed; 8 not confirmed.`,
		Example: `  holdfast ca rotate service-account-key --dry-run
  holdfast ca rotate service-account-key
  holdfast ca rotate front-proxy-ca --yes
  holdfast ca rotate etcd-ca
  holdfast ca rotate kubernetes-ca --dry-run`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: []string{string(decide.ServiceAccountKey), string(decide.FrontProxyCA), string(decide.EtcdCA), string(decide.KubernetesCA)},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, mistake := f.check(args[0])
		c, err := f.client(cmd.Context(), mistake)
		if err != nil {
			return err
		}
		r := caRotation{
			reopen:        func(ctx context.Context) (caCluster, error) { return f.client(ctx) },
			rotateCAFlags: f, cluster: c, authority: a, streams: streams, now: time.Now, random: rand.Reader,
			take: takingBackup(f.place, streams, "", "", "before ca rotate "+args[0]),
		}
		return r.run(cmd.Context())
	}
	f.register(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.dryRun, "dry-run", false, "say what would be done and change nothing")
	flags.BoolVar(&f.yes, "yes", false, "do not ask before it begins and before the old authority is dropped")
	withoutBackupFlag(cmd, &f.withoutBackup)
	flags.DurationVar(&f.timeout, "timeout", f.timeout, "how long to wait for hosts, without the time for answers")
	flags.DurationVar(&f.tokenLife, "token-life", 0, "how long tokens of the old key may be in use (default 25h, or more if an earlier run named more)")
	return cmd
}

// check checks the argument and the flags.
func (f rotateCAFlags) check(name string) (decide.Authority, error) {
	a := decide.Authority(name)
	switch {
	case !slices.Contains(decide.Authorities(), a):
		return a, fmt.Errorf("authority %q: must be %s, %s, %s or %s", name, decide.ServiceAccountKey, decide.FrontProxyCA, decide.EtcdCA, decide.KubernetesCA)
	case f.timeout <= 0:
		return a, fmt.Errorf("--timeout %s: must be positive", f.timeout)
	case f.tokenLife != 0 && f.tokenLife < leastTokenLife:
		return a, fmt.Errorf("--token-life %s: must be at least %s, the shortest life of a token", f.tokenLife, leastTokenLife)
	}
	return a, nil
}

// caRotation is one run of the command.
type caRotation struct {
	rotateCAFlags
	cluster caCluster
	// reopen opens the API by the present files: on a control plane these change while
	// the Kubernetes CA is replaced.
	reopen    func(ctx context.Context) (caCluster, error)
	authority decide.Authority
	streams   Streams
	// take has the site take a backup.
	take   func(ctx context.Context) error
	now    func() time.Time
	random io.Reader
	said   string
	// before names the last rotation that the first reading saw.
	before string
	// clock ends the run at ends.
	clock *time.Timer
	ends  time.Time
	// agreed is the last step to which the administrator said yes.
	agreed string
}

// run takes one step after another until the authority is replaced. If a rotation is
// already in progress, run finishes that one and begins no other.
func (r *caRotation) run(ctx context.Context) error {
	first, err := r.read(ctx)
	if err != nil {
		return err
	}
	step := decide.Next(first.Seen, false)
	begin := step.Begins()
	if !begin && (!first.Wish.Running() || step.Kind == decide.Refuse) {
		return coded(command.ExitRefused, "refused, nothing was changed: %s", step.Why)
	}
	r.before = first.Wish.Name()
	if begin {
		if err := r.prepare(ctx, first); err != nil {
			return err
		}
	}
	if r.dryRun {
		return r.show(first, step)
	}
	ctx, stop := r.limited(ctx)
	defer stop()
	for {
		done, err := r.step(ctx, &begin)
		if done {
			return err
		}
		if host.Sleep(ctx, caEvery) != nil {
			if err == nil && r.said != "" {
				err = errors.New(r.said)
			}
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// prepare asks the administrator, and has the site take a backup if it has no young one. With
// --dry-run it only says what would be taken.
func (r *caRotation) prepare(ctx context.Context, f caFacts) error {
	if !r.dryRun {
		if err := r.confirm(ctx, "The authority "+string(r.authority)+" is replaced on "+names(f.Hosts, f.Followers)+"."); err != nil {
			return err
		}
	}
	first := backupFirst{without: r.withoutBackup, dryRun: r.dryRun, take: r.take, out: r.streams.Err}
	return first.before(ctx, r.cluster, r.now)
}

// limited returns a context that ends with the time of the run. A question halts the clock.
func (r *caRotation) limited(ctx context.Context) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	r.ends = time.Now().Add(r.timeout)
	r.clock = time.AfterFunc(r.timeout, func() {
		end(fmt.Errorf("not complete after %s; run the command again to continue", r.timeout))
	})
	return ctx, func() {
		r.clock.Stop()
		end(nil)
	}
}

func (r *caRotation) read(ctx context.Context) (caFacts, error) {
	if r.authority == decide.KubernetesCA && r.reopen != nil {
		c, err := r.reopen(ctx)
		if err != nil {
			return caFacts{}, err
		}
		r.cluster = c
	}
	f, err := readCA(ctx, r.cluster, r.authority, r.now())
	f.TokenLife = r.tokenLife
	return f, err
}

// show says what would be done.
func (r *caRotation) show(f caFacts, step decide.Step) error {
	why := step.Why
	if step.Begins() {
		why = "would replace the authority on " + names(f.Hosts, f.Followers) + ", one after the other"
	}
	report := reportOfCA(f)
	report.Why = why
	return printCA(r.streams.Out, r.output, []caReport{report})
}

// step takes one step, and reports whether the run ends with it. The next round
// tries again what failed: a short outage of the API ends no rotation.
func (r *caRotation) step(ctx context.Context, begin *bool) (done bool, err error) {
	f, err := r.read(ctx)
	if err != nil {
		return errors.Is(err, decide.ErrWish), err
	}
	// A write may have arrived though its answer did not, and the rotation of another run
	// may have come to its end between two readings.
	*begin = *begin && f.Wish.Name() == r.before
	if *begin {
		f.Salt = make([]byte, 32)
		if _, err := io.ReadFull(r.random, f.Salt); err != nil {
			return true, fmt.Errorf("random salt of the new authority: %w", err)
		}
	}
	step := decide.Next(f.Seen, *begin)
	r.say(step.Why)
	switch step.Kind {
	case decide.Settled, decide.Due:
		err := printCA(r.streams.Out, r.output, []caReport{reportOfCA(f)})
		if err == nil && (step.Kind == decide.Due || f.Wish.Phase != decide.Done) {
			err = coded(command.ExitAttention, "the rotation is not complete and no longer under way: somebody took its wish away, or restored etcd. %s", step.Why)
		}
		return true, err
	case decide.Hold:
		return true, coded(command.ExitAttention, "%s", step.Why)
	case decide.Clean:
		return false, ignoreChanged(r.clean(ctx, f, step.Keep))
	case decide.Inform:
		return false, ignoreChanged(r.inform(ctx, f))
	case decide.Ask:
		if asked, err := r.ask(ctx, f.Wish.Name(), step); asked || err != nil {
			return err != nil, err
		}
		err := r.cluster.SwapSecretKey(ctx, decide.WishNamespace, decide.WishName, string(r.authority), f.wish, []byte(step.Wish.String()))
		*begin = *begin && err != nil && !errors.Is(err, kube.ErrChanged)
		return false, ignoreChanged(err)
	case decide.Refuse, decide.Wait:
	}
	return false, nil
}

// What has to be done outside of the hosts before the Kubernetes CA signs, and before
// the old one is dropped.
const (
	signsKubernetes = `From here on API servers show certificates of the new authority. Who does not trust it loses the API:
- kubeconfigs outside of the control planes, as auth/kubeconfig of the install directory. Make them anew first, on a control plane: holdfast kubeconfig
- pods that read ca.crt only when they start. Restart those that are older than this rotation: kubectl get pods -A --sort-by=.metadata.creationTimestamp`
	dropsKubernetes = `
Certificates of the old authority open nothing any more, also those in kubeconfigs that people made before it signed: holdfast kubeconfig`
)

// inform writes what pods of kube-system trust into cluster-info.
func (r *caRotation) inform(ctx context.Context, f caFacts) error {
	fresh, err := kube.WithAuthorities([]byte(f.info), []byte(f.root))
	if err != nil {
		return fmt.Errorf("ConfigMap %s/%s: %w", infoNamespace, infoConfigMap, err)
	}
	return r.cluster.SwapConfigMapKey(ctx, infoNamespace, infoConfigMap, infoKey, f.info, string(fresh))
}

// ignoreChanged drops an error that only says that somebody else was faster: the next
// reading shows what is to be done then.
func ignoreChanged(err error) error {
	if errors.Is(err, kube.ErrChanged) {
		return nil
	}
	return err
}

// clean leaves one CA in what the API publishes.
func (r *caRotation) clean(ctx context.Context, f caFacts, keep decide.ID) error {
	publics, err := keys.Publics(f.published)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, p := range publics {
		if p.ID == string(keep) {
			text.WriteString(p.Block)
		}
	}
	return r.cluster.SwapConfigMapKey(ctx, extensionNamespace, extensionConfigMap, extensionKey(r.authority), f.published, text.String())
}

// confirm asks the administrator, unless --yes says it.
func (r *caRotation) confirm(ctx context.Context, what string) error {
	if r.yes {
		return nil
	}
	answer, err := command.Ask(ctx, r.streams, what+"\nContinue? Type yes: ")
	if err == nil && answer != "yes" {
		err = coded(command.ExitNotConfirmed, "not confirmed; the rotation stands where it was: holdfast ca show")
	}
	return err
}

// ask asks in the middle of a rotation, when hosts were changed already, and reports whether it did.
// A person may have to do something before the answer, so the clock is halted. Hosts may change
// meanwhile: the step is decided anew then, and asked for no second time.
func (r *caRotation) ask(ctx context.Context, rotation string, step decide.Step) (asked bool, err error) {
	about := fmt.Sprint(rotation, " signs ", step.Signs, " drops ", step.Drops)
	if r.yes || !step.Signs && !step.Drops || r.agreed == about {
		return false, nil
	}
	words := signsKubernetes
	if step.Drops {
		words = "From here on nothing trusts the old authority any more, and there is no way back."
		if r.authority == decide.KubernetesCA {
			words += dropsKubernetes
		}
	}
	r.clock.Stop()
	left := time.Until(r.ends)
	err = r.confirm(ctx, words)
	r.clock.Reset(left)
	r.ends = time.Now().Add(left)
	if err != nil {
		return true, coded(command.ExitNotConfirmed, "not confirmed; the rotation stands where it was: holdfast ca show; to go on: holdfast ca rotate %s", r.authority)
	}
	r.agreed = about
	return true, nil
}

// say prints a message unless it repeats the last one.
func (r *caRotation) say(words string) {
	if words != r.said {
		r.said = words
		_, _ = fmt.Fprintln(r.streams.Err, words)
	}
}

func names(hosts ...[]decide.Host) string {
	var out []string
	for _, h := range slices.Concat(hosts...) {
		out = append(out, h.Name)
	}
	return strings.Join(out, ", ")
}
