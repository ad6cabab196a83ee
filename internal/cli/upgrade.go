package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
	"github.com/holdfast/holdfast/internal/model/state"
)

func newUpgrade(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Take the site to another release, and back while the way back is open",
		Long: `An upgrade takes one host after the other to another release. A host that is not well
in time goes back by itself. Until the commit the whole site can go back.

Each verb writes what an administrator wants to the ClusterVersion "version".
holdfast-operator and the agents carry it out, also when the command has ended or its
terminal is gone.`,
	}
	cmd.AddCommand(newUpgradeCheck(streams), newUpgradeFetch(streams), newUpgradeStart(streams), newUpgradeStatus(streams), newUpgradeRollback(streams),
		newUpgradePause(streams), newUpgradeResume(streams), newUpgradeCommit(streams))
	return cmd
}

// gatherUpgrade reads what the API has of an upgrade.
func gatherUpgrade(ctx context.Context, c client.Reader, now time.Time) (people.Upgrade, error) {
	o := people.Objects{Now: now, Record: state.Known("")}
	v := &configv1.ClusterVersion{}
	err := c.Get(ctx, client.ObjectKey{Name: annotation.VersionName}, v)
	switch {
	case err == nil:
		o.Version = v
	case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
		return people.Upgrade{}, fmt.Errorf("read ClusterVersion %s: %w", annotation.VersionName, err)
	}
	var record corev1.ConfigMap
	err = c.Get(ctx, client.ObjectKey{Namespace: annotation.RecordNamespace, Name: annotation.RecordName}, &record)
	switch {
	case err == nil:
		o.Record = state.Known(record.Data[annotation.RecordKey])
	case apierrors.IsForbidden(err):
		o.Record = state.Fact[string]{}
	case !apierrors.IsNotFound(err):
		return people.Upgrade{}, fmt.Errorf("read ConfigMap %s/%s: %w", annotation.RecordNamespace, annotation.RecordName, err)
	}
	if o.Plan, err = planInForce(ctx, c); err != nil {
		return people.Upgrade{}, err
	}
	nodes, err := hostNodes(ctx, c)
	if err != nil {
		return people.Upgrade{}, err
	}
	for i := range nodes {
		o.Hosts = append(o.Hosts, people.HostOf(&nodes[i]))
	}
	return people.Read(o), nil
}

// planInForce says which plan replaces a control plane or adds one. It is unknown for an account that
// may not read it.
func planInForce(ctx context.Context, c client.Reader) (state.Fact[string], error) {
	var lock corev1.ConfigMap
	err := c.Get(ctx, client.ObjectKey{Namespace: replace.LockNamespace, Name: replace.LockName}, &lock)
	if apierrors.IsForbidden(err) {
		return state.Fact[string]{}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return state.Fact[string]{}, fmt.Errorf("read ConfigMap %s/%s: %w", replace.LockNamespace, replace.LockName, err)
	}
	return state.Known(replace.InForce(lock.Data)), nil
}

// upgradeVerb is a verb that writes a wish to the ClusterVersion.
type upgradeVerb struct {
	cluster client.Client
	streams Streams
	output  string
	// dryRun shows what would follow, yes asks nothing.
	dryRun, yes bool
	// decide says what is written, or why the verb does not count.
	decide func(people.Upgrade) (people.Change, error)
}

// run shows what follows, asks, and writes. It returns what it wrote, which is empty for a
// dry run.
func (v upgradeVerb) run(ctx context.Context) (people.Change, error) {
	u, change, err := v.look(ctx)
	if err != nil {
		return change, err
	}
	if v.dryRun || change.Empty() {
		return change, v.print(v.streams.Out, change)
	}
	if !v.yes {
		if err := command.Agreed(ctx, v.streams, change.Text()+"Continue? Type yes: ", "yes"); err != nil {
			return change, err
		}
	}
	const tries = 5 // the operator writes the status of the object at any time
	for i := 1; ; i++ {
		err := writeVersion(ctx, v.cluster, u.Version, change)
		if !errors.Is(err, errTryAgain) || i == tries {
			return change, err
		}
		var again people.Change
		u, again, err = v.look(ctx)
		if err != nil {
			return change, err
		}
		if !again.Same(change) {
			return change, coded(command.ExitRefused, "nothing was changed: what would follow is not what was shown any more; run the command again")
		}
	}
}

