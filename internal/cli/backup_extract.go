package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/backup/objects"
	"github.com/holdfast/holdfast/internal/model/state"
)

// backupExtractFlags holds the flags of `backup extract`.
type backupExtractFlags struct {
	lookFlags
	objects.Keep
	output               string
	definitions, secrets bool
}

func newBackupExtract(streams Streams) *cobra.Command {
	var f backupExtractFlags
	cmd := &cobra.Command{
		Use:   "extract FILE [TYPE[/NAME]...]",
		Short: "Write objects of a backup as manifests that kubectl takes",
		Long: `Writes a namespace, or some objects, out of a backup as manifests for a living cluster. It
changes no cluster: you look at the manifests, and give them to kubectl. To restore a whole site,
see 'holdfast restore'.

Each object is a file, numbered in the order in which they must be made. An object lacks what
only the former one had: its uid and version, its status, its owners, the addresses of a Service.
The command leaves out, and names, what a controller makes again (pods of a Deployment, endpoints),
what has ended (Jobs, pods), and tokens of service accounts.

Secrets are among the files, which only you can read. With -o - they are left out unless you give
--show-secrets.

Volumes: the data of a volume are not in a backup. A claim keeps the name of its volume, so
nothing starts with an empty one by mistake. If the volume is still there (kubectl get pv), free
it for the new claim:
  kubectl patch pv NAME -p '{"spec":{"claimRef":{"uid":null,"resourceVersion":null}}}'
If it is gone, --new-volumes lets each claim get an empty one.

Exit codes: 0 written; 3 written, but some keys could not be read, objects lack fields that this
build does not know, or Secrets were left out; 1 there is no such object, or the backup is
damaged; 2 wrong usage; 7 refused: it is not of the site of --authority.`,
		Example: `  holdfast backup extract 20261125T031700Z-cp-1.tar.age --identity owner.key --authority ca.crt -n shop -o shop-objects
  kubectl create -f shop-objects
  holdfast backup extract backup.tar deployments,configmaps -n shop -o shop-objects
  holdfast backup extract backup.tar configmap/prices -n shop -o - | kubectl replace -f -
  holdfast backup extract backup.tar clusterrole/till -o -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), streams, args[0], args[1:])
		},
	}
	f.register(cmd)
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "folder to make, which must not exist or be empty; - for standard output")
	cmd.Flags().BoolVar(&f.secrets, "show-secrets", false, "with -o -: print Secrets, too")
	cmd.Flags().BoolVar(&f.definitions, "with-crds", false, "also write the definitions of custom resources that the objects need")
	cmd.Flags().BoolVar(&f.ServiceAddresses, "keep-service-addresses", false, "keep the cluster IPs and node ports of Services")
	cmd.Flags().BoolVar(&f.NewVolumes, "new-volumes", false, "let each claim get a new, empty volume")
	_ = cmd.MarkFlagDirname("output")
	return cmd
}

func (f *backupExtractFlags) run(ctx context.Context, streams Streams, file string, args []string) error {
	wants, err := objects.Wants(args)
	mistakes := []error{err}
	if f.output == "" {
		mistakes = append(mistakes, errors.New("--output: name a folder for the manifests, or - for standard output"))
	} else if err := vacant(f.output); err != nil {
		mistakes = append(mistakes, err)
	}
	if f.namespace == "" && len(args) == 0 {
		mistakes = append(mistakes, errors.New("name a namespace with -n, or objects; for a whole site see 'holdfast restore'"))
	}
	if err := errors.Join(mistakes...); err != nil {
		return &UsageError{Err: err}
	}
	b, err := f.openKnown(ctx, streams, file)
	if err != nil {
		return err
	}
	e := objects.Extract{
		Selector: objects.Selector{Namespace: f.namespace, Wants: wants, Names: b.names},
		Keep:     f.Keep, Definitions: f.definitions, NoSecrets: f.output == "-" && !f.secrets,
	}
	found, err := b.readAndClose(ctx, e.Needs)
	if err != nil {
		return err
	}
	return f.write(streams, b, e, e.From(found.Objects), unreadIn(found.Unread, f.namespace))
}

// vacant reports an error for a folder that has something in it already.
func vacant(dir string) error {
	if dir == "-" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err == nil && len(entries) == 0, errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("--output: %w", err)
	}
	return fmt.Errorf("--output: %s is not empty: name a folder that does not exist", dir)
}

// write writes the manifests and says what else there is to know.
func (f *backupExtractFlags) write(streams Streams, b *openedBackup, e objects.Extract, x objects.Extracted, unread []objects.Unread) error {
	if err := missingWants(e.Selector, x.Seen()); err != nil {
		printUnread(streams.Err, unread)
		return err
	}
	if len(x.Seen()) == 0 {
		printUnread(streams.Err, unread)
		return coded(command.ExitFailed, "namespace %s of the backup has no objects", f.namespace)
	}
	say, err := streams.Out, error(nil)
	if f.output == "-" {
		say = streams.Err
		err = printManifests(streams.Out, x.Objects)
	} else {
		err = writeManifests(f.output, x.Objects)
	}
	if err != nil {
		return err
	}
	f.tell(say, b, x)
	printUnread(say, unread)
	if len(unread) > 0 || x.Lacking() {
		return exitWith(command.ExitAttention)
	}
	return nil
}

// printManifests prints objects as documents of one stream.
func printManifests(out io.Writer, found []objects.Object) error {
	for _, o := range found {
		text, err := yaml.Marshal(o.Content)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

// writeManifests writes each object into a file of its own. The folder appears in one step: what a
// crash leaves has another name.
func writeManifests(dir string, found []objects.Object) (err error) {
	dir = filepath.Clean(dir)
	part, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-*") // 0700
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	for i, o := range found {
		var text bytes.Buffer
		if err := printManifests(&text, []objects.Object{o}); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(part, manifestName(i+1, o)), text.Bytes(), state.SecretFileMode); err != nil {
			return err
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) { // it is empty
		return err
	}
	return os.Rename(part, dir)
}

// maxFileName bounds the part of a file's name that an object gives, in bytes.
const maxFileName = 200

func manifestName(number int, o objects.Object) string {
	name := o.Resource + "-" + strings.ReplaceAll(o.Name, ":", "_")
	return fmt.Sprintf("%04d-%s.yaml", number, name[:min(len(name), maxFileName)])
}

// tell says what was written, what was not, and what to type next.
func (f *backupExtractFlags) tell(out io.Writer, b *openedBackup, x objects.Extracted) {
	_, _ = fmt.Fprintf(out, "%s\nits authority: %s\n%d objects are written", b.of(), b.authority, len(x.Objects))
	if x.Secrets {
		_, _ = fmt.Fprint(out, ", Secrets among them")
	}
	_, _ = fmt.Fprintln(out)
	for _, line := range x.LeftLines() {
		_, _ = fmt.Fprintf(out, "left out: %s\n", line)
	}
	for _, n := range x.Notes {
		_, _ = fmt.Fprintf(out, "note: %s: %s\n", kindAndPath(n.Kind, n.Path), n.Says)
	}
	if len(x.Needs) > 0 {
		_, _ = fmt.Fprintf(out, "they need these definitions of custom resources, which --with-crds adds: %s\n", strings.Join(x.Needs, ", "))
	}
	if f.output != "-" && len(x.Objects) > 0 {
		_, _ = fmt.Fprintf(out, "\nNext, after you looked at them:\n  kubectl diff -f %[1]s      what differs from the living cluster\n"+
			"  kubectl create -f %[1]s    makes what is not there; what is there stays as it is\n"+
			"  kubectl replace -f %[1]s   makes what is there what it was in the backup\n", f.output)
	}
}
