package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	configv1alpha1 "github.com/openshift/api/config/v1alpha1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/backup"
	model "github.com/holdfast/holdfast/internal/model/backup"
)

// backupConfigureFlags holds the flags of `backup configure`.
type backupConfigureFlags struct {
	backupNowFlags
	file string
	yes  bool
}

func newBackupConfigure(streams Streams) *cobra.Command {
	f := backupConfigureFlags{backupNowFlags: backupNowFlags{timeout: backupTime}}
	cmd := &cobra.Command{
		Use:   "configure -f FILE",
		Short: "Say when backups are taken, how many are kept, and where they go",
		Long: `Reads the configuration of backups from a file, names every mistake at once, and writes it to the
cluster: the schedule and the number into the Backup "cluster" (config.openshift.io/v1alpha1),
recipients and targets with their accounts into the Secret openshift-etcd/holdfast-backup. The file
replaces the whole former configuration. One without targets ends copies outside; a deletion of
these objects does not, because control planes go on with what they said last.

Then one control plane takes a backup, sends it to each target and reads it back there, and the
command prints the result. A target that fails changes nothing about backups on the hosts; mend it,
and run the command again.

The file has accounts in it: keep it where passwords are kept. Private keys of age belong neither
in it nor on the site.

Exit codes: 0 it is written, and each target has a copy (with --dry-run: the file has no mistake,
and the API server would take it); 3 it is written, and a target lacks the copy, the host cannot
follow it, or something was in the way at the timeout; 4 the backup was on its way at the timeout;
1 the backup failed; 2 the file has mistakes; 8 not confirmed; 7 refused, nothing was written.`,
		Example: `  holdfast backup configure -f backups.yaml --dry-run
  holdfast backup configure -f backups.yaml

  # backups.yaml
  schedule: 17 3 * * *
  timeZone: Europe/Berlin
  keep: 14
  recipients: [age1..., age1...]        # age-keygen; one for the owner, one for the safe
  targets:
  - name: nas
    directory: {path: /mnt/backups}     # a mount; put a file holdfast-backups into it
  - name: bucket
    s3: {endpoint: https://s3.example.com, bucket: shop-1, accessKey: AK, secretKey: SK}
  - name: office
    sftp:
      server: backup.example.com        # or backup.example.com:2022, [2001:db8::1]:2022
      user: shop-1
      path: /backups
      hostKeys: [ssh-ed25519 AAAA...]   # the server's own; or its line of known_hosts, or SHA256:...
      privateKey: |                     # one that nobody else uses; or password: PW
        -----BEGIN OPENSSH PRIVATE KEY-----`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := f.read(streams)
			c, err := f.open(cmd.Context(), err, positive(f.timeout))
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), c, streams, config)
		},
	}
	f.register(cmd)
	timeoutFlag(cmd, &f.timeout)
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "the file with the configuration of backups; - reads standard input")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "write nothing; check the file, and show what would change")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask before it is written")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "do not have a control plane try the targets")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

// read reads the file.
func (f *backupConfigureFlags) read(streams Streams) (model.Config, error) {
	if f.file == "" {
		return model.Config{}, errors.New("--file: name the file with the configuration of backups; holdfast backup configure --help has an example")
	}
	warnOfReaders(streams.Err, f.file)
	data, err := readFile(streams.In, f.file)
	if err != nil {
		return model.Config{}, fmt.Errorf("--file: %w", err)
	}
	return model.Parse(data, backup.CheckSchedule(time.LoadLocation))
}

// backupWish is the wish that the API has, with the objects as they were read.
type backupWish struct {
	object *configv1alpha1.Backup
	secret *corev1.Secret
	words  string
}

// wishedBackups reads the present wish.
func wishedBackups(ctx context.Context, c client.Client) (backupWish, error) {
	out := backupWish{object: &configv1alpha1.Backup{}, secret: &corev1.Secret{}}
	in := backup.Inputs{}
	err := c.Get(ctx, client.ObjectKey{Name: backup.ObjectName}, out.object)
	switch {
	case meta.IsNoMatchError(err):
		return out, coded(command.ExitRefused, "this site does not know the kind Backup yet: it comes with a release that takes backups; see: holdfast upgrade status")
	case apierrors.IsNotFound(err):
		out.object = nil
	case err != nil:
		return out, fmt.Errorf("read Backup %s: %w", backup.ObjectName, err)
	default:
		in.Spec = &out.object.Spec.EtcdBackupSpec
	}
	err = c.Get(ctx, client.ObjectKey{Namespace: backup.SecretNamespace, Name: backup.SecretName}, out.secret)
	switch {
	case apierrors.IsNotFound(err):
		out.secret = nil
	case err != nil:
		return out, fmt.Errorf("read Secret %s/%s: %w", backup.SecretNamespace, backup.SecretName, err)
	default:
		in.Config = string(out.secret.Data[backup.SecretKey])
	}
	out.words = "nothing was configured: once a day, 7 kept, on the control planes alone"
	if in.Spec != nil || in.Config != "" {
		out.words = describeWish(in)
	}
	return out, nil
}

// describeWish describes a wish in one line, or says which mistakes it has.
func describeWish(in backup.Inputs) string {
	w, mistakes := backup.ReadWish(in, "", time.LoadLocation)
	if len(mistakes) > 0 {
		return "it has mistakes: " + strings.Join(mistakes, "; ")
	}
	if in.Spec == nil || in.Spec.Schedule == "" {
		return strings.Replace(w.Words(), "at "+w.Schedule.String(), "once a day", 1)
	}
	return w.Words()
}