// look reads the upgrade, and decides.
func (v upgradeVerb) look(ctx context.Context) (people.Upgrade, people.Change, error) {
	u, err := gatherUpgrade(ctx, v.cluster, time.Now())
	if err != nil {
		return u, people.Change{}, err
	}
	change, err := v.decide(u)
	if no, ok := errors.AsType[*people.Refusal](err); ok {
		code := command.ExitRefused
		if no.Unknown {
			code = command.ExitUnknown
		}
		err = coded(code, "refused, nothing was changed: %w", no)
	}
	return u, change, err
}

func (v upgradeVerb) print(out io.Writer, change people.Change) error {
	if v.output == "json" || v.output == "yaml" {
		return printData(out, v.output, change)
	}
	_, err := io.WriteString(out, change.Text())
	return err
}

// writeVersion writes a change to the ClusterVersion that was read, and to no other state
// of it.
func writeVersion(ctx context.Context, c client.Client, v *configv1.ClusterVersion, change people.Change) error {
	what := map[string]any{"metadata": map[string]any{"resourceVersion": v.ResourceVersion, "annotations": change.Annotations}}
	if change.Image != "" {
		// A version that stands there is that of another release.
		what["spec"] = map[string]any{"desiredUpdate": map[string]any{"image": change.Image, "version": nil}}
	}
	patch, err := json.Marshal(what)
	if err != nil {
		return err
	}
	err = c.Patch(ctx, v.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsConflict(err) {
		return errTryAgain
	}
	if err != nil {
		return refusedByAPI(fmt.Errorf("write ClusterVersion %s: %w", v.Name, err))
	}
	return nil
}

// verbFlags holds the flags of the verbs that change something.
type verbFlags struct {
	hostFlags
	dryRun, yes, noWait bool
	timeout             time.Duration
}

func (f *verbFlags) registerVerb(cmd *cobra.Command, asks, follows bool) {
	f.register(cmd)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "change nothing; say what would follow")
	if asks {
		cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask before it is written")
	}
	if follows {
		timeoutFlag(cmd, &f.timeout)
		cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "do not follow what the hosts do")
	}
}

func (f *verbFlags) verb(c client.Client, streams Streams, decide func(people.Upgrade) (people.Change, error)) upgradeVerb {
	return upgradeVerb{cluster: c, streams: streams, output: f.output, dryRun: f.dryRun, yes: f.yes, decide: decide}
}

// carryOut carries out a verb that asks, and follows it until the release that decide returns
// runs on all hosts; commits waits for the commit, too. wish names it to who does not wait.
func (f *verbFlags) carryOut(ctx context.Context, c client.Client, streams Streams, wish string, commits bool, decide func(people.Upgrade) (people.Change, string, error)) error {
	digest := ""
	verb := f.verb(c, streams, func(u people.Upgrade) (change people.Change, err error) {
		change, digest, err = decide(u)
		return change, err
	})
	if _, err := verb.run(ctx); err != nil || f.dryRun {
		return err
	}
	if f.noWait {
		_, err := fmt.Fprintf(streams.Err, "%s is wanted; to follow it: holdfast upgrade status --watch\n", wish)
		return err
	}
	return upgradeFollow{cluster: c, streams: streams, output: f.output, timeout: f.timeout, digest: digest, commits: commits}.run(ctx)
}

// completeDigests completes the argument of a command with the releases that lie on
// hosts. It says nothing of an API that does not answer.
func (f *hostFlags) completeDigests(cmd *cobra.Command) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := f.open(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		u, err := gatherUpgrade(cmd.Context(), c, time.Now())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return digestCompletions(u), cobra.ShellCompDirectiveNoFileComp
	}
}

func digestCompletions(u people.Upgrade) []cobra.Completion {
	var out []cobra.Completion
	for _, d := range u.Digests() {
		out = append(out, cobra.CompletionWithDesc(d, u.Name(d)))
	}
	return out
}
