package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/config"
)

func newConfigApply(streams Streams) *cobra.Command {
	var f configFlags
	var in configInput
	var dry bool
	cmd := &cobra.Command{
		Use:   "apply -f FILE|FOLDER",
		Short: "Write MachineConfigs, after the checks that holdfast-operator makes",
		Long: `Writes the MachineConfigs, KubeletConfigs, ContainerRuntimeConfigs, ImageDigestMirrorSets
and ImageTagMirrorSets of files and folders into the API, and shows what each host will
need for them: nothing, a reload or restart of a unit, or a drain and a reboot.
holdfast-operator then gives the configuration to one host after the other. It takes no
other kind: a MachineConfigPool and MachineConfiguration cluster are for kubectl apply,
and 'holdfast config diff' shows what follows from them.

Everything is checked before anything is written, each mistake with its field, and the
API server is asked whether it would take every object. Labels and annotations that
others wrote stay. What is written already is not written again. Nothing is deleted:
kubectl delete takes an object away.

With --install-config it writes the keys of sshKey as MachineConfigs 99-master-ssh and
99-worker-ssh, proxy as the object Proxy cluster, and additionalTrustBundle as the
ConfigMap that it names. It lists what the cluster has otherwise than the file, with the
command that changes it.

Exit codes: 0 written, or nothing to do; 7 refused, nothing was written; 1 it failed;
2 wrong usage.`,
		Example: `  holdfast config apply -f motd.yaml --dry-run
  holdfast config apply -f site/
  holdfast config apply --install-config install-config.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !in.given() {
				return &UsageError{Err: errors.New("name a file or a folder with -f, or an install-config with --install-config")}
			}
			wish, err := in.read(streams.In)
			if err != nil {
				return &UsageError{Err: err}
			}
			c, s, err := f.read(cmd.Context())
			if err != nil {
				return err
			}
			report, err := s.apply(cmd.Context(), c, wish, dry)
			if err != nil {
				return err
			}
			return report.print(streams.Out, f.output)
		},
	}
	f.register(cmd)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.Flags().StringSliceVarP(&in.files, "filename", "f", nil, "files or folders with MachineConfigs, settings of kubelet and sets of mirrors; - for standard input")
	cmd.Flags().StringVar(&in.installConfig, "install-config", "", "an install-config, of which what it says about hosts is written")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "check and show all of it, and write nothing")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	_ = cmd.MarkFlagFilename("install-config", "yaml", "yml", "json")
	return cmd
}

// applyReport is what `config apply` prints.
type applyReport struct {
	DryRun  bool            `json:"dryRun"`
	Objects []appliedObject `json:"objects"`
	diffParts
}

// diffParts is what `config apply` and `config diff` both print.
type diffParts struct {
	Steps []configStep `json:"steps"`
	// InstallConfig lists what the cluster has otherwise than an install-config.
	InstallConfig []config.Difference `json:"installConfig,omitempty"`
	Notes         []string            `json:"notes,omitempty"`
}

// appliedObject says what became of an object.
type appliedObject struct {
	Kind string             `json:"kind"`
	Name string             `json:"name"`
	Verb machineconfig.Verb `json:"verb"`
}

// apply checks what is wanted and writes it, unless it is a dry run. What was read
// is what was checked: an object that somebody changed meanwhile is not written over.
func (s *machineConfigs) apply(ctx context.Context, c client.Client, wish configWish, dry bool) (applyReport, error) {
	r := applyReport{DryRun: dry, Objects: []appliedObject{}}
	var err error
	if r.InstallConfig, r.Notes, err = wish.compareInstall(ctx, c, s.objects); err != nil {
		return r, err
	}
	wanted := s.wanted(wish)
	if r.Steps, err = s.dryRun(nil, wanted, nil); err != nil {
		return r, err
	}
	writes := s.objects.Writes(wanted)
	for _, w := range writes {
		if err := write(ctx, c, w, client.DryRunAll); err != nil {
			return r, refusedByAPI(err)
		}
		r.Objects = append(r.Objects, appliedObject{w.Kind, w.Name, w.Verb})
	}
	for i, w := range writes {
		if dry {
			break
		}
		if err := write(ctx, c, w); err != nil {
			return r, fmt.Errorf("%w; of %d objects %d are written: run the command again, hosts may be given what is there meanwhile", err, len(writes), i)
		}
	}
	r.Notes = append(r.Notes, s.aboutPools(wanted)...)
	return r, nil
}

// wanted returns all objects that a wish asks for. Those of a proxy depend on what the
// cluster has.
func (s *machineConfigs) wanted(wish configWish) machineconfig.Wanted {
	return wish.wanted.Add(s.objects.Proxy.Wanted(wish.install))
}

// write writes one object.
func write(ctx context.Context, c client.Client, w machineconfig.Write, options ...client.CreateOption) error {
	object, ok := w.Object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%s %s: is no object of the API", w.Kind, w.Name)
	}
	var err error
	switch w.Verb {
	case machineconfig.Created:
		err = c.Create(ctx, object, options...)
	case machineconfig.Updated:
		var update []client.UpdateOption
		if len(options) > 0 {
			update = append(update, client.DryRunAll)
		}
		err = c.Update(ctx, object, update...)
	case machineconfig.Unchanged:
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%s %s: somebody changed it while this command read it; run the command again", w.Kind, w.Name)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", w.Kind, w.Name, err)
	}
	return nil
}

// refusedByAPI gives an error the exit code of a refusal, if the API server decided
// against an object.
func refusedByAPI(err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) {
		return coded(command.ExitRefused, "refused by the API server, nothing was written: %w", err)
	}
	return err
}

// aboutPools returns what keeps hosts from being given what is written.
func (s *machineConfigs) aboutPools(wanted machineconfig.Wanted) []string {
	var out []string
	for _, name := range s.objects.Unselected(wanted) {
		out = append(out, "MachineConfig "+name+" is for no pool: its label machineconfiguration.openshift.io/role names none")
	}
	for i := range s.pools {
		p := &s.pools[i]
		r := poolOf(*p)
		if s.refused(p) {
			r.State = "refused"
		}
		if slices.Contains([]string{"refused", "failed", "paused"}, r.State) {
			out = append(out, fmt.Sprintf("pool %s is %s, and its hosts wait for the end of that: holdfast explain config %s", p.Name, r.State, p.Name))
		}
	}
	return out
}

func (r applyReport) print(out io.Writer, format string) error {
	if format == "json" || format == "yaml" {
		return printData(out, format, r)
	}
	printInstall(out, r.InstallConfig)
	would := ""
	if r.DryRun {
		would = "would be "
	}
	for _, o := range r.Objects {
		text := would + string(o.Verb)
		if o.Verb == machineconfig.Unchanged {
			text = string(o.Verb)
		}
		_, _ = fmt.Fprintf(out, "%s %s: %s\n", o.Kind, o.Name, text)
	}
	if len(r.Objects) > 0 {
		_, _ = fmt.Fprintln(out)
	}
	if err := printSteps(out, format, true, r.Steps); err != nil {
		return err
	}
	if err := printNotes(out, r.Notes); err != nil {
		return err
	}
	changed := slices.ContainsFunc(r.Objects, func(o appliedObject) bool { return o.Verb != machineconfig.Unchanged })
	if r.DryRun || !changed {
		return nil
	}
	_, err := fmt.Fprint(out, "\nThe first host is given it about five seconds from now. Watch it: holdfast config show\n")
	return err
}

func printInstall(out io.Writer, list []config.Difference) {
	if len(list) == 0 {
		return
	}
	_, _ = fmt.Fprintln(out, "the cluster has it otherwise than this install-config says:")
	for _, d := range list {
		_, _ = fmt.Fprintf(out, "  %s: %s in the cluster, %s in the file\n    %s\n", d.Path, orNone(firstLine(d.Now)), orNone(firstLine(d.File)), d.How)
	}
	_, _ = fmt.Fprintln(out)
}

func orNone(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}

func printNotes(out io.Writer, notes []string) error {
	for _, n := range notes {
		if _, err := fmt.Fprintf(out, "note: %s\n", n); err != nil {
			return err
		}
	}
	return nil
}
