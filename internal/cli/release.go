package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// releaseDir is the default folder of a release.
const releaseDir = "_output/release"

func newRelease(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Build, inspect and distribute the release from which hosts are made",
		Long: `A release is a folder in the OCI image layout with release.json beside it:
Kubernetes, etcd, containerd, the network and everything else that a host
needs, built from source and from the distribution's packages.`,
	}
	cmd.AddCommand(newReleaseBuild(streams), newReleaseInspect(streams), newReleasePush(streams), newReleaseServe(streams))
	return cmd
}

func newReleaseBuild(streams Streams) *cobra.Command {
	var opts release.Options
	var output string
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build the release, if anything changed",
		Long: `Builds every component from source and puts the images into one folder.
Results are cached by their inputs, in HOLDFAST_CACHE or the user's cache folder:
a change rebuilds only what it affects, an interrupted build continues where it
stopped, and a second build does nothing.`,
		Example: `  holdfast release build
  holdfast release build --only etcd,pause --dir /tmp/part
  holdfast release build --refresh      # take newer packages of the distribution`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Progress = streams.Err
			res, err := release.Build(cmd.Context(), opts)
			if err != nil {
				return err
			}
			if output == "json" {
				return command.PrintJSON(streams.Out, res)
			}
			return printBuild(streams.Out, res)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.Root, "root", ".", "the repository")
	flags.StringVar(&opts.Output, "dir", "", "folder of the release (default "+releaseDir+" in the repository)")
	flags.StringSliceVar(&opts.Only, "only", nil, "build only these images")
	flags.IntVar(&opts.Jobs, "jobs", 2, "number of parallel steps")
	flags.BoolVar(&opts.Refresh, "refresh", false, "take newer packages of the distribution")
	command.OutputFlag(cmd, &output)
	return cmd
}

func printBuild(w io.Writer, res *release.Result) error {
	state := fmt.Sprintf("%d steps run", res.Built)
	switch {
	case res.Built == 0 && !res.Changed:
		state = "nothing to do, everything is built already"
	case res.Built == 0:
		state = "all from the cache"
	}
	_, err := fmt.Fprintf(w, "release %s\n%d images, %s, in %s\n%s (%.1f s)\n", res.Manifest.Digest,
		len(res.Manifest.Images), release.Size(imagesSize(res.Manifest)), res.Output, state, res.Seconds)
	return err
}

func imagesSize(m release.Manifest) int64 {
	var size int64
	for _, i := range m.Images {
		size += i.Size
	}
	return size
}

func newReleaseInspect(streams Streams) *cobra.Command {
	var dir, output string
	var verify bool
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "Show the parts of a release and their sources",
		Example: `  holdfast release inspect
  holdfast release inspect --dir /usr/share/holdfast/release --verify -o json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			store, err := release.Open(dir)
			if err != nil {
				return err
			}
			if verify {
				if err := store.Verify(); err != nil {
					return err
				}
			}
			if output == "json" {
				return command.PrintJSON(streams.Out, store.Manifest())
			}
			return printManifest(streams.Out, store.Manifest())
		},
	}
	cmd.Flags().StringVar(&dir, "dir", releaseDir, "folder of the release")
	cmd.Flags().BoolVar(&verify, "verify", false, "read every byte and compare it with its digest")
	command.OutputFlag(cmd, &output)
	return cmd
}

func printManifest(out io.Writer, m release.Manifest) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	_, err := fmt.Fprintf(w, "release %s %s\nfor %s, built with %s\n\nCOMPONENT\tVERSION\tSIZE\tSOURCE\n", m.Version, m.Digest, m.Platform, m.GoVersion)
	for _, c := range m.Components {
		if err == nil {
			_, err = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Name, c.Version, release.Size(c.Size), c.Source)
		}
	}
	if err == nil {
		_, err = fmt.Fprint(w, "\nIMAGE\tSIZE\tDIGEST\n")
	}
	for _, i := range m.Images {
		if err == nil {
			_, err = fmt.Fprintf(w, "%s\t%s\t%s\n", i.Ref, release.Size(i.Size), i.Digest)
		}
	}
	if err != nil {
		return err
	}
	return w.Flush()
}

// remoteFlags adds the flags for access to a registry.
func remoteFlags(cmd *cobra.Command, r *release.Remote) {
	cmd.Flags().BoolVar(&r.PlainHTTP, "plain-http", false, "the registry has no TLS")
	cmd.Flags().StringVar(&r.CAFile, "ca", "", "file of certificates to trust besides the system's")
}

func newReleasePush(streams Streams) *cobra.Command {
	var to release.Remote
	var dir string
	cmd := &cobra.Command{
		Use:   "push REGISTRY/REPOSITORY:TAG",
		Short: "Copy a release to a registry",
		Long: `Copies a release to a registry, from which hosts can pull it. Blobs that the registry
has already are not sent again. Uses the credentials that container tools store for
you.`,
		Example: `  holdfast release push registry.site.example:5000/holdfast/release:` + payload.Version + ` --ca site-ca.pem`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := release.Open(dir)
			if err != nil {
				return err
			}
			to.Ref = args[0]
			if err := store.Push(cmd.Context(), to); err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Out, "pushed %s to %s\n", store.Manifest().Digest, to.Ref)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", releaseDir, "folder of the release")
	remoteFlags(cmd, &to)
	return cmd
}

func newReleaseServe(streams Streams) *cobra.Command {
	var dir, listen string
	var files release.TLS
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the release as a read-only registry",
		Long: `Serves a release as a registry, for sites that reach no other: the whole release
as ` + release.Repository + `:` + payload.Version + `, and each image under its own name. Every
write is refused. It ends with Ctrl-C.`,
		Example: `  holdfast release serve --listen 10.98.0.1:5000 --cert tls.crt --key tls.key`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (files.CertFile == "") != (files.KeyFile == "") {
				return &UsageError{Err: fmt.Errorf("--cert and --key: must be given together")}
			}
			return serveRelease(cmd.Context(), streams.Out, dir, listen, files)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "dir", releaseDir, "folder of the release")
	flags.StringVar(&listen, "listen", "127.0.0.1:5000", "address and port")
	flags.StringVar(&files.CertFile, "cert", "", "file of the TLS certificate; without it plain HTTP")
	flags.StringVar(&files.KeyFile, "key", "", "file of its key")
	return cmd
}

func serveRelease(ctx context.Context, out io.Writer, dir, listen string, files release.TLS) error {
	store, err := release.Open(dir)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("serve the release: %w", err)
	}
	if _, err := fmt.Fprintf(out, "serving %s/%s:%s\n", listener.Addr(), release.Repository, store.Manifest().Version); err != nil {
		return err
	}
	return store.Serve(ctx, listener, files)
}