func (f *backupConfigureFlags) run(ctx context.Context, c client.Client, streams Streams, config model.Config) error {
	before, err := wishedBackups(ctx, c)
	if err != nil {
		return err
	}
	spec, rest := backup.SpecOf(config)
	text, err := rest.Encode()
	if err != nil {
		return err
	}
	change := f.change(before, backup.Inputs{Spec: &spec, Config: string(text)}, config)
	if err := writeWish(ctx, c, before, spec, text, client.DryRunAll); err != nil { // so the API server refuses mistakes before the first write
		return err
	}
	programs := f.output == "json" || f.output == "yaml"
	switch {
	case f.dryRun && programs:
		return printData(streams.Out, f.output, change)
	case f.dryRun:
		_, err := io.WriteString(streams.Out, change.text())
		return err
	}
	if f.yes {
		_, _ = io.WriteString(streams.Err, change.text())
	} else if err := command.Agreed(ctx, streams, change.text()+"Continue? Type yes: ", "yes"); err != nil {
		return err
	}
	if err := writeWish(ctx, c, before, spec, text); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(streams.Err, "written; control planes follow within a minute")
	if f.noWait && programs {
		change.Written = true
		return printData(streams.Out, f.output, change)
	}
	if f.noWait {
		return nil
	}
	f.reason, f.follows = "the configuration of backups", true
	return f.backupNowFlags.run(ctx, c, streams)
}

// configuredBackups is what a change of the wish is, without secrets.
type configuredBackups struct {
	Before     string   `json:"before"`
	After      string   `json:"after"`
	Targets    []string `json:"targets,omitempty"`
	Recipients []string `json:"recipients,omitempty"`
	Warnings   []string `json:"warnings,omitempty"`
	Written    bool     `json:"written"`
}

func (f *backupConfigureFlags) change(before backupWish, after backup.Inputs, config model.Config) configuredBackups {
	out := configuredBackups{Before: before.words, After: describeWish(after), Recipients: config.Recipients, Warnings: config.Warnings()}
	for _, t := range config.Targets {
		out.Targets = append(out.Targets, t.String())
	}
	return out
}

func (c configuredBackups) text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "before: %s\nafter:  %s\n", c.Before, c.After)
	for _, t := range c.Targets {
		fmt.Fprintf(&out, "  target %s\n", t)
	}
	for _, r := range c.Recipients {
		fmt.Fprintf(&out, "  recipient %s\n", r)
	}
	for _, w := range c.Warnings {
		fmt.Fprintf(&out, "warning: %s\n", w)
	}
	return out.String()
}

// writeWish writes both objects: first the Secret with targets and recipients together, so
// that no host knows a target without its recipients, then the Backup with the schedule.
func writeWish(ctx context.Context, c client.Client, before backupWish, spec configv1alpha1.EtcdBackupSpec, text []byte, options ...client.CreateOption) error {
	dry := len(options) > 0
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: backup.SecretNamespace, Name: backup.SecretName}, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{backup.SecretKey: text}}
	var err error
	if before.secret == nil {
		err = c.Create(ctx, secret, options...)
	} else {
		err = patchWish(ctx, c, before.secret, map[string]any{"data": secret.Data}, dry)
	}
	if err != nil {
		return refusedByAPI(fmt.Errorf("write Secret %s/%s: %w", backup.SecretNamespace, backup.SecretName, err))
	}
	if before.object == nil {
		err = c.Create(ctx, newBackupObject(spec), options...)
	} else {
		err = patchWish(ctx, c, before.object, map[string]any{"spec": map[string]any{"etcd": replacing(spec)}}, dry)
	}
	if err != nil {
		return refusedByAPI(fmt.Errorf("write Backup %s: %w", backup.ObjectName, err))
	}
	return nil
}

// newBackupObject returns the Backup with a spec. It is unstructured, because the type would
// write a missing schedule as an empty text, which its own schema refuses.
func newBackupObject(spec configv1alpha1.EtcdBackupSpec) *unstructured.Unstructured {
	etcd := replacing(spec)
	maps.DeleteFunc(etcd, func(_ string, v any) bool { return v == nil })
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"etcd": etcd}}}
	o.SetGroupVersionKind(configv1alpha1.GroupVersion.WithKind("Backup"))
	o.SetName(backup.ObjectName)
	return o
}

// replacing returns a spec as a merge patch that replaces all fields of the former one.
func replacing(spec configv1alpha1.EtcdBackupSpec) map[string]any {
	keep := map[string]any{"retentionType": string(spec.RetentionPolicy.RetentionType), "retentionSize": nil}
	if n := spec.RetentionPolicy.RetentionNumber; n != nil {
		keep["retentionNumber"] = map[string]any{"maxNumberOfBackups": int64(n.MaxNumberOfBackups)}
	}
	return map[string]any{"schedule": emptyAsNil(spec.Schedule), "timeZone": emptyAsNil(spec.TimeZone), "pvcName": nil, "retentionPolicy": keep}
}

func emptyAsNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// patchWish changes an object; it is refused if somebody changed the object since it was read.
func patchWish(ctx context.Context, c client.Client, o client.Object, what map[string]any, dry bool) error {
	what["metadata"] = map[string]any{"resourceVersion": o.GetResourceVersion()}
	patch, err := json.Marshal(what)
	if err != nil {
		return err
	}
	var options []client.PatchOption
	if dry {
		options = append(options, client.DryRunAll)
	}
	target, _ := o.DeepCopyObject().(client.Object) // a copy of an Object is one
	err = c.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), options...)
	if apierrors.IsConflict(err) {
		return coded(command.ExitRefused, "somebody else changed it meanwhile: look, and run the command again")
	}
	return err
}
