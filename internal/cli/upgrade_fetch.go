package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
)

// sourceFlags say where hosts get a release.
type sourceFlags struct{ registry, folder string }

func (f *sourceFlags) registerSources(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.registry, "from-registry", "", "repository from which hosts fetch the release, for example registry.example.com/holdfast/release")
	cmd.Flags().StringVar(&f.folder, "from-folder", "", "folder on the hosts from which they take the release, for example that of a stick")
	_ = cmd.RegisterFlagCompletionFunc("from-registry", cobra.NoFileCompletions)
}

func (f *sourceFlags) sources() annotation.Sources {
	return annotation.Sources{Registry: f.registry, Folder: f.folder}
}

// repository is a repository of a registry, without a tag and a digest.
var repository = regexp.MustCompile(`^([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+$`)

// mistakes returns every mistake of the flags.
func (f *sourceFlags) mistakes() error {
	var errs []error
	if f.registry != "" && f.folder != "" {
		errs = append(errs, errors.New("--from-registry and --from-folder: cannot be combined"))
	}
	if f.registry != "" && !repository.MatchString(f.registry) {
		errs = append(errs, fmt.Errorf("--from-registry %q: must be HOST[:PORT]/REPOSITORY, without a tag and a digest", f.registry))
	}
	if f.folder != "" && (!path.IsAbs(f.folder) || path.Clean(f.folder) != f.folder) {
		errs = append(errs, fmt.Errorf("--from-folder %q: must be the whole path of a folder on the hosts", f.folder))
	}
	return errors.Join(errs...)
}

// fetchFlags holds the flags of `upgrade fetch`.
type fetchFlags struct {
	verbFlags
	sourceFlags
	forget bool
}

func newUpgradeFetch(streams Streams) *cobra.Command {
	f := fetchFlags{verbFlags: verbFlags{timeout: 2 * time.Hour}}
	cmd := &cobra.Command{
		Use:   "fetch [DIGEST]",
		Short: "Have all hosts fetch a release, and install nothing",
		Long: `Offers a release to the site: all hosts fetch it, compare each byte with the digest, and
keep it beside the one that runs. Nothing is installed, switched or restarted. From then on
'holdfast upgrade check' looks into it, 'holdfast status' and ClusterVersion name it, and
'holdfast upgrade start' has nothing to fetch any more. A fetch that was cut off goes on
where it was.

The command follows the hosts until the release lies on all of them. Interrupting it ends
the following, not the fetch. --forget takes the offer back.

Exit codes: 0 it lies on all hosts (with --forget: nothing is offered); 3 a host could not
fetch it at the timeout; 4 it was under way at the timeout; 7 refused, nothing was changed; 6
too little is known; 1 it failed; 2 wrong usage.`,
		Example: `  holdfast upgrade fetch sha256:0a1b... --from-registry registry.example.com/holdfast/release
  holdfast upgrade fetch sha256:0a1b... --from-folder /media/stick/release --no-wait
  holdfast upgrade fetch --forget`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			image, mistakes := f.image(args)
			c, err := f.open(cmd.Context(), mistakes)
			if err != nil {
				return err
			}
			if f.forget {
				return f.writes(cmd.Context(), c, streams, people.Upgrade.Forget)
			}
			return f.run(cmd.Context(), c, streams, image)
		},
	}
	f.registerVerb(cmd, false, true)
	f.registerSources(cmd)
	f.completeDigests(cmd)
	cmd.Flags().BoolVar(&f.forget, "forget", false, "offer no release any more")
	return cmd
}

// image reads the command line. The error has every mistake of it.
func (f *fetchFlags) image(args []string) (string, error) {
	errs := []error{positive(f.timeout), f.mistakes()}
	image := ""
	switch {
	case f.forget && (len(args) > 0 || f.sources() != annotation.Sources{}):
		errs = append(errs, errors.New("--forget: cannot be combined with DIGEST, --from-registry or --from-folder"))
	case !f.forget && len(args) == 0:
		errs = append(errs, errors.New("DIGEST: must name the release; 'holdfast release inspect' shows it"))
	case !f.forget:
		var err error
		image, err = people.ParseImage(args[0])
		errs = append(errs, err)
	}
	return image, errors.Join(errs...)
}

// run has hosts fetch a release, and follows them.
func (f *fetchFlags) run(ctx context.Context, c client.Client, streams Streams, image string) error {
	f.yes = true // nothing is installed
	v := f.verb(c, streams, func(u people.Upgrade) (people.Change, error) { return u.Fetch(image, f.sources()) })
	change, err := v.run(ctx)
	if err != nil || f.dryRun {
		return err
	}
	if !change.Empty() {
		_, _ = fmt.Fprint(streams.Err, change.Text())
	}
	if f.noWait {
		_, err := fmt.Fprintln(streams.Err, "written; to see it: holdfast upgrade status")
		return err
	}
	follow := upgradeFollow{cluster: c, streams: streams, output: f.output, timeout: f.timeout, digest: people.Digest(image)}
	return follow.fetch(ctx)
}

// fetch shows what hosts fetch until the release lies on all of them, and prints the state at
// the end.
func (f upgradeFollow) fetch(ctx context.Context) error {
	var last people.Status
	err := watch(ctx, f.streams.Err, f.timeout, func(ctx context.Context) (looked, error) {
		s, err := f.look(ctx)
		if err != nil {
			return trouble(ctx, "site", "the API does not answer", err), nil
		}
		last = s
		switch {
		case s.From == f.digest || s.To == f.digest:
			return looked{over: true}, nil // somebody installs it
		case s.Offer != f.digest:
			return looked{}, errors.New("somebody else changed what is offered: see holdfast upgrade status")
		}
		return looked{lines: linesOf(s), over: len(s.Lacking) == 0}, nil
	}, func(cause error) error { return f.unfetched(cause, last) })
	if err != nil {
		return err
	}
	return printUpgrade(f.streams.Out, f.output, last)
}

// unfetched explains an end before the release lies on all hosts.
func (f upgradeFollow) unfetched(cause error, last people.Status) error {
	const more = "To see it: holdfast upgrade status"
	if !errors.Is(cause, errNotYet) {
		return fmt.Errorf("interrupted: this command has ended, and hosts go on to fetch. %s", more)
	}
	code := command.ExitRecovers
	for _, h := range last.Hosts {
		if h.FetchFailed {
			code = command.ExitAttention
		}
	}
	return coded(code, "not done after %s: %s. %s", f.timeout, strings.Join(last.Lacking, ", ")+" lack it", more)
}
